//! One round over the nodes of one cloud: gather, decide, execute, publish.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bowline_core::{
    Evidence, GuardVerdict, HoldReason, LifecycleAction, Look, Lookup, Node, Proof, Taint, Trust,
    error_chain, needs_look, trust, when_not_ready, with_shutdown, without_shutdown,
};
use futures::StreamExt;
use futures::stream;
use tracing::{debug, info, warn};

use super::{CloudState, LifecycleController, lock};
use crate::clouds::accounts::AccountKey;
use crate::clouds::batcher::InstanceBatcher;
use crate::kube::events::node_reference;
use crate::kube::write::WriteError;
use crate::report::{Fact, emit};
use tokio_util::sync::CancellationToken;

/// So many nodes are asked about beside the others.
const SILENT_LIMIT: usize = 10;
/// What a round found besides the node itself.
#[derive(Clone, Copy)]
struct Base {
    /// Nodes of the cloud.
    count: usize,
    /// Whether the machines of all of them seem to be gone.
    all_gone: bool,
}

impl LifecycleController {
    /// Takes the shutdown taint from nodes that are Ready; no cloud is asked.
    pub(super) async fn clear_ready(&self, cloud: &InstanceBatcher, stop: &CancellationToken) {
        let ready = self.nodes.all().into_iter().filter(|it| !needs_look(it));
        let tainted = ready.filter_map(|node| Some((without_shutdown(&node.taints)?, node)));
        stream::iter(tainted.filter(|(_, node)| self.owners.owns(cloud, node)))
            .for_each_concurrent(self.options.concurrent_syncs, |(taints, node)| async move {
                if !stop.is_cancelled() {
                    self.set_taints(node, taints).await;
                }
            })
            .await;
    }

    /// Looks at the machines of nodes that are not Ready.
    pub(super) async fn round(&self, cloud: &InstanceBatcher, stop: &CancellationToken) {
        let nodes = self.nodes.all();
        let owns = |it: &&Arc<Node>| self.owners.owns(cloud, it);
        let suspects = nodes.iter().filter(|it| needs_look(it)).filter(owns);
        let suspects: Vec<Arc<Node>> = suspects.cloned().collect();
        // How many there are counts only beside one that may be gone.
        let count = if suspects.is_empty() {
            0
        } else {
            nodes.iter().filter(owns).count()
        };
        self.forget_others(cloud, &suspects);
        let account = AccountKey::of(cloud.cloud());
        self.state(cloud).look_with(account);
        let (silent, others) = self.apart(cloud, suspects);
        tokio::join!(
            self.look_at(
                cloud,
                (others.clone(), count),
                cloud.ask_presence(others),
                stop
            ),
            self.look_at(
                cloud,
                (silent.clone(), count),
                cloud.ask_presence_beside(silent),
                stop
            )
        );
        if stop.is_cancelled() {
            return;
        }
        self.check_cloud(cloud, stop).await;
        self.publish_held(cloud);
    }

    /// The few nodes that the cloud could not tell about when it was last asked, and the others: those do not wait for
    /// them. Where there are many, it is the cloud, and one question is enough.
    fn apart(
        &self,
        cloud: &InstanceBatcher,
        suspects: Vec<Arc<Node>>,
    ) -> (Vec<Arc<Node>>, Vec<Arc<Node>>) {
        let state = self.state(cloud);
        if state.silent.len() > SILENT_LIMIT {
            return (Vec::new(), suspects);
        }
        let is_silent = |it: &Arc<Node>| state.silent.contains(&it.uid);
        let (silent, others): (Vec<_>, Vec<_>) = suspects.into_iter().partition(is_silent);
        if others.is_empty() {
            // Nobody waits for them, and their answers show the health of the cloud.
            return (others, silent);
        }
        (silent, others)
    }

    /// Does what follows from the answers about these nodes, of so many that the cloud has.
    async fn look_at(
        &self,
        cloud: &InstanceBatcher,
        (nodes, count): (Vec<Arc<Node>>, usize),
        asking: impl Future<Output = Vec<Lookup>>,
        stop: &CancellationToken,
    ) {
        let account = AccountKey::of(cloud.cloud());
        let Some(answers) = stop.run_until_cancelled(asking).await else {
            return;
        };
        if AccountKey::of(cloud.cloud()) != account {
            // Nobody knows whose answers these are.
            return;
        }
        let is_gone = |it: &Lookup| matches!(it, Lookup::Gone(_));
        let all_gone = nodes.len() == count && answers.iter().all(is_gone);
        let base = Base { count, all_gone };
        for (node, answer) in nodes.iter().zip(&answers) {
            let mut state = self.state(cloud);
            if matches!(answer, Lookup::CannotTell(_)) {
                state.silent.insert(node.uid.clone());
            } else {
                state.silent.remove(&node.uid);
            }
        }
        stream::iter(nodes.into_iter().zip(answers))
            .for_each_concurrent(self.options.concurrent_syncs, |(node, answer)| async move {
                self.count(&answer);
                if !stop.is_cancelled() {
                    let action = when_not_ready(&node, answer);
                    self.act(cloud, node, action, base).await;
                }
            })
            .await;
    }

    async fn act(
        &self,
        cloud: &InstanceBatcher,
        node: Arc<Node>,
        action: LifecycleAction,
        base: Base,
    ) {
        match action {
            LifecycleAction::Nothing => self.state(cloud).guard.present(&node.uid),
            LifecycleAction::Inconclusive => self.state(cloud).guard.inconclusive(&node.uid),
            LifecycleAction::SetTaints(taints) => {
                self.state(cloud).guard.present(&node.uid);
                self.set_taints(node, taints).await;
            }
            LifecycleAction::Suspect(evidence) => {
                self.judge(cloud, &node, evidence, base).await;
            }
        }
    }

    async fn judge(&self, cloud: &InstanceBatcher, node: &Node, evidence: Evidence, base: Base) {
        let accounts = &self.metrics.accounts;
        let state = accounts.state(cloud.cloud());
        let is_other = accounts.is_other(cloud.cloud());
        let trust = trust(state, node, base.all_gone, is_other);
        if trust != Trust::Full {
            accounts.want(cloud.cloud());
        }
        let verdict = {
            let mut state = self.state(cloud);
            let look = Look {
                evidence,
                at: state.begun.elapsed(),
                trust,
            };
            state.guard.gone(node, look, base.count)
        };
        match verdict {
            GuardVerdict::Hold {
                reason,
                is_new,
                wait,
            } => {
                if !is_new || reason.is_routine() {
                    debug!(node = node.name, %reason, "its machine seems to be gone");
                } else {
                    self.hold(cloud, node, reason, wait);
                }
            }
            GuardVerdict::Delete(proof) => self.delete(cloud, node, &proof).await,
        }
    }

    /// Reports why a node is kept, and for how long at least.
    fn hold(
        &self,
        cloud: &InstanceBatcher,
        node: &Node,
        reason: HoldReason,
        wait: Option<Duration>,
    ) {
        let cloud = cloud.cloud().name();
        let wait = wait.map_or_else(String::new, |wait| {
            format!(" (for another {} s)", wait.as_secs_f64().ceil())
        });
        let text =
            format!("Machine seems to be gone from {cloud}, but the node is kept: {reason}{wait}");
        let fact = Fact::warning(node_reference(node), "NodeDeletionHeld", text);
        emit!(self.recorder, fact, node = node.name, %cloud, reason = reason.reason());
    }

    async fn delete(&self, cloud: &InstanceBatcher, node: &Node, proof: &Proof) {
        let name = &node.name;
        if self.writer.is_observing() {
            // It stays, and so must not use up what may be deleted in some time.
            self.state(cloud).guard.refund(&node.uid);
            let _withheld = self.writer.delete(node).await;
            return;
        }
        info!(
            node = name,
            cloud = %cloud.cloud().name(),
            first = proof.first.text,
            second = proof.second.text,
            "deleting the node: its machine is proven to be gone"
        );
        if self.state(cloud).announced.is_new(node.uid.clone(), &()) {
            let text =
                format!("Deleting node {name} because it does not exist in the cloud provider");
            let fact = Fact::normal(node_reference(node), "DeletingNode", text);
            self.recorder.emit(fact);
        }
        match self.writer.delete(node).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) if error.is_conflict() => {
                info!(node = name, "the node was changed meanwhile; looking again");
                self.state(cloud).guard.refund(&node.uid);
            }
            Err(error) => {
                if !error.may_have_happened() {
                    self.state(cloud).guard.refund(&node.uid);
                }
                let text = format!("Failed deleting node {name}: {}", refusal(&error));
                warn!(
                    node = name,
                    error = error_chain(&error),
                    "deleting failed; trying again"
                );
                let fact = Fact::warning(node_reference(node), "DeletingNodeFailed", text);
                self.recorder.emit(fact);
            }
        }
    }

    /// Writes the taints; when the node was changed meanwhile, decides again on what it is now.
    async fn set_taints(&self, node: Arc<Node>, taints: Vec<Taint>) {
        let adding = taints.len() >= node.taints.len();
        let name = node.name.clone();
        let written = self
            .writer
            .retry_conflicts(node, WriteError::is_conflict, |node| async move {
                let taints = match (adding, needs_look(&node)) {
                    (true, true) => with_shutdown(&node.taints),
                    (false, false) => without_shutdown(&node.taints),
                    // Its readiness has turned around meanwhile; the next round decides anew.
                    (true, false) | (false, true) => None,
                };
                match taints {
                    Some(taints) => self.writer.set_taints(&node, &taints).await.map(Some),
                    None => Ok(None),
                }
            })
            .await;
        match written {
            Ok(Some(_)) if self.writer.is_observing() => {}
            Ok(Some(_)) if adding => info!(node = name, "tainted: its machine is shut down"),
            Ok(Some(_)) => info!(node = name, "shutdown taint removed: the node is Ready"),
            Ok(None) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => warn!(
                node = name,
                error = error_chain(&error),
                "taints not written"
            ),
        }
    }

    /// The check read between two looks, made only while somebody is suspected.
    async fn check_cloud(&self, cloud: &InstanceBatcher, stop: &CancellationToken) {
        if !self.state(cloud).guard.wants_canary() {
            return;
        }
        let Some(checked) = stop.run_until_cancelled(cloud.canary()).await else {
            return;
        };
        if let Err(error) = &checked {
            let cloud = cloud.cloud().name();
            warn!(%cloud, error = error.chain(), "the cloud fails a check read; deleting nothing");
        } else {
            let nodes = self.nodes.all().into_iter();
            let nodes: Vec<Arc<Node>> = nodes.filter(|it| self.owners.owns(cloud, it)).collect();
            let asking = self.metrics.accounts.ask_witnesses(cloud, &nodes);
            if stop.run_until_cancelled(asking).await.is_none() {
                return;
            }
        }
        self.state(cloud).guard.canary(checked.is_ok());
    }

    fn forget_others(&self, cloud: &InstanceBatcher, suspects: &[Arc<Node>]) {
        let uids: BTreeSet<&str> = suspects.iter().map(|node| node.uid.as_str()).collect();
        let mut state = self.state(cloud);
        state.guard.retain(&uids);
        state.announced.retain(|uid| uids.contains(uid.as_str()));
        state.silent.retain(|uid| uids.contains(uid.as_str()));
    }

    fn publish_held(&self, cloud: &InstanceBatcher) {
        let held = self.state(cloud).guard.held();
        let name = cloud.cloud().name().as_str();
        for reason in HoldReason::ALL {
            let nodes = held.get(&reason).copied().unwrap_or_default();
            self.metrics.clouds.guard_held(name, reason.reason(), nodes);
        }
    }

    fn count(&self, answer: &Lookup) {
        let result = match answer {
            Lookup::Found(_) | Lookup::NotMine => "success",
            Lookup::Gone(_) => "instance_not_found",
            Lookup::CannotTell(_) => "error",
        };
        self.metrics.lifecycle.call("instance_metadata", result);
    }

    fn state(&self, cloud: &InstanceBatcher) -> MutexGuard<'_, CloudState> {
        lock(&self.clouds[cloud.cloud().name()])
    }
}

/// What the API server said, or why it could not be asked.
fn refusal(error: &WriteError) -> String {
    match error {
        WriteError::Api { source, .. } => source.to_string(),
        WriteError::Late { .. } => error.to_string(),
    }
}
