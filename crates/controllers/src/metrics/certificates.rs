//! The families of the certificate controller.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::families::family;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    cloud: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    cloud: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    code: String,
}

/// Serving certificates of kubelets.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    decided: Family<ResultLabels, Counter>,
    pending: Family<ReasonLabels, Counter>,
    failures: Family<StatusLabels, Counter>,
}

impl CertificateMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            decided: family(
                registry,
                "bowline_certificate_requests_decided",
                "Requests for serving certificates that were approved or denied",
            ),
            pending: family(
                registry,
                "bowline_certificate_requests_left_pending",
                "Reasons for which requests for serving certificates were left pending",
            ),
            failures: family(
                registry,
                "bowline_certificate_write_errors",
                "Decisions about certificate requests that could not be written, by the answer",
            ),
        }
    }

    /// Counts a written decision: `approved` or `denied`.
    pub fn request(&self, cloud: &str, result: &'static str) {
        let cloud = cloud.to_owned();
        self.decided
            .get_or_create(&ResultLabels { cloud, result })
            .inc();
    }

    /// Counts that a request was found not to be right, once for each reason.
    pub fn pending(&self, cloud: &str, reason: &'static str) {
        let cloud = cloud.to_owned();
        self.pending
            .get_or_create(&ReasonLabels { cloud, reason })
            .inc();
    }

    /// Counts a decision that could not be written, and what the API server answered.
    pub fn failed(&self, status: Option<u16>) {
        let code = status.map_or_else(|| "none".to_owned(), |it| it.to_string());
        self.failures.get_or_create(&StatusLabels { code }).inc();
    }
}
