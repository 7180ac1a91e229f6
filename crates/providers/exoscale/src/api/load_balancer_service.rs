//! Services of a load balancer: one listener and the pool behind it.

use std::net::IpAddr;

use bowline_core::CloudErrorKind;
use bowline_http::{CallError, Route};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::resource::{Listing, address, listing, or_default, reference};
use super::{Api, LoadBalancer, Operation, load_balancer};

const SERVICES: &str = "load-balancer/:id/service";
const SERVICE: &str = "load-balancer/:id/service/:service";
/// The one field of it that can be emptied.
const DESCRIPTION: &str = "load-balancer/:id/service/:service/description";

/// A service of a load balancer. Protocol, strategy and mode are kept as they are written: what is
/// not known here must still be seen to differ.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct LoadBalancerService {
    pub(crate) id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) description: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) state: ServiceState,
    /// `tcp` or `udp`.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) protocol: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) port: u16,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) target_port: u16,
    /// `round-robin`, `source-hash` or `maglev-hash`.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) strategy: String,
    /// The id of its pool; whatever else the answer shows of it means nothing.
    #[serde(default, deserialize_with = "reference")]
    pub(crate) instance_pool: Option<Uuid>,
    #[serde(default)]
    pub(crate) healthcheck: Option<HealthCheck>,
    #[serde(default, deserialize_with = "listing")]
    pub(crate) healthcheck_status: Listing<HealthStatus>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServiceState {
    Creating,
    Running,
    Updating,
    Deleting,
    Error,
    /// Absent, or newer than this program.
    #[default]
    #[serde(other)]
    Other,
}

/// How the members of a pool are checked. A change replaces it as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct HealthCheck {
    /// `tcp`, `http` or `https`.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) mode: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) port: u16,
    /// For http and https; empty is not sent.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub(crate) uri: String,
    /// Seconds.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) interval: i64,
    /// Seconds.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) timeout: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) retries: i64,
    /// For https; empty is not sent.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub(crate) tls_sni: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct HealthStatus {
    #[serde(default, deserialize_with = "address")]
    pub(crate) public_ip: Option<IpAddr>,
    /// `success` or `failure`.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: String,
}

/// A service to be made. All of it is required but the description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct NewService {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) description: String,
    pub(crate) protocol: String,
    pub(crate) port: u16,
    pub(crate) target_port: u16,
    pub(crate) strategy: String,
    pub(crate) instance_pool: Reference,
    pub(crate) healthcheck: HealthCheck,
}

/// An object in a body, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reference {
    pub(crate) id: Uuid,
}

/// What is to change about a service; what is none stays. Its pool cannot change, and its
/// description is emptied by [`Api::reset_service_description`] alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ServiceChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) strategy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) healthcheck: Option<HealthCheck>,
}

impl Api {
    /// `POST /load-balancer/<uuid>/service`. The operation refers to the load balancer, never to
    /// the new service.
    pub(crate) async fn add_service(
        &self,
        balancer: Uuid,
        body: &NewService,
    ) -> Result<Operation, CallError> {
        let route = Route::new(SERVICES).with("id", balancer.to_string());
        self.create(route, body).await
    }

    pub(crate) async fn update_service(
        &self,
        balancer: Uuid,
        service: Uuid,
        body: &ServiceChange,
    ) -> Result<Operation, CallError> {
        self.update(one(SERVICE, balancer, service), body).await
    }

    /// `DELETE /load-balancer/<uuid>/service/<uuid>`; none if it is not there.
    pub(crate) async fn delete_service(
        &self,
        balancer: Uuid,
        service: Uuid,
    ) -> Result<Option<Operation>, CallError> {
        let is_on_it = async {
            let balancer: LoadBalancer =
                match self.http.get(load_balancer::one(balancer)).send().await {
                    // Whoever may not see a load balancer sees nothing on it either.
                    Err(error) if error.kind() == CloudErrorKind::NotFound => {
                        return self.is_listed(balancer).await;
                    }
                    reply => reply?.json()?,
                };
            let on_it = &balancer.services;
            Ok(!on_it.bad.is_empty() || on_it.items.iter().any(|it| it.id == service))
        };
        self.remove(one(SERVICE, balancer, service), is_on_it).await
    }

    pub(crate) async fn reset_service_description(
        &self,
        balancer: Uuid,
        service: Uuid,
    ) -> Result<Operation, CallError> {
        self.reset(one(DESCRIPTION, balancer, service)).await
    }
}

fn one(template: &'static str, balancer: Uuid, service: Uuid) -> Route {
    Route::new(template)
        .with("id", balancer.to_string())
        .with("service", service.to_string())
}
