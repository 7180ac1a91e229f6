//! Why a question has no answer.

use std::time::Duration;

use bowline_core::CloudErrorKind;
use bowline_http::ConnectError;
use thiserror::Error;
use tonic::{Code, Status};

use crate::endpoint::Endpoint;

/// What a worker says that is asked to pass a question on.
const NO_FORWARDING: &str = "no request forwarding";

/// Why a question has no answer. One may concern many, so it can be copied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ApiError {
    /// There is nothing to ask with.
    #[error("machines cannot be asked: {0}")]
    NoCredentials(String),
    /// There is no connection to an endpoint; the text names it.
    #[error("{text}")]
    Connect {
        /// Why, all causes included.
        text: String,
        /// Whether other credentials might help.
        tls: bool,
    },
    /// There was one, and it did not hold.
    #[error("the connection to {endpoint} was lost: {text}")]
    Lost {
        /// To whom.
        endpoint: String,
        /// Why.
        text: String,
    },
    /// It took too long.
    #[error("there is no answer within {} s", after.as_secs())]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// The answer is an error.
    #[error("{endpoint} answered {code:?}: {message}")]
    Answered {
        /// Who answered.
        endpoint: String,
        /// What kind of error.
        code: Code,
        /// In the machine's words.
        message: String,
    },
    /// The answer is not what was asked for.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

impl ApiError {
    pub(super) fn connect(error: &ConnectError) -> Self {
        Self::Connect {
            text: bowline_core::error_chain(error),
            tls: matches!(
                error,
                ConnectError::Untrusted { .. } | ConnectError::Handshake { .. }
            ),
        }
    }

    pub(super) fn answered(endpoint: &Endpoint, status: &Status) -> Self {
        Self::Answered {
            endpoint: endpoint.to_string(),
            code: status.code(),
            message: status.message().to_owned(),
        }
    }

    fn code(&self) -> Option<Code> {
        match self {
            Self::Answered { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether there is no such resource.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(Code::NotFound)
    }

    pub(super) fn is_unavailable(&self) -> bool {
        self.code() == Some(Code::Unavailable)
    }

    pub(super) fn is_a_workers(&self) -> bool {
        matches!(self, Self::Answered { code: Code::PermissionDenied, message, .. }
            if message.contains(NO_FORWARDING))
    }

    /// Whether reading the credentials again may help.
    pub(super) fn may_be_the_credentials(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Connect { tls: true, .. })
    }

    /// Of two errors the one to go by: of endpoints that failed, one that may be helped.
    pub(super) fn worse(before: Option<Self>, now: Self) -> Self {
        match before {
            Some(before) if before.may_be_the_credentials() => before,
            _ => now,
        }
    }

    /// Which kind of error of a cloud it is. That a resource is not there says nothing about the machine.
    pub(crate) fn kind(&self) -> CloudErrorKind {
        match self {
            Self::NoCredentials(_)
            | Self::Connect { .. }
            | Self::Lost { .. }
            | Self::TimedOut { .. } => CloudErrorKind::Unavailable,
            Self::Unreadable(_) => CloudErrorKind::Unknown,
            Self::Answered { code, .. } => match code {
                Code::PermissionDenied | Code::Unauthenticated => CloudErrorKind::Denied,
                Code::ResourceExhausted => CloudErrorKind::Throttled,
                Code::InvalidArgument | Code::Unimplemented | Code::OutOfRange => {
                    CloudErrorKind::Invalid
                }
                Code::NotFound
                | Code::Unavailable
                | Code::DeadlineExceeded
                | Code::Cancelled
                | Code::Aborted => CloudErrorKind::Unavailable,
                _ => CloudErrorKind::Unknown,
            },
        }
    }
}
