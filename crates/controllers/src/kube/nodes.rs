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

    crate::kube::store::versioned!(name);
}
