//! Listeners of load balancers.

use serde::Deserialize;
use uuid::Uuid;

use super::resource::{Resource, or_default, stub};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Listener {
    pub(crate) uuid: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "stub")]
    pub(crate) pool: Option<Uuid>,
    #[serde(default, deserialize_with = "stub")]
    pub(crate) load_balancer: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) protocol: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) protocol_port: u16,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) allowed_cidrs: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) timeout_client_data_ms: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) timeout_member_connect_ms: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) timeout_member_data_ms: i64,
}

impl Resource for Listener {
    const KIND: &'static str = "listener";
}
