//! What a cloud does for a cluster beside what every cloud does: chores of its own, and pages that it shows.
//!
//! ```text
//!  the manager, while it leads ──▶ Chores::run ──▶ Cluster: nodes, objects that are kept, events
//!  whoever may read metrics    ──▶ Chores::page ──▶ PageAnswer, from memory
//! ```
//!
//! A provider has no way to the cluster but this one. Whoever stands behind it writes nothing without a valid
//! lease, nothing while observing, and nothing over what somebody else has made.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{BoxFuture, Node, ProviderEvent, Secret};

/// The label by which objects are known to be kept by us.
pub const KEPT_BY_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "bowline");

/// Work of a cloud's own that goes on for as long as the manager leads.
pub trait Chores: Send + Sync {
    /// Works until it is dropped, which may be at any await. It is not started again if it ends by itself.
    ///
    /// While [`Cluster::is_observing`], nothing in the cloud may be changed either; what would be changed is logged in the
    /// log.
    fn run<'a>(&'a self, cluster: &'a dyn Cluster) -> BoxFuture<'a, ()>;

    /// What it serves at that path of the metrics port, to those who may read it; none if that is no page of its own.
    /// Answers from memory.
    fn page(&self, path: &str) -> Option<PageAnswer> {
        let _ = path;
        None
    }
}

/// The cluster, as far as chores need it.
pub trait Cluster: Send + Sync {
    /// `--cluster-name`.
    fn name(&self) -> &str;

    /// The namespace of what is kept.
    fn namespace(&self) -> &str;

    /// Where others in the cluster find our pages: scheme, host and port.
    fn address(&self) -> &str;

    /// The uid of the namespace `kube-system`, which distinguishes clusters of one name. Read once.
    fn uid(&self) -> BoxFuture<'_, Result<String, ClusterError>>;

    /// The nodes that this cloud owns, by name. One that cannot be read is as it was last known.
    fn nodes(&self) -> Vec<Arc<Node>>;

    /// Whether that is really all of them: one that never could be read is missing, and nobody may conclude from
    /// that.
    fn knows_all_nodes(&self) -> bool;

    /// Ends when nodes may have changed since it last ended, or since the beginning; what changes while nobody
    /// waits is not lost.
    fn changed(&self) -> BoxFuture<'_, ()>;

    /// Whether nothing may be changed.
    fn is_observing(&self) -> bool;

    /// What is in an object that is kept; none if there is no such object. Somebody else's is an error.
    fn read<'a>(
        &'a self,
        kind: ManagedObjectKind,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<BTreeMap<String, Secret>>, ClusterError>>;

    /// Makes the object be as described, and writes nothing if it is. Somebody else's stays as it is, which is an
    /// error.
    fn keep<'a>(&'a self, object: &'a ManagedObject) -> BoxFuture<'a, Result<Kept, ClusterError>>;

    /// Writes an event.
    fn tell(&self, event: ProviderEvent);
}

/// What kind of object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedObjectKind {
    /// A Secret of that type.
    Secret(&'static str),
    /// A ConfigMap.
    ConfigMap,
}

impl ManagedObjectKind {
    /// Its name in the Kubernetes API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret(_) => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// An object that is kept in [`Cluster::namespace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedObject {
    /// Secret, with its type, or ConfigMap.
    pub kind: ManagedObjectKind,
    /// In [`Cluster::namespace`].
    pub name: String,
    /// Everything that is in it. Shown nowhere, also where it is no secret.
    pub data: BTreeMap<String, Secret>,
}

/// What became of keeping an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It was so already.
    Same,
    /// It is now.
    Written,
    /// It would be written, by a manager that does more than look.
    Observed,
}

/// Why an object was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// It is somebody else's.
    #[error(
        "{object} is left alone: it lacks the label {}={}",
        KEPT_BY_LABEL.0,
        KEPT_BY_LABEL.1
    )]
    Foreign {
        /// Its kind, namespace and name.
        object: String,
    },
    /// The API server refused, or could not be reached.
    #[error("{what} {object}")]
    Failed {
        /// What was tried.
        what: &'static str,
        /// Its kind, namespace and name.
        object: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What a cloud shows at a path of the metrics port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageAnswer {
    /// This.
    Shown {
        /// What it is.
        content_type: &'static str,
        /// All of it.
        body: String,
    },
    /// Nothing now: this is not the process that knows, or it does not know yet. Says why.
    NotNow(String),
}
