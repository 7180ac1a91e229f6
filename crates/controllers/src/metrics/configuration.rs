//! Which configuration is in use.

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Which configuration is in use.
#[derive(Clone, Debug, Default)]
pub struct ConfigurationMetrics {
    generation: Gauge<i64, AtomicI64>,
    refused: Counter<u64, AtomicU64>,
}

impl ConfigurationMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "bowline_configuration_generation",
            "Which configuration is in use: 1 at the start of the process, one more with each change",
            metrics.generation.clone(),
        );
        registry.register(
            "bowline_configuration_refused",
            "Changed configurations that were not used because something is wrong with them",
            metrics.refused.clone(),
        );
        metrics
    }

    pub fn uses(&self, generation: u64) {
        self.generation
            .set(i64::try_from(generation).unwrap_or(i64::MAX));
    }

    /// One was not used.
    pub fn refused(&self) {
        self.refused.inc();
    }
}
