//! The families of the controller by which labels follow machines.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::families::family;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    cause: &'static str,
    cloud: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    cloud: String,
    result: &'static str,
}

/// Labels that follow machines.
#[derive(Clone, Debug)]
pub struct LabelMetrics {
    rounds: Family<CauseLabels, Counter>,
    patches: Family<ResultLabels, Counter>,
}

impl LabelMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            rounds: family(
                registry,
                "bowline_label_sync_rounds",
                "Looks at all machines of a cloud for labels that follow them, by their cause",
            ),
            patches: family(
                registry,
                "bowline_label_sync_patches",
                "Nodes whose labels had to follow their machines, by what became of it",
            ),
        }
    }

    /// Counts a round and its cause: `start`, `period` or `change`.
    pub fn round(&self, cloud: &str, cause: &'static str) {
        let cloud = cloud.to_owned();
        self.rounds
            .get_or_create(&CauseLabels { cause, cloud })
            .inc();
    }

    /// Counts a node: `written` or `failed`.
    pub fn patch(&self, cloud: &str, result: &'static str) {
        let cloud = cloud.to_owned();
        self.patches
            .get_or_create(&ResultLabels { cloud, result })
            .inc();
    }
}
