//! The families of the controllers, grouped by the part that observes them.
//!
//! Fields of a label struct stand in alphabetical order, which is the order on the wire.

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

pub(super) fn histogram(
    registry: &mut Registry,
    name: &str,
    help: &str,
    bounds: &'static [f64],
) -> Histogram {
    let histogram = Histogram::new(bounds.iter().copied());
    registry.register(name, help, histogram.clone());
    histogram
}

pub(super) fn histograms<L>(
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

pub(super) fn family<L, M>(registry: &mut Registry, name: &str, help: &str) -> Family<L, M>
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
    left_alone: Family<WhyLabels, Gauge>,
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
            left_alone: family(
                registry,
                "bowline_nodes_left_alone",
                "Nodes that no cloud is responsible for, by why; only with several clouds",
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

    /// How many nodes no cloud is responsible for, for that reason.
    pub fn left_alone(&self, why: &'static str, nodes: usize) {
        let series = self.left_alone.get_or_create(&WhyLabels { why });
        series.set(count(nodes));
    }

    /// How many nodes that cloud is responsible for.
    pub fn nodes_owned(&self, cloud: &str, nodes: usize) {
        let cloud = cloud.to_owned();
        self.owned
            .get_or_create(&CloudLabels { cloud })
            .set(count(nodes));
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhyLabels {
    why: &'static str,
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
