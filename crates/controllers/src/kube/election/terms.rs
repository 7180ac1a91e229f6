//! The words of an election: which Lease, which durations, who listens, what goes wrong.

use bowline_core::{error_chain, quote};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use crate::options::ElectionOptions;

/// Shortest time limit of one request.
const SHORTEST_REQUEST: Duration = Duration::from_secs(1);

/// Where a Lease is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

/// Longest name of a namespace: it is a DNS label.
const LONGEST_NAMESPACE: usize = 63;
/// Longest name of a Lease: it is a DNS subdomain.
const LONGEST_NAME: usize = 253;

impl LeaseName {
    /// Reads `<namespace>/<name>`, or `<name>` for a Lease of that other namespace.
    pub fn parse(text: &str, namespace: &str) -> Result<Self, String> {
        let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
        let is_namespace = is_dns_label(namespace) && namespace.len() <= LONGEST_NAMESPACE;
        if is_namespace && name.len() <= LONGEST_NAME && name.split('.').all(is_dns_label) {
            Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        } else {
            Err(format!(
                "{} is no Lease: it must be NAMESPACE/NAME, or NAME in --leader-elect-resource-namespace, of lower-case \
                 letters, digits, dashes and, in NAME, dots, such as kube-system/cloud-controller-manager",
                quote(text)
            ))
        }
    }
}

fn is_dns_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(inner)
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

/// Why a Lease is not ours yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait<'a> {
    /// Somebody else has it.
    HeldBy(&'a str),
    /// It cannot be read or written, for that reason.
    Failing(String),
}

impl std::fmt::Display for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::HeldBy(holder) => write!(f, "it is held by {holder}"),
            Self::Failing(reason) => f.write_str(reason),
        }
    }
}

/// Hears what happens in an election: for metrics and events.
pub trait Observer: Send + Sync {
    /// Whether this process has that Lease; also called once at the start.
    fn leading(&self, lease: &LeaseName, leading: bool) {
        let _ = (lease, leading);
    }

    /// An attempt to get that Lease did not succeed; called after each. The object is as it was seen.
    fn waiting(&self, lease: &LeaseName, seen: Option<&Lease>, wait: &Wait<'_>) {
        let _ = (lease, seen, wait);
    }

    /// Another replica of this manager has that Lease, as it should; called after each attempt.
    fn standing_by(&self, lease: &LeaseName) {
        let _ = lease;
    }

    /// A leader had to read its Lease again because the direct renewal did not work.
    fn slow_path(&self, lease: &LeaseName) {
        let _ = lease;
    }

    /// A leader read its Lease, and that was older than the leader had written it: the API server was restored to an
    /// earlier state.
    fn went_back(&self, lease: &LeaseName) {
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
    fn leading(&self, lease: &LeaseName, leading: bool) {
        self.election.leading(&lease.name, leading);
    }

    fn slow_path(&self, lease: &LeaseName) {
        self.election.slow_renewal(&lease.name);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_named_with_its_namespace_or_is_in_the_usual_one() {
        let long = "a".repeat(64);
        for (text, expected) in [
            ("ns/name", Some("ns/name")),
            (
                "cloud-controller-manager-talos",
                Some("usual/cloud-controller-manager-talos"),
            ),
            ("a.b/c", None),
            ("ns/a.b-1", Some("ns/a.b-1")),
            ("", None),
            ("/name", None),
            ("ns/", None),
            ("ns/name/more", None),
            ("ns/Name", None),
            ("ns/-name", None),
            ("ns/name.", None),
            ("ns / name", None),
            ("n_s/name", None),
            (&format!("{long}/name"), None),
        ] {
            let parsed = LeaseName::parse(text, "usual");
            let shown = parsed.as_ref().map(ToString::to_string).ok();
            assert_eq!(shown.as_deref(), expected, "{text:?}");
            if let Err(problem) = parsed {
                assert!(
                    problem.contains(&quote(text)) && problem.contains("NAMESPACE/NAME"),
                    "{problem}"
                );
            }
        }
    }
}
