//! Writes to Kubernetes objects: guarded by what was read, bounded in time.
//!
//! The client they go through is fenced by the lease.

mod certificate;
mod managed_object;
mod node;
mod service;

use std::future::Future;
use std::time::Duration;

use kube::api::PatchParams;

pub use certificate::{ApprovalDecision, CertificateWriter};
pub(crate) use managed_object::ManagedObjectWriter;
pub use node::NodeWriter;
pub use service::ServiceWriter;

/// No write takes longer: the client itself knows no deadline.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// Who we are in managed fields.
const FIELD_MANAGER: &str = "cloud-controller-manager";

/// Why an object was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API server refused, or could not be reached.
    #[error("{what} of {object}")]
    Api {
        /// What was tried.
        what: &'static str,
        object: String,
        /// What the client says.
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("{what} of {object} took longer than {WRITE_DEADLINE:?}")]
    Late {
        /// What was tried.
        what: &'static str,
        object: String,
    },
}

impl WriteError {
    /// The HTTP status, if the API server answered with one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Late { .. } => None,
        }
    }

    /// Whether the write may have been made all the same: nobody answered, or with an error that
    /// leaves it open.
    pub fn may_have_happened(&self) -> bool {
        let refused = |code: u16| (400..500).contains(&code);
        !self.status().is_some_and(refused)
    }

    /// Whether the object was changed by somebody else since it was read.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// Whether there is no such object any more.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Whether another object has its name by now: a write bound to a uid tries to change that
    /// object's, which is refused as invalid.
    pub fn is_another(&self) -> bool {
        let Self::Api { source, .. } = self else {
            return false;
        };
        let kube::Error::Api(status) = &**source else {
            return false;
        };
        let causes = status.details.iter().flat_map(|it| &it.causes);
        status.code == 422 && causes.into_iter().any(|it| it.field == "metadata.uid")
    }
}

/// Makes that call within the deadline.
async fn bounded<T>(
    what: &'static str,
    object: impl FnOnce() -> String,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, WriteError> {
    match tokio::time::timeout(WRITE_DEADLINE, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(WriteError::Api {
            what,
            object: object(),
            source: Box::new(error),
        }),
        Err(_) => Err(WriteError::Late {
            what,
            object: object(),
        }),
    }
}

/// Parameters of our patches.
fn by_us() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_of_the_uid_means_another_object() {
        for (code, field, another) in [
            (422, "metadata.uid", true),
            (422, "spec.type", false),
            (409, "metadata.uid", false),
        ] {
            let status = json!({ "code": code, "details": { "causes": [{ "field": field }] } });
            let source = Box::new(kube::Error::Api(serde_json::from_value(status).unwrap()));
            let error = WriteError::Api {
                what: "writing",
                object: "service default/web".into(),
                source,
            };
            assert_eq!(error.is_another(), another, "{code} {field}");
        }
    }
}
