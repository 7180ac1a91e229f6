//! Telling people what became of a request: log, event, metrics, and the cloud's own count.

use std::sync::Arc;

use bowline_core::{Cloud, Counted, Finding, error_chain, node_of};
use tracing::{debug, info, warn};

use super::CertificateController;
use crate::kube::csr_store::Requested;
use crate::kube::events::{EventType, certificate_reference, node_reference};
use crate::kube::write::{ApprovalDecision, WriteError};

/// Failures of a write in a row after which it is told as a warning: about half a minute of trying.
const FAILURES_BEFORE_WARNING: u32 = 6;

impl CertificateController {
    pub(super) fn tell_decided(
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
        self.event(request, EventType::Normal, reason, &decision.message);
        self.metrics.certificates.request(name(cloud), result);
        count(cloud, decision.counted());
    }

    /// Tells why a request stays pending, once for each reason.
    pub(super) fn tell_pending(
        &self,
        request: &Requested,
        cloud: Option<&Arc<dyn Cloud>>,
        finding: &Finding,
    ) {
        let text = words(request, cloud, finding);
        // The same trouble has other words every time.
        let news = match finding {
            Finding::CannotTell(_) => finding.reason().to_owned(),
            _ => finding.to_string(),
        };
        if !self.reported.is_news(request.uid.clone(), &news) {
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
        let message = format!("Not approved: {finding}");
        self.event(
            request,
            EventType::Warning,
            "CertificateNotApproved",
            &message,
        );
        self.tell_rivals(request, finding);
    }

    pub(super) fn tell_failed(&self, request: &str, error: &WriteError, failures: u32) {
        self.metrics.certificates.failed(error.status());
        let error = error_chain(error);
        if failures < FAILURES_BEFORE_WARNING {
            debug!(request, failures, error, "deciding failed; trying again");
        } else {
            warn!(request, failures, error, "deciding keeps failing");
        }
    }

    fn event(&self, request: &Requested, kind: EventType, reason: &'static str, message: &str) {
        let Requested {
            name,
            uid,
            resource_version,
            ..
        } = request;
        let reference = certificate_reference(name, uid, resource_version);
        self.recorder.event(&reference, kind, reason, message);
    }

    /// Tells both Nodes that they show the same.
    fn tell_rivals(&self, request: &Requested, finding: &Finding) {
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
            let reference = node_reference(&node.name, &node.uid, Some(&node.resource_version));
            let message = format!(
                "{asked} is shown by this Node and by Node {rival}, and neither machine nor cloud \
                 tells whose it is: no serving certificate with it is approved until only one of \
                 them shows it"
            );
            let reason = "AddressClaimedTwice";
            self.recorder
                .event(&reference, EventType::Warning, reason, &message);
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
