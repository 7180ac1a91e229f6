//! Listeners of load balancers.

use bowline_core::CloudError;
use bowline_http::{CallError, Route};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, Resource, or_default, stub};

const LISTENERS: &str = "v1/load-balancers/listeners";
const LISTENER: &str = "v1/load-balancers/listeners/:id";

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

impl Api {
    pub(crate) async fn listeners(&self) -> Result<Listing<Listener>, CloudError> {
        self.list(Route::new(LISTENERS)).await
    }

    pub(crate) async fn create_listener(
        &self,
        body: &Map<String, Value>,
    ) -> Result<Listener, CallError> {
        self.create(Route::new(LISTENERS), body).await
    }

    pub(crate) async fn change_listener(
        &self,
        id: Uuid,
        body: &Map<String, Value>,
    ) -> Result<(), CallError> {
        self.change(one(id), body).await
    }

    pub(crate) async fn delete_listener(&self, id: Uuid) -> Result<(), CallError> {
        self.remove(one(id)).await
    }
}

fn one(id: Uuid) -> Route {
    Route::new(LISTENER).with("id", id.to_string())
}
