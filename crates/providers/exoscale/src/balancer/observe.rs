//! Reads what the cloud has. A failed read is an error, never absence.
//!
//! One list serves many Services. It shows which load balancers may be a Service's; each of those is read by its id
//! before anything is concluded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::{CachedRead, OwnWrites, Writing};
use tracing::info;
use uuid::Uuid;

use crate::api::{Api, Listing, LoadBalancer};
use crate::instances::LIST_AGE;

pub(crate) struct Observer {
    api: Api,
    balancers: CachedRead<Listing<LoadBalancer>>,
    /// What was written for Services.
    writes: OwnWrites,
    /// Each fallback is reported once.
    reported_no_list: AtomicBool,
}

impl Observer {
    pub(crate) fn new(api: Api) -> Self {
        let writes = OwnWrites::new(LIST_AGE);
        Self {
            api,
            balancers: CachedRead::sharing(writes.generation()),
            writes,
            reported_no_list: AtomicBool::new(false),
        }
    }

    /// Other credentials may see more.
    pub(crate) fn forget(&self) {
        self.writes.forget();
        self.reported_no_list.store(false, Ordering::Relaxed);
    }

    /// Something is being written for that Service.
    pub(crate) fn writing<'a>(&'a self, service_uid: &'a str) -> Writing<'a> {
        self.writes.writing(service_uid)
    }

    /// A load balancer by its id; none only by the cloud's answer about this very one, if no list shows it.
    pub(crate) async fn read(&self, id: Uuid) -> Result<Option<LoadBalancer>, CloudError> {
        match self.api.load_balancer(id).await {
            Ok(balancer) if balancer.id == id => Ok(Some(balancer)),
            Ok(other) => Err(CloudError::new(
                CloudErrorKind::Unknown,
                format!(
                    "GET load-balancer/{id} answered with load balancer {}",
                    other.id
                ),
            )),
            Err(error) if error.kind() == CloudErrorKind::NotFound => {
                if self.api.is_listed(id).await? {
                    let text = format!("load balancer {id} is listed, but cannot be read");
                    return Err(CloudError::new(CloudErrorKind::Unknown, text).caused_by(error));
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn all(&self) -> Result<Listing<LoadBalancer>, CloudError> {
        self.api.load_balancers().await
    }

    /// The same, or none if the role does not allow it: the original does without.
    pub(crate) async fn all_if_allowed(&self) -> Result<Option<Listing<LoadBalancer>>, CloudError> {
        self.if_allowed(self.all().await)
    }

    /// The same, as a list that is not older than [`LIST_AGE`] shows them, nor than the last write for that Service.
    pub(crate) async fn recent_if_allowed(
        &self,
        service_uid: &str,
    ) -> Result<Option<Arc<Listing<LoadBalancer>>>, CloudError> {
        let fresh = self.writes.freshness(service_uid);
        let list = self.balancers.get(fresh, |_| self.all()).await;
        self.if_allowed(list.map(|it| it.value))
    }

    fn if_allowed<T>(&self, list: Result<T, CloudError>) -> Result<Option<T>, CloudError> {
        match list {
            Ok(list) => Ok(Some(list)),
            Err(error) if error.kind() == CloudErrorKind::Denied => {
                if !self.reported_no_list.swap(true, Ordering::Relaxed) {
                    info!(
                        error = error.chain(),
                        "load balancers cannot be listed: none is adopted by its name or labels"
                    );
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// An error if a service of that load balancer cannot be read: which port it has is not known.
pub(crate) fn readable(balancer: &LoadBalancer) -> Result<(), CloudError> {
    let Some(bad) = balancer.services.bad.first() else {
        return Ok(());
    };
    let which = bad.object.as_deref().unwrap_or("without a name");
    Err(CloudError::new(
        CloudErrorKind::Unknown,
        format!(
            "service {which} of load balancer {:?} ({}) cannot be read: {}",
            balancer.name, balancer.id, bad.reason
        ),
    ))
}

/// An error if an item of a list cannot be read: it may be the one that is looked for.
pub(crate) fn all_readable<T>(kind: &str, list: &Listing<T>) -> Result<(), CloudError> {
    let Some(bad) = list.bad.first() else {
        return Ok(());
    };
    let which = bad.object.as_deref().unwrap_or("without a name");
    let message = format!("{kind} {which} cannot be read: {}", bad.reason);
    Err(CloudError::new(CloudErrorKind::Unknown, message))
}
