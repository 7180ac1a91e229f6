//! A failed call, and which of the closed list of cloud errors it is.

use std::fmt;
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use crate::retry::{CallOutcome, Effect};

/// Which kind of cloud error an outcome is. Only a 404 that the cloud itself gave can mean that an
/// object does not exist: the page of a proxy, or of a wrong URL, proves nothing.
pub fn kind_of(outcome: CallOutcome, effect: Effect, body: &[u8]) -> CloudErrorKind {
    use CloudErrorKind::{Conflict, Denied, Invalid, NotFound, Throttled, Unavailable, Unknown};
    match outcome {
        CallOutcome::NotSent | CallOutcome::Refused => Unavailable,
        CallOutcome::TimedOut | CallOutcome::Broken if effect == Effect::Read => Unavailable,
        CallOutcome::TimedOut | CallOutcome::Broken | CallOutcome::Unusable => Unknown,
        CallOutcome::Answered { status, .. } => match status {
            401 | 403 => Denied,
            404 if body.is_empty() || is_object(body) => NotFound,
            404 | 410 => Unknown,
            409 | 412 | 423 => Conflict,
            429 => Throttled,
            408 | 500..=599 => Unavailable,
            400..=499 => Invalid,
            _ => Unknown,
        },
    }
}

fn is_object(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, Value>>(body).is_ok()
}

/// The cloud's own words in an error body, if it is one of the usual shapes: an object whose
/// `detail`, `message` or `error` is a text, or a flat object of texts.
pub fn usual_error_text(body: &[u8]) -> Option<String> {
    let map: serde_json::Map<String, Value> = serde_json::from_slice(body).ok()?;
    let named = ["detail", "message", "error"].into_iter();
    let text = named
        .filter_map(|key| map.get(key)?.as_str())
        .find(|text| !text.is_empty());
    if let Some(text) = text {
        return Some(text.to_owned());
    }
    let pairs: Option<Vec<String>> = map
        .iter()
        .map(|(key, value)| value.as_str().map(|text| format!("{key}: {text}")))
        .collect();
    pairs
        .filter(|pairs| !pairs.is_empty())
        .map(|pairs| pairs.join("; "))
}

/// Why a call failed. What it prints holds no secret; what the accessors return may.
pub struct CallError(Box<Failure>);

pub(crate) struct Failure {
    pub(crate) kind: CloudErrorKind,
    pub(crate) message: String,
    pub(crate) cause: Option<Cause>,
    pub(crate) status: Option<u16>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) hint: Option<Duration>,
}

/// The chain of causes of a failed exchange, as redacted text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Cause(pub(crate) String);

impl CallError {
    pub(crate) fn new(failure: Failure) -> Self {
        Self(Box::new(failure))
    }

    /// Which of the closed list.
    pub fn kind(&self) -> CloudErrorKind {
        self.0.kind
    }

    /// The HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// A header of the answer. Not redacted.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.headers.get(name)?.to_str().ok()
    }

    /// The body of the answer, for providers that read codes from it. Not redacted: do not print.
    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// When the server asked to be tried again.
    pub fn retry_hint(&self) -> Option<Duration> {
        self.0.hint
    }

    /// The same error as another kind, where a provider knows better.
    #[must_use]
    pub fn with_kind(mut self, kind: CloudErrorKind) -> Self {
        self.0.kind = kind;
        self
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError")
            .field("kind", &self.0.kind)
            .field("status", &self.0.status)
            .field("message", &self.0.message)
            .field("cause", &self.0.cause.as_ref().map(|cause| &cause.0))
            .finish()
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| cause as _)
    }
}

impl From<CallError> for CloudError {
    fn from(error: CallError) -> Self {
        let Failure {
            kind,
            message,
            cause,
            hint,
            ..
        } = *error.0;
        let cloud = CloudError::new(kind, message).retry_after(hint);
        match cause {
            Some(cause) => cloud.caused_by(cause),
            None => cloud,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CloudErrorKind::{Conflict, Denied, Invalid, NotFound, Throttled, Unavailable, Unknown};

    #[test]
    fn every_answer_has_its_kind() {
        let rows: [(u16, &str, CloudErrorKind); 22] = [
            (400, "{}", Invalid),
            (401, "{}", Denied),
            (403, "<html>", Denied),
            (404, "", NotFound),
            (404, r#"{"detail": "Not found."}"#, NotFound),
            (404, "<html>not here</html>", Unknown),
            (404, "[]", Unknown),
            (404, r#""no""#, Unknown),
            (404, "  ", Unknown),
            (405, "", Invalid),
            (408, "", Unavailable),
            (409, "{}", Conflict),
            (410, "{}", Unknown),
            (412, "", Conflict),
            (422, "{}", Invalid),
            (423, "{}", Conflict),
            (429, "", Throttled),
            (500, "", Unavailable),
            (503, "<html>", Unavailable),
            (302, "", Unknown),
            (100, "", Unknown),
            (700, "", Unknown),
        ];
        for (status, body, wanted) in rows {
            let outcome = CallOutcome::Answered { status, hint: None };
            for effect in [Effect::Read, Effect::Write] {
                assert_eq!(
                    kind_of(outcome, effect, body.as_bytes()),
                    wanted,
                    "{status} {body}"
                );
            }
        }
    }

    #[test]
    fn without_an_answer_the_outcome_of_a_write_is_not_known() {
        let rows = [
            (CallOutcome::NotSent, Unavailable, Unavailable),
            (CallOutcome::Refused, Unavailable, Unavailable),
            (CallOutcome::TimedOut, Unavailable, Unknown),
            (CallOutcome::Broken, Unavailable, Unknown),
            (CallOutcome::Unusable, Unknown, Unknown),
        ];
        for (outcome, read, write) in rows {
            assert_eq!(kind_of(outcome, Effect::Read, b""), read);
            assert_eq!(kind_of(outcome, Effect::Write, b""), write);
            assert_eq!(kind_of(outcome, Effect::Repeatable, b""), write);
        }
    }

    #[test]
    fn the_usual_error_bodies_are_read() {
        let rows = [
            (r#"{"detail": "Not found."}"#, Some("Not found.")),
            (r#"{"error": "", "message": "m"}"#, Some("m")),
            (
                r#"{"zone": "bad", "name": "blank"}"#,
                Some("name: blank; zone: bad"),
            ),
            (r#"{"error": {"limit": 1}}"#, None),
            ("{}", None),
            ("[]", None),
            ("<html>", None),
        ];
        for (body, wanted) in rows {
            assert_eq!(usual_error_text(body.as_bytes()).as_deref(), wanted);
        }
    }
}
