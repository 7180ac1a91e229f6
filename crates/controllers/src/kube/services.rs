//! All Services of the cluster.

use bowline_core::{Service, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kube::objects::ServiceObject;
use crate::kube::store::{Store, StoreChange, Stored};

/// The Services as last seen, by namespace and name.
pub type Services = Store<Service>;

pub type ServiceChange = StoreChange<Service>;

/// What tells apart objects of a kind that live in namespaces.
pub(crate) fn namespace_and_name(metadata: &ObjectMeta) -> ServiceKey {
    ServiceKey {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

/// The field selector for one of them.
pub(crate) fn selector_of(key: &ServiceKey) -> String {
    format!(
        "metadata.namespace={},metadata.name={}",
        key.namespace, key.name
    )
}

impl Stored for Service {
    type Key = ServiceKey;
    type Object = ServiceObject;
    const PLURAL: &'static str = "services";

    fn selector(key: &ServiceKey) -> String {
        selector_of(key)
    }

    fn key_in(metadata: &ObjectMeta) -> ServiceKey {
        namespace_and_name(metadata)
    }

    fn key(&self) -> ServiceKey {
        self.key.clone()
    }

    crate::kube::store::versioned!();
}
