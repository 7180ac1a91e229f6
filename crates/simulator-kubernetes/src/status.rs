//! Refusals, in the words of a Kubernetes API server.

use serde_json::{Value, json};

use super::kinds::Kind;

/// An error answer: becomes a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub code: u16,
    /// Machine-readable reason: `NotFound`, `Conflict`, …
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// The `details` object, or null.
    pub details: Value,
    /// Whether the caller may not, as opposed to nobody may: such answers have a header more.
    pub denied: bool,
}

impl Refusal {
    /// Any refusal.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            denied: false,
        }
    }

    /// Adds the object concerned.
    #[must_use]
    pub fn about(mut self, kind: &Kind, name: &str) -> Self {
        self.details = json!({ "name": name, "group": kind.group, "kind": kind.plural });
        if kind.group.is_empty()
            && let Some(map) = self.details.as_object_mut()
        {
            map.remove("group");
        }
        self
    }

    /// 404 about an object.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", kind.qualified()),
        )
        .about(kind, name)
    }

    /// 404 about a path.
    pub fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 409: the name is taken.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", kind.qualified()),
        )
        .about(kind, name)
    }

    /// 409: somebody else was faster.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let text = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            kind.qualified()
        );
        Self::new(409, "Conflict", text).about(kind, name)
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 410: the version asked for is compacted away.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A refusal of which only the code is known, with the usual reason of that code.
    pub fn of_code(code: u16, message: &str) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "Unknown",
        };
        Self::new(code, reason, message)
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
