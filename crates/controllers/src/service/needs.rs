//! What some clouds need to know about the cluster besides Services and nodes: its uid, and where
//! the endpoints of Services are. What no cloud needs is not read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{CloudName, Draft, DraftError, Endpoints, Need, Service, Wish, error_chain};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

use super::ServiceController;
use crate::accounts::AccountKey;
use crate::consistent;
use crate::endpoints::{SliceChange, concerned, depends_on_endpoints, endpoints};
use crate::events::EventType;
use crate::services::ServiceChange;
use crate::stop::Stop;

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

/// After what time a Service is looked at again for which all Services could not be listed.
pub(super) const SERVICES_PAUSE: Duration = Duration::from_secs(5);

/// What is known of it.
#[derive(Default)]
pub(super) struct Known {
    cluster_uid: watch::Sender<Option<String>>,
    /// Made when it is asked for, and void when a slice or a Service changes.
    endpoints: Mutex<Option<Arc<Endpoints>>>,
}

impl Known {
    fn endpoints(&self) -> MutexGuard<'_, Option<Arc<Endpoints>>> {
        let endpoints = self.endpoints.lock();
        endpoints.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The uid of the cluster.
pub(crate) async fn cluster_uid(client: &kube::Client) -> kube::Result<Option<String>> {
    let api: Api<Namespace> = Api::all(client.clone());
    Ok(api.get(SYSTEM).await?.metadata.uid)
}

impl ServiceController {
    /// Whether all is known that this cloud needs; otherwise nothing can be drafted.
    pub(super) fn check_known(&self, cloud: &CloudName) -> Result<(), DraftError> {
        let needs = self.clouds.needs(cloud);
        let what = if needs.cluster_uid == Need::Required && self.cluster_uid().is_none() {
            format!("the uid of namespace {SYSTEM}")
        } else if needs.endpoints && !self.parts.slices.is_synced() {
            "the endpoints of Services".to_owned()
        } else {
            return Ok(());
        };
        Err(DraftError::Later { what, after: LATER })
    }

    /// What is to be done, unless that would rest on an account that is not proven.
    pub(super) async fn drafted(
        &self,
        name: &CloudName,
        wish: &mut Wish,
    ) -> Result<Draft, DraftError> {
        let Some(cloud) = self.clouds.cloud(name) else {
            return self.draft_knowing(name, wish).await;
        };
        let key = AccountKey::of(cloud);
        wish.account = self.accounts().state(cloud);
        let drafted = self.draft_knowing(name, wish).await;
        self.check_account(cloud, wish, key, drafted)
    }

    /// What is to be done, by a cloud that is given a consistent list of Services if it asks for one.
    async fn draft_knowing(&self, cloud: &CloudName, wish: &mut Wish) -> Result<Draft, DraftError> {
        match self.clouds.draft(cloud, wish).await {
            Err(needs @ DraftError::NeedsServices) if wish.living.is_none() => {
                let list = consistent::uids::<Service>(&self.parts.reader);
                match timeout(TRY, list).await {
                    Ok(Ok(uids)) => {
                        // Nobody deleted those that a restored API server lacks.
                        let lost = self.parts.services.sighting().lost.into_keys();
                        wish.living = Some(Arc::new(uids.into_values().chain(lost).collect()));
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
                self.clouds.draft(cloud, wish).await
            }
            drafted => drafted,
        }
    }

    /// The uid of the cluster, once it is known.
    pub(super) fn cluster_uid(&self) -> Option<String> {
        self.known.cluster_uid.borrow().clone()
    }

    /// Where the endpoints of Services are, as far as that matters.
    pub(super) fn endpoints(&self) -> Arc<Endpoints> {
        // Held meanwhile, so that a change that comes in between makes void what is made from before it.
        let mut made = self.known.endpoints();
        let make = || {
            let services = self.parts.services.sighting();
            let all = endpoints(&self.parts.slices.sighting(), |key| {
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
    pub(super) fn forget_endpoints_of(&self, change: &ServiceChange) {
        let before = change.before.as_deref().map(depends_on_endpoints);
        let after = change.after.as_deref().map(depends_on_endpoints);
        if before != after {
            *self.known.endpoints() = None;
        }
    }

    /// Endpoints changed. A Service to which it matters is looked at when they have settled.
    pub(super) fn follow_endpoints(&self, change: &SliceChange) {
        for key in concerned(change) {
            *self.known.endpoints() = None;
            let service = self.parts.services.get(key);
            if service.is_some_and(|it| depends_on_endpoints(&it)) {
                self.members_changed.notify_one();
            }
        }
    }

    /// Begins to learn the uid of the cluster, if somebody needs it.
    pub(super) fn learn_cluster_uid(self: &Arc<Self>, tasks: &mut JoinSet<()>, stop: &Stop) {
        if self.clouds.all_needs().cluster_uid > Need::No {
            let (this, stop) = (self.clone(), stop.clone());
            tasks.spawn(async move {
                stop.unless_given(this.until_cluster_uid()).await;
            });
        }
    }

    async fn until_cluster_uid(&self) {
        let mut is_told = false;
        loop {
            match timeout(TRY, cluster_uid(&self.parts.reader)).await {
                Ok(Ok(Some(uid))) => {
                    info!(uid, "the cluster's uid");
                    self.known.cluster_uid.send_replace(Some(uid));
                    return;
                }
                Ok(Ok(None)) => warn!("namespace {SYSTEM} has no uid"),
                Err(_) => warn!("reading namespace {SYSTEM} takes longer than {TRY:?}"),
                Ok(Err(error)) => {
                    if is_refused(&error) && !is_told {
                        is_told = true;
                        self.tell_refusal();
                    }
                    let error = error_chain(&error);
                    warn!(error, pause = ?PAUSE, "namespace {SYSTEM} is not read; trying again");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn tell_refusal(&self) {
        let text = format!(
            "Load balancers wait for the uid of namespace {SYSTEM}, which may not be read: grant the right to \
             get namespaces"
        );
        self.tell_on_lease(EventType::Warning, "ClusterUIDForbidden", text);
    }

    /// Waits until all is known that any cloud needs, but not long.
    pub(super) async fn know_soon(&self) {
        let needs = self.clouds.all_needs();
        let known = async {
            if needs.cluster_uid == Need::Required {
                let mut uid = self.known.cluster_uid.subscribe();
                // The sender lives as long as `self`.
                let _ = uid.wait_for(Option::is_some).await;
            }
            if needs.endpoints {
                self.parts.slices.synced().await;
            }
        };
        if timeout(SOON, known).await.is_err() {
            warn!("beginning without all that load balancers need; some wait for it");
        }
    }
}

fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
