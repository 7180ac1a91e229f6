//! The cloud-node controller: initialises fresh nodes, keeps addresses, metadata and paired labels up to date.
//!
//! ```text
//!  watch ─▶ queue ─▶ gather: who describes the node? what does that cloud know? (asked together)
//!                    decide:  core::initialize, core::metadata
//!                    execute: metadata and addresses first, then id, labels and taint in one write
//!                    publish: event, metrics; a failure is queued again
//! ```

mod addresses;
mod initialize;
mod metadata;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::metadata::Applied;
use bowline_core::{Node, error_chain, stable_labels_to_repair};
use bowline_http::Clock;
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use self::initialize::SyncError;
use crate::clouds::machines::Machines;
use crate::clouds::owners::OwnerDiscovery;
use crate::kube::events::{Recorder, versioned_node_reference};
use crate::kube::nodes::{NodeChange, Nodes, REMEMBERED_NODES};
use crate::kube::write::NodeWriter;
use crate::lru::Lru;
use crate::metrics::Metrics;
use crate::queue::{Backoff, Work, WorkQueue};
use crate::report::{Fact, Reported, emit};
use tokio_util::sync::CancellationToken;

/// Nodes of one cloud whose machines are asked for at the same time, 2 kB each. Many times as many as are written at the
/// same time, so that a list serves all of them; whoever comes next is answered from the same list.
const IN_FLIGHT_LIMIT: usize = 500;
/// A node that nobody recognises, and one whose reconcile keeps failing, is looked at this often.
const STRANGER_PERIOD: Duration = Duration::from_secs(60);
/// How often it is reported at most that initialising a node fails for one reason: each heartbeat of its kubelet tries
/// it again.
const FAILURE_PERIOD: Duration = Duration::from_secs(60);
/// After what time a node is looked at again that waits for an older one to be asked about.
const SOON: Duration = Duration::from_millis(200);
/// Failures in a row after which it is reported: about five seconds of trying.
const FAILURES_BEFORE_WARNING: u32 = 10;

/// The settings of the controller.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Nodes of one cloud that are written at the same time (`--concurrent-node-syncs`).
    pub concurrent_syncs: usize,
    /// Addresses that are written at the same time (`--concurrent-node-status-updates`).
    pub concurrent_status_updates: usize,
    /// The pause between two rounds of addresses (`--node-status-update-frequency`).
    pub status_update_frequency: Duration,
}

/// What the controller works with.
pub struct NodeController {
    nodes: Nodes,
    owners: OwnerDiscovery,
    writer: NodeWriter,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    clock: Clock,
    options: NodeOptions,
    queue: WorkQueue<String>,
    /// For each lane of the queue, who may write.
    writing: Vec<Semaphore>,
    /// By uid: what keeps nodes unmanaged or uninitialised.
    reported: Reported<String>,
    /// What was applied last to nodes (by uid) whose metadata is owned.
    applied: Mutex<Lru<String, Applied>>,
    /// By uid and reason: that initialising keeps failing.
    failures: Reported<(String, &'static str), ()>,
    /// Fresh nodes without a provider id (by uid) about which clouds were asked.
    asked: Mutex<Lru<String, ()>>,
}

/// The outcome of one reconcile.
enum NodeOutcome {
    /// Nothing is left to do.
    Done,
    /// Nothing can be done now; look again soon.
    Later,
    /// Another node is to be asked about first.
    Soon,
}

impl NodeController {
    /// A controller that has not started. Its watch and writes are given to it.
    pub fn new(
        nodes: Nodes,
        owners: OwnerDiscovery,
        writer: NodeWriter,
        recorder: Recorder,
        metrics: Arc<Metrics>,
        clock: Clock,
        options: NodeOptions,
    ) -> Arc<Self> {
        let known = nodes.clone();
        let lanes = owners.lanes(move |name: &String| known.get(name));
        let queue = WorkQueue::with_lanes("Nodes", Backoff::nodes(), &metrics.queues, lanes);
        let writing = (0..queue.lanes()).map(|_| Semaphore::new(options.concurrent_syncs));
        let writing = writing.collect();
        Arc::new(Self {
            nodes,
            owners,
            writer,
            recorder,
            metrics,
            clock,
            options,
            queue,
            writing,
            reported: Reported::new(REMEMBERED_NODES),
            applied: Mutex::new(Lru::new(REMEMBERED_NODES)),
            failures: Reported::new(REMEMBERED_NODES),
            asked: Mutex::new(Lru::new(REMEMBERED_NODES)),
        })
    }

    /// Works until `stop`, then finishes what is under way.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let (queue, machines) = (self.queue.clone(), self.owners.machines().clone());
        self.nodes.on_change(move |change| {
            if asks_for_reconcile(change) {
                queue.add(change.key.clone());
            }
            for rival in rivals(&machines, change) {
                queue.add(rival);
            }
        });
        for node in self.nodes.all() {
            self.queue.add(node.name.clone());
        }
        let reconcile = |work| self.clone().reconcile(work, stop.clone());
        tokio::join!(
            self.queue.serve(IN_FLIGHT_LIMIT, &stop, reconcile),
            self.follow_owners(&stop),
            self.keep_addresses(stop.clone())
        );
    }

    /// Looks again at nodes whose owners were found out, or could not be.
    async fn follow_owners(&self, stop: &CancellationToken) {
        let mut changes = self.owners.changes();
        while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
            for node in self.nodes.all() {
                if self.owners.was_asked(&node) {
                    self.queue.add(node.name.clone());
                }
            }
        }
    }

    async fn reconcile(self: Arc<Self>, work: Work<String>, stop: CancellationToken) {
        let name = work.key().clone();
        match self.sync(&name, work.lane(), &stop).await {
            Ok(NodeOutcome::Done) => work.succeeded(),
            Ok(NodeOutcome::Later) => work.again_after(STRANGER_PERIOD),
            Ok(NodeOutcome::Soon) => work.again_after(SOON),
            Err(error) => {
                let failures = self.queue.failures(&name) + 1;
                self.report(&name, &error, failures);
                work.failed();
                self.queue.add_after(name, STRANGER_PERIOD);
            }
        }
    }

    async fn sync(
        &self,
        name: &str,
        lane: usize,
        stop: &CancellationToken,
    ) -> Result<NodeOutcome, SyncError> {
        let Some(node) = self.nodes.get(name) else {
            return Ok(NodeOutcome::Done);
        };
        if node.is_uninitialized() {
            self.initialize(node, lane, stop).await
        } else {
            // Such a node is unmanaged, also when its machine is gone: that is reported.
            if let Some(ownership) = self.owners.doubt(&node) {
                self.report_unmanaged(&node, &ownership);
            }
            Box::pin(self.repair_labels(&node)).await?;
            Ok(NodeOutcome::Done)
        }
    }

    /// Copies the older of the paired labels to the newer ones, on nodes that a cloud here describes.
    async fn repair_labels(&self, node: &Node) -> Result<(), SyncError> {
        let repairs = stable_labels_to_repair(&node.labels);
        if repairs.is_empty() || self.owners.describer(node).is_none() {
            return Ok(());
        }
        debug!(node = node.name, labels = ?repairs, "repairing paired labels");
        match self.writer.set_labels(node, &repairs).await {
            Err(error) if error.is_not_found() => Ok(()),
            done => done.map(|_| ()).map_err(SyncError::Repair),
        }
    }

    fn report(&self, name: &str, error: &SyncError, failures: u32) {
        let text = error_chain(error);
        if let SyncError::Repair(_) = error {
            // The node is initialised, and works.
            warn!(
                node = name,
                failures,
                error = text,
                "labels not repaired; trying again"
            );
            return;
        }
        let cloud = self
            .nodes
            .get(name)
            .and_then(|node| self.describer_name(&node));
        self.metrics
            .clouds
            .initialization_failed(cloud.as_deref().unwrap_or("unknown"), error.reason());
        // Trouble that its cloud has a reason for is reported at once.
        if let SyncError::Lookup { source, .. } = error
            && let Some(node) = self.nodes.get(name)
            && let Some(reason) = source.event()
        {
            return self.report_once(&node, reason, source.chain());
        }
        if failures < FAILURES_BEFORE_WARNING {
            debug!(
                node = name,
                failures,
                error = text,
                "initialising failed; trying again"
            );
            return;
        }
        warn!(
            node = name,
            failures,
            error = text,
            "initialising keeps failing"
        );
        let node = self.nodes.get(name);
        let is_due = |node: &Arc<Node>| {
            let key = (node.uid.clone(), error.reason());
            self.failures.is_due(key, &(), FAILURE_PERIOD)
        };
        if let Some(node) = node.filter(is_due) {
            let (about, reason) = (versioned_node_reference(&node), "NodeInitializationFailed");
            let message = format!("Initialising keeps failing: {text}");
            self.recorder.emit(Fact::warning(about, reason, message));
        }
    }

    fn report_once(&self, node: &Node, reason: &'static str, text: String) {
        if self.reported.is_new(node.uid.clone(), &text) {
            let fact = Fact::warning(versioned_node_reference(node), reason, text);
            emit!(self.recorder, fact, node = node.name);
        }
    }

    fn describer_name(&self, node: &Node) -> Option<String> {
        self.owners
            .describer(node)
            .map(|it| it.cloud().name().to_string())
    }
}

/// The Nodes that show a machine which another one has begun or ceased to show.
fn rivals(machines: &Machines, change: &NodeChange) -> Vec<String> {
    let id = |node: &Option<Arc<Node>>| node.as_ref()?.provider_id.clone();
    if id(&change.before) == id(&change.after) {
        return Vec::new();
    }
    let shown = [&change.before, &change.after].into_iter().flatten();
    shown.flat_map(|node| machines.rivals(node)).collect()
}

/// An initialised node matters when something changed that labels depend on; a fresh one every
/// time it is seen, so that its kubelet's heartbeats ask for it again.
fn asks_for_reconcile(change: &NodeChange) -> bool {
    change
        .after
        .as_ref()
        .is_some_and(|node| node.is_uninitialized() || change.is_relevant())
}
