//! Counts and times of calls, per route.
//!
//! `<prefix>_…` counts every request that is sent; `cloudprovider_<name>_api_request_…` counts
//! calls, with their retries, as the controllers see them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

/// 5 ms to 10 s: what an HTTP API usually takes.
pub const DEFAULT_BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    endpoint: &'static str,
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: String,
    endpoint: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    request: String,
}

#[derive(Clone)]
struct Buckets(Arc<[f64]>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Counts upwards under a name without `_total`, which the encoder would append to a counter. The
/// framework's family `…_errors` is spelled so, and others are; hence it calls itself a gauge.
#[derive(Clone, Debug, Default)]
pub struct PlainCount(Arc<AtomicI64>);

impl PlainCount {
    /// One more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl TypedMetric for PlainCount {
    const TYPE: MetricType = MetricType::Gauge;
}

impl EncodeMetric for PlainCount {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.encode_gauge(&self.0.load(Ordering::Relaxed))
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// The metric families of one kind of cloud. Clones share them: several accounts of one kind of
/// cloud register once and share.
#[derive(Clone)]
pub struct CallMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, Buckets>,
    in_flight: Gauge,
    calls: Family<CallLabels, Histogram, Buckets>,
    errors: Family<CallLabels, PlainCount>,
}

impl fmt::Debug for CallMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallMetrics")
    }
}

impl CallMetrics {
    /// Registers the families: `<prefix>_requests_total`, `<prefix>_request_duration_seconds`,
    /// `<prefix>_in_flight_requests`, `cloudprovider_<name>_api_request_duration_seconds` and
    /// `cloudprovider_<name>_api_request_errors`.
    pub fn register(registry: &mut Registry, prefix: &str, name: &str, buckets: &[f64]) -> Self {
        let buckets = Buckets(buckets.into());
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(buckets.clone()),
            in_flight: Gauge::default(),
            calls: Family::new_with_constructor(buckets),
            errors: Family::default(),
        };
        registry.register(
            format!("{prefix}_requests"),
            format!("Requests sent to the API of {name}, by outcome"),
            metrics.requests.clone(),
        );
        registry.register(
            format!("{prefix}_request_duration_seconds"),
            format!("Time from sending a request to {name} to the end of its answer"),
            metrics.durations.clone(),
        );
        registry.register(
            format!("{prefix}_in_flight_requests"),
            format!("Requests to {name} that wait for an answer"),
            metrics.in_flight.clone(),
        );
        registry.register(
            format!("cloudprovider_{name}_api_request_duration_seconds"),
            format!("Time of calls to {name}, their retries and waits included"),
            metrics.calls.clone(),
        );
        registry.register(
            format!("cloudprovider_{name}_api_request_errors"),
            format!("Calls to {name} that failed in the end"),
            metrics.errors.clone(),
        );
        metrics
    }

    /// One more is in flight until the returned value is dropped.
    pub(crate) fn fly(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn request(
        &self,
        method: &http::Method,
        endpoint: &'static str,
        status: Option<u16>,
        took: Duration,
    ) {
        let method = method.to_string();
        let labels = RequestLabels {
            method: method.clone(),
            endpoint,
            status: status.map_or_else(|| "error".to_owned(), |status| status.to_string()),
        };
        self.requests.get_or_create(&labels).inc();
        let labels = RouteLabels { method, endpoint };
        self.durations
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    pub(crate) fn call(
        &self,
        method: &http::Method,
        endpoint: &'static str,
        failed: bool,
        took: Duration,
    ) {
        let labels = CallLabels {
            request: format!("{method} {endpoint}"),
        };
        self.calls
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        if failed {
            self.errors.get_or_create(&labels).add();
        }
    }
}

/// Counts a request as in flight while it lives, also when its future is dropped.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn the_families_have_the_promised_names_and_labels() {
        let mut registry = Registry::default();
        let metrics = CallMetrics::register(&mut registry, "cloudscale", "cloudscale", &[1.0]);
        let took = Duration::from_millis(500);
        metrics.request(&Method::GET, "v1/servers/:id", Some(200), took);
        metrics.request(&Method::GET, "v1/servers/:id", None, took);
        metrics.call(&Method::GET, "v1/servers/:id", true, took);
        let flying = metrics.fly();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"cloudscale_requests_total{method="GET",endpoint="v1/servers/:id",status="200"} 1"#,
            r#"cloudscale_requests_total{method="GET",endpoint="v1/servers/:id",status="error"} 1"#,
            r#"cloudscale_request_duration_seconds_count{method="GET",endpoint="v1/servers/:id"} 2"#,
            "cloudscale_in_flight_requests 1",
            r#"cloudprovider_cloudscale_api_request_duration_seconds_count{request="GET v1/servers/:id"} 1"#,
            r#"cloudprovider_cloudscale_api_request_errors{request="GET v1/servers/:id"} 1"#,
        ] {
            assert!(text.lines().any(|got| got == line), "{line} in\n{text}");
        }
        drop(flying);
        assert_eq!(metrics.in_flight.get(), 0);
    }
}
