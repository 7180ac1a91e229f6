//! The node IPAM controller: gives every node its pod ranges, once and for good.
//!
//! ```text
//!  start ─▶ ranges (flags, clouds) ─▶ what nodes have is taken ─▶ ready
//!
//!  watch ─▶ queue ─▶ gather: networks of the node's machine (CloudAllocator alone)
//!                    decide:  core::ipam, behind one lock
//!                    execute: one write, guarded by the version that was read
//!                    publish: events, metrics; a failure is queued again
//! ```
//!
//! Nothing but the nodes themselves has to survive a crash. A write whose answer is lost keeps its
//! blocks with its node; and since every write is guarded by the version of the node, those of a
//! leader who was lost are made void before the first block is given ([`start`]).

mod reconcile;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::ipam::{Allocator, IpamFlags};
use bowline_core::{Cloud, Node, error_chain};
use bowline_http::KeyedMutex;
use tokio::sync::Semaphore;
use tracing::{debug, info, warn};

use self::reconcile::{AllocationError, AllocationOutcome};
use crate::clouds::owners::OwnerDiscovery;
use crate::kube::election::Fence;
use crate::kube::events::{Recorder, node_reference};
use crate::kube::nodes::{NodeChange, Nodes};
use crate::kube::write::NodeWriter;
use crate::metrics::Metrics;
use crate::queue::{Backoff, Work, WorkQueue};
use crate::report::Fact;
use crate::serving::Readiness;
use tokio_util::sync::CancellationToken;

/// Nodes of one cloud that are written at the same time, as many as in the originals.
const WRITES_AT_ONCE: usize = 30;
/// Nodes of one cloud that are reconciled at the same time: most wait for a machine or to be written, and a machine that does not
/// answer must delay no other. The largest supported cluster.
const IN_FLIGHT_LIMIT: usize = 5000;
/// The pause before a start that failed is tried again, as in the originals.
const START_PAUSE: Duration = Duration::from_secs(10);
/// A node whose reconcile keeps failing, or for which no block is left, is looked at this often. A block
/// that becomes free wakes the next one at once.
const RETRY_PERIOD: Duration = Duration::from_secs(60);
/// The component of events, as people filter by it.
pub const COMPONENT: &str = "cidrAllocator";

/// What the controller is made of.
pub struct IpamParts {
    pub nodes: Nodes,
    /// Their owners.
    pub owners: OwnerDiscovery,
    /// All clouds; some may know the cluster's ranges.
    pub clouds: Vec<Arc<dyn Cloud>>,
    /// In front of every question to them.
    pub fence: Fence,
    /// Whether a leader before may have left writes under way.
    pub may_follow_unfinished_writes: bool,
    /// Writes nodes.
    pub writer: NodeWriter,
    pub recorder: Recorder,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Whether it has started.
    pub readiness: Readiness,
    /// What the command line says.
    pub flags: IpamFlags,
    /// Two configurations do not give out pod ranges at once.
    pub locks: KeyedMutex<String>,
}

pub struct IpamController {
    parts: IpamParts,
    queue: WorkQueue<String>,
    /// For each lane of the queue, who may write.
    writing: Vec<Semaphore>,
    state: Mutex<IpamState>,
}

/// What is known of pod ranges.
#[derive(Default)]
struct IpamState {
    /// None until the start has succeeded.
    allocator: Option<Allocator>,
    /// Nodes for which no block was left.
    waiting: BTreeSet<String>,
    /// Nodes that cannot be read and never could: what they have is not known.
    unread: BTreeSet<String>,
}

impl IpamController {
    /// A controller that has not started.
    pub fn new(parts: IpamParts) -> Arc<Self> {
        let queues = &parts.metrics.queues;
        let nodes = parts.nodes.clone();
        let lanes = parts.owners.lanes(move |name: &String| nodes.get(name));
        let queue = WorkQueue::with_lanes("cidrallocator_node", Backoff::nodes(), queues, lanes);
        let writing = (0..queue.lanes()).map(|_| Semaphore::new(WRITES_AT_ONCE));
        Arc::new(Self {
            writing: writing.collect(),
            queue,
            parts,
            state: Mutex::default(),
        })
    }

    /// Works until `stop`, then finishes what is under way.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let lock = self.parts.locks.lock("pod ranges".to_owned());
        let Some(_lock) = stop.run_until_cancelled(lock).await else {
            return;
        };
        // From before the start on, so that nothing is missed between it and the first reconcile.
        let queue = self.queue.clone();
        self.parts.nodes.on_change(move |change| {
            if asks_for_reconcile(change) {
                queue.add(change.key.clone());
            }
        });
        if stop.run_until_cancelled(self.start()).await.is_none() {
            return;
        }
        for node in self.parts.nodes.all() {
            self.queue.add(node.name.clone());
        }
        let reconcile = |work| self.clone().reconcile(work, stop.clone());
        self.queue.serve(IN_FLIGHT_LIMIT, &stop, reconcile).await;
    }

    async fn reconcile(self: Arc<Self>, work: Work<String>, stop: CancellationToken) {
        let name = work.key().clone();
        match self.sync(&name, work.lane(), &stop).await {
            Ok(AllocationOutcome::Done) => work.succeeded(),
            Ok(AllocationOutcome::Later) => work.again_after(RETRY_PERIOD),
            Err(error) => {
                self.report(&name, &error);
                work.failed();
                self.queue.add_after(name, RETRY_PERIOD);
            }
        }
    }

    fn report(&self, name: &str, error: &AllocationError) {
        let text = error_chain(error);
        let failures = self.queue.failures(&name.to_owned()) + 1;
        // The first of a row is worth a line; the others are the same.
        if failures == 1 {
            warn!(node = name, error = text, "no pod range yet; trying again");
        } else {
            debug!(node = name, failures, error = text, "no pod range yet");
        }
    }

    /// Reports a node's state in the originals' words.
    fn report_state(&self, node: &Node, reason: &'static str) {
        let message = format!("Node {} status is now: {reason}", node.name);
        let fact = Fact::normal(node_reference(node), reason, message);
        self.parts.recorder.emit(fact);
    }

    /// Does something with the allocator, alone, and counts what became of it. None before the start.
    fn with<T>(&self, act: impl FnOnce(&mut Allocator) -> T) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let allocator = state.allocator.as_mut()?;
        let done = act(allocator);
        self.count(allocator);
        Some(done)
    }

    fn count(&self, allocator: &mut Allocator) {
        for (range, report) in allocator.take_reports() {
            let metrics = &self.parts.metrics.ipam;
            metrics.happened(&range.to_string(), &report);
        }
    }

    /// A block is free: one node that waits for one is queued.
    fn wake_one(&self) {
        let next = self.with_state(|state| state.waiting.pop_first());
        if let Some(name) = next {
            self.queue.add(name);
        }
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut IpamState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn has_started(&self, allocator: Allocator) {
        let ranges: BTreeMap<String, u64> = allocator
            .sets()
            .map(|set| (set.range().to_string(), set.blocks() - set.used()))
            .collect();
        info!(free = ?ranges, "allocating pod ranges");
        self.with_state(|state| state.allocator = Some(allocator));
        self.with(|_| ());
        self.parts.readiness.ready();
    }
}

/// A node matters when it comes or goes, when its pod ranges change, and as long as it has none.
fn asks_for_reconcile(change: &NodeChange) -> bool {
    change.differs(|before, after| {
        before.uid != after.uid
            || before.pod_cidrs != after.pod_cidrs
            || (after.pod_cidrs.is_empty() && change.is_relevant())
    })
}
