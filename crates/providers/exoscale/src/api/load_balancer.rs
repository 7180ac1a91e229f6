//! Network load balancers: one public IPv4 address each, and up to ten services behind it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::{CallError, Route};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::resource::{Listing, address, listing, or_default};
use super::{Api, LoadBalancerService, Operation, about_a_collection};

const LOAD_BALANCERS: &str = "load-balancer";
const LOAD_BALANCER: &str = "load-balancer/:id";
/// The key of the list in its answer.
const LISTED: &str = "load-balancers";
const DESCRIPTION: &str = "load-balancer/:id/description";

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct LoadBalancer {
    pub(crate) id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) description: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) state: LoadBalancerState,
    /// IPv4; none for some time after it was made.
    #[serde(default, deserialize_with = "address")]
    pub(crate) ip: Option<IpAddr>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "listing")]
    pub(crate) services: Listing<LoadBalancerService>,
}

impl LoadBalancer {
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.ip.filter(|ip| !ip.is_unspecified())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LoadBalancerState {
    Creating,
    Running,
    Deleting,
    Migrating,
    Migrated,
    Error,
    /// Absent, or newer than this program.
    #[default]
    #[serde(other)]
    Other,
}

/// A load balancer to be made. What is empty is not sent: the API refuses empty texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct NewLoadBalancer {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) description: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
}

/// What is to change about a load balancer; what is none stays. A description is emptied by
/// [`Api::reset_load_balancer_field`] alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LoadBalancerChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) labels: Option<BTreeMap<String, String>>,
}

impl Api {
    pub(crate) async fn load_balancers(&self) -> Result<Listing<LoadBalancer>, CloudError> {
        self.list(Route::new(LOAD_BALANCERS), LISTED).await
    }

    pub(crate) async fn load_balancer(&self, id: Uuid) -> Result<LoadBalancer, CloudError> {
        self.read(one(id)).await
    }

    /// Whether the list of load balancers shows that one, whatever is answered about its id: whoever may not see it may
    /// get a 404. Not if the role allows no list: the original does without.
    pub(crate) async fn is_listed(&self, id: Uuid) -> Result<bool, CallError> {
        let reply = match self.http.get(Route::new(LOAD_BALANCERS)).send().await {
            Err(error) if error.kind() == CloudErrorKind::Denied => return Ok(false),
            reply => reply.map_err(about_a_collection)?,
        };
        let all: Listing<LoadBalancer> = reply.items_if_any(LISTED)?;
        // One that cannot be read may be it.
        Ok(!all.bad.is_empty() || all.items.iter().any(|it| it.id == id))
    }

    pub(crate) async fn create_load_balancer(
        &self,
        body: &NewLoadBalancer,
    ) -> Result<Operation, CallError> {
        self.create(Route::new(LOAD_BALANCERS), body).await
    }

    pub(crate) async fn update_load_balancer(
        &self,
        id: Uuid,
        body: &LoadBalancerChange,
    ) -> Result<Operation, CallError> {
        self.update(one(id), body).await
    }

    /// `DELETE /load-balancer/<uuid>`; none if it is not there.
    pub(crate) async fn delete_load_balancer(
        &self,
        id: Uuid,
    ) -> Result<Option<Operation>, CallError> {
        self.remove(one(id), self.is_listed(id)).await
    }

    pub(crate) async fn reset_description(&self, id: Uuid) -> Result<Operation, CallError> {
        let route = Route::new(DESCRIPTION).with("id", id.to_string());
        self.reset(route).await
    }
}

pub(super) fn one(id: Uuid) -> Route {
    Route::new(LOAD_BALANCER).with("id", id.to_string())
}
