//! Load balancers: one for each Service.
//!
//! ```text
//!  Service, nodes ─▶ settings ─▶ desire ─┐
//!                                        ├─▶ plan ─▶ execute ─▶ publish
//!  the API ─▶ observe ─▶ ownership ──────┘  (pure)   (writes)   (annotations, ingress)
//! ```

mod desire;
mod draft;
#[cfg(test)]
mod examples;
mod execute;
mod find;
mod floating;
mod inputs;
mod notices;
mod observe;
mod ownership;
mod plan;
mod publish;
mod resource_states;
pub(crate) mod settings;
mod unreadable_nodes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BalancerRequest, Balancers, BoxFuture, CloudError, CloudErrorKind, ClusterMarks, DraftError,
    Goal, Need, Needs, Node, PreparedPlan, Service, TaggedBalancer,
};
use uuid::Uuid;

use crate::api::Api;
use crate::config::Config;
use crate::instances::Servers;
use bowline_http::KeyedMutex;
use observe::Observer;
pub use observe::SNAPSHOT_AGE;
use ownership::{Cluster, SERVICE_TAG, is_adopted};
use settings::table::{CONFIG_VERSION, UUID, ZONE};

const OWN_ANNOTATIONS: [&str; 3] = [UUID.key, CONFIG_VERSION.key, ZONE.key];

pub(crate) struct Shared {
    api: Api,
    observer: Observer,
    locks: KeyedMutex<Uuid>,
}

pub(crate) struct LoadBalancers {
    shared: Arc<Shared>,
    servers: Arc<Servers>,
    ownership_tags: bool,
    service_source_ranges: bool,
    audit_period: Option<Duration>,
    cluster_name_annotation: String,
}

impl LoadBalancers {
    pub(crate) fn new(api: Api, servers: Arc<Servers>, config: &Config) -> Self {
        Self {
            shared: Arc::new(Shared {
                observer: Observer::new(api.clone()),
                api,
                locks: KeyedMutex::default(),
            }),
            servers,
            ownership_tags: config.ownership_tags.value,
            service_source_ranges: config.service_source_ranges.value,
            audit_period: config.drift_check_period.value,
            cluster_name_annotation: config.cluster_name_annotation.value.clone(),
        }
    }

    /// Forgets what another token saw.
    pub(crate) fn token_changed(&self) {
        self.shared.observer.forget();
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

    fn contends_for(&self, service: &Service) -> BTreeSet<String> {
        settings::contends_for(service)
    }

    fn recognises<'a>(
        &'a self,
        request: &'a BalancerRequest,
    ) -> BoxFuture<'a, Result<bool, DraftError>> {
        Box::pin(self.shows_own(request))
    }

    fn selects(&self, service: &Service, node: &Node) -> bool {
        settings::selector_of(service).is_none_or(|selector| selector.matches(&node.labels))
    }

    fn audit_period(&self) -> Option<Duration> {
        self.audit_period
    }

    fn marked<'a>(
        &'a self,
        marks: ClusterMarks<'a>,
    ) -> BoxFuture<'a, Result<Vec<TaggedBalancer>, CloudError>> {
        Box::pin(async move {
            if !self.ownership_tags {
                return Ok(Vec::new());
            }
            let cluster = Cluster::of(marks.name, marks.nodes, &self.cluster_name_annotation);
            let list = self.shared.api.load_balancers().await?;
            // One that was there before its Service outlives it.
            let marked = list.items.into_iter().filter(|it| !is_adopted(it));
            let marked = marked.filter_map(|it| {
                Some(TaggedBalancer {
                    service_uid: it.tags.get(SERVICE_TAG)?.clone(),
                    cluster: cluster.cluster_match(&it.tags, marks.uid),
                    id: it.uuid.to_string(),
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
    /// Removes it if it still carries the same mark. One that is at work is left for the next time.
    async fn remove_marked(&self, orphan: &TaggedBalancer) -> Result<(), CloudError> {
        let id = Uuid::try_parse(&orphan.id).map_err(|_| {
            let message = format!("{:?} is not the uuid of a load balancer", orphan.id);
            CloudError::new(CloudErrorKind::Invalid, message)
        })?;
        let _lock = self.shared.locks.lock(id).await;
        let Some(found) = self.shared.observer.read(id).await? else {
            return Ok(());
        };
        let busy = |why: &str| {
            let message = format!("load balancer {:?} ({id}) {why}", found.name);
            CloudError::new(CloudErrorKind::Conflict, message)
        };
        if found.tags.get(SERVICE_TAG) != Some(&orphan.service_uid) || is_adopted(&found) {
            return Err(busy("has another mark now and stays"));
        }
        if found.is_changing() {
            return Err(busy("is changing and stays for now"));
        }
        let _writing = self.shared.observer.writing(&orphan.service_uid);
        let result = self.shared.api.delete_load_balancer(id).await;
        result.map_err(CloudError::from)
    }
}
