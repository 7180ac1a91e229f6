//! What the API says when it does not do what it was asked.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use bowline_simulator::serve::{self, Body};

/// What a request gives, or why it is refused.
pub(super) type OrRefusal<T = ()> = Result<T, Refusal>;

/// A refused request: a status, a message, and for bad bodies what is wrong with them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) message: String,
    pub(super) errors: Vec<String>,
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            errors: Vec::new(),
        }
    }

    /// 400 about a body.
    pub(super) fn invalid(errors: Vec<String>) -> Self {
        Self {
            errors,
            ..Self::new(StatusCode::BAD_REQUEST, "Invalid request body")
        }
    }

    /// 400 about the state of things.
    pub(super) fn state(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not Found")
    }

    /// 404 for something that a body refers to.
    pub(super) fn no_such(what: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("{what} {id} not found"))
    }

    /// 403 for a request that nobody signed rightly.
    pub(super) fn signature() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Invalid request signature")
    }

    /// 403.
    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// 409.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// The same with another status.
    pub(super) fn with_status(mut self, code: u16) -> Self {
        self.status = StatusCode::from_u16(code).unwrap_or(self.status);
        self
    }

    /// In one line.
    pub(super) fn text(&self) -> String {
        if self.errors.is_empty() {
            self.message.clone()
        } else {
            self.errors.join("; ")
        }
    }

    pub(super) fn response(&self) -> Response<Body> {
        let mut body = json!({ "message": self.message });
        if !self.errors.is_empty() {
            let errors = self.errors.iter().map(|text| json!({ "message": text }));
            body["errors"] = Value::Array(errors.collect());
        }
        answer(self.status, &body)
    }
}

/// An answer as the API types it.
pub(super) fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    serve::of_type(status, "application/json; charset=utf-8", body.to_string())
}
