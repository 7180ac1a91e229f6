//! What the API says when it does not do what it was asked.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use bowline_simulator::serve::{self, Body};

/// What a request gives, or why it is refused.
pub(super) type OrRefusal<T = ()> = Result<T, Refusal>;

/// A refused request: a status and a flat object of messages.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) key: String,
    pub(super) message: String,
}

impl Refusal {
    fn new(status: StatusCode, key: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            key: key.to_owned(),
            message: message.into(),
        }
    }

    /// 400 about one field.
    pub(super) fn field(key: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, key, message)
    }

    /// 400 about the state of things.
    pub(super) fn state(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "detail", message)
    }

    /// 400: a field that must be there is not.
    pub(super) fn required(key: &str) -> Self {
        Self::field(key, "This field is required.")
    }

    /// 400: what the field refers to does not exist.
    pub(super) fn no_such(key: &str, what: &str) -> Self {
        Self::field(key, format!("\"{what}\" does not exist."))
    }

    /// 404.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "detail", "Not found.")
    }

    /// 401.
    pub(super) fn unauthenticated(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "detail", message)
    }

    /// 403.
    pub(super) fn read_only() -> Self {
        let message = "You do not have permission to perform this action.";
        Self::new(StatusCode::FORBIDDEN, "detail", message)
    }

    /// 405.
    pub(super) fn method(method: &http::Method) -> Self {
        let message = format!("Method \"{method}\" not allowed.");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "detail", message)
    }

    pub(super) fn response(&self) -> Response<Body> {
        let body: Value = json!({ &self.key: self.message });
        serve::json(self.status, &body)
    }
}
