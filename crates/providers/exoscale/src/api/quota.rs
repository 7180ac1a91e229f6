//! Quotas, to say why something was refused.

use bowline_core::CloudError;
use bowline_http::Route;
use serde::Deserialize;

use super::Api;
use super::resource::{Listing, or_default};

/// All quotas of the organisation.
const QUOTAS: &str = "quota";
/// The resource that counts load balancers.
pub(crate) const LOAD_BALANCER_QUOTA: &str = "network-load-balancer";

/// How much of something there is, and how much there may be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Quota {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) resource: String,
    #[serde(default)]
    pub(crate) usage: Option<i64>,
    /// -1 is as much as one likes.
    #[serde(default)]
    pub(crate) limit: Option<i64>,
}

impl Api {
    /// `GET /quota`.
    pub(crate) async fn quotas(&self) -> Result<Listing<Quota>, CloudError> {
        self.list(Route::new(QUOTAS), "quotas").await
    }
}
