//! The families of the process's dealings with the API server and its callers, and of its build.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::families::{HistogramFamily, family, histograms};

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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    component: &'static str,
    reason: &'static str,
    r#type: &'static str,
}

/// Events, and those that were not written (our own families).
#[derive(Clone, Debug)]
pub struct EventMetrics {
    recorded: Family<EventLabels, Counter>,
    dropped: Family<DroppedLabels, Counter>,
}

impl EventMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            recorded: family(
                registry,
                "bowline_events",
                "Events about objects of the cluster, by reason",
            ),
            dropped: family(
                registry,
                "bowline_events_dropped",
                "Events not written, by reason",
            ),
        }
    }

    /// Counts an event of that component, written or only logged.
    pub fn recorded(&self, component: &'static str, r#type: &'static str, reason: &'static str) {
        let labels = EventLabels {
            component,
            reason,
            r#type,
        };
        self.recorded.get_or_create(&labels).inc();
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
