//! Instance pools: the only targets that load balancers know.

use bowline_core::CloudError;
use bowline_http::Route;
use serde::Deserialize;
use uuid::Uuid;

use super::Api;
use super::instance::Manager;
use super::resource::{Listing, or_default, references};

const INSTANCE_POOLS: &str = "instance-pool";
const INSTANCE_POOL: &str = "instance-pool/:id";

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct InstancePool {
    pub(crate) id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "references")]
    pub(crate) instances: Vec<Option<Uuid>>,
    /// An SKS nodepool, perhaps.
    #[serde(default)]
    pub(crate) manager: Option<Manager>,
}

impl Api {
    pub(crate) async fn instance_pools(&self) -> Result<Listing<InstancePool>, CloudError> {
        self.list(Route::new(INSTANCE_POOLS), "instance-pools")
            .await
    }

    pub(crate) async fn instance_pool(&self, id: Uuid) -> Result<InstancePool, CloudError> {
        let route = Route::new(INSTANCE_POOL).with("id", id.to_string());
        self.read(route).await
    }
}
