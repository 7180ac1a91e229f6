//! What some clouds need besides Services and nodes: the uid of the cluster, and the endpoints of
//! Services. What no cloud needs is not read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{
    BalancerRequest, CloudName, DraftError, Endpoints, Need, PreparedPlan, Service, error_chain,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

use super::ServiceController;
use crate::clouds::accounts::AccountKey;
use crate::kube::consistent;
use crate::kube::endpoints::{SliceChange, concerned, depends_on_endpoints, endpoints};
use crate::kube::services::ServiceChange;
use crate::report::{Fact, emit};
use tokio_util::sync::CancellationToken;

/// The namespace that lives as long as its cluster: its uid is the cluster's.
const SYSTEM: &str = "kube-system";
/// The pause between two tries to read it: one small request, and somebody may just be giving us the right.
const PAUSE: Duration = Duration::from_secs(5);
/// How long one try may take: the client itself would wait for ever on a half-open connection.
const TRY: Duration = Duration::from_secs(30);
/// How long the start waits for all that is needed. Usually it is there at once; and if it is not, the other
/// clouds are not to wait for it.
const SOON: Duration = Duration::from_secs(10);
/// After what time a Service is looked at again that waits for it.
const LATER: Duration = Duration::from_secs(5);

/// The report where the uid of the cluster may not be read and work goes on without.
pub(crate) const WITHOUT_UID: &str = "The uid of namespace kube-system may not be read, so that load balancers are marked \
     with the name of the cluster alone: none is taken over from an earlier Service of the same name, and none whose \
     Service is gone is removed. Grant the permission to get that namespace, or set --cluster-uid";

/// What is known of the cluster's uid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ClusterUid {
    /// Nothing yet.
    #[default]
    Open,
    /// It may not be read.
    Refused,
    Known(String),
}

impl ClusterUid {
    /// Whether work has to wait for more.
    fn is_too_little_for(&self, need: Need) -> bool {
        match (need, self) {
            (Need::No, _) | (_, Self::Known(_)) => false,
            (Need::IfAllowed, known) => *known == Self::Open,
            (Need::Required, _) => true,
        }
    }
}

#[derive(Default)]
pub(crate) struct KnownRequirements {
    cluster_uid: watch::Sender<ClusterUid>,
    /// Made when it is asked for, and void when a slice or a Service changes.
    endpoints: Mutex<Option<Arc<Endpoints>>>,
}

impl KnownRequirements {
    fn endpoints(&self) -> MutexGuard<'_, Option<Arc<Endpoints>>> {
        let endpoints = self.endpoints.lock();
        endpoints.unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) async fn cluster_uid(client: &kube::Client) -> kube::Result<Option<String>> {
    let kind = ApiResource::erase::<Namespace>(&());
    let namespace: DynamicObject = Api::all_with(client.clone(), &kind).get(SYSTEM).await?;
    Ok(namespace.metadata.uid)
}

impl ServiceController {
    /// Whether all is known that this cloud needs; otherwise nothing can be drafted.
    pub(crate) fn check_known(&self, cloud: &CloudName) -> Result<(), DraftError> {
        let needs = self.clouds.needs(cloud);
        let what = if self.lacks_cluster_uid(needs.cluster_uid) {
            format!("the uid of namespace {SYSTEM}")
        } else if needs.endpoints && !self.parts.slices.is_synced() {
            "the endpoints of Services".to_owned()
        } else {
            return Ok(());
        };
        Err(DraftError::Later { what, after: LATER })
    }

    /// What is to be done, unless that would rest on an account that is not proven.
    pub(crate) async fn drafted(
        &self,
        name: &CloudName,
        request: &mut BalancerRequest,
    ) -> Result<PreparedPlan, DraftError> {
        let Some(cloud) = self.clouds.cloud(name) else {
            return self.draft_knowing(name, request).await;
        };
        let key = AccountKey::of(cloud);
        let drafted = self.draft_knowing(name, request).await;
        self.check_account(cloud, request, key, drafted)
    }

    /// What is to be done, by a cloud that is given a consistent list of Services if it asks for one.
    async fn draft_knowing(
        &self,
        cloud: &CloudName,
        request: &mut BalancerRequest,
    ) -> Result<PreparedPlan, DraftError> {
        match self.clouds.draft(cloud, request).await {
            Err(needs @ DraftError::NeedsServices) if request.living.is_none() => {
                let list = consistent::uids::<Service>(&self.parts.reader);
                match timeout(TRY, list).await {
                    Ok(Ok(uids)) => {
                        // Nobody deleted those that a restored API server lacks.
                        let lost = self.parts.services.view().lost.into_keys();
                        request.living = Some(Arc::new(uids.into_values().chain(lost).collect()));
                    }
                    Ok(Err(error)) => {
                        warn!(
                            error = error_chain(&error),
                            "Services not listed; trying again"
                        );
                        return Err(needs);
                    }
                    Err(_) => {
                        warn!("listing Services takes longer than {TRY:?}; trying again");
                        return Err(needs);
                    }
                }
                self.clouds.draft(cloud, request).await
            }
            drafted => drafted,
        }
    }

    /// The uid of the cluster, once it is known.
    pub(crate) fn cluster_uid(&self) -> Option<String> {
        match &*self.known.cluster_uid.borrow() {
            ClusterUid::Known(uid) => Some(uid.clone()),
            ClusterUid::Open | ClusterUid::Refused => None,
        }
    }

    /// Whether work has to wait for the uid of the cluster.
    fn lacks_cluster_uid(&self, need: Need) -> bool {
        self.known.cluster_uid.borrow().is_too_little_for(need)
    }

    /// Where the endpoints of Services are, as far as that matters.
    pub(crate) fn endpoints(&self) -> Arc<Endpoints> {
        // Held meanwhile, so that a change that comes in between makes void what is made from before it.
        let mut made = self.known.endpoints();
        let make = || {
            let services = self.parts.services.view();
            let all = endpoints(&self.parts.slices.view(), |key| {
                let service = services.objects.get(key);
                let last_known = || services.unreadable.get(key).and_then(Option::as_ref);
                let service = service.or_else(last_known);
                service.is_some_and(|it| depends_on_endpoints(it))
            });
            Arc::new(all)
        };
        made.get_or_insert_with(make).clone()
    }

    /// A Service changed: it may ask for its endpoints by now.
    pub(crate) fn forget_endpoints_of(&self, change: &ServiceChange) {
        let before = change.before.as_deref().map(depends_on_endpoints);
        let after = change.after.as_deref().map(depends_on_endpoints);
        if before != after {
            *self.known.endpoints() = None;
        }
    }

    /// Endpoints changed. A Service to which it matters is looked at when they have settled.
    pub(crate) fn follow_endpoints(&self, change: &SliceChange) {
        for key in concerned(change) {
            *self.known.endpoints() = None;
            let service = self.parts.services.get(key);
            if service.is_some_and(|it| depends_on_endpoints(&it)) {
                self.targets_changed.notify_one();
            }
        }
    }

    /// Begins to learn the uid of the cluster, if somebody needs it.
    pub(crate) fn learn_cluster_uid(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        if let Some(uid) = &self.options.cluster_uid {
            let known = ClusterUid::Known(uid.clone());
            self.known.cluster_uid.send_replace(known);
        } else if self.clouds.all_needs().cluster_uid > Need::No {
            let (this, stop) = (self.clone(), stop.clone());
            tasks.spawn(async move {
                stop.run_until_cancelled(this.until_cluster_uid()).await;
            });
        }
    }

    async fn until_cluster_uid(&self) {
        let need = self.clouds.all_needs().cluster_uid;
        loop {
            match timeout(TRY, cluster_uid(&self.parts.reader)).await {
                Ok(Ok(Some(uid))) => {
                    info!(uid, "the cluster's uid");
                    let known = ClusterUid::Known(uid);
                    self.known.cluster_uid.send_replace(known);
                    return;
                }
                Ok(Ok(None)) => warn!("namespace {SYSTEM} has no uid"),
                Err(_) => warn!("reading namespace {SYSTEM} takes longer than {TRY:?}"),
                Ok(Err(error)) => {
                    if is_refused(&error) {
                        self.report_refusal(need);
                        if need < Need::Required {
                            return;
                        }
                    }
                    let error = error_chain(&error);
                    warn!(error, pause = ?PAUSE, "namespace {SYSTEM} is not read; trying again");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reports it once. Those that can do without go on.
    fn report_refusal(&self, need: Need) {
        if self.known.cluster_uid.send_replace(ClusterUid::Refused) == ClusterUid::Refused {
            return;
        }
        let text = if need == Need::Required {
            format!(
                "Load balancers wait for the uid of namespace {SYSTEM}, which may not be read: grant the right to \
                 get namespaces"
            )
        } else {
            WITHOUT_UID.to_owned()
        };
        let fact = Fact::warning(self.options.lease.clone(), "ClusterUIDForbidden", text);
        emit!(self.parts.recorder, fact);
    }

    /// Waits until all is known that any cloud needs, but not long.
    pub(crate) async fn know_soon(&self) {
        let needs = self.clouds.all_needs();
        let known = async {
            let mut uid = self.known.cluster_uid.subscribe();
            // The sender lives as long as `self`.
            let enough = uid.wait_for(|known| !known.is_too_little_for(needs.cluster_uid));
            let _ = enough.await;
            if needs.endpoints {
                self.parts.slices.synced().await;
            }
        };
        if timeout(SOON, known).await.is_err() {
            warn!("beginning without all that load balancers need; some wait for it");
        }
    }
}

/// Whether the API server says that we may not.
pub(crate) fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
