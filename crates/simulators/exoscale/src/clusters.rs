//! SKS clusters: read, and their nodepools grown and shrunk.

use serde_json::Value;

use super::Exoscale;
use super::model::Cloud;
use super::refusals::{OrRefusal, Refusal};
use super::routes::Asked;

impl Exoscale {
    /// Grows or shrinks the pool of a nodepool. The operation refers to the cluster.
    pub(super) fn change_nodepool(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let zone = cloud.zone(asked.zone)?;
        let cluster = zone.clusters.get(asked.id());
        let nodepool = cluster.and_then(|cluster| {
            let mut all = cluster.nodepools.iter();
            all.find(|nodepool| nodepool.id == asked.second())
        });
        let pool = nodepool.ok_or_else(Refusal::not_found)?.pool.clone();
        let about = asked.about("sks-cluster", asked.id());
        if asked.operation == "scale-sks-nodepool" {
            self.scale(cloud, asked, &pool, about)
        } else {
            self.evict(cloud, asked, &pool, about)
        }
    }
}
