//! The families of the service controller.

use bowline_core::Verb;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::families::{family, histogram};

/// Seconds of work on load balancers: powers of two.
const SECONDS: [f64; 15] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0,
    16384.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    cloud: String,
    result: &'static str,
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloudLabels {
    cloud: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// Load balancers of Services.
#[derive(Clone, Debug)]
pub struct ServiceMetrics {
    /// Updates of members, one for each load balancer.
    pub syncs: Counter,
    /// Those that failed.
    pub node_errors: Counter,
    /// Seconds from the end of unrest among nodes until all load balancers have followed.
    pub node_latency: Histogram,
    /// Seconds of one update of members.
    pub host_latency: Histogram,
    steps: Family<StepLabels, Counter>,
    orphans: Family<CloudLabels, Gauge>,
    unserved: Family<ReasonLabels, Counter>,
    held: Family<CloudLabels, Gauge>,
}

impl ServiceMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        Self {
            syncs: counter(
                "service_controller_loadbalancer_sync",
                "Updates of the members of load balancers",
            ),
            node_errors: counter(
                "service_controller_nodesync_error",
                "Failed updates of the members of load balancers",
            ),
            node_latency: histogram(
                registry,
                "service_controller_nodesync_latency_seconds",
                "Seconds until all load balancers have followed a change of nodes",
                &SECONDS,
            ),
            host_latency: histogram(
                registry,
                "service_controller_update_loadbalancer_host_latency_seconds",
                "Seconds of one update of the members of a load balancer",
                &SECONDS,
            ),
            steps: family(
                registry,
                "bowline_load_balancer_steps",
                "Steps of plans for load balancers, by verb and result",
            ),
            orphans: family(
                registry,
                "bowline_orphaned_load_balancers",
                "Load balancers with our mark whose Service does not exist, or is served by another cloud",
            ),
            unserved: family(
                registry,
                "bowline_services_unserved",
                "Services reported because no cloud serves them or a finalizer that is not ours holds them, by reason",
            ),
            held: family(
                registry,
                "bowline_targets_held",
                "Nodes whose targets are held back because their owner is unknown",
            ),
        }
    }

    /// Counts a step; result `done`, `waiting`, `skipped` or `failed`.
    pub fn step(&self, cloud: &str, verb: Verb, result: &'static str) {
        let verb = match verb {
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Delete => "delete",
            Verb::Wait => "wait",
        };
        let labels = StepLabels {
            cloud: cloud.to_owned(),
            result,
            verb,
        };
        self.steps.get_or_create(&labels).inc();
    }

    /// Counts a Service that was reported for that reason.
    pub fn unserved(&self, reason: &'static str) {
        self.unserved.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// For how many nodes targets stay in that cloud.
    pub fn targets_held(&self, cloud: &str, nodes: usize) {
        let cloud = cloud.to_owned();
        let count = i64::try_from(nodes).unwrap_or(i64::MAX);
        self.held.get_or_create(&CloudLabels { cloud }).set(count);
    }

    /// How many orphans that cloud has.
    pub fn orphaned(&self, cloud: &str, orphans: usize) {
        let cloud = cloud.to_owned();
        let count = i64::try_from(orphans).unwrap_or(i64::MAX);
        self.orphans
            .get_or_create(&CloudLabels { cloud })
            .set(count);
    }
}
