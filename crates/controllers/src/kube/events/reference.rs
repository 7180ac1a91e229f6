//! References to the objects that events are about.
//!
//! The uid is the object's own, as upstream's cloud controllers write it (the kubelet writes the
//! node's *name* there; `kubectl describe node` looks for both).

use bowline_core::{Node, Service};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::kube::csr_store::Requested;

/// Without the resource version, which upstream leaves out in the life cycle.
pub fn node_reference(node: &Node) -> ObjectReference {
    ObjectReference {
        uid: Some(node.uid.clone()),
        ..named("v1", "Node", &node.name)
    }
}

/// With the resource version, which upstream gives with `Synced`.
pub fn versioned_node_reference(node: &Node) -> ObjectReference {
    ObjectReference {
        resource_version: Some(node.resource_version.clone()),
        ..node_reference(node)
    }
}

/// A Pod of which no more is known than its name.
pub fn pod_reference(namespace: &str, name: &str) -> ObjectReference {
    ObjectReference {
        namespace: Some(namespace.to_owned()),
        ..named("v1", "Pod", name)
    }
}

pub fn lease_reference(namespace: &str, name: &str) -> ObjectReference {
    ObjectReference {
        namespace: Some(namespace.to_owned()),
        ..named("coordination.k8s.io/v1", "Lease", name)
    }
}

pub fn service_reference(service: &Service) -> ObjectReference {
    ObjectReference {
        namespace: Some(service.key.namespace.clone()),
        uid: Some(service.uid.clone()),
        resource_version: Some(service.resource_version.clone()),
        ..named("v1", "Service", &service.key.name)
    }
}

pub fn certificate_reference(request: &Requested) -> ObjectReference {
    let kind = "CertificateSigningRequest";
    ObjectReference {
        uid: Some(request.uid.clone()),
        resource_version: Some(request.resource_version.clone()),
        ..named("certificates.k8s.io/v1", kind, &request.name)
    }
}

fn named(api_version: &str, kind: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}
