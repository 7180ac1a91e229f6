//! Load balancers.

use std::collections::BTreeMap;

use serde::Deserialize;
use uuid::Uuid;

use super::resource::{Resource, or_default, slug, stub};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct LoadBalancer {
    pub(crate) uuid: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    /// RFC 3339 in UTC with microseconds: texts that sort as times.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) created_at: String,
    #[serde(default, deserialize_with = "or_default")]
    status: String,
    #[serde(default, deserialize_with = "slug")]
    pub(crate) zone: String,
    #[serde(default, deserialize_with = "slug")]
    pub(crate) flavor: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) vip_addresses: Vec<VipAddress>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct VipAddress {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) address: String,
    #[serde(default, deserialize_with = "stub")]
    pub(crate) subnet: Option<Uuid>,
}

impl Resource for LoadBalancer {
    const KIND: &'static str = "load balancer";
}

impl LoadBalancer {
    /// Whether the cloud is at work on it. Every other state, `error` included, only shows how its
    /// members are, and is no reason to wait.
    pub(crate) fn is_changing(&self) -> bool {
        self.status == "changing"
    }
}
