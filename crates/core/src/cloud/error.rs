//! Errors of cloud calls.

use std::fmt;
use std::time::Duration;

/// The closed list of ways in which a call to a cloud fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloudErrorKind {
    /// The cloud said, about that very id, that it does not exist.
    NotFound,
    /// The credentials are missing, wrong or not enough (401, 403).
    Denied,
    /// Too many requests; `retry_after` says when to come back, if the cloud did.
    Throttled,
    /// The object is in a state, or was changed, so that this cannot be done now.
    Conflict,
    /// The request is wrong and will be wrong again.
    Invalid,
    /// The cloud could not be reached, or was not able to answer in time.
    Unavailable,
    /// The answer was not understood, or there was none and the outcome is not known.
    Unknown,
}

impl CloudErrorKind {
    /// A stable name for reasons and metric labels.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::Denied => "Denied",
            Self::Throttled => "Throttled",
            Self::Conflict => "Conflict",
            Self::Invalid => "Invalid",
            Self::Unavailable => "Unavailable",
            Self::Unknown => "Unknown",
        }
    }
}

/// A failed call to a cloud: what was tried, on which object, and what came of it.
///
/// The message never repeats its source; whoever prints it prints the chain.
#[derive(Debug)]
pub struct CloudError {
    kind: CloudErrorKind,
    message: String,
    retry_after: Option<Duration>,
    event: Option<&'static str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl CloudError {
    /// An error of that kind. `message` says what was tried on which object.
    pub fn new(kind: CloudErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            event: None,
            source: None,
        }
    }

    /// With the error that caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// With the cloud's word about when to try again.
    #[must_use]
    pub fn retry_after(mut self, delay: Option<Duration>) -> Self {
        self.retry_after = delay;
        self
    }

    /// With the reason of an event that people hear of it by at once, and not only after it went on for a while.
    #[must_use]
    pub fn reported_as(mut self, event: &'static str) -> Self {
        self.event = Some(event);
        self
    }

    /// The reason of that event, if there is one.
    pub fn event(&self) -> Option<&'static str> {
        self.event
    }

    /// Which of the closed list.
    pub fn kind(&self) -> CloudErrorKind {
        self.kind
    }

    /// When the cloud asked to be tried again, if it did.
    pub fn retry_hint(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The same for somebody else, where one failed call concerns many: all causes are in its
    /// message.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            event: self.event,
            ..Self::new(self.kind, self.chain()).retry_after(self.retry_after)
        }
    }

    /// The message and the messages of all causes, on one line.
    pub fn chain(&self) -> String {
        error_chain(self)
    }
}

impl fmt::Display for CloudError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CloudError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The message of an error and those of all its causes, on one line.
///
/// Libraries often repeat a cause in their own message; what was said already is not said again.
pub fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_names_every_cause_once() {
        let error = CloudError::new(CloudErrorKind::Unavailable, "reading server 7")
            .caused_by(std::io::Error::other("connection reset"));
        assert_eq!(error.chain(), "reading server 7: connection reset");
        assert_eq!(error.to_string(), "reading server 7");
        assert_eq!(error.kind().reason(), "Unavailable");
        let copy = error.retry_after(Some(Duration::from_secs(7))).copy();
        assert_eq!(copy.to_string(), "reading server 7: connection reset");
        assert_eq!(copy.retry_hint(), Some(Duration::from_secs(7)));
        assert_eq!(copy.kind(), CloudErrorKind::Unavailable);
    }
}
