//! Reports the outcome of a request: log, event, metrics, and the cloud's own count.

use std::sync::Arc;

use bowline_core::{Cloud, Counted, Finding, error_chain, node_of};
use tracing::{debug, info, warn};

use super::CertificateController;
use crate::kube::csr_store::Requested;
use crate::kube::events::{certificate_reference, versioned_node_reference};
use crate::kube::write::{ApprovalDecision, WriteError};
use crate::report::Fact;

/// Failures of a write in a row after which it is logged as a warning: about half a minute of trying.
const FAILURES_BEFORE_WARNING: u32 = 6;

impl CertificateController {
    pub(super) fn report_decided(
        &self,
        request: &Requested,
        cloud: Option<&Arc<dyn Cloud>>,
        finding: &Finding,
        decision: &ApprovalDecision,
    ) {
        let (result, reason) = if decision.is_approval {
            ("approved", "CertificateApproved")
        } else {
            ("denied", "CertificateDenied")
        };
        info!(
            request = request.name,
            user = request.username,
            "{}",
            words(request, cloud, finding)
        );
        let about = certificate_reference(request);
        self.recorder
            .emit(Fact::normal(about, reason, &decision.message));
        self.metrics.certificates.request(name(cloud), result);
        count(cloud, decision.counted());
    }

    /// Reports once for each reason why a request stays pending.
    pub(super) fn report_pending(
        &self,
        request: &Requested,
        cloud: Option<&Arc<dyn Cloud>>,
        finding: &Finding,
    ) {
        let text = words(request, cloud, finding);
        // The same trouble has other words every time.
        let why = match finding {
            Finding::CannotTell(_) => finding.reason().to_owned(),
            _ => finding.to_string(),
        };
        if !self.reported.is_new(request.uid.clone(), &why) {
            debug!(
                request = request.name,
                user = request.username,
                "still: {text}"
            );
            return;
        }
        self.metrics
            .certificates
            .pending(name(cloud), finding.reason());
        if finding.is_early() {
            info!(request = request.name, user = request.username, "{text}");
            return;
        }
        warn!(request = request.name, user = request.username, "{text}");
        let (about, reason) = (certificate_reference(request), "CertificateNotApproved");
        let message = format!("Not approved: {finding}");
        self.recorder.emit(Fact::warning(about, reason, message));
        self.report_rivals(request, finding);
    }

    pub(super) fn report_failed(&self, request: &str, error: &WriteError, failures: u32) {
        self.metrics.certificates.failed(error.status());
        let error = error_chain(error);
        if failures < FAILURES_BEFORE_WARNING {
            debug!(request, failures, error, "deciding failed; trying again");
        } else {
            warn!(request, failures, error, "deciding keeps failing");
        }
    }

    /// Reports on both Nodes that they show the same.
    fn report_rivals(&self, request: &Requested, finding: &Finding) {
        let Finding::ClaimedTwice { asked, other } = finding else {
            return;
        };
        let Some(own) = node_of(&request.username) else {
            return;
        };
        for (about, rival) in [(own, other.as_str()), (other.as_str(), own)] {
            let Some(node) = self.nodes.get(about) else {
                continue;
            };
            let about = versioned_node_reference(&node);
            let message = format!(
                "{asked} is shown by this Node and by Node {rival}, and neither machine nor cloud \
                 tells whose it is: no serving certificate with it is approved until only one of \
                 them shows it"
            );
            let reason = "AddressClaimedTwice";
            self.recorder.emit(Fact::warning(about, reason, message));
        }
    }
}

/// How the cloud says it, or else in ordinary words.
fn words(request: &Requested, cloud: Option<&Arc<dyn Cloud>>, finding: &Finding) -> String {
    let certificates = cloud.and_then(|it| it.serving_certificates());
    let own = certificates.and_then(|it| it.phrase(&request.name, finding));
    own.unwrap_or_else(|| match finding {
        Finding::Approved => format!("approved: {finding}"),
        _ => format!("not approved: {finding}"),
    })
}

fn name(cloud: Option<&Arc<dyn Cloud>>) -> &str {
    cloud.map_or("unknown", |it| it.name().as_str())
}

fn count(cloud: Option<&Arc<dyn Cloud>>, counted: Counted) {
    if let Some(certificates) = cloud.and_then(|it| it.serving_certificates()) {
        certificates.count(counted);
    }
}
