//! Writes decisions about CertificateSigningRequests. An observer logs what it would decide.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{FIELD_MANAGER, WriteError, bounded};
use crate::kube::csr_store::Requested;
use crate::kube::objects::CertificateObject;

/// What is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// Whether it is approved, and not denied.
    pub is_approval: bool,
    /// The condition's reason.
    pub reason: &'static str,
    /// The condition's message.
    pub message: String,
}

/// Writes decisions.
#[derive(Clone)]
pub struct CertificateWriter {
    api: Api<CertificateObject>,
    is_observing: bool,
}

impl CertificateWriter {
    /// A writer with that client.
    pub fn new(client: kube::Client) -> Self {
        Self {
            api: Api::all(client),
            is_observing: false,
        }
    }

    /// A writer that writes nothing.
    pub fn observing(client: kube::Client) -> Self {
        Self {
            is_observing: true,
            ..Self::new(client)
        }
    }

    /// Whether it writes nothing.
    pub fn is_observing(&self) -> bool {
        self.is_observing
    }

    /// Writes the decision, if the request is as it was read. None if it is not ours to write: we
    /// only look, or the request is not held any more.
    ///
    /// The sub-resource takes no patch under the roles of the originals, so the object goes back
    /// whole; its version makes sure that nobody has decided meanwhile.
    pub async fn decide(
        &self,
        request: &Requested,
        decision: &ApprovalDecision,
        now: Timestamp,
    ) -> Result<Option<Arc<Requested>>, WriteError> {
        let Some(body) = body(request, decision, now).filter(|_| !self.is_observing) else {
            return Ok(None);
        };
        let what = if decision.is_approval {
            "approving"
        } else {
            "denying"
        };
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        let name = &request.name;
        let write = self
            .api
            .replace_subresource("approval", name, &params, &body);
        let object = || format!("certificate signing request {name}");
        let written = bounded(what, object, write).await?;
        Ok(Some(Arc::new(written.into())))
    }
}

/// The whole object with the decision in it.
fn body(request: &Requested, decision: &ApprovalDecision, now: Timestamp) -> Option<Value> {
    let mut body = request.whole.clone()?;
    body["apiVersion"] = "certificates.k8s.io/v1".into();
    body["kind"] = "CertificateSigningRequest".into();
    body["metadata"]["resourceVersion"] = request.resource_version.as_str().into();
    if !body["status"].is_object() {
        body["status"] = json!({});
    }
    body["status"]["conditions"] = json!([{
        "type": if decision.is_approval { "Approved" } else { "Denied" },
        "status": "True",
        "reason": decision.reason,
        "message": decision.message,
        "lastUpdateTime": seconds(now).to_string(),
    }]);
    Some(body)
}

/// Kubernetes keeps whole seconds.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
