//! The service controller: load balancers for Services, planned, carried out and reported.
//!
//! ```text
//!  Services ─┐                     ┌──▶ gather ──▶ decide ──▶ execute ──▶ publish ──┐
//!  targets ──┼─▶ triggers ─▶ queue ┤    what is    core::     one command  Service, │
//!  accounts ─┤     (one key,       │    there now  reconcile  of a plan    events   │
//!  time ─────┘      one worker)    └────────────────── record ◀────────────────────┘
//! ```
//!
//! [`bowline_core::reconcile`] decides. It is asked before every command; first match wins:
//!
//! - *Nothing* happens to a Service that cannot be read, or that a restored API server lacks.
//! - *Remove the old first*: load balancers in other clouds, or of an earlier Service of that name, are removed
//!   first. The present Service is not written for an old one.
//! - *Add the finalizer*, then *plan*. A waiting plan continues when it is due, unless
//!   responsibility, Service or targets have changed.
//! - *Step by step*: before each step the plan must still hold; before one that interrupts traffic, with
//!   the present targets. A step that waits for the cloud holds no worker.
//! - *Publish*: annotations before the first and after every step, address and condition at the end.
//! - *Remove the finalizer* only after every cloud has shown that nothing is left.
//! - *Failures*: retry when the cloud says, at once for targets alone, else with back-off.
//!
//! One worker at a time has a Service. Each cloud has its own workers ([`lanes`]).
//!
//! | Module | Does |
//! |---|---|
//! | [`triggers`] | fills the queue |
//! | [`reconcile`] | drives the state machine |
//! | [`gather`], [`request`] | observe, and prepare plans |
//! | [`requirements`], [`account`] | hold plans back until enough is known |
//! | [`execute`] | runs steps; begins and ends removals, which [`gather`] plans |
//! | [`publish`], [`conditions`], [`report`] | write the Service, its condition and its events |
//! | [`state`] | keeps plans in flight |
//! | [`clouds`], [`targets`] | call clouds; guard the removal of targets |
//! | [`home`] | finds the cloud that already has a load balancer |
//! | [`orphans`], [`unserved`] | report load balancers without a Service (removed if the operator allows it), and Services without a cloud |
//! | [`errors`] | why a reconcile ends |

pub(crate) mod account;
pub(crate) mod clouds;
pub(crate) mod conditions;
mod errors;
mod execute;
mod gather;
mod home;
mod lanes;
mod orphans;
mod publish;
mod reconcile;
mod report;
pub(crate) mod request;
pub(crate) mod requirements;
mod state;
mod targets;
mod triggers;
mod unserved;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_core::{ServiceKey, TargetGuard, Unserved};
use bowline_http::{Clock, KeyedMutex, Random};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::{info, warn};

use self::clouds::ServiceClouds;
pub(crate) use self::clouds::balancer_clouds;
use self::requirements::KnownRequirements;
pub(crate) use self::requirements::cluster_uid;
use self::state::ServiceStates;
use crate::clouds::per_cloud::PerCloud;
use crate::clouds::resolver::OwnershipResolver;
use crate::kube::election::Fence;
use crate::kube::endpoints::Slices;
use crate::kube::events::Recorder;
use crate::kube::nodes::Nodes;
use crate::kube::services::Services;
use crate::kube::write::ServiceWriter;
use crate::metrics::Metrics;
use crate::queue::{Backoff, WorkQueue};
use crate::report::Reported;
use tokio_util::sync::CancellationToken;

/// Tries to learn the API server's version; it was well a moment ago.
const VERSION_TRIES: u32 = 5;
/// The pause between two of them.
const VERSION_PAUSE: Duration = Duration::from_secs(1);

/// Services without a cloud whose report is remembered; a forgotten one is reported again.
const UNSERVED_LIMIT: usize = 1000;

/// The settings of the controller.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Services of one cloud that are worked on at the same time (`--concurrent-service-syncs`).
    pub concurrent_syncs: usize,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// What the operator says instead of the uid of a namespace (`--cluster-uid`).
    pub cluster_uid: Option<String>,
    /// Whether load balancers with our mark and without a Service are removed
    /// (`--remove-orphaned-load-balancers`).
    pub remove_orphans: bool,
    /// Events that concern no Service are shown there.
    pub lease: ObjectReference,
}

/// What the controller reads and writes with.
pub struct ServiceParts {
    pub services: Services,
    pub nodes: Nodes,
    /// All EndpointSlices; followed only if some cloud needs them.
    pub slices: Slices,
    /// Writes Services.
    pub writer: ServiceWriter,
    /// Asks the API server for its version.
    pub client: kube::Client,
    /// Reads what watches do not bring, with the rights that they have.
    pub reader: kube::Client,
    /// Writes events.
    pub recorder: Recorder,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// The time of day.
    pub clock: Clock,
    /// Jitter.
    pub random: Random,
    /// Two configurations do not work on one Service at once.
    pub locks: KeyedMutex<String>,
    /// Which nodes have lost their owners.
    pub targets: PerCloud<TargetGuard>,
}

pub struct ServiceController {
    parts: ServiceParts,
    clouds: ServiceClouds,
    options: ServiceOptions,
    queue: WorkQueue<ServiceKey>,
    states: ServiceStates,
    known: KnownRequirements,
    /// By uid: why nobody serves a Service.
    unserved: Reported<String, Unserved>,
    /// Nodes changed, or the endpoints of a Service.
    targets_changed: Notify,
    /// Whether the API server knows `ipMode`.
    has_ip_mode: AtomicBool,
}

impl ServiceController {
    /// A controller that has not started; none of the clouds is called without a valid lease.
    pub fn new(
        parts: ServiceParts,
        resolver: &OwnershipResolver,
        fence: Fence,
        options: ServiceOptions,
    ) -> Arc<Self> {
        let clouds = ServiceClouds::new(resolver, fence)
            .noting(parts.metrics.cloud_health.clone())
            .guarding(parts.targets.clone());
        let states = ServiceStates::default();
        let lanes = lanes::of_services(&clouds, &states, &parts.services);
        let queues = &parts.metrics.queues;
        let queue = WorkQueue::with_lanes("service", Backoff::services(), queues, lanes);
        Arc::new(Self {
            clouds,
            parts,
            options,
            queue,
            states,
            known: KnownRequirements::default(),
            unserved: Reported::new(UNSERVED_LIMIT),
            targets_changed: Notify::new(),
            has_ip_mode: AtomicBool::new(true),
        })
    }

    /// Works until `stop`. A step that is under way is finished, no further one is begun.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let ready = async {
            // Without all nodes every set of targets would be too small.
            self.parts.nodes.synced().await;
            self.parts.services.synced().await;
            self.learn_version().await;
        };
        if stop.run_until_cancelled(ready).await.is_none() {
            return;
        }
        let mut learning = JoinSet::new();
        self.learn_cluster_uid(&mut learning, &stop);
        if stop.run_until_cancelled(self.know_soon()).await.is_none() {
            return;
        }
        self.listen();
        self.compare_all();
        let reconcile = |work| self.clone().reconcile(work, stop.clone());
        let at_once = self.options.concurrent_syncs;
        let sweeps = self
            .clouds
            .names()
            .all()
            .iter()
            .map(|it| self.sweep(it, &stop));
        // All of them end only when it is time to stop.
        tokio::join!(
            self.queue.serve(at_once, &stop, reconcile),
            self.follow_nodes(&stop),
            self.look_twice(&stop),
            self.follow_accounts(&stop),
            join_all(sweeps)
        );
        while learning.join_next().await.is_some() {}
    }

    /// Whether the API server knows `ipMode`: since 1.30.
    async fn learn_version(&self) {
        for _ in 0..VERSION_TRIES {
            match self.parts.client.apiserver_version().await {
                Ok(version) => {
                    let known = has_ip_mode(&version.major, &version.minor);
                    self.has_ip_mode.store(known, Ordering::Relaxed);
                    info!(version = version.git_version, ip_mode = known, "API server");
                    return;
                }
                Err(error) => warn!(%error, "the API server does not report its version"),
            }
            tokio::time::sleep(VERSION_PAUSE).await;
        }
        warn!("taking the API server for a current one");
    }

    fn has_ip_mode(&self) -> bool {
        self.has_ip_mode.load(Ordering::Relaxed)
    }
}

/// Versions are numbers, the minor one sometimes with a sign behind it (`33+`).
pub(crate) fn has_ip_mode(major: &str, minor: &str) -> bool {
    let number = |text: &str| -> Option<u32> {
        let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    match (number(major), number(minor)) {
        (Some(1), Some(minor)) => minor >= 30,
        // What cannot be read is taken for a current one.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_know_the_mode_of_an_address_since_1_30() {
        for (major, minor, known) in [
            ("1", "29", false),
            ("1", "29+", false),
            ("1", "30", true),
            ("1", "33+", true),
            ("1", "", true),
            ("2", "0", true),
        ] {
            assert_eq!(has_ip_mode(major, minor), known, "{major}.{minor}");
        }
    }
}
