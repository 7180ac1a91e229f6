//! Why a question has no answer.

use std::net::IpAddr;
use std::time::Duration;

use bowline_core::CloudErrorKind;
use bowline_http::ConnectError;
use thiserror::Error;
use tonic::{Code, Status};

use crate::endpoint::Endpoint;

/// The answer of a worker that is asked to forward a question.
const NO_FORWARDING: &str = "no request forwarding";

/// Why a question has no answer. One may concern many, so it can be copied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ApiError {
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
    #[error("the connection to {endpoint} was lost: {text}")]
    Lost { endpoint: String, text: String },
    /// It took too long; the text names who was asked, and about whom.
    #[error("there is no answer within {} s from {asked}", after.as_secs())]
    TimedOut { after: Duration, asked: String },
    #[error("{endpoint} does not answer as a machine does: {text}")]
    Stranger { endpoint: String, text: String },
    /// Several were asked, and each answered something else.
    #[error("{text}")]
    All {
        text: String,
        /// What to go by.
        first: Box<Self>,
    },
    #[error("{endpoint} answered {code:?}: {message}")]
    Answered {
        endpoint: String,
        code: Code,
        message: String,
    },
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

    /// What is said if the answer comes from something before a machine, such as a proxy: an HTTP
    /// status without a word of gRPC.
    pub(super) fn not_an_api(endpoint: &Endpoint, status: &Status) -> Option<Self> {
        let message = status.message();
        let marks = [
            "mapped from HTTP status code ",
            "while receiving response with status: ",
        ];
        let rest = marks
            .iter()
            .find_map(|it| Some(message.split_once(it)?.1))?;
        Some(Self::Stranger {
            endpoint: endpoint.to_string(),
            text: format!("HTTP {rest}"),
        })
    }

    pub(super) fn timed_out(after: Duration, asked: &[Endpoint], machine: Option<IpAddr>) -> Self {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        let about = machine.map(|it| format!(" about the machine at {it}"));
        Self::TimedOut {
            after,
            asked: asked.join(", ") + &about.unwrap_or_default(),
        }
    }

    /// The answers of several endpoints; the first that can be helped decides.
    pub(super) fn of_all(mut errors: Vec<Self>) -> Self {
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let helped = errors.iter().position(Self::may_be_the_credentials);
        let Some(last) = errors.len().checked_sub(1) else {
            return Self::NoCredentials("no endpoint is known".to_owned());
        };
        let first = errors.swap_remove(helped.unwrap_or(last));
        if errors.is_empty() {
            return first;
        }
        Self::All {
            text: text.join("; "),
            first: Box::new(first),
        }
    }

    /// Whether it is the endpoint that is not well, and not whom it was asked about.
    pub(super) fn is_the_endpoints(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. } | Self::Lost { .. } | Self::Stranger { .. }
        )
    }

    fn code(&self) -> Option<Code> {
        match self {
            Self::All { first, .. } => first.code(),
            Self::Answered { code, .. } => Some(*code),
            _ => None,
        }
    }

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

    pub(super) fn may_be_the_credentials(&self) -> bool {
        match self {
            Self::All { first, .. } => first.may_be_the_credentials(),
            Self::Lost { .. } | Self::Connect { tls: true, .. } => true,
            _ => false,
        }
    }

    /// Which kind of error of a cloud it is. A missing resource proves nothing about the machine.
    pub(crate) fn kind(&self) -> CloudErrorKind {
        match self {
            Self::NoCredentials(_)
            | Self::Connect { .. }
            | Self::Lost { .. }
            | Self::Stranger { .. }
            | Self::TimedOut { .. } => CloudErrorKind::Unavailable,
            Self::All { first, .. } => first.kind(),
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
