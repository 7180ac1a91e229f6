//! The route controller: a route from each pod range to its node, and the node's condition
//! `NetworkUnavailable`.
//!
//! ```text
//!  a node comes, goes, ─┐
//!  has another range,   │            gather:  the nodes, the cloud's survey
//!  address or owner     ├─▶ round ─▶ decide:  core::routes
//!  a failure is over,   │            execute: steps, at most 200 calls at once
//!  a while has passed ──┘            publish: conditions, events, metrics (publish)
//! ```
//!
//! Each cloud with routes has its own rounds: one at a time, and at most one in a period. A destination
//! that fails is retried by itself, with back-off. Nothing has to survive a crash: each round begins
//! with the routes that exist.

mod execute;
mod publish;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::routes::{
    Allowance, HeldBack, ObservedRoutes, Question, RouteNodes, Routes, decide,
};
use bowline_core::{AccountState, Cloud, CloudError, CloudErrorKind, Node};
use bowline_http::{Clock, KeyedMutex, Random};
use futures::FutureExt as _;
use futures::future::join_all;
use ipnet::IpNet;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::clouds::caller::CloudCaller;
use crate::clouds::cloud_health::Purpose;
use crate::clouds::per_cloud::PerCloud;
use crate::clouds::resolver::{CloudRules, OwnershipResolver};
use crate::kube::events::Recorder;
use crate::kube::nodes::{NodeChange, Nodes};
use crate::kube::write::NodeWriter;
use crate::metrics::Metrics;
use crate::queue::Backoff;
use crate::report::Reported;
use crate::serving::Readiness;
use tokio_util::sync::CancellationToken;

/// The component of events, as people filter by it.
pub const COMPONENT: &str = "route_controller";
/// How long the first change waits for company: a new node changes several times within a second,
/// and nodes come in groups.
const COMPANY: Duration = Duration::from_secs(1);
/// A round without any cause: it repairs what somebody else did to routes or conditions. A list call
/// in five minutes is nothing to any cloud.
const SLOW_PERIOD: Duration = Duration::from_secs(300);
/// The longest pause before something that fails is tried again. Nobody reports that a quota was raised.
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// Reports that are not repeated: one for each node of the largest supported cluster and each of its two ranges.
const REPORTED_LIMIT: usize = 10_000;
/// Routes held back that one line of the log names.
const NAMED_LIMIT: usize = 10;

/// What the controller is made of.
pub struct RouteParts {
    pub nodes: Nodes,
    /// Decides among all clouds: those without routes own nodes too.
    pub resolver: OwnershipResolver,
    pub caller: CloudCaller,
    /// Writes nodes.
    pub writer: NodeWriter,
    pub recorder: Recorder,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// The time of day.
    pub clock: Clock,
    /// Jitter.
    pub random: Random,
    /// Whether any cloud's routes were seen once.
    pub readiness: Readiness,
    /// What went so far of what nobody needs: a change of configuration gives nobody a new allowance.
    pub allowances: PerCloud<Allowance>,
    /// Two configurations do not write the routes of one cloud at once.
    pub locks: KeyedMutex<String>,
}

/// The settings of the controller.
#[derive(Clone, Debug)]
pub struct RouteOptions {
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`.
    pub ranges: Vec<IpNet>,
    /// The least time from one round to the next (`--route-reconciliation-period`).
    pub period: Duration,
    /// The pace at which routes go that nobody needs.
    pub rules: CloudRules,
}

pub struct RouteController {
    parts: RouteParts,
    options: RouteOptions,
    /// Whether the routes of any cloud were ever seen. The others are reported by themselves.
    is_seen: AtomicBool,
}

/// What is remembered about one cloud from round to round.
struct CloudRoutes<'a> {
    cloud: &'a Arc<dyn Cloud>,
    routes: &'a dyn Routes,
    woken: Arc<Notify>,
    allowance: Arc<Mutex<Allowance>>,
    /// Of destinations (and their tables) that could not be put right.
    backoff: Backoff<(String, String)>,
    due: BTreeMap<(String, String), Instant>,
    /// Rounds in a row in which not everything could be found out.
    unclear: u32,
    reported: Reported<RouteTopic>,
}

/// What reports of one cloud's routes are about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum RouteTopic {
    /// A node (uid), by reason.
    Node(String, &'static str),
    /// What an observer does not do at a destination, and in its table.
    Withheld((String, String)),
    /// Why routes cannot be seen now.
    Trouble,
    /// The unneeded routes that are held back.
    HeldBack,
}

/// When the next round is.
struct Pause {
    length: Duration,
    cause: &'static str,
    /// Whether changes of nodes do not matter meanwhile.
    is_deaf: bool,
}

impl RouteController {
    /// Whether any cloud has routes.
    pub fn has_work(clouds: &[Arc<dyn Cloud>]) -> bool {
        clouds.iter().any(|cloud| cloud.routes().is_some())
    }

    /// A controller that has not started.
    pub fn new(parts: RouteParts, options: RouteOptions) -> Self {
        Self {
            parts,
            options,
            is_seen: AtomicBool::new(false),
        }
    }

    /// Works until `stop`. A write that is under way is finished, nothing further is begun.
    pub async fn run(self, stop: CancellationToken) {
        let mut states = Vec::new();
        for cloud in self.parts.resolver.clouds() {
            if let Some(routes) = cloud.routes() {
                states.push(self.state(cloud, routes));
            }
        }
        let woken: Vec<Arc<Notify>> = states.iter().map(|state| state.woken.clone()).collect();
        self.parts.nodes.on_change(move |change| {
            if asks_for_round(change) {
                for it in &woken {
                    it.notify_one();
                }
            }
        });
        let this = &self;
        join_all(states.into_iter().map(|state| this.keep(state, &stop))).await;
    }

    fn state<'a>(&self, cloud: &'a Arc<dyn Cloud>, routes: &'a dyn Routes) -> CloudRoutes<'a> {
        let policy = self.options.rules.guard_of(cloud.name());
        let make = || Allowance::new(policy.clone());
        let allowance = self.parts.allowances.of(cloud.name(), make);
        lock(&allowance).insist_on(policy.clone());
        CloudRoutes {
            cloud,
            routes,
            woken: Arc::default(),
            allowance,
            backoff: Backoff::exponential(self.options.period, LONGEST_RETRY),
            due: BTreeMap::new(),
            unclear: 0,
            reported: Reported::new(REPORTED_LIMIT),
        }
    }

    /// A round right away, and further ones when there is a cause.
    async fn keep(&self, mut state: CloudRoutes<'_>, stop: &CancellationToken) {
        let Some(()) = stop.run_until_cancelled(self.parts.nodes.synced()).await else {
            return;
        };
        let lock = self
            .parts
            .locks
            .lock(format!("routes of {}", state.cloud.name()));
        let Some(_lock) = stop.run_until_cancelled(lock).await else {
            return;
        };
        self.advise(&state);
        let mut cause = "start";
        while !stop.is_cancelled() {
            let begun = Instant::now();
            // Whatever changed so far is seen in this round.
            let _changed = state.woken.notified().now_or_never();
            let pause = self.round(&mut state, cause, stop).await;
            let waiting = self.pause(&state, begun, pause);
            match stop.run_until_cancelled(waiting).await {
                Some(next) => cause = next,
                None => return,
            }
        }
    }

    /// Ends when it is time for another round, with its cause.
    async fn pause(&self, state: &CloudRoutes<'_>, begun: Instant, pause: Pause) -> &'static str {
        let soonest = begun + self.options.period;
        let cause = tokio::select! {
            biased;
            () = state.woken.notified(), if !pause.is_deaf => {
                tokio::time::sleep(COMPANY).await;
                "change"
            }
            () = tokio::time::sleep(pause.length) => pause.cause,
        };
        tokio::time::sleep_until(soonest).await;
        cause
    }

    async fn round(
        &self,
        state: &mut CloudRoutes<'_>,
        cause: &'static str,
        stop: &CancellationToken,
    ) -> Pause {
        let metrics = &self.parts.metrics.routes;
        metrics.begin();
        let name = state.cloud.name().as_str();
        let nodes = self.route_nodes(state.cloud);
        let question = nodes.question(&self.options.cluster_name, &self.options.ranges);
        let looking = self.look(state, &question);
        let survey = match stop.run_until_cancelled(looking).await {
            Some(Ok(survey)) => survey,
            Some(Err(error)) => {
                metrics.round(name, cause, "failed");
                return self.not_seen(state, &error);
            }
            None => return self.next(state, false),
        };
        self.note_seen(state);
        let now = Instant::now().into_std();
        let mut decision = decide(&nodes, &self.options.ranges, &survey, |routes| {
            lock(&state.allowance).left(routes, now)
        });
        self.report_held(state, &decision.held);
        let changes = std::mem::take(&mut decision.changes);
        self.execute(state, &question, changes, &mut decision, stop)
            .await;
        let is_published = stop.is_cancelled() || self.publish(state, &nodes, &decision).await;
        metrics.round(name, cause, "done");
        self.next(state, decision.is_unclear || !is_published)
    }

    /// All nodes, sorted by owner.
    fn route_nodes(&self, cloud: &Arc<dyn Cloud>) -> RouteNodes {
        let view = self.parts.nodes.view();
        let node_owner = |node: &Node| self.parts.resolver.node_owner(node, cloud.name());
        RouteNodes::new(view.objects.values(), &view.unreadable, node_owner)
    }

    async fn look(
        &self,
        state: &CloudRoutes<'_>,
        question: &Question,
    ) -> Result<ObservedRoutes, CloudError> {
        let accounts = &self.parts.metrics.accounts;
        if accounts.first_look(state.cloud).await == AccountState::Contradicted {
            let text = "the credentials seem to be of another account, which event \
                        AccountContradicted on the lease explains";
            return Err(CloudError::new(CloudErrorKind::Unavailable, text));
        }
        let survey = state.routes.survey(question);
        let seen = self.parts.caller.read("looking at the routes", survey);
        let seen = seen.await.flatten();
        // Also that there can be none: somebody has asked for routes.
        let cloud_health = &self.parts.metrics.cloud_health;
        cloud_health.note_as_it_is(state.cloud, Purpose::Routes, seen.as_ref().err());
        seen
    }

    fn note_seen(&self, state: &mut CloudRoutes<'_>) {
        if state.reported.forget(&RouteTopic::Trouble) {
            info!(cloud = %state.cloud.name(), "routes can be seen again");
        }
        self.is_seen.store(true, Ordering::Relaxed);
        self.parts.readiness.ready();
    }

    /// The cloud could not be asked, or says that there can be no routes.
    fn not_seen(&self, state: &mut CloudRoutes<'_>, error: &CloudError) -> Pause {
        let text = error.chain();
        let cloud = state.cloud.name();
        if state.reported.is_new(RouteTopic::Trouble, &text) {
            warn!(%cloud, error = text, "routes cannot be seen; nothing is changed");
        } else {
            debug!(%cloud, error = text, "routes cannot be seen");
        }
        if !self.is_seen.load(Ordering::Relaxed) {
            self.parts.readiness.not_ready(format!("{cloud}: {text}"));
        }
        if error.kind() == CloudErrorKind::Invalid {
            return Pause {
                length: SLOW_PERIOD,
                cause: "period",
                is_deaf: true,
            };
        }
        let mut pause = self.next(state, true);
        pause.length = pause.length.max(error.retry_hint().unwrap_or_default());
        pause
    }

    /// When the next round is: soon, if something failed or was not clear.
    fn next(&self, state: &mut CloudRoutes<'_>, is_unclear: bool) -> Pause {
        let now = Instant::now();
        let mut length = self.parts.random.jitter(SLOW_PERIOD, 0.1);
        let mut cause = "period";
        state.unclear = if is_unclear { state.unclear + 1 } else { 0 };
        let again = is_unclear.then(|| {
            let factor = 1_u32 << (state.unclear - 1).min(10);
            (self.options.period * factor).min(LONGEST_RETRY)
        });
        let due = state.due.values().min();
        let due = due.map(|at| at.saturating_duration_since(now));
        for sooner in [again, due].into_iter().flatten() {
            if sooner < length {
                (length, cause) = (sooner, "retry");
            }
        }
        Pause {
            length,
            cause,
            is_deaf: false,
        }
    }

    /// Reports once which routes stay although nobody seems to need them.
    fn report_held(&self, state: &CloudRoutes<'_>, held: &[HeldBack]) {
        let cloud = state.cloud.name();
        self.parts.metrics.routes.held(cloud.as_str(), held.len());
        let named = held.iter().take(NAMED_LIMIT);
        let lines: Vec<String> = named
            .map(|it| format!("{} ({})", it.route, it.why))
            .collect();
        let text = lines.join(", ");
        if held.is_empty() {
            state.reported.forget(&RouteTopic::HeldBack);
        } else if state.reported.is_new(RouteTopic::HeldBack, &text) {
            warn!(%cloud, routes = held.len(), "unneeded routes held back: {text}");
        }
    }
}

fn lock(allowance: &Mutex<Allowance>) -> MutexGuard<'_, Allowance> {
    allowance.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A node matters when it comes or goes, and when its ranges, its addresses or its owner change.
fn asks_for_round(change: &NodeChange) -> bool {
    change.differs(|before, after| {
        before.uid != after.uid
            || before.pod_cidrs != after.pod_cidrs
            || before.addresses != after.addresses
            || before.provider_id != after.provider_id
    })
}
