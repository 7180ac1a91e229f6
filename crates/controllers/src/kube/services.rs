//! The store of Services.

use bowline_core::{Service, ServiceKey};

use crate::kube::objects::ServiceObject;
use crate::kube::store::{Store, StoreChange, Stored};

/// The Services as last seen, by namespace and name.
pub type Services = Store<Service>;

pub type ServiceChange = StoreChange<Service>;

impl Stored for Service {
    type Key = ServiceKey;
    type Object = ServiceObject;
    const PLURAL: &'static str = "services";

    crate::kube::store::versioned!(key);
}
