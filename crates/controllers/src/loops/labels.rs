//! The cloud-node-label-sync controller: labels of Nodes follow what their cloud reports about machines.
//!
//! ```text
//!  a period has passed ──┐
//!                        ├─▶ gather: all nodes that the cloud describes, asked about together
//!  the cloud hears of ───┘   decide:  core::follow_labels
//!  a change                  execute: one patch for each node that differs
//!                            publish: events, only of what was written
//! ```
//!
//! It works for clouds that ask for it, each by itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::{
    Instance, LabelEvent, LabelSync, Lookup, Node, SkippedLabel, error_chain, follow_labels,
};
use futures::future::join_all;
use futures::stream;
use futures::{FutureExt, StreamExt};
use tracing::{debug, info, warn};

use crate::clouds::batcher::InstanceBatcher;
use crate::clouds::owners::OwnerDiscovery;
use crate::kube::events::{EventType, Recorder, node_reference};
use crate::kube::nodes::{Nodes, latest};
use crate::kube::write::{NodeWriter, WriteError};
use crate::metrics::{LabelMetrics, Metrics};
use crate::report::Fact;
use tokio_util::sync::CancellationToken;

/// How long the first word of a change waits for company. What moves a machine changes it several times within
/// a second or two; a node that follows within seconds is soon enough, and a cloud that never stops talking
/// costs no more than thirty looks a minute.
const CHANGE_WINDOW: Duration = Duration::from_secs(2);

/// The settings of the controller.
#[derive(Clone, Copy, Debug)]
pub struct LabelOptions {
    /// The pause between two rounds where nothing is heard of (`--node-status-update-frequency`).
    pub period: Duration,
    /// Nodes that are written at the same time (`--concurrent-node-syncs`).
    pub concurrent_syncs: usize,
}

/// What the controller works with.
pub struct LabelController {
    nodes: Nodes,
    owners: OwnerDiscovery,
    writer: NodeWriter,
    recorder: Recorder,
    metrics: LabelMetrics,
    options: LabelOptions,
}

impl LabelController {
    /// Whether any cloud asks for it.
    pub fn has_work(owners: &OwnerDiscovery) -> bool {
        asking(owners).next().is_some()
    }

    /// A controller that has not started.
    pub fn new(
        nodes: Nodes,
        owners: OwnerDiscovery,
        writer: NodeWriter,
        recorder: Recorder,
        metrics: &Metrics,
        options: LabelOptions,
    ) -> Self {
        Self {
            nodes,
            owners,
            writer,
            recorder,
            metrics: metrics.labels.clone(),
            options,
        }
    }

    /// Works until `stop`. A write that is under way is finished, nothing further is begun.
    pub async fn run(self, stop: CancellationToken) {
        let this = &self;
        let rounds = asking(&this.owners).map(|(cloud, sync)| this.keep(cloud, sync, &stop));
        join_all(rounds).await;
    }

    /// A round right away, and further ones when something changed, or a full period after the last one ended.
    async fn keep(&self, cloud: &InstanceBatcher, sync: &dyn LabelSync, stop: &CancellationToken) {
        let Some(()) = stop.run_until_cancelled(self.nodes.synced()).await else {
            return;
        };
        let mut cause = "start";
        while !stop.is_cancelled() {
            self.round(cloud, sync, stop).await;
            self.metrics.round(cloud.cloud().name().as_str(), cause);
            match stop.run_until_cancelled(self.pause(sync)).await {
                Some(next) => cause = next,
                None => return,
            }
        }
    }

    /// Ends when it is time for another round, with its cause.
    async fn pause(&self, sync: &dyn LabelSync) -> &'static str {
        tokio::select! {
            biased;
            () = sync.changed() => {
                tokio::time::sleep(CHANGE_WINDOW).await;
                // What was heard of meanwhile is seen in the same round.
                let _heard = sync.changed().now_or_never();
                "change"
            }
            () = tokio::time::sleep(self.options.period) => "period",
        }
    }

    async fn round(&self, cloud: &InstanceBatcher, sync: &dyn LabelSync, stop: &CancellationToken) {
        let nodes = self.nodes.all().into_iter();
        let nodes: Vec<Arc<Node>> = nodes
            .filter(|node| !node.is_uninitialized() && self.owners.describes(cloud, node))
            .collect();
        let Some(answers) = stop.run_until_cancelled(cloud.ask(nodes.clone())).await else {
            return;
        };
        stream::iter(nodes.into_iter().zip(answers))
            .for_each_concurrent(self.options.concurrent_syncs, |(node, answer)| async move {
                if !stop.is_cancelled() {
                    self.look(cloud, sync, node, answer).await;
                }
            })
            .await;
    }

    async fn look(
        &self,
        cloud: &InstanceBatcher,
        sync: &dyn LabelSync,
        node: Arc<Node>,
        answer: Lookup,
    ) {
        let instance = match answer {
            Lookup::Found(instance) => instance,
            Lookup::NotMine | Lookup::Gone(_) => return,
            Lookup::CannotTell(error) => {
                let error = error.chain();
                warn!(node = node.name, error, "labels do not follow for now");
                return;
            }
        };
        let node = latest(&self.nodes, node);
        let (name, events) = (node.name.clone(), Mutex::new(Vec::new()));
        let (instance, to_report) = (&instance, &events);
        let written = self
            .writer
            .retry_conflicts(node, WriteError::is_conflict, |node| async move {
                self.write(sync, &node, instance, to_report).await
            })
            .await;
        let cloud = cloud.cloud().name().as_str();
        match written {
            Ok(Some(_)) if self.writer.is_observing() => {}
            Ok(Some(written)) => {
                self.metrics.patch(cloud, "written");
                let events = events.into_inner().unwrap_or_else(PoisonError::into_inner);
                self.publish(&written, &events);
                // Noted before the watch brings it, so that no round reports the same again.
                self.nodes.note(written);
            }
            Ok(None) => {}
            Err(error) if error.is_not_found() || error.is_another() => {
                debug!(node = name, "the node is another one by now");
            }
            Err(error) => {
                self.metrics.patch(cloud, "failed");
                let error = error_chain(&error);
                warn!(node = name, error, "labels not written");
            }
        }
    }

    /// Writes what differs, and leaves what there is to report; none if there is nothing to do.
    async fn write(
        &self,
        sync: &dyn LabelSync,
        node: &Node,
        instance: &Instance,
        events: &Mutex<Vec<LabelEvent>>,
    ) -> Result<Option<Arc<Node>>, WriteError> {
        if node.is_uninitialized() {
            return Ok(None);
        }
        let change = follow_labels(sync, node, instance);
        for SkippedLabel { key, value, why } in &change.skipped {
            debug!(
                node = node.name,
                key,
                value,
                ?why,
                "a label does not follow"
            );
        }
        if change.labels.is_empty() {
            return Ok(None);
        }
        *events.lock().unwrap_or_else(PoisonError::into_inner) = change.events;
        let written = self.writer.change_labels(node, &change.labels).await?;
        if !self.writer.is_observing() {
            info!(node = node.name, labels = ?change.labels, "labels follow the machine");
        }
        Ok(Some(written))
    }

    fn publish(&self, node: &Node, events: &[LabelEvent]) {
        for it in events {
            let (kind, about) = (EventType::warning_if(it.is_warning), node_reference(node));
            self.recorder
                .emit(Fact::new(kind, about, it.reason, &it.message));
        }
    }
}

/// The clouds that ask for it, and how.
fn asking(owners: &OwnerDiscovery) -> impl Iterator<Item = (&InstanceBatcher, &dyn LabelSync)> {
    let all = owners.all().iter();
    all.filter_map(|it| Some((it, it.cloud().label_sync()?)))
}
