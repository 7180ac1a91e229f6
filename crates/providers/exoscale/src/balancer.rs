//! Network load balancers: one for each Service, or an external one, managed by somebody else, that
//! several Services share.
//!
//! ```text
//!  Service ─▶ settings ─▶ desire ──────────┐
//!  nodes ─▶ pool ──────────────────────────┼─▶ plan ─▶ execute ─▶ publish
//!  the API ─▶ observe ─▶ ownership ────────┘  (pure)   (writes)   (annotations, ingress)
//! ```

mod desire;
mod draft;
#[cfg(test)]
mod examples;
mod execute;
mod find;
mod notices;
mod observe;
mod ownership;
mod plan;
mod pool;
mod publish;
pub(crate) mod record;
mod resource_states;
pub(crate) mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_core::{
    BalancerRequest, Balancers, BoxFuture, CloudError, CloudErrorKind, ClusterMarks, DraftError,
    Goal, Need, Needs, PreparedPlan, TaggedBalancer,
};
use bowline_http::KeyedMutex;
use uuid::Uuid;

use crate::api::{Api, LoadBalancer};
use crate::config::{LoadBalancerConfig, LocalPolicyHealthCheck};
use crate::id::hyphenated;
use observe::Observer;
use ownership::{SERVICE_LABEL, cluster_match, is_adopted};
use pool::Pools;
use settings::table::{ID, INSTANCE_POOL, OWNED_SERVICES};

/// How often each Service is compared with the cloud although nothing is known to have changed. The
/// original never does; what somebody changed in the cloud stays wrong there until the next event.
const AUDIT_PERIOD: Duration = Duration::from_secs(600);

const OWN_ANNOTATIONS: [&str; 3] = [ID.key, INSTANCE_POOL.key, OWNED_SERVICES];

pub(crate) struct Shared {
    api: Api,
    observer: Observer,
    locks: KeyedMutex<Uuid>,
    /// The role does not allow to empty descriptions.
    resets_denied: AtomicBool,
    labels_refused: AtomicBool,
}

pub(crate) struct LoadBalancers {
    shared: Arc<Shared>,
    pools: Pools,
    local_check: LocalPolicyHealthCheck,
}

impl LoadBalancers {
    pub(crate) fn new(api: Api, config: &LoadBalancerConfig) -> Self {
        Self {
            shared: Arc::new(Shared {
                observer: Observer::new(api.clone()),
                api: api.clone(),
                locks: KeyedMutex::default(),
                resets_denied: AtomicBool::new(false),
                labels_refused: AtomicBool::new(false),
            }),
            pools: Pools::new(api, config.default_instance_pool),
            local_check: config.local_policy_health_check,
        }
    }

    /// Forgets what another role was not allowed to do.
    pub(crate) fn credentials_changed(&self) {
        self.shared.resets_denied.store(false, Ordering::Relaxed);
        self.shared.observer.forget();
        self.pools.forget();
    }
}

impl Balancers for LoadBalancers {
    fn draft<'a>(
        &'a self,
        request: &'a BalancerRequest,
    ) -> BoxFuture<'a, Result<PreparedPlan, DraftError>> {
        match request.goal {
            Goal::Present => Box::pin(self.plan_present(request)),
            Goal::Absent => Box::pin(self.plan_absent(request)),
        }
    }

    fn needs(&self) -> Needs {
        Needs {
            cluster_uid: Need::IfAllowed,
            ..Needs::default()
        }
    }

    fn own_annotations(&self) -> &'static [&'static str] {
        &OWN_ANNOTATIONS
    }

    /// The cloud follows the members of a pool by itself.
    fn has_members(&self) -> bool {
        false
    }

    fn audit_period(&self) -> Option<Duration> {
        Some(AUDIT_PERIOD)
    }

    fn recognises<'a>(
        &'a self,
        request: &'a BalancerRequest,
    ) -> BoxFuture<'a, Result<bool, DraftError>> {
        Box::pin(self.has_what_is_shown(request))
    }

    fn marked<'a>(
        &'a self,
        cluster: ClusterMarks<'a>,
    ) -> BoxFuture<'a, Result<Vec<TaggedBalancer>, CloudError>> {
        Box::pin(async move {
            let Some(list) = self.shared.observer.all_if_allowed().await? else {
                return Ok(Vec::new());
            };
            let marked = list.items.into_iter().filter(|it| !is_adopted(it));
            let marked = marked.filter_map(|it| {
                Some(TaggedBalancer {
                    service_uid: it.labels.get(SERVICE_LABEL)?.clone(),
                    cluster: cluster_match(cluster.name, cluster.uid, &it),
                    id: it.id.to_string(),
                    name: it.name,
                })
            });
            Ok(marked.collect())
        })
    }

    fn remove_orphan<'a>(
        &'a self,
        orphan: &'a TaggedBalancer,
    ) -> BoxFuture<'a, Result<(), CloudError>> {
        Box::pin(self.remove_marked(orphan))
    }
}

impl LoadBalancers {
    /// Removes it if it still carries the same mark and nothing of others. Its services go with
    /// it.
    async fn remove_marked(&self, orphan: &TaggedBalancer) -> Result<(), CloudError> {
        let id = hyphenated(&orphan.id).ok_or_else(|| {
            let message = format!("{:?} is not the id of a load balancer", orphan.id);
            CloudError::new(CloudErrorKind::Invalid, message)
        })?;
        let _lock = self.shared.locks.lock(id).await;
        let Some(found) = self.shared.observer.read(id).await? else {
            return Ok(());
        };
        if let Some(why) = reason_to_stay(&found, &orphan.service_uid) {
            let message = format!("load balancer {:?} ({id}) {why} and stays", found.name);
            return Err(CloudError::new(CloudErrorKind::Conflict, message));
        }
        // What came of it is seen at the next look.
        let _writing = self.shared.observer.writing(&orphan.service_uid);
        self.shared.api.delete_load_balancer(id).await?;
        Ok(())
    }
}

fn reason_to_stay(found: &LoadBalancer, uid: &str) -> Option<&'static str> {
    let prefix = format!("{uid}-");
    let mut services = found.services.items.iter();
    if found.labels.get(SERVICE_LABEL).map(String::as_str) != Some(uid) {
        Some("has another mark now")
    } else if is_adopted(found) {
        Some("was made by no controller")
    } else if !found.services.bad.is_empty()
        || services.any(|service| !service.name.starts_with(&prefix))
    {
        Some("has services of others")
    } else {
        None
    }
}
