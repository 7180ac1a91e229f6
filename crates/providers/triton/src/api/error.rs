//! Refusals of CloudAPI: a code and a message, and a status that counts more than both.

use std::fmt;
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::CallError;
use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Body {
    code: String,
    message: String,
    errors: Vec<FieldError>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FieldError {
    pub field: String,
    /// Such as `Duplicate`.
    pub code: String,
    pub message: String,
}

fn body(bytes: &[u8]) -> Option<Body> {
    serde_json::from_slice(bytes).ok()
}

/// The server's words: `ValidationFailed: error adding tags (tags Invalid: …)`.
pub(super) fn error_text(bytes: &[u8]) -> Option<String> {
    let Body {
        code,
        message,
        errors,
    } = body(bytes)?;
    let fields: Vec<String> = errors
        .iter()
        .map(|it| format!("{} {}: {}", it.field, it.code, it.message))
        .map(|text| text.trim_end_matches([' ', ':']).to_owned())
        .collect();
    let mut text = match (code.is_empty(), message.is_empty()) {
        (true, true) => return None,
        (true, false) => message,
        (false, true) => code,
        (false, false) => format!("{code}: {message}"),
    };
    if !fields.is_empty() {
        text = format!("{text} ({})", fields.join("; "));
    }
    Some(text)
}

/// The name service is down: every call about one machine fails until it is back, and asking again
/// in a second helps nobody.
const CNS_DOWN: &str = "Unable to contact the Triton CNS API";

pub(super) fn is_cns_down(status: u16, bytes: &[u8]) -> bool {
    status == 500 && body(bytes).is_some_and(|it| it.message.contains(CNS_DOWN))
}

pub struct ApiError {
    failure: Failure,
    body: Body,
    kind: CloudErrorKind,
}

enum Failure {
    Call(CallError),
    Held { why: String, hint: Option<Duration> },
}

impl ApiError {
    /// A call that is not sent, because it is wrong or too early.
    pub(super) fn held(kind: CloudErrorKind, why: String, hint: Option<Duration>) -> Self {
        Self {
            failure: Failure::Held { why, hint },
            body: Body::default(),
            kind,
        }
    }

    fn call(&self) -> Option<&CallError> {
        match &self.failure {
            Failure::Call(error) => Some(error),
            Failure::Held { .. } => None,
        }
    }

    /// The server's code, such as `ResourceNotFound`; empty if there is none.
    pub fn code(&self) -> &str {
        &self.body.code
    }

    /// The server's message; empty if there is none.
    pub fn message(&self) -> &str {
        &self.body.message
    }

    pub fn fields(&self) -> &[FieldError] {
        &self.body.errors
    }

    pub fn status(&self) -> Option<u16> {
        self.call()?.status()
    }

    pub fn kind(&self) -> CloudErrorKind {
        self.kind
    }

    pub fn retry_hint(&self) -> Option<Duration> {
        match &self.failure {
            Failure::Call(error) => error.retry_hint(),
            Failure::Held { hint, .. } => *hint,
        }
    }

    /// The `Date` of the answer, if it refuses ours as too far away.
    pub(super) fn servers_date(&self) -> Option<&str> {
        let skewed = self.status() == Some(400)
            && (self.message().contains("clock skew") || self.code() == "RequestExpired");
        if skewed {
            self.call()?.header("date")
        } else {
            None
        }
    }

    /// Whether the account may not have more machines. Its status and code are those of a missing
    /// permission.
    pub fn is_quota(&self) -> bool {
        let text = self.message().to_ascii_lowercase();
        let rest = text.strip_prefix("quota");
        let rest = rest.map(str::trim_start);
        self.status() == Some(403) && rest.is_some_and(|rest| rest.starts_with("exceeded"))
    }

    pub fn is_duplicate_name(&self) -> bool {
        let taken = |it: &FieldError| it.field == "alias" && it.code == "Duplicate";
        self.status() == Some(409) && self.fields().iter().any(taken)
    }

    pub fn is_cns_down(&self) -> bool {
        self.status() == Some(500) && self.message().contains(CNS_DOWN)
    }

    /// Whether the server is in maintenance and takes no changes.
    pub fn is_maintenance(&self) -> bool {
        self.status() == Some(503) && self.code() == "ServiceUnavailableError"
    }
}

/// Which kind a refusal is, where CloudAPI uses a status in its own way.
fn kind(error: &CallError, code: &str) -> CloudErrorKind {
    match (error.status(), code) {
        (Some(404), "ResourceNotFound") => CloudErrorKind::NotFound,
        // A page of a proxy, or another path than we meant.
        (Some(404), _) => CloudErrorKind::Unknown,
        (Some(409), "InvalidArgument" | "MissingParameter" | "ValidationFailed") => {
            CloudErrorKind::Invalid
        }
        _ => error.kind(),
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        let body = body(error.body()).unwrap_or_default();
        let kind = kind(&error, &body.code);
        let failure = Failure::Call(error);
        Self {
            failure,
            body,
            kind,
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Failure::Held { why, .. } => f.write_str(why),
            Failure::Call(error) => match error.header("request-id") {
                Some(id) => write!(f, "{error} (request id {id})"),
                // Refusals of a signature have none.
                None => write!(f, "{error}"),
            },
        }
    }
}

impl fmt::Debug for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiError")
            .field("kind", &self.kind)
            .field("status", &self.status())
            .field("text", &self.to_string())
            .finish_non_exhaustive()
    }
}

impl std::error::Error for ApiError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.call().and_then(std::error::Error::source)
    }
}

impl From<ApiError> for CloudError {
    fn from(error: ApiError) -> Self {
        let (kind, hint) = (error.kind(), error.retry_hint());
        let text = bowline_core::error_chain(&error);
        CloudError::new(kind, text).retry_after(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_words_are_reported() {
        for (body, wanted) in [
            (
                r#"{"code":"ResourceNotFound","message":"VM not found"}"#,
                Some("ResourceNotFound: VM not found"),
            ),
            (
                r#"{"code":"ValidationFailed","message":"error adding tags","errors":[{"field":"tags","code":"Invalid","message":"bad"}]}"#,
                Some("ValidationFailed: error adding tags (tags Invalid: bad)"),
            ),
            (r#"{"message":"idle"}"#, Some("idle")),
            (r#"{"code":"InvalidHeader"}"#, Some("InvalidHeader")),
            ("{}", None),
            ("<html>", None),
        ] {
            assert_eq!(error_text(body.as_bytes()).as_deref(), wanted);
        }
        assert!(is_cns_down(
            500,
            br#"{"code":"InternalError","message":"Unable to contact the Triton CNS API"}"#
        ));
        assert!(!is_cns_down(
            500,
            br#"{"code":"InternalError","message":"oops"}"#
        ));
    }
}
