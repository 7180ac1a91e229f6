//! The API as typed calls. Nothing here decides; what an answer means is the caller's matter.
//!
//! Reads fail with a [`CloudError`]. Writes fail with a [`CallError`], whose status some callers
//! need, and succeed with an [`Operation`] that shows the cloud's progress.

mod error;
mod instance;
mod instance_pool;
mod instance_type;
mod load_balancer;
mod load_balancer_service;
mod operation;
mod private_network;
mod resource;
mod signature;
mod sks;
#[cfg(test)]
mod tests;
mod zone;

use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::{CallError, HttpClient, RetryPolicy, Route};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use error::error_text;
pub(crate) use instance::{Instance, InstanceState};
pub(crate) use instance_type::InstanceType;
pub(crate) use load_balancer::{
    LoadBalancer, LoadBalancerChange, LoadBalancerState, NewLoadBalancer,
};
pub(crate) use load_balancer_service::{
    HealthCheck, LoadBalancerService, NewService, Reference, ServiceChange, ServiceState,
};
pub(crate) use operation::{Operation, OperationReference, OperationState};
pub(crate) use private_network::PrivateNetwork;
pub(crate) use resource::Listing;
pub use signature::KeyPair;
pub(crate) use sks::SksCluster;
pub(crate) use zone::Zone;

pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The limit of one call: five requests that all time out, and the waits between them (1 s + 2 s +
/// 4 s + 8 s, and their jitter), fit in.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(180);

/// Four repetitions after 1, 2, 4 and 8 s. What is repeated is `bowline-http`'s rule: reads and
/// repeatable writes after any failure that may pass, other writes only if nothing was sent, or
/// after a 429 or 503.
pub(crate) fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        attempts: 5,
        first_wait: Duration::from_secs(1),
        longest_wait: Duration::from_secs(30),
        jitter: 0.1,
        ..RetryPolicy::default()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Api {
    http: HttpClient,
}

impl Api {
    pub(crate) fn new(http: HttpClient) -> Self {
        Self { http }
    }

    /// All items of a collection, in one answer. The API leaves an empty list out at times.
    async fn list<T: DeserializeOwned>(
        &self,
        route: Route,
        key: &str,
    ) -> Result<Listing<T>, CloudError> {
        let reply = self.http.get(route).send().await;
        let reply = reply.map_err(about_a_collection)?;
        Ok(reply.items_if_any::<T, _>(key)?)
    }

    /// One item. Not found is the cloud's answer about this very item.
    async fn read<T: DeserializeOwned>(&self, route: Route) -> Result<T, CloudError> {
        Ok(self.http.get(route).send().await?.json()?)
    }

    /// A new item. It is not repeated when its outcome is not known: look for it first.
    async fn create(&self, route: Route, body: &impl Serialize) -> Result<Operation, CallError> {
        self.http.post(route).json(body).send().await?.json()
    }

    /// An item as it should be; saying it twice changes nothing.
    async fn update(&self, route: Route, body: &impl Serialize) -> Result<Operation, CallError> {
        let call = self.http.put(route).json(body).repeatable();
        call.send().await?.json()
    }

    /// The end of an item; none if it is not there. A 404 alone does not say so: whoever may not delete, or not read, may
    /// get that, too. So what contains it is read as well, if it comes to that.
    async fn remove(
        &self,
        route: Route,
        is_contained: impl Future<Output = Result<bool, CallError>>,
    ) -> Result<Option<Operation>, CallError> {
        let refusal = match self.http.delete(route.clone()).repeatable().send().await {
            Ok(reply) => return reply.json().map(Some),
            Err(error) if error.kind() == CloudErrorKind::NotFound => error,
            Err(error) => return Err(error),
        };
        let is_there = match self.http.get(route).send().await {
            Err(error) if error.kind() == CloudErrorKind::NotFound => is_contained.await?,
            Err(error) => return Err(error),
            Ok(_) => true,
        };
        if is_there {
            return Err(refusal.with_kind(CloudErrorKind::Unknown));
        }
        Ok(None)
    }

    async fn reset(&self, route: Route) -> Result<Operation, CallError> {
        self.http.delete(route).repeatable().send().await?.json()
    }
}

/// A 404 of a collection means that the URL is wrong, not that an item does not exist.
fn about_a_collection(error: CallError) -> CallError {
    if error.kind() == CloudErrorKind::NotFound {
        error.with_kind(CloudErrorKind::Unknown)
    } else {
        error
    }
}
