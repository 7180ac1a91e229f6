//! Decides what changes on a node once its cloud has found its machine.

use std::collections::BTreeMap;

use crate::node::addresses::{AddressError, desired_addresses};
use crate::node::labels::{SkippedLabel, labels_of};
use crate::node::taints::without_uninitialized;
use crate::node::{Node, NodeAddress, Taint};
use crate::{Instance, addresses_differ};

/// The changes that make a fresh node an initialised one.
#[derive(Clone, Debug, PartialEq)]
pub struct Initialization {
    /// `spec.providerID`, if the node has none yet. A differing one is left as it is.
    pub provider_id: Option<String>,
    /// Labels to set.
    pub labels: BTreeMap<String, String>,
    /// Labels of the cloud that are not set, with the reason.
    pub skipped_labels: Vec<SkippedLabel>,
    /// The whole new list of taints.
    pub taints: Vec<Taint>,
    /// The whole new list of addresses; none if they stay as they are.
    pub addresses: Option<Vec<NodeAddress>>,
}

impl Initialization {
    /// The node with provider ID, labels and taints as they are written together, after which it has that version.
    /// Addresses are written by themselves.
    pub fn written(&self, node: &Node, version: String) -> Node {
        let mut after = node.clone();
        after.resource_version = version;
        after.labels.extend(self.labels.clone());
        after.taints.clone_from(&self.taints);
        if self.provider_id.is_some() {
            after.provider_id.clone_from(&self.provider_id);
        }
        after
    }
}

/// Why a node cannot be initialised yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitializeError {
    /// Neither the cloud nor the node has a provider id.
    #[error("cloud provider does not set node provider ID for node {0}")]
    NoProviderId(String),
    /// The kubelet wants an address that its machine does not have, or one that is none.
    #[error(
        "failed to get node modifiers from cloud provider: provided node ip for node {name:?} is \
         not valid"
    )]
    ProvidedNodeIp {
        /// The node.
        name: String,
        /// What is wrong.
        source: AddressError,
    },
}

impl InitializeError {
    /// A stable name for metric labels and events.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoProviderId(_) => "NoProviderID",
            Self::ProvidedNodeIp { .. } => "InvalidProvidedNodeIP",
        }
    }
}

/// Decides how a node is initialised from what its cloud knows.
pub fn initialize(node: &Node, instance: &Instance) -> Result<Initialization, InitializeError> {
    let from_cloud = instance.provider_id.as_ref().map(ToString::to_string);
    if from_cloud.is_none() && node.provider_id.is_none() {
        return Err(InitializeError::NoProviderId(node.name.clone()));
    }
    let wanted = match desired_addresses(
        &instance.addresses,
        &node.addresses,
        node.provided_node_ip(),
    ) {
        Ok(wanted) => wanted,
        // They stay as they are.
        Err(AddressError::NoneShown) => None,
        Err(source) => {
            return Err(InitializeError::ProvidedNodeIp {
                name: node.name.clone(),
                source,
            });
        }
    };
    let (labels, skipped_labels) = labels_of(instance, &node.labels);
    Ok(Initialization {
        provider_id: from_cloud.filter(|_| node.provider_id.is_none()),
        labels,
        skipped_labels,
        taints: without_uninitialized(&node.taints),
        addresses: wanted.filter(|wanted| addresses_differ(&node.addresses, wanted)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::examples::{addresses, fresh_node};
    use crate::node::{PROVIDED_NODE_IP, UNINITIALIZED_TAINT};
    use crate::{Power, ProviderId};
    use proptest::prelude::*;

    fn machine(id: &str, list: &[&str]) -> Instance {
        Instance {
            provider_id: ProviderId::parse(id).ok(),
            instance_type: "c2".into(),
            zone: "z1".into(),
            region: "r1".into(),
            addresses: addresses(list),
            power: Power::On,
            extra_labels: BTreeMap::new(),
            marks: crate::NodeMetadata::default(),
        }
    }

    #[test]
    fn a_fresh_node_gets_id_labels_and_addresses_and_loses_the_taint() {
        let found = machine(
            "demo://m-1",
            &["InternalIP:10.0.0.5", "ExternalIP:198.51.100.7"],
        );
        let change = initialize(&fresh_node(), &found).unwrap();
        assert_eq!(change.provider_id.as_deref(), Some("demo://m-1"));
        assert_eq!(change.labels.len(), 6);
        assert_eq!(change.taints, []);
        assert_eq!(
            change.addresses.unwrap(),
            addresses(&[
                "InternalIP:10.0.0.5",
                "ExternalIP:198.51.100.7",
                "Hostname:n1"
            ])
        );
    }

    #[test]
    fn what_is_written_needs_no_further_write() {
        let (found, mut node) = (machine("demo://m-1", &[]), fresh_node());
        node.labels.insert("own".into(), "1".into());
        let change = initialize(&node, &found).unwrap();
        let after = change.written(&node, "8".into());
        assert!(!after.is_uninitialized() && after.labels.contains_key("own"));
        assert_eq!(after.provider_id.as_deref(), Some("demo://m-1"));
        assert_eq!(
            (after.resource_version.as_str(), &after.uid),
            ("8", &node.uid)
        );
        let again = initialize(&after, &found).unwrap();
        assert_eq!(again.provider_id, None);
        assert_eq!(again.written(&after, "8".into()), after);
    }

    #[test]
    fn a_provider_id_is_only_written_where_there_is_none() {
        let mut node = fresh_node();
        node.provider_id = Some("demo://old".into());
        assert_eq!(
            initialize(&node, &machine("demo://new", &[]))
                .unwrap()
                .provider_id,
            None
        );
        assert_eq!(
            initialize(&node, &machine("", &[])).unwrap().provider_id,
            None
        );
        node.provider_id = None;
        assert_eq!(
            initialize(&node, &machine("", &[]))
                .unwrap_err()
                .to_string(),
            "cloud provider does not set node provider ID for node n1"
        );
    }

    #[test]
    fn a_provided_node_ip_must_be_one_of_the_machines() {
        let mut node = fresh_node();
        for (value, list) in [
            ("10.0.0.9", &["InternalIP:10.0.0.5"][..]),
            ("not-an-ip", &[]),
            ("10.0.0.5", &[]),
        ] {
            node.annotations
                .insert(PROVIDED_NODE_IP.into(), value.into());
            let error = initialize(&node, &machine("demo://m", list)).unwrap_err();
            assert_eq!(error.reason(), "InvalidProvidedNodeIP");
        }
        node.annotations.clear();
        assert_eq!(
            initialize(&node, &machine("demo://m", &[]))
                .unwrap()
                .addresses,
            None
        );
    }

    proptest! {
        #[test]
        fn an_initialised_node_is_never_tainted_uninitialized_and_keeps_the_rest(
            keys in proptest::collection::vec(0..4usize, 0..8)
        ) {
            let names = ["a", "b", UNINITIALIZED_TAINT, "node.kubernetes.io/not-ready"];
            let mut node = fresh_node();
            node.taints = keys.iter().map(|k| Taint::new(names[*k], "", "NoSchedule")).collect();
            let change = initialize(&node, &machine("demo://m", &[])).unwrap();
            let kept: Vec<_> =
                node.taints.iter().filter(|t| t.key != UNINITIALIZED_TAINT).cloned().collect();
            prop_assert_eq!(change.taints, kept);
        }
    }
}
