//! Private networks: managed ones give out addresses of a range, and list the holders.

use std::net::IpAddr;

use bowline_core::CloudError;
use bowline_http::Route;
use serde::Deserialize;
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, address, listing};

const PRIVATE_NETWORK: &str = "private-network/:id";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PrivateNetwork {
    /// The first address that it gives out; none if it gives out none.
    #[serde(default, deserialize_with = "address")]
    pub(crate) start_ip: Option<IpAddr>,
    #[serde(default, deserialize_with = "address")]
    pub(crate) end_ip: Option<IpAddr>,
    #[serde(default, deserialize_with = "listing")]
    pub(crate) leases: Listing<Lease>,
}

/// An address of a private network that an instance has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Lease {
    #[serde(default, deserialize_with = "address")]
    pub(crate) ip: Option<IpAddr>,
    #[serde(default)]
    pub(crate) instance_id: Option<Uuid>,
}

impl PrivateNetwork {
    /// Whether it gives out that address, and so knows its owner.
    pub(crate) fn gives_out(&self, address: IpAddr) -> bool {
        let same_family = |other: IpAddr| other.is_ipv4() == address.is_ipv4();
        match (self.start_ip, self.end_ip) {
            (Some(start), Some(end)) => {
                same_family(start) && same_family(end) && (start..=end).contains(&address)
            }
            _ => false,
        }
    }

    pub(crate) fn has_leased(&self, address: IpAddr, instance: Uuid) -> bool {
        let mut leases = self.leases.items.iter();
        leases.any(|it| it.ip == Some(address) && it.instance_id == Some(instance))
    }
}

impl Api {
    pub(crate) async fn private_network(&self, id: Uuid) -> Result<PrivateNetwork, CloudError> {
        let route = Route::new(PRIVATE_NETWORK).with("id", id.to_string());
        self.read(route).await
    }
}
