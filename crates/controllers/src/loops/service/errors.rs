//! Errors of a reconcile, and how they are reported.

use std::time::Duration;

use bowline_core::reconcile::ReconcileFailure;
use bowline_core::{CloudError, error_chain};

use crate::kube::write::WriteError;

/// Why a reconcile did not reach its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReconcileError {
    /// The cloud could not be read before a clean-up.
    #[error("failed to check if load balancer exists before cleanup")]
    Check(#[source] CloudError),
    /// A step of a clean-up failed.
    #[error("failed to delete load balancer")]
    Delete(#[source] CloudError),
    /// The cloud could not be read.
    #[error("failed to ensure load balancer")]
    Look(#[source] CloudError),
    /// A step failed.
    #[error("failed to ensure load balancer: {at}")]
    Step {
        /// How far it came.
        at: String,
        source: CloudError,
    },
    /// The cloud takes too long.
    #[error("failed to {trying} load balancer: still waiting for {what} after {waited}")]
    Wait {
        trying: &'static str,
        what: String,
        waited: String,
    },
    /// There is no finalizer, so nothing was begun.
    #[error("failed to add load balancer cleanup finalizer")]
    AddFinalizer(#[source] WriteError),
    /// All is gone but the finalizer.
    #[error("failed to remove load balancer cleanup finalizer")]
    RemoveFinalizer(#[source] WriteError),
    /// What the cloud wants to be remembered was not written.
    #[error("failed to write load balancer annotations")]
    Annotations(#[source] WriteError),
    /// The address was not written.
    #[error("failed to update load balancer status")]
    Status(#[source] WriteError),
    /// Settings are wrong; each was reported by itself.
    #[error("{message}")]
    Problems {
        reason: &'static str,
        message: String,
    },
    /// Some steps could not be done; each was reported by itself.
    #[error("some steps could not be done: {0}")]
    Gaps(String),
}

impl ReconcileError {
    /// What went wrong, without what was tried: for messages that say that themselves.
    pub(super) fn cause(&self) -> String {
        match self.of_cloud() {
            Some(error) => error.chain(),
            None => error_chain(self),
        }
    }

    /// What the cloud said, if it is about that.
    fn of_cloud(&self) -> Option<&CloudError> {
        match self {
            Self::Check(error)
            | Self::Delete(error)
            | Self::Look(error)
            | Self::Step { source: error, .. } => Some(error),
            _ => None,
        }
    }

    /// The whole story on one line.
    pub(super) fn text(&self) -> String {
        error_chain(self) + self.way_out()
    }

    /// What a person can do about a deletion that the cloud refuses: it may refuse it for ever.
    fn way_out(&self) -> &'static str {
        use bowline_core::CloudErrorKind::{Conflict, Denied};
        match self {
            Self::Delete(error) if matches!(error.kind(), Conflict | Denied) => {
                ". The Service keeps its finalizer and this is tried again: remove what protects the load balancer, or \
                 grant the permission to delete it"
            }
            _ => "",
        }
    }

    /// Whether its parts were reported already.
    pub(super) fn is_reported(&self) -> bool {
        matches!(self, Self::Problems { .. } | Self::Gaps(_))
    }

    /// The reason of a condition about it.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Problems { reason, .. } => reason,
            Self::Gaps(_) => "Incomplete",
            Self::Wait { .. } => "WaitedTooLong",
            Self::Check(_) | Self::Look(_) => "CloudNotReadable",
            Self::Delete(_) => "DeleteFailed",
            Self::Step { .. } => "StepFailed",
            Self::AddFinalizer(_)
            | Self::RemoveFinalizer(_)
            | Self::Annotations(_)
            | Self::Status(_) => "ServiceNotWritable",
        }
    }

    /// Whether the state of the cloud is known in spite of it.
    pub(super) fn is_cloud_known(&self) -> bool {
        !matches!(self, Self::Check(_) | Self::Look(_))
    }

    /// What the next try depends on.
    pub(super) fn failure(&self) -> ReconcileFailure {
        ReconcileFailure {
            of_the_past: self.is_about_the_past(),
            hint: self.retry_hint(),
            reported: self.is_reported(),
        }
    }

    /// When the cloud asked to be tried again, if it did.
    fn retry_hint(&self) -> Option<Duration> {
        self.of_cloud().and_then(CloudError::retry_hint)
    }

    /// Whether it may be for want of something that another Service has: an address, a name, a
    /// quota. A cloud that named a time for the next try is taken at its word.
    pub(super) fn may_be_a_lack(&self) -> bool {
        match self {
            Self::Problems { .. } | Self::Gaps(_) => true,
            Self::Step { source, .. } => source.retry_hint().is_none(),
            _ => false,
        }
    }

    /// Whether the Service that was to be written is gone, or another one by now.
    fn is_about_the_past(&self) -> bool {
        match self {
            Self::AddFinalizer(error)
            | Self::RemoveFinalizer(error)
            | Self::Annotations(error)
            | Self::Status(error) => error.is_not_found() || error.is_another(),
            _ => false,
        }
    }
}
