//! Zones: where each part of the cloud has its API.

use bowline_core::CloudError;
use bowline_http::Route;
use serde::Deserialize;

use super::resource::{Listing, or_default};
use super::{Api, about_a_collection};

pub(super) const ZONES: &str = "zone";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Zone {
    /// Its short name, such as `ch-gva-2`.
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    /// The root of its API, with the version.
    #[serde(deserialize_with = "or_default")]
    pub(crate) api_endpoint: String,
}

impl Api {
    /// `GET /zone`, unsigned: the list is public, and a signature would be checked against a role
    /// that may not allow it.
    pub(crate) async fn zones(&self) -> Result<Listing<Zone>, CloudError> {
        let reply = self.http.get(Route::new(ZONES)).anonymous().send().await;
        let reply = reply.map_err(about_a_collection)?;
        Ok(reply.items_if_any::<Zone, _>("zones")?)
    }
}
