//! The controller that approves serving certificates of kubelets.
//!
//! ```text
//!  watch ─▶ queue ─▶ gather: what does it ask for? which cloud owns the node? what has its machine?
//!                    decide:  core::recognise_certificate, core::decide_certificate
//!                    execute: one write of the decision, with the version that was read
//!                    publish: event, metrics, log; what does not fit yet is queued again
//! ```
//!
//! A node asks before its addresses are published. A request that does not fit yet stays pending, and is
//! reconciled again when its Node changes and after a while. Requests are denied only where the rules of
//! the cloud say so.

mod clouds;
mod cluster;
mod publish;
mod read;
mod reconcile;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{Cloud, TokenBucket, node_of};
use bowline_http::Clock;

use self::clouds::CertificateClouds;
use self::cluster::ClusterReader;
use self::reconcile::RequestOutcome;
use crate::clouds::resolver::OwnershipResolver;
use crate::kube::clients::ServerNames;
use crate::kube::csr_store::{CertificateRequests, RequestChange};
use crate::kube::election::Fence;
use crate::kube::events::Recorder;
use crate::kube::nodes::{NodeChange, Nodes};
use crate::kube::write::CertificateWriter;
use crate::metrics::Metrics;
use crate::queue::{Backoff, Lanes, Work, WorkQueue};
use crate::report::Reported;
use tokio_util::sync::CancellationToken;

/// Requests of one cloud's nodes that are worked on at the same time: each costs one write, and the questions to a cloud
/// share their answers.
const IN_FLIGHT_LIMIT: usize = 16;
/// The first wait for a request that is not right yet; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// A kubelet waits for 15 minutes, people for one; machines that were silent are asked again so often.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Looks at requests that were not right before: ten a second, a hundred at once.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const LOOKS_AT_ONCE: u32 = 100;
/// Requests that are remembered to have been reported: two for each node of the largest supported cluster.
const REPORTED_LIMIT: usize = 10_000;

/// What the controller is made of.
pub struct CertificateParts {
    /// The requests, followed by somebody else.
    pub requests: CertificateRequests,
    /// The nodes, likewise.
    pub nodes: Nodes,
    /// Reads what is the cluster's own.
    pub reader: kube::Client,
    /// What the API server is called.
    pub server: ServerNames,
    /// What the operator reserves (`--reserved-names`).
    pub reserved: Vec<String>,
    /// Writes decisions.
    pub writer: CertificateWriter,
    /// Writes events.
    pub recorder: Recorder,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// The time of day.
    pub clock: Clock,
}

/// What the controller works with.
pub struct CertificateController {
    requests: CertificateRequests,
    nodes: Nodes,
    clouds: CertificateClouds,
    cluster: ClusterReader,
    writer: CertificateWriter,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    clock: Clock,
    queue: WorkQueue<String>,
    waiting: Arc<Waiting>,
    /// Why requests (by uid) are pending.
    reported: Reported<String>,
}

/// The requests that wait for something about their node, by its name.
#[derive(Default)]
struct Waiting(Mutex<BTreeMap<String, BTreeSet<String>>>);

impl CertificateController {
    /// A controller that has not started. `is_named` says that it was asked for on the command
    /// line, and not only switched on by a cloud.
    pub fn new(
        parts: CertificateParts,
        resolver: &OwnershipResolver,
        is_named: bool,
        fence: Fence,
    ) -> Arc<Self> {
        let CertificateParts {
            requests,
            nodes,
            reader,
            server,
            reserved,
            writer,
            recorder,
            metrics,
            clock,
        } = parts;
        let backoff = Backoff::exponential(FIRST_WAIT, LONGEST_WAIT)
            .limited_by(TokenBucket::new(LOOK_INTERVAL, LOOKS_AT_ONCE));
        let clouds =
            CertificateClouds::new(resolver, is_named, fence).noting(metrics.cloud_health.clone());
        let lanes = lanes(&clouds, &requests, &nodes);
        let queue = WorkQueue::with_lanes("certificate", backoff, &metrics.queues, lanes);
        Arc::new(Self {
            requests,
            nodes,
            cluster: ClusterReader::new(reader, server, clouds.clone(), &reserved),
            clouds,
            writer,
            recorder,
            metrics,
            clock,
            queue,
            waiting: Arc::default(),
            reported: Reported::new(REPORTED_LIMIT),
        })
    }

    /// Whether any of these clouds approves, if it was asked for by name or not.
    pub fn has_work(clouds: &[Arc<dyn Cloud>], is_named: bool) -> bool {
        let mut offered = clouds.iter().filter_map(|it| it.serving_certificates());
        offered.any(|it| is_named || it.is_default_on())
    }

    /// Works until `stop`, then finishes what is under way.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let (queue, waiting) = (self.queue.clone(), self.waiting.clone());
        self.requests.on_change(move |change| {
            if !waiting.forgets(change) {
                queue.add(change.key.clone());
            }
        });
        let (queue, waiting) = (self.queue.clone(), self.waiting.clone());
        self.nodes.on_change(move |change: &NodeChange| {
            if change.is_relevant() {
                for request in waiting.of(&change.key) {
                    queue.forget(&request);
                    queue.add(request);
                }
            }
        });
        // A request that is looked at before the nodes are known would wait for nothing.
        let Some(()) = stop.run_until_cancelled(self.nodes.synced()).await else {
            return;
        };
        for request in self.requests.all() {
            self.queue.add(request.name.clone());
        }
        let reconcile = |work| self.clone().reconcile(work, stop.clone());
        self.queue.serve(IN_FLIGHT_LIMIT, &stop, reconcile).await;
    }

    async fn reconcile(self: Arc<Self>, work: Work<String>, stop: CancellationToken) {
        let name = work.key().clone();
        // Before the look: what changes during it is a change since then.
        let node = self.requests.get(&name);
        let node = node.and_then(|it| node_of(&it.username).map(str::to_owned));
        if let Some(node) = &node {
            self.waiting.add(node, &name);
        }
        match self.sync(&name, &stop).await {
            Ok(RequestOutcome::Waiting) => drop(work.failed()),
            Ok(RequestOutcome::Settled) => {
                if let Some(node) = &node {
                    self.waiting.remove(node, &name);
                }
                work.succeeded();
            }
            Err(error) => {
                let failures = self.queue.failures(&name) + 1;
                self.report_failed(&name, &error, failures);
                work.failed();
            }
        }
    }
}

/// The lanes of requests: whose node asks.
fn lanes(
    clouds: &CertificateClouds,
    requests: &CertificateRequests,
    nodes: &Nodes,
) -> Lanes<String> {
    let (deciding, requests, nodes) = (clouds.clone(), requests.clone(), nodes.clone());
    Lanes::of_clouds(clouds.names(), move |name: &String| {
        let request = requests.get(name)?;
        let node = node_of(&request.username).and_then(|name| nodes.get(name));
        let cloud = deciding.spokesman(node.as_deref())?;
        Some(cloud.name().clone())
    })
}

impl Waiting {
    fn add(&self, node: &str, request: &str) {
        let mut all = self.lock();
        all.entry(node.to_owned())
            .or_default()
            .insert(request.to_owned());
    }

    fn remove(&self, node: &str, request: &str) {
        let mut all = self.lock();
        if let Some(requests) = all.get_mut(node) {
            requests.remove(request);
            if requests.is_empty() {
                all.remove(node);
            }
        }
    }

    fn of(&self, node: &str) -> Vec<String> {
        let all = self.lock();
        all.get(node).into_iter().flatten().cloned().collect()
    }

    /// Whether the change leaves nothing to do: the request is gone or decided.
    fn forgets(&self, change: &RequestChange) -> bool {
        let is_open = |it: &&Arc<crate::Requested>| it.conditions.is_empty() && !it.is_issued;
        if change.after.as_ref().is_some_and(|it| is_open(&it)) {
            return false;
        }
        let known = change.before.as_ref().or(change.after.as_ref());
        if let Some(node) = known.and_then(|it| node_of(&it.username)) {
            self.remove(node, &change.key);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
