//! Instance types: what an instance has been rented as.

use bowline_core::CloudError;
use bowline_http::Route;
use serde::Deserialize;
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, or_default};

const INSTANCE_TYPES: &str = "instance-type";
const INSTANCE_TYPE: &str = "instance-type/:id";

/// An instance type. Family and size are open lists.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct InstanceType {
    pub(crate) id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) family: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) size: String,
}

impl Api {
    pub(crate) async fn instance_types(&self) -> Result<Listing<InstanceType>, CloudError> {
        self.list(Route::new(INSTANCE_TYPES), "instance-types")
            .await
    }

    pub(crate) async fn instance_type(&self, id: Uuid) -> Result<InstanceType, CloudError> {
        self.read(Route::new(INSTANCE_TYPE).with("id", id.to_string()))
            .await
    }
}
