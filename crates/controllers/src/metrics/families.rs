//! The families themselves, grouped by the part that observes them.
//!
//! Fields of a label struct stand in alphabetical order, which is the order on the wire.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Seconds a new node waits: powers of four.
const NODE_DELAYS: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];
/// Seconds of one life-cycle round: powers of two from a millisecond.
const ROUNDS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];
/// Seconds of a call to the Kubernetes API.
const CALLS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];
/// Bytes of a body.
const BODIES: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];
/// Seconds of a token or access review.
const REVIEWS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

/// Makes histograms with fixed upper bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds(&'static [f64]);

impl MetricConstructor<Histogram> for Bounds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// A labelled histogram with fixed upper bounds.
#[derive(Clone, Debug)]
pub(super) struct HistogramFamily<L>(Family<L, Histogram, Bounds>);

impl<L: Clone + std::hash::Hash + Eq> HistogramFamily<L> {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self(Family::new_with_constructor(Bounds(bounds)))
    }

    pub(super) fn family(&self) -> Family<L, Histogram, Bounds> {
        self.0.clone()
    }

    pub(super) fn with(&self, labels: &L) -> Histogram {
        self.0.get_or_create_owned(labels)
    }
}

fn histogram(registry: &mut Registry, name: &str, help: &str, bounds: &'static [f64]) -> Histogram {
    let histogram = Histogram::new(bounds.iter().copied());
    registry.register(name, help, histogram.clone());
    histogram
}

fn histograms<L>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    bounds: &'static [f64],
) -> HistogramFamily<L>
where
    L: EncodeLabelSet + Clone + std::hash::Hash + Eq + Send + Sync + std::fmt::Debug + 'static,
{
    let family = HistogramFamily::new(bounds);
    registry.register(name, help, family.family());
    family
}

fn family<L, M>(registry: &mut Registry, name: &str, help: &str) -> Family<L, M>
where
    L: EncodeLabelSet + Clone + std::hash::Hash + Eq + Send + Sync + std::fmt::Debug + 'static,
    M: Default
        + prometheus_client::encoding::EncodeMetric
        + prometheus_client::metrics::TypedMetric
        + Send
        + Sync
        + std::fmt::Debug
        + 'static,
{
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

/// Initialisation of nodes.
#[derive(Clone, Debug)]
pub struct NodeMetrics {
    /// Seconds from a node's creation to the removal of its cloud taint.
    pub taint_removal_delay: Histogram,
    /// Seconds from a node's creation to the end of its initialisation.
    pub initial_sync_delay: Histogram,
}

impl NodeMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            taint_removal_delay: histogram(
                registry,
                "node_controller_cloud_provider_taint_removal_delay_seconds",
                "Seconds from the creation of a node to the removal of its cloud taint",
                &NODE_DELAYS,
            ),
            initial_sync_delay: histogram(
                registry,
                "node_controller_initial_node_sync_delay_seconds",
                "Seconds from the creation of a node to the end of its initialisation",
                &NODE_DELAYS,
            ),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    operation: &'static str,
    result: &'static str,
}

/// The life-cycle loop.
#[derive(Clone, Debug)]
pub struct LifecycleMetrics {
    /// Seconds of one round.
    pub round: Histogram,
    calls: Family<CallLabels, Counter>,
}

impl LifecycleMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            round: histogram(
                registry,
                "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds",
                "Seconds of one round over all nodes",
                &ROUNDS,
            ),
            calls: family(
                registry,
                "cloud_node_lifecycle_controller_cloud_provider_calls",
                "Questions to the cloud about nodes",
            ),
        }
    }

    /// Counts a question to the cloud: operation `instance_exists`, `instance_shutdown` or
    /// `instance_metadata`; result `success`, `error`, `instance_not_found`, `not_implemented` or
    /// `canceled`.
    pub fn call(&self, operation: &'static str, result: &'static str) {
        self.calls
            .get_or_create(&CallLabels { operation, result })
            .inc();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloudLabels {
    cloud: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloudReasonLabels {
    cloud: String,
    reason: &'static str,
}

/// What each cloud owns and what is held back there (our own families).
#[derive(Clone, Debug)]
pub struct CloudMetrics {
    held: Family<CloudReasonLabels, Gauge>,
    failures: Family<CloudReasonLabels, Counter>,
    owned: Family<CloudLabels, Gauge>,
}

impl CloudMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            held: family(
                registry,
                "bowline_guard_held_nodes",
                "Nodes whose deletion the guard holds back, by reason",
            ),
            failures: family(
                registry,
                "bowline_node_initialization_failures",
                "Failed initialisations of nodes, by reason",
            ),
            owned: family(
                registry,
                "bowline_nodes_owned",
                "Nodes that a cloud is responsible for",
            ),
        }
    }

    /// How many nodes of that cloud the guard holds back for that reason.
    pub fn guard_held(&self, cloud: &str, reason: &'static str, nodes: usize) {
        let cloud = cloud.to_owned();
        let labels = CloudReasonLabels { cloud, reason };
        self.held.get_or_create(&labels).set(count(nodes));
    }

    /// Counts a failed initialisation.
    pub fn initialization_failed(&self, cloud: &str, reason: &'static str) {
        let cloud = cloud.to_owned();
        let labels = CloudReasonLabels { cloud, reason };
        self.failures.get_or_create(&labels).inc();
    }

    /// How many nodes that cloud is responsible for.
    pub fn nodes_owned(&self, cloud: &str, nodes: usize) {
        let cloud = cloud.to_owned();
        self.owned
            .get_or_create(&CloudLabels { cloud })
            .set(count(nodes));
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    manager: &'static str,
    name: String,
}

/// `running_managed_controllers`.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    running: Family<ControllerLabels, Gauge>,
}

impl ControllerMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            running: family(
                registry,
                "running_managed_controllers",
                "Whether a controller runs in this process",
            ),
        }
    }

    /// That controller (`cloud-node`, `service`, …) started or stopped.
    pub fn running(&self, name: &str, running: bool) {
        let labels = ControllerLabels {
            manager: "cloud-controller-manager",
            name: name.to_owned(),
        };
        self.running.get_or_create(&labels).set(running.into());
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: String,
}

/// Leader election.
#[derive(Clone, Debug)]
pub struct ElectionMetrics {
    master: Family<LeaseLabels, Gauge>,
    slowpath: Family<LeaseLabels, Counter>,
}

impl ElectionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            master: family(
                registry,
                "leader_election_master_status",
                "Whether this process holds the lease",
            ),
            slowpath: family(
                registry,
                "leader_election_slowpath",
                "Renewals of the lease that needed to read it first",
            ),
        }
    }

    /// Whether this process holds the lease of that name. Called with `false` at the start.
    pub fn leading(&self, lease: &str, leading: bool) {
        let name = lease.to_owned();
        self.master
            .get_or_create(&LeaseLabels { name })
            .set(leading.into());
    }

    /// Counts a renewal that needed to read the lease first.
    pub fn slow_renewal(&self, lease: &str) {
        let name = lease.to_owned();
        self.slowpath.get_or_create(&LeaseLabels { name }).inc();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    host: String,
    method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RetryLabels {
    code: String,
    host: String,
    verb: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    host: String,
    verb: String,
}

/// Calls to the Kubernetes API.
#[derive(Clone, Debug)]
pub struct RestMetrics {
    requests: Family<RequestLabels, Counter>,
    retries: Family<RetryLabels, Counter>,
    durations: HistogramFamily<VerbLabels>,
    waits: HistogramFamily<VerbLabels>,
    sent: HistogramFamily<VerbLabels>,
    received: HistogramFamily<VerbLabels>,
}

impl RestMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            requests: family(
                registry,
                "rest_client_requests",
                "Calls to the Kubernetes API",
            ),
            retries: family(
                registry,
                "rest_client_request_retries",
                "Repeated calls to the Kubernetes API",
            ),
            durations: histograms(
                registry,
                "rest_client_request_duration_seconds",
                "Seconds of a call to the Kubernetes API",
                &CALLS,
            ),
            waits: histograms(
                registry,
                "rest_client_rate_limiter_duration_seconds",
                "Seconds a call waited for the client's own limit",
                &CALLS,
            ),
            sent: histograms(
                registry,
                "rest_client_request_size_bytes",
                "Bytes sent in the body of a call",
                &BODIES,
            ),
            received: histograms(
                registry,
                "rest_client_response_size_bytes",
                "Bytes received in the body of an answer",
                &BODIES,
            ),
        }
    }

    /// Counts a call with its answer: the status, or `<error>` when there was none.
    pub fn answered(&self, method: &str, host: &str, status: Option<u16>, took: Duration) {
        let labels = RequestLabels {
            code: code(status),
            host: host.to_owned(),
            method: method.to_owned(),
        };
        self.requests.get_or_create(&labels).inc();
        let labels = verb(method, host);
        self.durations.with(&labels).observe(took.as_secs_f64());
    }

    /// Counts a call that is made again, with the answer that caused it.
    pub fn retried(&self, method: &str, host: &str, status: Option<u16>) {
        let labels = RetryLabels {
            code: code(status),
            host: host.to_owned(),
            verb: method.to_owned(),
        };
        self.retries.get_or_create(&labels).inc();
    }

    /// How long a call waited for the client's own limit.
    pub fn waited(&self, method: &str, host: &str, wait: Duration) {
        let labels = verb(method, host);
        self.waits.with(&labels).observe(wait.as_secs_f64());
    }

    /// How large a body was sent.
    #[expect(
        clippy::cast_precision_loss,
        reason = "bodies are far below 2^52 bytes"
    )]
    pub fn sent(&self, method: &str, host: &str, bytes: u64) {
        self.sent.with(&verb(method, host)).observe(bytes as f64);
    }

    /// How large a body was received.
    #[expect(
        clippy::cast_precision_loss,
        reason = "bodies are far below 2^52 bytes"
    )]
    pub fn received(&self, method: &str, host: &str, bytes: u64) {
        let labels = verb(method, host);
        self.received.with(&labels).observe(bytes as f64);
    }
}

fn verb(method: &str, host: &str) -> VerbLabels {
    VerbLabels {
        host: host.to_owned(),
        verb: method.to_owned(),
    }
}

fn code(status: Option<u16>) -> String {
    status.map_or_else(|| "<error>".to_owned(), |status| status.to_string())
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: String,
}

/// Token and access reviews.
#[derive(Clone, Debug)]
pub struct DelegatedMetrics {
    authn: (Family<CodeLabels, Counter>, HistogramFamily<CodeLabels>),
    authz: (Family<CodeLabels, Counter>, HistogramFamily<CodeLabels>),
}

impl DelegatedMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            authn: (
                family(
                    registry,
                    "apiserver_delegated_authn_request",
                    "Token reviews",
                ),
                histograms(
                    registry,
                    "apiserver_delegated_authn_request_duration_seconds",
                    "Seconds of a token review",
                    &REVIEWS,
                ),
            ),
            authz: (
                family(
                    registry,
                    "apiserver_delegated_authz_request",
                    "Access reviews",
                ),
                histograms(
                    registry,
                    "apiserver_delegated_authz_request_duration_seconds",
                    "Seconds of an access review",
                    &REVIEWS,
                ),
            ),
        }
    }

    /// Counts a token review with its answer.
    pub fn token_review(&self, status: Option<u16>, took: Duration) {
        observe(&self.authn, status, took);
    }

    /// Counts an access review with its answer.
    pub fn access_review(&self, status: Option<u16>, took: Duration) {
        observe(&self.authz, status, took);
    }
}

fn observe(
    (counts, durations): &(Family<CodeLabels, Counter>, HistogramFamily<CodeLabels>),
    status: Option<u16>,
    took: Duration,
) {
    let labels = CodeLabels { code: code(status) };
    counts.get_or_create(&labels).inc();
    durations.with(&labels).observe(took.as_secs_f64());
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DroppedLabels {
    component: &'static str,
    reason: &'static str,
}

/// Events that were not written (our own family).
#[derive(Clone, Debug)]
pub struct EventMetrics {
    dropped: Family<DroppedLabels, Counter>,
}

impl EventMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            dropped: family(
                registry,
                "bowline_events_dropped",
                "Events not written, by reason",
            ),
        }
    }

    /// Counts a dropped event of that component.
    pub fn dropped(&self, component: &'static str, reason: &'static str) {
        self.dropped
            .get_or_create(&DroppedLabels { component, reason })
            .inc();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    name: String,
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckStatusLabels {
    name: String,
    status: &'static str,
    r#type: &'static str,
}

/// Results of health checks.
#[derive(Clone, Debug)]
pub struct HealthMetrics {
    last: Family<CheckLabels, Gauge>,
    total: Family<CheckStatusLabels, Counter>,
}

impl HealthMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            last: family(
                registry,
                "kubernetes_healthcheck",
                "Last result of a health check",
            ),
            total: family(
                registry,
                "kubernetes_healthchecks",
                "Results of health checks",
            ),
        }
    }

    /// A check of `/healthz`, `/livez` or `/readyz` was made.
    pub fn checked(&self, endpoint: &'static str, name: &str, good: bool) {
        let name = name.to_owned();
        let labels = CheckStatusLabels {
            name: name.clone(),
            status: if good { "success" } else { "error" },
            r#type: endpoint,
        };
        self.total.get_or_create(&labels).inc();
        let labels = CheckLabels {
            name,
            r#type: endpoint,
        };
        self.last.get_or_create(&labels).set(good.into());
    }

    /// Forgets all results.
    pub fn reset(&self) {
        self.last.clear();
        self.total.clear();
    }
}

/// The labels of `kubernetes_build_info`, in alphabetical order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BuildInfo {
    /// When it was built.
    pub build_date: String,
    /// What compiled it (`rustc`).
    pub compiler: String,
    /// The commit it was built from.
    pub git_commit: String,
    /// Whether that commit was all there was (`clean`).
    pub git_tree_state: String,
    /// The version.
    pub git_version: String,
    /// The compiler's version; the name is what dashboards expect.
    pub go_version: String,
    /// The first part of the version.
    pub major: String,
    /// The second part of the version.
    pub minor: String,
    /// Operating system and architecture (`linux/amd64`).
    pub platform: String,
}

pub(super) fn register_build_info(registry: &mut Registry, info: &BuildInfo) {
    let family: Family<BuildInfo, Gauge<f64, AtomicU64>> = Family::default();
    family.get_or_create(info).set(1.0);
    registry.register(
        "kubernetes_build_info",
        "What this program was built from",
        family,
    );
}
