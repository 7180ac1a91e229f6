//! Clusters of the vendor's own Kubernetes, for the names of their nodepools.

use bowline_core::CloudError;
use bowline_http::Route;
use serde::Deserialize;
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, listing, or_default, reference};

const CLUSTERS: &str = "sks-cluster";

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct SksCluster {
    pub(crate) id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "listing")]
    pub(crate) nodepools: Listing<SksNodepool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct SksNodepool {
    #[serde(default)]
    pub(crate) id: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "reference")]
    pub(crate) instance_pool: Option<Uuid>,
}

impl Api {
    pub(crate) async fn sks_clusters(&self) -> Result<Listing<SksCluster>, CloudError> {
        self.list(Route::new(CLUSTERS), "sks-clusters").await
    }
}
