//! A Kubernetes node, as far as any decision here needs to know it.

pub(crate) mod addresses;
pub(crate) mod guard;
pub(crate) mod initialize;
pub(crate) mod label_sync;
pub(crate) mod labels;
pub(crate) mod lifecycle;
pub mod metadata;
pub mod owner_annotation;
pub(crate) mod provider_id;
pub(crate) mod selector;
pub(crate) mod taints;

use std::fmt;

use jiff::Timestamp;

use crate::StringMap;

/// Marks a node that no cloud has looked at yet; its presence, not its value or effect, counts.
pub const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Marks a node whose machine is powered off.
pub const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Marks a node of the control plane. The API server lets no kubelet set or remove it.
pub const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";
/// The kubelet's `--node-ip`, written by the kubelet.
pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// The parts of a Node object that decisions are made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`: another node of the same name has another one.
    pub uid: String,
    /// `metadata.resourceVersion`, to guard a write against what was read.
    pub resource_version: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.labels`.
    pub labels: StringMap,
    /// `metadata.annotations`.
    pub annotations: StringMap,
    /// `spec.providerID`, if it is set and not empty.
    pub provider_id: Option<String>,
    /// `spec.podCIDRs`, in order and as written.
    pub pod_cidrs: Vec<String>,
    /// `spec.taints`, in order.
    pub taints: Vec<Taint>,
    /// `status.addresses`, in order.
    pub addresses: Vec<NodeAddress>,
    /// The Ready condition; a missing one is unknown.
    pub ready: Ready,
    /// The NetworkUnavailable condition, if there is one.
    pub network: Option<NetworkCondition>,
    /// `status.nodeInfo.systemUUID`, what the machine calls itself; empty if it is not known.
    pub system_uuid: String,
    /// `status.nodeInfo.osImage`, the name of its operating system; empty if it is not known.
    pub os_image: String,
}

impl Node {
    /// Whether it still waits to be initialised by its cloud.
    pub fn is_uninitialized(&self) -> bool {
        self.taints
            .iter()
            .any(|taint| taint.key == UNINITIALIZED_TAINT)
    }

    /// The value of the kubelet's provided-node-ip annotation.
    pub fn provided_node_ip(&self) -> Option<&str> {
        self.annotations.get(PROVIDED_NODE_IP)
    }

    /// The node's own host name: its first `Hostname` address, or else its name.
    pub fn hostname(&self) -> &str {
        self.addresses
            .iter()
            .find(|address| address.kind == AddressKind::Hostname)
            .map_or(self.name.as_str(), |address| address.address.as_str())
    }
}

/// The status of a node's Ready condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// The kubelet says that it can run pods.
    True,
    /// The kubelet says that it cannot.
    False,
    /// The kubelet has not spoken for a while, or never.
    #[default]
    Unknown,
}

/// What the NetworkUnavailable condition of a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkCondition {
    /// `True` if no pod can be reached there, `False` or `Unknown`.
    pub status: String,
    /// Who says so, or why, in one word.
    pub reason: String,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; empty if it has none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// `timeAdded`, kept as it is.
    pub time_added: Option<String>,
}

impl Taint {
    /// A taint without a time.
    pub fn new(key: &str, value: &str, effect: &str) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
            time_added: None,
        }
    }
}

/// An address of a node, with what it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeAddress {
    /// What it is for.
    pub kind: AddressKind,
    /// The address, spelled as its source spells it.
    pub address: String,
}

impl NodeAddress {
    /// An address of that kind.
    pub fn new(kind: AddressKind, address: impl Into<String>) -> Self {
        Self {
            kind,
            address: address.into(),
        }
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.address)
    }
}

/// What an address of a node is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// The host name.
    Hostname,
    /// An address inside the cluster's network.
    InternalIp,
    /// An address from outside.
    ExternalIp,
    /// A DNS name that resolves inside.
    InternalDns,
    /// A DNS name that resolves outside.
    ExternalDns,
    /// Something newer than this program.
    Other(String),
}

impl AddressKind {
    /// The name in the Kubernetes API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Hostname => "Hostname",
            Self::InternalIp => "InternalIP",
            Self::ExternalIp => "ExternalIP",
            Self::InternalDns => "InternalDNS",
            Self::ExternalDns => "ExternalDNS",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for AddressKind {
    fn from(name: &str) -> Self {
        match name {
            "Hostname" => Self::Hostname,
            "InternalIP" => Self::InternalIp,
            "ExternalIP" => Self::ExternalIp,
            "InternalDNS" => Self::InternalDns,
            "ExternalDNS" => Self::ExternalDns,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;

    /// A fresh node `n1` as an external-cloud kubelet registers it.
    pub(crate) fn fresh_node() -> Node {
        Node {
            name: "n1".into(),
            uid: "uid-1".into(),
            resource_version: "7".into(),
            taints: vec![Taint::new(UNINITIALIZED_TAINT, "true", "NoSchedule")],
            addresses: vec![NodeAddress::new(AddressKind::Hostname, "n1")],
            ready: Ready::False,
            ..Node::default()
        }
    }

    /// `Type:value` as the specification writes addresses.
    pub(crate) fn addresses(list: &[&str]) -> Vec<NodeAddress> {
        list.iter()
            .map(|text| {
                let (kind, address) = text.split_once(':').unwrap();
                NodeAddress::new(kind.into(), address)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_kinds_round_trip() {
        for name in [
            "Hostname",
            "InternalIP",
            "ExternalIP",
            "InternalDNS",
            "ExternalDNS",
            "New",
        ] {
            assert_eq!(AddressKind::from(name).as_str(), name);
        }
    }

    #[test]
    fn the_host_name_falls_back_to_the_node_name() {
        let mut node = examples::fresh_node();
        node.addresses = examples::addresses(&["Hostname:worker.local"]);
        assert_eq!(node.hostname(), "worker.local");
        node.addresses.clear();
        assert_eq!(node.hostname(), "n1");
    }
}
