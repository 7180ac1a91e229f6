//! What is counted and shown about this provider.

use bowline_http::{CallMetrics, DEFAULT_BUCKETS};
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::PROVIDER;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerLabels {
    server: String,
}

/// What is shown about servers, beside the counts of calls. Clones share it; what is not registered
/// is shown to nobody.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    token_end: Family<ServerLabels, Gauge>,
    pools: Family<ServerLabels, Gauge>,
    followed: Family<ServerLabels, Gauge>,
    empty: Family<ServerLabels, Gauge>,
}

#[derive(Clone, Debug)]
pub struct Metrics {
    pub calls: CallMetrics,
    pub gauges: Gauges,
}

/// Registers the metrics of all clouds of this kind, once per process:
/// `xenorchestra_requests_total`, `xenorchestra_request_duration_seconds`,
/// `xenorchestra_in_flight_requests`, the framework's `cloudprovider_xenorchestra_api_request_…`,
/// and for each server `xenorchestra_token_expiration_timestamp_seconds`, `xenorchestra_pools`,
/// `xenorchestra_events_followed` and `xenorchestra_shows_nothing`.
pub fn register_metrics(registry: &mut Registry) -> Metrics {
    let calls = CallMetrics::register(registry, PROVIDER, PROVIDER, &DEFAULT_BUCKETS);
    let gauges = Gauges::default();
    for (name, help, family) in [
        (
            "token_expiration_timestamp_seconds",
            "When the token in use ends, where the server tells",
            &gauges.token_end,
        ),
        (
            "pools",
            "Pools that the server shows, while its events are followed",
            &gauges.pools,
        ),
        (
            "events_followed",
            "Whether the server's events are followed",
            &gauges.followed,
        ),
        (
            "shows_nothing",
            "Whether the server showed no VM at all when it was checked",
            &gauges.empty,
        ),
    ] {
        registry.register(format!("{PROVIDER}_{name}"), help, family.clone());
    }
    Metrics { calls, gauges }
}

impl Gauges {
    pub(crate) fn set_token_end(&self, server: &str, end: Timestamp) {
        set(&self.token_end, server, end.as_second());
    }

    pub(crate) fn set_empty(&self, server: &str, empty: bool) {
        set(&self.empty, server, i64::from(empty));
    }

    /// How many pools are shown; none: events are not followed.
    pub(crate) fn set_pools(&self, server: &str, pools: Option<usize>) {
        set(&self.followed, server, i64::from(pools.is_some()));
        if let Some(pools) = pools {
            set(
                &self.pools,
                server,
                i64::try_from(pools).unwrap_or(i64::MAX),
            );
        }
    }
}

fn set(family: &Family<ServerLabels, Gauge>, server: &str, value: i64) {
    let server = server.to_owned();
    family.get_or_create(&ServerLabels { server }).set(value);
}
