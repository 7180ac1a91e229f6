//! The service controller: load balancers for Services, planned, carried out and told about.
//!
//! ```text
//!  Services ─▶ changed ─┐                       ┌─▶ draft ─▶ run ─▶ step ─▶ … ─▶ publish
//!  nodes ─▶ members ────┼─▶ queue ─▶ turn ───────┤    (the cloud reads,    │
//!  time ─▶ audit ───────┘    ▲    (one key,     └─▶ go on with what waited │
//!                            │     one worker)                             │
//!                            └───── waits, back-off, next comparison ◀─────┘
//! ```
//!
//! A Service is with one worker at a time, whatever the cause; each cloud has workers of its own ([`lanes`]). A step that waits for the cloud
//! holds no worker: its run is put aside and gone on with when it is due, unless the Service or
//! its members have changed meanwhile; then the plan is made anew.

pub(crate) mod account;
mod cleanup;
pub(crate) mod clouds;
pub(crate) mod conditions;
mod errors;
mod execute;
mod home;
mod lanes;
mod members;
mod orphans;
mod publish;
mod reconcile;
pub(crate) mod requirements;
mod state;
mod unserved;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_core::{Responsibility, Service, ServiceKey, TargetGuard, change_event, needs_update};
use bowline_http::{Clock, KeyedMutex, Random};
use futures::future::join_all;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::{info, warn};

use self::clouds::ServiceClouds;
pub(crate) use self::clouds::balancer_clouds;
use self::requirements::KnownRequirements;
pub(crate) use self::requirements::cluster_uid;
use self::state::{Memory, Triggers};
use self::unserved::Complaints;
use crate::clouds::per_cloud::PerCloud;
use crate::clouds::resolver::OwnershipResolver;
use crate::kube::election::Fence;
use crate::kube::endpoints::Slices;
use crate::kube::events::{EventType, Recorder};
use crate::kube::nodes::Nodes;
use crate::kube::services::{ServiceChange, Services};
use crate::kube::write::ServiceWriter;
use crate::metrics::Metrics;
use crate::queue::{Backoff, WorkQueue};
use crate::stop::Stop;

/// At the start, Services that seem to be right are compared with the cloud one by one, this far
/// apart on average, so that a restart is no flood of calls …
const START_SPREAD: Duration = Duration::from_millis(200);
/// … but all within this time.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Tries to learn the API server's version; it was well a moment ago.
const VERSION_TRIES: u32 = 5;
/// The pause between two of them.
const VERSION_PAUSE: Duration = Duration::from_secs(1);

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
    /// Namespace and name of the lease: events that concern no Service are shown there.
    pub lease: (String, String),
}

/// What the controller reads and writes with.
pub struct ServiceParts {
    /// All Services.
    pub services: Services,
    /// All nodes.
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
    /// Two shifts do not work on one Service at once.
    pub turns: KeyedMutex<String>,
    /// Which nodes have lost their owners.
    pub targets: PerCloud<TargetGuard>,
}

/// The controller.
pub struct ServiceController {
    parts: ServiceParts,
    clouds: ServiceClouds,
    options: ServiceOptions,
    queue: WorkQueue<ServiceKey>,
    memory: Memory,
    known: KnownRequirements,
    complaints: Complaints,
    /// Nodes changed, or the endpoints of a Service.
    members_changed: Notify,
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
        let memory = Memory::default();
        let lanes = lanes::of_services(&clouds, &memory, &parts.services);
        let queues = &parts.metrics.queues;
        let queue = WorkQueue::with_lanes("service", Backoff::services(), queues, lanes);
        Arc::new(Self {
            clouds,
            parts,
            options,
            queue,
            memory,
            known: KnownRequirements::default(),
            complaints: Complaints::default(),
            members_changed: Notify::new(),
            has_ip_mode: AtomicBool::new(true),
        })
    }

    /// Works until `stop`. A step that is under way is finished, no further one is begun.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let ready = async {
            // Without all nodes every set of members would be too small.
            self.parts.nodes.synced().await;
            self.parts.services.synced().await;
            self.learn_version().await;
        };
        if stop.unless_given(ready).await.is_none() {
            return;
        }
        let mut learning = JoinSet::new();
        self.learn_cluster_uid(&mut learning, &stop);
        if stop.unless_given(self.know_soon()).await.is_none() {
            return;
        }
        self.listen();
        self.compare_all();
        let turn = |work| {
            let (this, stop) = (self.clone(), stop.clone());
            async move { this.take_turn(work, &stop).await }
        };
        let at_once = self.options.concurrent_syncs;
        let sweeps = self
            .clouds
            .names()
            .all()
            .iter()
            .map(|it| self.sweep(it, &stop));
        // All of them end only when it is time to stop.
        tokio::join!(
            self.queue.serve(at_once, &stop, turn),
            self.follow_nodes(&stop),
            self.look_twice(&stop),
            self.follow_accounts(&stop),
            join_all(sweeps)
        );
        while learning.join_next().await.is_some() {}
    }

    fn listen(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        self.parts.services.on_change(move |change| {
            let Some(this) = this.upgrade() else { return };
            this.forget_endpoints_of(change);
            this.tell_change(change);
            this.wake_rivals(change);
            if this.concerns_us(change) {
                this.memory.add_cause(&change.key, Triggers::service());
                this.queue.add(change.key.clone());
            }
        });
        let this = Arc::downgrade(self);
        self.parts.slices.on_change(move |change| {
            if let Some(this) = this.upgrade() {
                this.follow_endpoints(change);
            }
        });
        let readiness = self.clouds.all_needs().readiness;
        let this = Arc::downgrade(self);
        self.parts.nodes.on_change(move |change| {
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            if let Some(this) = this.upgrade()
                && bowline_core::may_change_members(before, after, readiness)
            {
                this.members_changed.notify_one();
            }
        });
    }

    /// What only one Service can have is asked for, or not any more: whoever asks for the same hears of it.
    fn wake_rivals(&self, change: &ServiceChange) {
        let claims = |service: Option<&Arc<Service>>| match service
            .map(|it| (it, self.clouds.names().responsibility(it)))
        {
            Some((service, Responsibility::Ensure(cloud))) => {
                let balancers = self.clouds.balancers(&cloud);
                balancers.map_or_else(BTreeSet::new, |it| it.contends_for(service))
            }
            _ => BTreeSet::new(),
        };
        let (before, after) = (
            claims(change.before.as_ref()),
            claims(change.after.as_ref()),
        );
        if before == after {
            return;
        }
        let changed: BTreeSet<&String> = before.symmetric_difference(&after).collect();
        for other in self.parts.services.all() {
            let same = claims(Some(&other)).iter().any(|it| changed.contains(it));
            if same && other.key != change.key {
                self.memory.add_cause(&other.key, Triggers::service());
                self.queue.add(other.key.clone());
            }
        }
    }

    /// Whether a change of a Service asks for a turn. What we write ourselves does not.
    fn concerns_us(&self, change: &ServiceChange) -> bool {
        let known = self.memory.knows(&change.key);
        let Some(after) = &change.after else {
            return known;
        };
        let names = self.clouds.names();
        let (responsibility, unserved) = (names.responsibility(after), names.unserved(after));
        let concerned = known || responsibility != Responsibility::Nothing || unserved.is_some();
        let Some(before) = &change.before else {
            return concerned;
        };
        let as_before =
            names.responsibility(before) == responsibility && names.unserved(before) == unserved;
        if !as_before || before.uid != after.uid {
            return concerned;
        }
        let Responsibility::Ensure(cloud) = &responsibility else {
            return false;
        };
        let own = self.clouds.own_annotations(cloud);
        let published = self.memory.published(&change.key);
        let stripped = before.has_finalizer() && !after.has_finalizer();
        stripped || needs_update(before, after, own, &published)
    }

    /// Reports what the framework reports about a change, whether or not it asks for a turn.
    fn tell_change(&self, change: &ServiceChange) {
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            return;
        };
        let names = self.clouds.names();
        let ours = |service| matches!(names.responsibility(service), Responsibility::Ensure(_));
        if !ours(before) && !ours(after) || self.clouds.is_observing() {
            return;
        }
        if let Some((reason, text)) = change_event(before, after) {
            self.tell(after, EventType::Normal, reason, &text);
        }
    }

    /// Queues every Service at the start: at once where something is to be done, spread over some
    /// time where it seems to be right.
    fn compare_all(&self) {
        let all = self.parts.services.all();
        let names = self.clouds.names();
        let handled = |it: &&Arc<Service>| {
            names.responsibility(it) != Responsibility::Nothing || names.unserved(it).is_some()
        };
        let handled: Vec<&Arc<Service>> = all.iter().filter(handled).collect();
        let count = u32::try_from(handled.len()).unwrap_or(u32::MAX);
        let spread = START_SPREAD.saturating_mul(count).min(START_LIMIT);
        for service in handled {
            self.memory.add_cause(&service.key, Triggers::service());
            let settled =
                !service.deleting && service.has_finalizer() && !service.ingress.is_empty();
            if settled {
                let delay = spread.mul_f64(self.parts.random.unit());
                self.queue.add_after(service.key.clone(), delay);
            } else {
                self.queue.add(service.key.clone());
            }
        }
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
                Err(error) => warn!(%error, "the API server does not tell its version"),
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
