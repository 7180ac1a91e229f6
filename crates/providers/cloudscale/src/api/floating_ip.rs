//! Floating IPs. They have no uuid: the address is the name.

use std::net::IpAddr;

use bowline_core::CloudError;
use bowline_http::{CallError, Route};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, Resource, stub};

const FLOATING_IPS: &str = "v1/floating-ips";
/// One of them, by its address without a prefix length.
const FLOATING_IP: &str = "v1/floating-ips/:address";

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct FloatingIp {
    /// `203.0.113.77/32`.
    pub(crate) network: String,
    #[serde(default, deserialize_with = "stub")]
    pub(crate) load_balancer: Option<Uuid>,
    #[serde(default, deserialize_with = "stub")]
    pub(crate) server: Option<Uuid>,
}

impl Resource for FloatingIp {
    const KIND: &'static str = "floating IP";
}

impl FloatingIp {
    pub(crate) fn address(&self) -> Option<IpAddr> {
        let address = self.network.split('/').next()?;
        address.parse().ok()
    }
}

impl Api {
    pub(crate) async fn floating_ips(&self) -> Result<Listing<FloatingIp>, CloudError> {
        self.list(Route::new(FLOATING_IPS)).await
    }

    pub(crate) async fn change_floating_ip(
        &self,
        address: IpAddr,
        body: &Map<String, Value>,
    ) -> Result<(), CallError> {
        let route = Route::new(FLOATING_IP).with("address", address.to_string());
        self.change(route, body).await
    }
}
