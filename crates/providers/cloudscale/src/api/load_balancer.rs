//! Load balancers.

use std::collections::BTreeMap;

use bowline_core::CloudError;
use bowline_http::{CallError, Route};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, Resource, or_default, slug, stub};

const LOAD_BALANCERS: &str = "v1/load-balancers";
const LOAD_BALANCER: &str = "v1/load-balancers/:id";

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
    /// Whether the cloud is at work on it. Every other state, `error` included, only tells how its
    /// members are, and is no reason to wait.
    pub(crate) fn is_changing(&self) -> bool {
        self.status == "changing"
    }
}

impl Api {
    pub(crate) async fn load_balancers(&self) -> Result<Listing<LoadBalancer>, CloudError> {
        self.list(Route::new(LOAD_BALANCERS)).await
    }

    pub(crate) async fn load_balancer(&self, id: Uuid) -> Result<LoadBalancer, CloudError> {
        self.read(one(id)).await
    }

    pub(crate) async fn create_load_balancer(
        &self,
        body: &Map<String, Value>,
    ) -> Result<LoadBalancer, CallError> {
        self.create(Route::new(LOAD_BALANCERS), body).await
    }

    pub(crate) async fn change_load_balancer(
        &self,
        id: Uuid,
        body: &Map<String, Value>,
    ) -> Result<(), CallError> {
        self.change(one(id), body).await
    }

    pub(crate) async fn delete_load_balancer(&self, id: Uuid) -> Result<(), CallError> {
        self.remove(one(id)).await
    }
}

fn one(id: Uuid) -> Route {
    Route::new(LOAD_BALANCER).with("id", id.to_string())
}
