//! The store of Nodes.

use std::sync::Arc;

use bowline_core::Node;

use crate::kube::objects::NodeObject;
use crate::kube::store::{Store, StoreChange, Stored};

/// Nodes about which something is remembered: ten times the largest cluster that Kubernetes supports. What is
/// forgotten is only reported or applied once more.
pub(crate) const REMEMBERED_NODES: usize = 50_000;

/// The nodes as last seen, by name.
pub type Nodes = Store<Node>;

pub type NodeChange = StoreChange<Node>;

/// That very node as it was last seen: whoever asks a cloud about it waits, and nodes change meanwhile.
pub(crate) fn latest(nodes: &Nodes, node: Arc<Node>) -> Arc<Node> {
    let current = nodes.get(&node.name);
    current.filter(|it| it.uid == node.uid).unwrap_or(node)
}

impl Stored for Node {
    type Key = String;
    type Object = NodeObject;
    const PLURAL: &'static str = "nodes";

    fn selector(name: &String) -> String {
        format!("metadata.name={name}")
    }

    /// Without a copy: kubelets report all the time.
    fn is_same_but_version(&self, other: &Self) -> bool {
        let Self {
            resource_version: _,
            name,
            uid,
            created,
            deleting,
            labels,
            annotations,
            provider_id,
            pod_cidrs,
            taints,
            addresses,
            ready,
            network,
            system_uuid,
            os_image,
        } = other;
        (&self.name, &self.uid, &self.created) == (name, uid, created)
            && (&self.deleting, &self.ready, &self.network) == (deleting, ready, network)
            && (&self.labels, &self.annotations) == (labels, annotations)
            && (&self.provider_id, &self.pod_cidrs) == (provider_id, pod_cidrs)
            && (&self.taints, &self.addresses) == (taints, addresses)
            && (&self.system_uuid, &self.os_image) == (system_uuid, os_image)
    }

    crate::kube::store::versioned!(name);
}
