//! Members of pools.

use std::net::IpAddr;

use bowline_core::CloudError;
use bowline_http::{CallError, Route};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, Resource, or_default, stub};

const MEMBERS: &str = "v1/load-balancers/pools/:pool_id/members";
const MEMBER: &str = "v1/load-balancers/pools/:pool_id/members/:id";

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Member {
    pub(crate) uuid: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    /// The API's default is that it is.
    #[serde(default)]
    pub(crate) enabled: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) protocol_port: u16,
    /// Null means that checks go to the protocol port.
    #[serde(default)]
    pub(crate) monitor_port: Option<u16>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) address: String,
    #[serde(default, deserialize_with = "stub")]
    pub(crate) subnet: Option<Uuid>,
}

impl Resource for Member {
    const KIND: &'static str = "member";
}

impl Member {
    /// Its address, whatever its spelling.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.address.parse().ok()
    }
}

impl Api {
    pub(crate) async fn members(&self, pool: Uuid) -> Result<Listing<Member>, CloudError> {
        self.list(all(pool)).await
    }

    pub(crate) async fn create_member(
        &self,
        pool: Uuid,
        body: &Map<String, Value>,
    ) -> Result<Member, CallError> {
        self.create(all(pool), body).await
    }

    pub(crate) async fn change_member(
        &self,
        pool: Uuid,
        id: Uuid,
        body: &Map<String, Value>,
    ) -> Result<(), CallError> {
        self.change(one(pool, id), body).await
    }

    pub(crate) async fn delete_member(&self, pool: Uuid, id: Uuid) -> Result<(), CallError> {
        // A pool that is gone lists nothing, and its members went with it.
        self.remove(one(pool, id)).await.map(|_| ())
    }
}

fn all(pool: Uuid) -> Route {
    Route::new(MEMBERS).with("pool_id", pool.to_string())
}

fn one(pool: Uuid, id: Uuid) -> Route {
    let route = Route::new(MEMBER).with("pool_id", pool.to_string());
    route.with("id", id.to_string())
}
