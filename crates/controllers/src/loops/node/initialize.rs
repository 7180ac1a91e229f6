//! Initialises one new node: finds its describer, asks for the instance, and writes twice (addresses,
//! then the rest), after the writes of its metadata.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::ownership::Unowned;
use bowline_core::{
    AccountState, Cloud, CloudError, InitializeError, Instance, Lookup, Node, Ownership, initialize,
};
use tracing::{debug, info};

use super::{NodeController, NodeOutcome};
use crate::clouds::batcher::InstanceBatcher;
use crate::kube::events::versioned_node_reference;
use crate::kube::write::WriteError;
use crate::lru::Lru;
use crate::report::Fact;
use tokio_util::sync::CancellationToken;

/// How old a new node is before people hear that its machine is not known.
const UNRECOGNISED_PATIENCE: Duration = Duration::from_secs(60);
/// The reason of events about a machine that two Nodes show.
const CLAIMED_TWICE: &str = "ProviderIDClaimedTwice";
/// For so long after its creation a node that says itself which machine it has waits for older ones to be asked about. One
/// question is answered sooner, and a cloud that does not answer holds up nobody for longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Who describes a node, and what it knows.
type Described = (Arc<dyn Cloud>, Box<Instance>);

/// Why a reconcile failed; it is retried.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// Who describes it could not say.
    #[error("failed to get instance metadata for node {node}")]
    Lookup { node: String, source: CloudError },
    /// Some cloud could not say whether the node is its own.
    #[error("node {node}: {ownership}")]
    Undecided { node: String, ownership: Ownership },
    /// The cloud's knowledge and the node's do not fit together.
    #[error(transparent)]
    Initialize(#[from] InitializeError),
    /// The API server.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Labels of an initialised node could not be repaired.
    #[error(transparent)]
    Repair(WriteError),
}

impl SyncError {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Lookup { source, .. } => source.event().unwrap_or_else(|| source.kind().reason()),
            Self::Undecided { .. } => "OwnerUndecided",
            Self::Initialize(error) => error.reason(),
            Self::Write(_) | Self::Repair(_) => "WriteFailed",
        }
    }

    fn is_conflict(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_conflict())
    }
}

impl NodeController {
    pub(super) async fn initialize(
        &self,
        node: Arc<Node>,
        lane: usize,
        stop: &CancellationToken,
    ) -> Result<NodeOutcome, SyncError> {
        if self.waits_for_older(&node) {
            return Ok(NodeOutcome::Soon);
        }
        if node.provider_id.is_none() {
            // Before the answer: a cloud that does not answer holds up nobody else's node.
            self.asked().insert(node.uid.clone(), ());
        }
        // Boxed, as below: what it needs is given back before thousands wait to be written.
        let gather = Box::pin(self.gather(&node));
        let Some(gathered) = stop.run_until_cancelled(gather).await else {
            return Ok(NodeOutcome::Later);
        };
        let Some((cloud, instance)) = gathered? else {
            return Ok(NodeOutcome::Later);
        };
        let Ok(_lock) = self.writing[lane].acquire().await else {
            return Ok(NodeOutcome::Later);
        };
        if stop.is_cancelled() {
            return Ok(NodeOutcome::Later);
        }
        // Boxed, because thousands may wait and only a few write at a time.
        let written = Box::pin(self.writer.retry_conflicts(
            node.clone(),
            SyncError::is_conflict,
            |node| self.execute(node, &cloud, &instance),
        ))
        .await;
        match written {
            Ok(Some(_)) if self.writer.is_observing() => return Ok(NodeOutcome::Later),
            Ok(Some(written)) => {
                // Noted before the watch brings it, so that no further reconcile works on the old one.
                self.nodes.note(written);
                self.asked().remove(&node.uid);
                self.publish(&node, cloud.name().as_str());
            }
            Ok(None) => {}
            Err(SyncError::Write(error)) if error.is_not_found() => {
                debug!(
                    node = node.name,
                    "the node is gone; nothing left to initialise"
                );
            }
            Err(error) => return Err(error),
        }
        Ok(NodeOutcome::Done)
    }

    /// The name of who describes the node and what it knows; none if the node stays as it is.
    async fn gather(&self, node: &Arc<Node>) -> Result<Option<Described>, SyncError> {
        let describer = match self.owners.find_describer(node).await {
            Ok(describer) => describer,
            Err(ownership @ Ownership::Undecided(_)) => {
                return Err(SyncError::Undecided {
                    node: node.name.clone(),
                    ownership,
                });
            }
            Err(ownership) => {
                self.report_unmanaged(node, &ownership);
                return Ok(None);
            }
        };
        let described_by = describer.batcher.cloud();
        let cloud = described_by.name().as_str();
        let answer = match describer.answer {
            Some(answer) => answer,
            None => describer.batcher.ask_one(node.clone()).await,
        };
        match answer {
            Lookup::Found(_) if !self.is_the_clusters(node, described_by).await => Ok(None),
            Lookup::Found(instance) => match self.holder(node, &instance) {
                None => Ok(Some((described_by.clone(), instance))),
                Some(older) => {
                    self.report_unmanaged(node, &Ownership::Nobody(Unowned::ClaimedTwice(older)));
                    Ok(None)
                }
            },
            Lookup::CannotTell(source) => Err(SyncError::Lookup {
                node: node.name.clone(),
                source,
            }),
            Lookup::NotMine => {
                debug!(node = node.name, cloud, "the cloud leaves this node alone");
                self.report_unrecognised(node);
                Ok(None)
            }
            Lookup::Gone(evidence) => {
                debug!(
                    node = node.name,
                    cloud,
                    evidence = evidence.text,
                    "its machine is gone"
                );
                Ok(None)
            }
        }
    }

    /// Another Node that has the machine found for this one; whoever comes later learns from now on that this one has
    /// it.
    fn holder(&self, node: &Node, instance: &Instance) -> Option<String> {
        let id = instance.provider_id.as_ref()?.to_string();
        let machines = self.owners.machines();
        let holder = machines.holder(&id, node);
        if holder.is_none() && node.provider_id.is_none() {
            machines.expect(&id, node);
        }
        holder
    }

    /// Whether a node that says itself which machine it has waits until clouds were asked about an older one that does not:
    /// it may be that one's.
    fn waits_for_older(&self, node: &Node) -> bool {
        let waited = self.clock.since(node.created);
        if node.provider_id.is_none() || waited >= PATIENCE {
            return false;
        }
        let older = self.owners.machines().older_fresh(node);
        let mut asked = self.asked();
        older.iter().any(|uid| asked.get_mut(uid).is_none())
    }

    fn asked(&self) -> MutexGuard<'_, Lru<String, ()>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing says that the account in which its machine was found is another cluster's. That is reported once.
    async fn is_the_clusters(&self, node: &Node, cloud: &Arc<dyn Cloud>) -> bool {
        if self.metrics.accounts.first_look(cloud).await != AccountState::Contradicted {
            return true;
        }
        let text = format!(
            "Node is not initialised: the credentials of cloud {} seem to be of another account, which event \
             AccountContradicted on the lease explains",
            cloud.name()
        );
        self.report_once(node, "AccountContradicted", text);
        false
    }

    /// Marks and addresses first: a node is never schedulable without them, nor for a moment without a taint
    /// that keeps pods away.
    async fn execute(
        &self,
        node: Arc<Node>,
        cloud: &Arc<dyn Cloud>,
        instance: &Instance,
    ) -> Result<Option<Arc<Node>>, SyncError> {
        if !node.is_uninitialized() {
            return Ok(None);
        }
        let node = self.write_metadata(node, &instance.marks).await?;
        let change = initialize(&node, instance)?;
        let node = match &change.addresses {
            Some(addresses) => self.writer.set_addresses(&node, addresses).await?,
            None => node,
        };
        // What the write gave back may be newer than what the decision was made of.
        let change = initialize(&node, instance)?;
        for label in &change.skipped_labels {
            info!(
                node = node.name,
                ?label,
                "a label of the cloud is not put on the node"
            );
        }
        if let Some(id) = &change.provider_id {
            self.metrics.accounts.gives(cloud, id);
        }
        Ok(Some(self.writer.initialize(&node, &change).await?))
    }

    fn publish(&self, node: &Node, cloud: &str) {
        let age = self.clock.since(node.created).as_secs_f64();
        self.metrics.nodes.taint_removal_delay.observe(age);
        self.metrics.nodes.initial_sync_delay.observe(age);
        let (about, text) = (versioned_node_reference(node), "Node synced successfully");
        self.recorder.emit(Fact::normal(about, "Synced", text));
        info!(node = node.name, cloud, "initialised");
    }

    /// Tells people once that the only cloud does not know the machine of a new node, if they should. Not at once: it may
    /// be another controller manager's, who initialises it meanwhile. Among several clouds nobody's nodes are counted.
    fn report_unrecognised(&self, node: &Node) {
        let [only] = self.owners.all() else { return };
        let cloud = only.cloud();
        let known_by_id = node.provider_id.is_some() || node.system_uuid.is_empty();
        let Some(hint) = cloud.recognises_by().filter(|_| !known_by_id) else {
            return;
        };
        if self.clock.since(node.created) < UNRECOGNISED_PATIENCE {
            return;
        }
        let text = format!(
            "Cloud {} has no machine for node {} (system UUID {}), so the node is not initialised. {hint}",
            cloud.name(),
            node.name,
            node.system_uuid
        );
        self.report_once(node, "MachineNotFound", text);
    }

    /// Tells people once on the Node that has the machine that another one shows it too.
    fn report_older(&self, node: &Node, older: &str) {
        let Some(older) = self.nodes.get(older) else {
            return;
        };
        let text = format!(
            "Node {} shows this Node's provider id and is left alone until one of them is gone",
            node.name
        );
        if self.reported.is_new(older.uid.clone(), &text) {
            let about = versioned_node_reference(&older);
            self.recorder
                .emit(Fact::warning(about, CLAIMED_TWICE, text));
        }
    }

    /// Tells people once about a node nobody will touch, where they can do something about it.
    pub(super) fn report_unmanaged(&self, node: &Node, ownership: &Ownership) {
        let reason = match ownership {
            Ownership::Contested(_) => "NodeContested",
            Ownership::Nobody(Unowned::MalformedProviderId { cloud, .. }) => {
                let mut all = self.owners.all().iter().map(InstanceBatcher::cloud);
                let cloud = all.find(|it| it.name() == cloud);
                cloud.map_or("MalformedProviderID", |it| it.malformed_reason())
            }
            Ownership::Nobody(Unowned::Departed(_)) => "NodeOfDepartedCloud",
            Ownership::Nobody(Unowned::Unrecognized) => {
                debug!(node = node.name, "{ownership}");
                return self.report_unrecognised(node);
            }
            Ownership::Nobody(Unowned::ClaimedTwice(older)) => {
                self.report_older(node, older);
                CLAIMED_TWICE
            }
            Ownership::Owned { .. } => return,
            Ownership::Nobody(_) | Ownership::Undecided(_) => {
                debug!(node = node.name, "{ownership}");
                return;
            }
        };
        self.report_once(node, reason, ownership.to_string());
    }
}
