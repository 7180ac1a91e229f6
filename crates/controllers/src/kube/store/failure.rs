//! Why lists and watches end, and what follows from it.

use std::time::Duration;

use kube::core::Status;

/// No request but a watch takes longer: the API server itself gives up after 60 s.
pub(super) const REQUEST_LIMIT: Duration = Duration::from_secs(65);

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum FollowFailure {
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// The API server, within a watch.
    #[error("{}", .0.message)]
    Status(Box<Status>),
    /// No answer.
    #[error("no answer within {REQUEST_LIMIT:?}")]
    Late,
    /// A streamed list ended early.
    #[error("the list ended before it was whole")]
    Cut,
    /// A list of pages goes on and on.
    #[error("the list has not ended after {0} pages")]
    Endless(usize),
    /// Something has no version.
    #[error("the API server sent something without a resource version")]
    Unversioned,
    /// A list shows an earlier state.
    #[error("the API server answered with version {version}, although version {newest} is known")]
    Behind { version: String, newest: u64 },
    /// Too much is missing to be read by name.
    #[error("{0} objects are missing from the list; making sure")]
    Doubtful(usize),
    /// A watch that was over at once.
    #[error("the watch ended at once")]
    Short,
}

impl FollowFailure {
    fn status(&self) -> Option<&Status> {
        match self {
            Self::Request(kube::Error::Api(status)) | Self::Status(status) => Some(status),
            _ => None,
        }
    }

    fn code(&self) -> Option<u16> {
        self.status().map(|it| it.code)
    }

    /// A server that knows no streaming lists says that the request is wrong.
    pub(super) fn refuses_streaming(&self) -> bool {
        matches!(self.code(), Some(400 | 422))
    }

    /// Watching from here leads nowhere: the version is forgotten, or what comes next cannot be understood.
    pub(super) fn needs_list(&self) -> bool {
        let unreadable = matches!(self, Self::Request(kube::Error::SerdeError(_)));
        unreadable || self.code() == Some(410) || matches!(self, Self::Unversioned)
    }

    /// The server does not have the version yet that is known: its cache is behind, or it was restored.
    pub(super) fn is_behind(&self) -> bool {
        let too_large = |status: &Status| {
            let mut causes = status.details.iter().flat_map(|it| &it.causes);
            status.code == 504 && causes.any(|it| it.reason == "ResourceVersionTooLarge")
        };
        matches!(self, Self::Behind { .. }) || self.status().is_some_and(too_large)
    }

    /// The server is well.
    pub(super) fn is_no_outage(&self) -> bool {
        self.code() == Some(410) || self.is_behind() || matches!(self, Self::Doubtful(_))
    }
}
