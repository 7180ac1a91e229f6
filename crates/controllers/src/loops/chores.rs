//! The cloud-chores controller: what clouds do for the cluster beside what every cloud does.
//!
//! ```text
//!  nodes (the watch) ──▶ CloudCluster ◀── Chores::run, one for each cloud that has any
//!                         ├─▶ ManagedObjectWriter: Secrets and ConfigMaps of our own
//!                         └─▶ events
//! ```
//!
//! Each cloud's chores run by themselves: one that hangs holds up no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BoxFuture, Chores, Cloud, Cluster, ClusterError, Kept, ManagedObject, ManagedObjectKind, Node,
    Ownership, ProviderEvent, Secret,
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::{Notify, OnceCell};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::clouds::caller::CloudCaller;
use crate::clouds::resolver::OwnershipResolver;
use crate::kube::clients::CALL_DEADLINE;
use crate::kube::events::Recorder;
use crate::kube::nodes::Nodes;
use crate::kube::write::ManagedObjectWriter;
use crate::loops::service::cluster_uid;
use tokio_util::sync::CancellationToken;

/// What the controller works with.
pub struct ChoresParts {
    pub nodes: Nodes,
    /// A client that is fenced.
    pub client: kube::Client,
    /// Where events go.
    pub recorder: Recorder,
    /// Asked for as long as chores run: an observer may ask as much as it likes.
    pub caller: CloudCaller,
    /// Whether nothing may be changed.
    pub is_observing: bool,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// Where objects are kept.
    pub namespace: String,
    /// Where others in the cluster find our pages.
    pub address: String,
    /// Where events about the manager are shown.
    pub lease: ObjectReference,
}

/// Runs the chores of all clouds.
pub struct ChoresController {
    resolver: OwnershipResolver,
    caller: CloudCaller,
    nodes: Nodes,
    shared: Arc<Shared>,
}

/// What the clusters of all clouds have in common.
struct Shared {
    nodes: Nodes,
    client: kube::Client,
    writer: ManagedObjectWriter,
    recorder: Recorder,
    cluster_name: String,
    address: String,
    lease: ObjectReference,
    uid: OnceCell<String>,
}

/// One cloud's view of the cluster.
struct CloudCluster {
    cloud: Arc<dyn Cloud>,
    resolver: OwnershipResolver,
    shared: Arc<Shared>,
    changed: Arc<Notify>,
}

impl ChoresController {
    /// Whether any cloud has chores.
    pub fn has_work(clouds: &[Arc<dyn Cloud>]) -> bool {
        clouds.iter().any(|cloud| cloud.chores().is_some())
    }

    /// A controller that has not started.
    pub fn new(parts: ChoresParts, resolver: &OwnershipResolver) -> Self {
        let writer =
            ManagedObjectWriter::new(parts.client.clone(), &parts.namespace, parts.is_observing);
        Self {
            resolver: resolver.clone(),
            caller: parts.caller,
            nodes: parts.nodes.clone(),
            shared: Arc::new(Shared {
                nodes: parts.nodes,
                client: parts.client,
                writer,
                recorder: parts.recorder,
                cluster_name: parts.cluster_name,
                address: parts.address,
                lease: parts.lease,
                uid: OnceCell::new(),
            }),
        }
    }

    /// Works until `stop`, or until it may not ask clouds any more.
    pub async fn run(self, stop: CancellationToken) {
        let Some(()) = stop.run_until_cancelled(self.nodes.synced()).await else {
            return;
        };
        let clouds = self.resolver.clouds().iter();
        let clusters: Vec<CloudCluster> = clouds
            .filter(|cloud| cloud.chores().is_some())
            .map(|cloud| self.cluster(cloud))
            .collect();
        let all = join_all(clusters.iter().filter_map(|cluster| {
            let chores = cluster.cloud.chores()?;
            Some(self.attend(chores, cluster))
        }));
        stop.run_until_cancelled(all).await;
    }

    fn cluster(&self, cloud: &Arc<dyn Cloud>) -> CloudCluster {
        let changed = Arc::new(Notify::new());
        let notified = Arc::clone(&changed);
        self.nodes.on_change(move |change| {
            if change.is_relevant() {
                notified.notify_one();
            }
        });
        CloudCluster {
            cloud: Arc::clone(cloud),
            resolver: self.resolver.clone(),
            shared: Arc::clone(&self.shared),
            changed,
        }
    }

    async fn attend(&self, chores: &dyn Chores, cluster: &CloudCluster) {
        let cloud = cluster.cloud.name();
        info!(%cloud, "chores begin");
        // They end with the lease.
        let caller = self.caller.within(Duration::MAX);
        match caller.read("chores", chores.run(cluster)).await {
            Ok(()) => info!(%cloud, "chores are done"),
            Err(error) => warn!(%cloud, error = error.chain(), "chores end"),
        }
    }
}

impl Cluster for CloudCluster {
    fn name(&self) -> &str {
        &self.shared.cluster_name
    }

    fn namespace(&self) -> &str {
        self.shared.writer.namespace()
    }

    fn address(&self) -> &str {
        &self.shared.address
    }

    fn uid(&self) -> BoxFuture<'_, Result<String, ClusterError>> {
        let shared = &self.shared;
        Box::pin(async move {
            let uid = shared.uid.get_or_try_init(|| shared.read_uid()).await?;
            Ok(uid.clone())
        })
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        let view = self.shared.nodes.view();
        let unreadable = view.unreadable.into_iter();
        let last_known = unreadable.filter_map(|(name, node)| Some((name, node?)));
        // In the order of names, whichever way they are known.
        let all: BTreeMap<String, Arc<Node>> = view.objects.into_iter().chain(last_known).collect();
        let mine = |node: &Arc<Node>| match self.resolver.ownership(node) {
            Some(Ownership::Owned { by, .. }) => by == *self.cloud.name(),
            _ => false,
        };
        all.into_values().filter(mine).collect()
    }

    fn knows_all_nodes(&self) -> bool {
        let view = self.shared.nodes.view();
        view.unreadable.values().all(Option::is_some)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn is_observing(&self) -> bool {
        self.shared.writer.is_observing()
    }

    fn read<'a>(
        &'a self,
        kind: ManagedObjectKind,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<BTreeMap<String, Secret>>, ClusterError>> {
        Box::pin(self.shared.writer.read(kind, name))
    }

    fn keep<'a>(&'a self, object: &'a ManagedObject) -> BoxFuture<'a, Result<Kept, ClusterError>> {
        Box::pin(self.shared.writer.keep(object))
    }

    fn tell(&self, event: ProviderEvent) {
        let fact = crate::loops::provider_events::fact(event, &self.shared.lease);
        self.shared.recorder.emit(fact);
    }
}

impl Shared {
    async fn read_uid(&self) -> Result<String, ClusterError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| ClusterError::Failed {
            what: "reading",
            object: "the namespace kube-system".to_owned(),
            source,
        };
        let read = timeout(CALL_DEADLINE, cluster_uid(&self.client)).await;
        let read = read.map_err(|late| failed(Box::new(late)))?;
        let uid = read.map_err(|error| failed(Box::new(error)))?;
        let uid = uid.filter(|uid| !uid.is_empty());
        uid.ok_or_else(|| failed("it has no uid".into()))
    }
}
