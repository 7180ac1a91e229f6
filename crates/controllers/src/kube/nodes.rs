//! The store of Nodes.

use std::sync::Arc;

use bowline_core::Node;

use crate::kube::objects::NodeObject;
use crate::kube::objects::protobuf::ReadProtobuf;
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
    // Large, many, and reported by kubelets all the time.
    const PROTOBUF: Option<ReadProtobuf<NodeObject>> = Some(NodeObject::from_protobuf);

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

#[cfg(test)]
mod tests {
    use bowline_core::{AddressKind, NetworkCondition, NodeAddress, Ready, Taint};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn every_field_but_the_version_makes_a_difference() {
        let before = Node::default();
        let newer = before.clone().at_version("9");
        assert!(before.is_same_but_version(&newer));
        let changes: [fn(&mut Node); 14] = [
            |node| node.name = "a".into(),
            |node| node.uid = "a".into(),
            |node| node.created = Timestamp::MAX,
            |node| node.deleting = true,
            |node| node.labels.insert("a".into(), "b".into()),
            |node| node.annotations.insert("a".into(), "b".into()),
            |node| node.provider_id = Some("a".into()),
            |node| node.pod_cidrs = vec!["a".into()],
            |node| node.taints = vec![Taint::new("a", "", "NoSchedule")],
            |node| node.addresses = vec![NodeAddress::new(AddressKind::InternalIp, "a")],
            |node| node.ready = Ready::True,
            |node| {
                node.network = Some(NetworkCondition {
                    status: "True".into(),
                    reason: String::new(),
                });
            },
            |node| node.system_uuid = "a".into(),
            |node| node.os_image = "a".into(),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut after = newer.clone();
            change(&mut after);
            assert!(!before.is_same_but_version(&after), "change {number}");
            assert!(!after.is_same_but_version(&before), "change {number}");
        }
    }
}
