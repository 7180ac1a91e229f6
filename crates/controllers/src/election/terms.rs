//! The words of an election: which Lease, which durations, who listens, what goes wrong.

use bowline_core::error_chain;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use crate::options::ElectionOptions;

/// Shortest time limit of one request.
const SHORTEST_REQUEST: Duration = Duration::from_secs(1);

/// Where a Lease is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for LeaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The three durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long others respect an unchanged Lease.
    pub lease_duration: Duration,
    /// How long a leader works without a good renewal.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
}

impl Timing {
    /// The time limit of one request.
    pub(super) fn request_timeout(&self) -> Duration {
        SHORTEST_REQUEST.max(self.renew_deadline / 2)
    }
}

impl From<&ElectionOptions> for Timing {
    fn from(options: &ElectionOptions) -> Self {
        Self {
            lease_duration: options.lease_duration,
            renew_deadline: options.renew_deadline,
            retry_period: options.retry_period,
        }
    }
}

/// Hears what happens in an election: for metrics and events.
pub trait Observer: Send + Sync {
    /// Whether this process leads under the Lease of that name; also told once at the start.
    fn leading(&self, lease: &str, leading: bool) {
        let _ = (lease, leading);
    }

    /// A leader had to read its Lease again because the direct renewal did not work.
    fn slow_path(&self, lease: &str) {
        let _ = lease;
    }

    /// An event of type Normal and reason `LeaderElection` to be made on this Lease: when it is
    /// won and when it is given back. Who loses it writes nothing more.
    fn event(&self, lease: &Lease, message: &str) {
        let _ = (lease, message);
    }
}

/// Nobody listens.
impl Observer for () {}

/// The metrics alone, without events.
impl Observer for crate::metrics::Metrics {
    fn leading(&self, lease: &str, leading: bool) {
        self.election.leading(lease, leading);
    }

    fn slow_path(&self, lease: &str) {
        self.election.slow_renewal(lease);
    }
}

/// Why a request about a Lease failed.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// It could not be read.
    #[error("reading lease {0}")]
    Read(LeaseName, #[source] Box<kube::Error>),
    /// It could not be created or updated.
    #[error("writing lease {0}")]
    Write(LeaseName, #[source] Box<kube::Error>),
    /// No answer came in time.
    #[error("no answer about lease {0} within {1:?}")]
    Timeout(LeaseName, Duration),
}

impl ElectionError {
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Read(_, error) | Self::Write(_, error) => match error.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Timeout(..) => None,
        }
    }

    pub(super) fn chain(&self) -> String {
        error_chain(self)
    }
}

/// Leadership is gone. Stop all work; do not compete again with the same process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lost lease {lease}: {loss}")]
pub struct Lost {
    /// Which Lease.
    pub lease: LeaseName,
    /// How it was lost.
    pub loss: Loss,
}

/// How a Lease was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// Somebody else holds it now.
    #[error("it is held by {0}")]
    Taken(String),
    /// It could not be renewed in time, or this process was frozen for too long.
    #[error("it was not renewed within the deadline")]
    Deadline,
}
