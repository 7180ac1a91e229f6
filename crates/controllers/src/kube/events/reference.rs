//! References to the objects that events are about.
//!
//! The uid is the object's own, as upstream's cloud controllers write it (the kubelet writes the
//! node's *name* there; `kubectl describe node` looks for both).

use bowline_core::ServiceKey;
use k8s_openapi::api::core::v1::ObjectReference;

/// A Node. Upstream gives the resource version with `Synced` and leaves it out in the life cycle.
pub fn node_reference(name: &str, uid: &str, resource_version: Option<&str>) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        resource_version: resource_version.map(str::to_owned),
        ..ObjectReference::default()
    }
}

/// A Pod of which no more is known than its name.
pub fn pod_reference(namespace: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

pub fn lease_reference(
    namespace: &str,
    name: &str,
    uid: Option<&str>,
    resource_version: Option<&str>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: uid.map(str::to_owned),
        resource_version: resource_version.map(str::to_owned),
        ..ObjectReference::default()
    }
}

pub fn service_reference(key: &ServiceKey, uid: &str, resource_version: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some(key.namespace.clone()),
        name: Some(key.name.clone()),
        uid: Some(uid.to_owned()),
        resource_version: Some(resource_version.to_owned()),
        ..ObjectReference::default()
    }
}

/// A CertificateSigningRequest.
pub fn certificate_reference(name: &str, uid: &str, resource_version: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("certificates.k8s.io/v1".to_owned()),
        kind: Some("CertificateSigningRequest".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        resource_version: Some(resource_version.to_owned()),
        ..ObjectReference::default()
    }
}
