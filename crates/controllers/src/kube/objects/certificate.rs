//! Certificate signing requests.

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::Deserialize;
use serde_json::Value;

use super::{null_is_empty, used_metadata};
use crate::kube::csr_store::{LARGEST_OBJECT, LARGEST_REQUEST, Requested};

/// A CertificateSigningRequest as it comes from the API server. An approval replaces the object, so
/// all of it is kept as long as it is undecided.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub struct CertificateObject {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
    whole: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(deserialize_with = "used_metadata")]
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    signer_name: String,
    username: String,
    #[serde(deserialize_with = "null_is_empty")]
    groups: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    usages: Vec<String>,
    request: ByteString,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "null_is_empty")]
    conditions: Vec<Condition>,
    certificate: Option<ByteString>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
}

impl TryFrom<Value> for CertificateObject {
    type Error = serde_json::Error;

    fn try_from(whole: Value) -> Result<Self, Self::Error> {
        // A list would do for the fields, too, by their order.
        if !whole.is_object() {
            return Err(serde::de::Error::custom("it is no object"));
        }
        let Fields {
            metadata,
            spec,
            status,
        } = Fields::deserialize(&whole)?;
        Ok(Self {
            metadata,
            spec,
            status: status.unwrap_or_default(),
            whole,
        })
    }
}

super::resource!(
    CertificateObject,
    ClusterResourceScope,
    "CertificateSigningRequest",
    "certificates.k8s.io",
    "certificatesigningrequests"
);

impl From<CertificateObject> for Requested {
    fn from(object: CertificateObject) -> Self {
        let CertificateObject {
            metadata,
            spec,
            status,
            mut whole,
        } = object;
        let conditions: Vec<String> = status.conditions.into_iter().map(|it| it.r#type).collect();
        let is_issued = status.certificate.is_some_and(|it| !it.0.is_empty());
        if let Some(metadata) = whole.get_mut("metadata").and_then(Value::as_object_mut) {
            // Said anew when it is written; and the server keeps the second by itself.
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
        let is_too_large =
            spec.request.0.len() > LARGEST_REQUEST || whole.to_string().len() > LARGEST_OBJECT;
        let is_kept = conditions.is_empty() && !is_issued && !is_too_large;
        Requested {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            signer: spec.signer_name,
            username: spec.username,
            groups: spec.groups,
            usages: spec.usages,
            conditions,
            is_issued,
            is_too_large,
            request: if is_kept { spec.request.0 } else { Vec::new() },
            whole: is_kept.then_some(whole),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(object: &Value) -> Requested {
        let object: CertificateObject = serde_json::from_value(object.clone()).unwrap();
        object.into()
    }

    fn pending() -> Value {
        json!({
            "metadata": { "name": "c", "uid": "u", "resourceVersion": "7",
                          "labels": { "a": "b" }, "managedFields": [{}] },
            "spec": { "signerName": "kubernetes.io/kubelet-serving", "username": "system:node:n1",
                      "groups": ["system:nodes"], "usages": ["server auth"], "request": "UEVN",
                      "newer": 1 },
            "status": {},
        })
    }

    #[test]
    fn a_pending_request_is_kept_whole() {
        let request = read(&pending());
        assert_eq!(request.request, b"PEM");
        assert_eq!((request.name.as_str(), request.is_too_large), ("c", false));
        let whole = request.whole.unwrap();
        assert_eq!(
            whole["metadata"],
            json!({ "name": "c", "uid": "u", "labels": { "a": "b" } })
        );
        assert_eq!(whole["spec"]["newer"], 1);
    }

    #[test]
    fn a_decided_or_huge_request_is_not_held() {
        let mut decided = pending();
        decided["status"]["conditions"] = json!([{ "type": "Approved", "status": "True" }]);
        let mut issued = pending();
        issued["status"]["certificate"] = "UEVN".into();
        let mut huge = pending();
        huge["spec"]["request"] = "QUJD".repeat(LARGEST_REQUEST / 3 + 1).into();
        let mut wide = pending();
        wide["metadata"]["annotations"]["a"] = "b".repeat(LARGEST_OBJECT).into();
        for (object, is_too_large) in [
            (decided, false),
            (issued, false),
            (huge, true),
            (wide, true),
        ] {
            let request = read(&object);
            assert!(request.whole.is_none() && request.request.is_empty());
            assert_eq!(request.is_too_large, is_too_large);
        }
    }

    #[test]
    fn missing_parts_are_absence() {
        for object in [
            json!({}),
            json!({ "metadata": {}, "spec": { "groups": null }, "status": null }),
        ] {
            assert_eq!(read(&object).username, "");
        }
        let broken = json!({ "spec": { "usages": 1 } });
        assert!(serde_json::from_value::<CertificateObject>(broken).is_err());
    }

    #[test]
    fn what_is_no_object_is_no_request() {
        for text in ["[]", "null", "7", "\"c\"", r#"[{"name": "c"}]"#] {
            assert!(
                serde_json::from_str::<CertificateObject>(text).is_err(),
                "{text}"
            );
        }
        // Without any metadata nobody can ask for it, but it can be read.
        assert_eq!(read(&json!({})).name, "");
    }
}
