//! The families of the node IPAM controller.

use std::sync::atomic::AtomicU64;

use bowline_core::ipam::Report;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::families::{HistogramFamily, family, histograms};

/// Used blocks passed in one search: powers of five.
const TRIES: [f64; 5] = [1.0, 5.0, 25.0, 125.0, 625.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(non_snake_case, reason = "the originals' label")]
struct RangeLabels {
    clusterCIDR: String,
}

/// Pod ranges of nodes.
#[derive(Clone, Debug)]
pub struct IpamMetrics {
    allocations: Family<RangeLabels, Counter>,
    releases: Family<RangeLabels, Counter>,
    blocks: Family<RangeLabels, Gauge>,
    usage: Family<RangeLabels, Gauge<f64, AtomicU64>>,
    tries: HistogramFamily<RangeLabels>,
}

impl IpamMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            allocations: family(
                registry,
                "node_ipam_controller_cidrset_cidrs_allocations",
                "Blocks of a range that became used",
            ),
            releases: family(
                registry,
                "node_ipam_controller_cidrset_cidrs_releases",
                "Blocks of a range that became free",
            ),
            // Misspelled by the originals, whose dashboards know it so.
            blocks: family(
                registry,
                "node_ipam_controller_cirdset_max_cidrs",
                "Blocks of a range, used and free",
            ),
            usage: family(
                registry,
                "node_ipam_controller_cidrset_usage_cidrs",
                "Used part of a range, from 0 to 1",
            ),
            tries: histograms(
                registry,
                "node_ipam_controller_cidrset_allocation_tries_per_request",
                "Used blocks that were passed in the search for a free one",
                &TRIES,
            ),
        }
    }

    /// Takes note of what happened in a range.
    pub fn happened(&self, range: &str, report: &Report) {
        let labels = RangeLabels {
            clusterCIDR: range.to_owned(),
        };
        if report.blocks == 0 {
            // The range is given up; a series for every machine there ever was would never end.
            self.allocations.remove(&labels);
            self.releases.remove(&labels);
            self.blocks.remove(&labels);
            self.usage.remove(&labels);
            self.tries.family().remove(&labels);
            return;
        }
        self.allocations
            .get_or_create(&labels)
            .inc_by(report.allocations);
        self.releases.get_or_create(&labels).inc_by(report.releases);
        let blocks = i64::try_from(report.blocks).unwrap_or(i64::MAX);
        self.blocks.get_or_create(&labels).set(blocks);
        #[expect(clippy::cast_precision_loss, reason = "a ratio of at most 2^32 blocks")]
        let usage = report.used as f64 / report.blocks as f64;
        self.usage.get_or_create(&labels).set(usage);
        let tries = self.tries.with(&labels);
        for passed in &report.tries {
            #[expect(clippy::cast_precision_loss, reason = "at most 2^32 blocks")]
            tries.observe(*passed as f64);
        }
    }
}
