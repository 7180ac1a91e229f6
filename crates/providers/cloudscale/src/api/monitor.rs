//! Health monitors of pools.

use bowline_core::CloudError;
use bowline_http::{CallError, Route};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, Resource, or_default, stub};

const MONITORS: &str = "v1/load-balancers/health-monitors";
const MONITOR: &str = "v1/load-balancers/health-monitors/:id";

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Monitor {
    pub(crate) uuid: Uuid,
    #[serde(default, deserialize_with = "stub")]
    pub(crate) pool: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) delay_s: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) timeout_s: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) up_threshold: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) down_threshold: i64,
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
    /// Null for types other than `http` and `https`.
    #[serde(default)]
    pub(crate) http: Option<SeenHttp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct SeenHttp {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) expected_codes: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) method: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) url_path: String,
    #[serde(default)]
    pub(crate) version: Option<String>,
    #[serde(default)]
    pub(crate) host: Option<String>,
}

impl Resource for Monitor {
    const KIND: &'static str = "health monitor";
}

impl Api {
    pub(crate) async fn monitors(&self) -> Result<Listing<Monitor>, CloudError> {
        self.list(Route::new(MONITORS)).await
    }

    pub(crate) async fn create_monitor(
        &self,
        body: &Map<String, Value>,
    ) -> Result<Monitor, CallError> {
        self.create(Route::new(MONITORS), body).await
    }

    pub(crate) async fn change_monitor(
        &self,
        id: Uuid,
        body: &Map<String, Value>,
    ) -> Result<(), CallError> {
        self.change(one(id), body).await
    }

    pub(crate) async fn delete_monitor(&self, id: Uuid) -> Result<(), CallError> {
        self.remove(one(id)).await
    }
}

fn one(id: Uuid) -> Route {
    Route::new(MONITOR).with("id", id.to_string())
}
