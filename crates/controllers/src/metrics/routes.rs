//! The families of the route controller.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::families::family;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoundLabels {
    cause: &'static str,
    cloud: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChangeLabels {
    cloud: String,
    result: &'static str,
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloudLabels {
    cloud: String,
}

/// Routes to pods.
#[derive(Clone, Debug)]
pub struct RouteMetrics {
    /// Looks at all routes, of whichever cloud.
    syncs: Counter,
    rounds: Family<RoundLabels, Counter>,
    changes: Family<ChangeLabels, Counter>,
    held: Family<CloudLabels, Gauge>,
}

impl RouteMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let syncs = Counter::default();
        registry.register(
            "route_controller_route_sync",
            "Times that all routes were compared with the nodes",
            syncs.clone(),
        );
        Self {
            syncs,
            rounds: family(
                registry,
                "bowline_route_rounds",
                "Comparisons of a cloud's routes with the nodes, by their cause and what became of them",
            ),
            changes: family(
                registry,
                "bowline_route_changes",
                "Routes that were to be created or deleted, by what became of it",
            ),
            held: family(
                registry,
                "bowline_routes_held_back",
                "Unneeded routes that are held back for now",
            ),
        }
    }

    /// Counts the beginning of a round.
    pub fn begin(&self) {
        self.syncs.inc();
    }

    /// Counts the end of a round, its cause (`start`, `change`, `retry` or `period`) and whether the
    /// cloud could be asked.
    pub fn round(&self, cloud: &str, cause: &'static str, result: &'static str) {
        let cloud = cloud.to_owned();
        let labels = RoundLabels {
            cause,
            cloud,
            result,
        };
        self.rounds.get_or_create(&labels).inc();
    }

    /// Counts a route: `done` or `failed`.
    pub fn change(&self, cloud: &str, verb: &'static str, result: &'static str) {
        let cloud = cloud.to_owned();
        let labels = ChangeLabels {
            cloud,
            result,
            verb,
        };
        self.changes.get_or_create(&labels).inc();
    }

    /// So many stay for now.
    pub fn held(&self, cloud: &str, routes: usize) {
        let cloud = cloud.to_owned();
        let routes = i64::try_from(routes).unwrap_or(i64::MAX);
        self.held.get_or_create(&CloudLabels { cloud }).set(routes);
    }
}
