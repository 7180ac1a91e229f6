//! Pools of load balancers.

use std::collections::BTreeMap;

use serde::Deserialize;
use uuid::Uuid;

use super::resource::{Resource, or_default, stub};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Pool {
    pub(crate) uuid: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    /// RFC 3339 in UTC with microseconds: texts that sort as times.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) created_at: String,
    #[serde(default, deserialize_with = "stub")]
    pub(crate) load_balancer: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) algorithm: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) protocol: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: BTreeMap<String, String>,
}

impl Resource for Pool {
    const KIND: &'static str = "pool";
}
