//! Pools of load balancers.

use std::collections::BTreeMap;

use bowline_core::CloudError;
use bowline_http::{CallError, Route};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, Resource, or_default, stub};

const POOLS: &str = "v1/load-balancers/pools";
const POOL: &str = "v1/load-balancers/pools/:id";

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

impl Api {
    pub(crate) async fn pools(&self) -> Result<Listing<Pool>, CloudError> {
        self.list(Route::new(POOLS)).await
    }

    pub(crate) async fn create_pool(&self, body: &Map<String, Value>) -> Result<Pool, CallError> {
        self.create(Route::new(POOLS), body).await
    }

    pub(crate) async fn delete_pool(&self, id: Uuid) -> Result<(), CallError> {
        self.remove(Route::new(POOL).with("id", id.to_string()))
            .await
    }
}
