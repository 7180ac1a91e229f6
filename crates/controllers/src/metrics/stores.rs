//! The families about what is known of the cluster.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::families::family;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DoubtLabels {
    resource: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: String,
}

/// Objects whose absence is in doubt.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    doubts: Family<DoubtLabels, Counter>,
    lost: Family<ResourceLabels, Gauge>,
}

impl StoreMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            doubts: family(
                registry,
                "bowline_doubtful_objects",
                "Objects that were missing from a list without having been deleted, by what a consistent read of the API server showed",
            ),
            lost: family(
                registry,
                "bowline_lost_objects",
                "Objects that the API server lacks since it was restored to an earlier state; nothing is destroyed for them",
            ),
        }
    }

    /// Counts an object that was missing from a list: `there` or `gone`.
    pub(crate) fn doubt(&self, resource: &str, is_there: bool) {
        let labels = DoubtLabels {
            resource: resource.to_owned(),
            result: if is_there { "there" } else { "gone" },
        };
        self.doubts.get_or_create(&labels).inc();
    }

    /// How many objects are lost. Nothing is shown as long as none ever was.
    pub(crate) fn lost(&self, resource: &str, count: usize) {
        let labels = ResourceLabels {
            resource: resource.to_owned(),
        };
        if count > 0 || self.lost.get(&labels).is_some() {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.lost.get_or_create(&labels).set(count);
        }
    }
}
