//! Which instance pool gets the traffic of a Service: the one it names, or else the one of its
//! nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_core::{BalancerRequest, CloudError, CloudErrorKind, Node, Problem};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tracing::info;
use uuid::Uuid;

use super::observe::all_readable;
use super::settings::table::INSTANCE_POOL;
use super::settings::{INVALID, PoolSetting, invalid};
use crate::api::{Api, Instance, Listing, SksCluster};
use crate::id::{instance_id, instance_of};

/// Reads of single instances at the same time, where they cannot be listed.
const READS_AT_ONCE: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) pool: Uuid,
    /// Whether it was found out, so that the Service is to remember it.
    pub(crate) found_out: bool,
}

/// What a look at a pool has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirming {
    Missing,
    HasNodes,
    WithoutNodes,
}

pub(crate) struct Pools {
    api: Api,
    /// Where none is given and none can be inferred.
    default: Option<Uuid>,
    reported_no_list: AtomicBool,
}

impl Pools {
    pub(crate) fn new(api: Api, default: Option<Uuid>) -> Self {
        Self {
            api,
            default,
            reported_no_list: AtomicBool::new(false),
        }
    }

    /// Other credentials may see more.
    pub(crate) fn forget(&self) {
        self.reported_no_list.store(false, Ordering::Relaxed);
    }

    /// The pool of a Service with these nodes, or what a person must fix first.
    pub(crate) async fn resolve(
        &self,
        setting: &PoolSetting,
        nodes: &[Arc<Node>],
    ) -> Result<Result<Target, Problem>, CloudError> {
        let found_out = |pool| Target {
            pool,
            found_out: true,
        };
        if let (Some(cluster), Some(nodepool)) = (&setting.cluster, &setting.nodepool) {
            let clusters = self.api.sks_clusters().await?;
            return Ok(of_nodepool(&clusters, cluster, nodepool)?.map(found_out));
        }
        if let Some(pool) = setting.id {
            let found_out = false;
            return Ok(Ok(Target { pool, found_out }));
        }
        let pools = self.pools_of(nodes).await?;
        let mut all = pools.iter();
        Ok(match (all.next(), all.next(), self.default) {
            (Some(one), None, _) => Ok(found_out(*one)),
            (_, _, Some(default)) => Ok(found_out(default)),
            (None, _, None) => Err(Problem {
                reason: INVALID,
                message: format!(
                    "couldn't infer any Instance Pool from cluster Nodes: annotation {} says which one",
                    INSTANCE_POOL.key
                ),
            }),
            (Some(_), Some(_), None) => Err(Problem {
                reason: INVALID,
                message: format!(
                    "multiple Instance Pools detected across cluster Nodes, an Instance Pool ID must be \
                     specified in Service manifest annotations: {} with one of {}",
                    INSTANCE_POOL.key,
                    self.named(&pools).await
                ),
            }),
        })
    }

    /// The pools that instances of the cluster's nodes are members of, targets or not.
    pub(crate) async fn of_cluster(
        &self,
        request: &BalancerRequest,
    ) -> Result<BTreeSet<Uuid>, CloudError> {
        self.pools_with(instances_of(request)).await
    }

    /// Whether that pool exists, and has a node of the cluster. None if the role does not allow to
    /// look.
    pub(crate) async fn look_at(
        &self,
        pool: Uuid,
        request: &BalancerRequest,
    ) -> Result<Option<Confirming>, CloudError> {
        let found = match self.api.instance_pool(pool).await {
            Ok(found) => found,
            Err(error) if error.kind() == CloudErrorKind::NotFound => {
                return Ok(Some(Confirming::Missing));
            }
            Err(error) if error.kind() == CloudErrorKind::Denied => return Ok(None),
            Err(error) => return Err(error),
        };
        let nodes = instances_of(request);
        let mut members = found.instances.iter().flatten();
        Ok(Some(if members.any(|it| nodes.contains(it)) {
            Confirming::HasNodes
        } else {
            Confirming::WithoutNodes
        }))
    }

    async fn pools_of(&self, nodes: &[Arc<Node>]) -> Result<BTreeSet<Uuid>, CloudError> {
        let ids = nodes.iter().filter_map(|node| instance_of(node)).collect();
        self.pools_with(ids).await
    }

    async fn pools_with(&self, ids: BTreeSet<Uuid>) -> Result<BTreeSet<Uuid>, CloudError> {
        if ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        match self.api.instances().await {
            Ok(list) => listed_pools(&list, &ids),
            Err(error) if error.kind() == CloudErrorKind::Denied => {
                if !self.reported_no_list.swap(true, Ordering::Relaxed) {
                    info!(
                        error = error.chain(),
                        "instances cannot be listed: they are read one by one"
                    );
                }
                self.single_pools(ids).await
            }
            Err(error) => Err(error),
        }
    }

    async fn single_pools(&self, ids: BTreeSet<Uuid>) -> Result<BTreeSet<Uuid>, CloudError> {
        let read = |id: Uuid| async move {
            match self.api.instance(id).await {
                Ok(instance) => Ok(instance.pool()),
                Err(error) if error.kind() == CloudErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        let pools: Vec<Option<Uuid>> = stream::iter(ids)
            .map(read)
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        Ok(pools.into_iter().flatten().collect())
    }

    /// Pools for people: with their names, if these can be had.
    async fn named(&self, pools: &BTreeSet<Uuid>) -> String {
        let list = self.api.instance_pools().await.unwrap_or_default();
        let names: BTreeMap<Uuid, String> = list
            .items
            .into_iter()
            .map(|pool| (pool.id, pool.name))
            .collect();
        let text = pools.iter().map(|id| match names.get(id) {
            Some(name) => format!("{id} ({name})"),
            None => id.to_string(),
        });
        text.collect::<Vec<_>>().join(", ")
    }
}

/// The instances of the cluster's nodes: those that are targets, and those that are not.
fn instances_of(request: &BalancerRequest) -> BTreeSet<Uuid> {
    let nodes = request.nodes.iter().chain(&request.excluded.held);
    let excluded = request.excluded.excluded.iter();
    let excluded = excluded.filter_map(|it| instance_id(it));
    nodes
        .filter_map(|it| instance_of(it))
        .chain(excluded)
        .collect()
}

/// The pools of those instances, which are all in the list but for those of other zones.
fn listed_pools(
    list: &Listing<Instance>,
    ids: &BTreeSet<Uuid>,
) -> Result<BTreeSet<Uuid>, CloudError> {
    let bad = list.bad.iter().find(|bad| {
        let id = bad.object.as_deref().and_then(|it| it.parse().ok());
        id.is_some_and(|id| ids.contains(&id))
    });
    if let Some(bad) = bad {
        let which = bad.object.as_deref().unwrap_or_default();
        let message = format!("instance {which} cannot be read: {}", bad.reason);
        return Err(CloudError::new(CloudErrorKind::Unknown, message));
    }
    let ours = list.items.iter().filter(|it| ids.contains(&it.id));
    Ok(ours.filter_map(Instance::pool).collect())
}

fn of_nodepool(
    clusters: &Listing<SksCluster>,
    cluster: &str,
    nodepool: &str,
) -> Result<Result<Uuid, Problem>, CloudError> {
    let id: Option<Uuid> = cluster.parse().ok();
    let meant: Vec<&SksCluster> = clusters
        .items
        .iter()
        .filter(|it| it.name == cluster || Some(it.id) == id)
        .collect();
    let meant = match meant.as_slice() {
        [one] => one,
        [] => {
            all_readable("SKS cluster", clusters)?;
            let message = format!("SKS cluster with name {cluster} not found");
            return Ok(Err(invalid(message)));
        }
        several => {
            let ids: Vec<String> = several.iter().map(|it| it.id.to_string()).collect();
            return Ok(Err(invalid(format!(
                "several SKS clusters have the name {cluster}: one of their ids says which ({})",
                ids.join(", ")
            ))));
        }
    };
    let mut all = meant.nodepools.items.iter();
    let wanted = nodepool.to_lowercase();
    let pool = all.find_map(|it| {
        it.instance_pool
            .filter(|_| it.name.to_lowercase() == wanted)
    });
    if pool.is_none() {
        all_readable("SKS nodepool", &meant.nodepools)?;
    }
    Ok(pool.ok_or_else(|| {
        let message = format!(
            "SKS node pool with name {nodepool} not found in SKS cluster {}",
            meant.name
        );
        invalid(message)
    }))
}

#[cfg(test)]
mod tests;
