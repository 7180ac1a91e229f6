//! What is counted, under the names that the original's users know.

use std::time::Duration;

use bowline_core::Counted;
use bowline_http::PlainCount;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::config::{Finding, Severity};

/// Of calls, in seconds: a dead machine is given up after ten.
const REQUEST_BUCKETS: [f64; 8] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Of rules, in seconds: they only compute.
const RULE_BUCKETS: [f64; 4] = [0.001, 0.01, 0.05, 0.1];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    PlatformMetadata,
    SystemInformation,
    Addresses,
}

impl Asked {
    fn label(self) -> Label {
        let request = match self {
            Self::PlatformMetadata => "platformmetadata",
            Self::SystemInformation => "systeminformation",
            Self::Addresses => "addresses",
        };
        [("request", request)]
    }
}

type Label = [(&'static str, &'static str); 1];

const TRANSFORMER: Label = [("type", "transformer")];

#[derive(Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// The families. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    requests: Family<Label, Histogram, Buckets>,
    request_errors: Family<Label, Counter>,
    rules: Family<Label, Histogram, Buckets>,
    rule_errors: Family<Label, Counter>,
    approvals: Family<Label, PlainCount>,
    findings: Family<Label, Gauge>,
    reads: Family<Label, Counter>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// Registers the families, once per process.
pub fn register(registry: &mut Registry) -> Metrics {
    let metrics = Metrics {
        requests: Family::new_with_constructor(Buckets(&REQUEST_BUCKETS)),
        request_errors: Family::default(),
        rules: Family::new_with_constructor(Buckets(&RULE_BUCKETS)),
        rule_errors: Family::default(),
        approvals: Family::default(),
        findings: Family::default(),
        reads: Family::default(),
    };
    registry.register(
        "talosccm_api_request_duration_seconds",
        "Time from the beginning of a look at a machine to the end of the call",
        metrics.requests.clone(),
    );
    registry.register(
        "talosccm_api_request_errors",
        "Calls to machines that failed",
        metrics.request_errors.clone(),
    );
    registry.register(
        "talosccm_transformer_duration_seconds",
        "Time that rules take for one machine",
        metrics.rules.clone(),
    );
    registry.register(
        "talosccm_transformer_errors",
        "Machines whose rules failed",
        metrics.rule_errors.clone(),
    );
    registry.register(
        "talosccm_csr_approval_count",
        "Requests for serving certificates, by what became of them",
        metrics.approvals.clone(),
    );
    registry.register(
        "talosccm_config_findings",
        "What is wrong or odd in the cloud config in force",
        metrics.findings.clone(),
    );
    registry.register(
        "talosccm_config_reloads",
        "Changes of the cloud config, by whether they were taken",
        metrics.reads.clone(),
    );
    metrics
}

impl Metrics {
    pub(crate) fn asked(&self, asked: Asked, took: Duration, failed: bool) {
        let label = asked.label();
        let family = self.requests.get_or_create(&label);
        family.observe(took.as_secs_f64());
        drop(family);
        if failed {
            self.request_errors.get_or_create(&label).inc();
        }
    }

    pub(crate) fn transformed(&self, took: Duration) {
        let family = self.rules.get_or_create(&TRANSFORMER);
        family.observe(took.as_secs_f64());
    }

    pub(crate) fn rules_failed(&self) {
        self.rule_errors.get_or_create(&TRANSFORMER).inc();
    }

    pub(crate) fn request(&self, counted: Counted) {
        let status = match counted {
            Counted::Approved => "approve",
            Counted::Denied => "deny",
        };
        self.approvals.get_or_create(&[("status", status)]).add();
    }

    /// What there is to say about the cloud config in force.
    pub(crate) fn findings(&self, findings: &[Finding]) {
        for (severity, label) in [(Severity::Error, "error"), (Severity::Warning, "warning")] {
            let count = findings.iter().filter(|it| it.severity == severity).count();
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.findings
                .get_or_create(&[("severity", label)])
                .set(count);
        }
    }

    /// Another cloud config was taken, or refused.
    pub(crate) fn config_read(&self, taken: bool) {
        let result = if taken { "taken" } else { "refused" };
        self.reads.get_or_create(&[("result", result)]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_have_the_names_and_labels_of_the_original() {
        let mut registry = Registry::default();
        let metrics = register(&mut registry);
        metrics.asked(Asked::PlatformMetadata, Duration::from_secs(7), true);
        metrics.asked(Asked::SystemInformation, Duration::ZERO, false);
        metrics.asked(Asked::Addresses, Duration::ZERO, false);
        metrics.transformed(Duration::from_millis(20));
        metrics.rules_failed();
        for counted in [Counted::Approved, Counted::Denied] {
            metrics.request(counted);
        }
        metrics.config_read(false);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"talosccm_api_request_duration_seconds_bucket{le="5.0",request="platformmetadata"} 0"#,
            r#"talosccm_api_request_duration_seconds_bucket{le="10.0",request="platformmetadata"} 1"#,
            r#"talosccm_api_request_duration_seconds_count{request="systeminformation"} 1"#,
            r#"talosccm_api_request_duration_seconds_count{request="addresses"} 1"#,
            r#"talosccm_api_request_errors_total{request="platformmetadata"} 1"#,
            r#"talosccm_transformer_duration_seconds_bucket{le="0.01",type="transformer"} 0"#,
            r#"talosccm_transformer_duration_seconds_bucket{le="0.05",type="transformer"} 1"#,
            r#"talosccm_transformer_errors_total{type="transformer"} 1"#,
            r#"talosccm_csr_approval_count{status="approve"} 1"#,
            r#"talosccm_csr_approval_count{status="deny"} 1"#,
            r#"talosccm_config_reloads_total{result="refused"} 1"#,
        ] {
            assert!(text.lines().any(|got| got == line), "{line} in\n{text}");
        }
    }
}
