//! Examples for the tests of this crate.

pub(crate) mod cluster;
pub(crate) mod pki;

use bowline_core::{Node, PROVIDED_NODE_IP, Ready, Taint, UNINITIALIZED_TAINT};

/// A node that waits to be initialised.
pub(crate) fn node(name: &str, provided_node_ip: &str) -> Node {
    let annotations = [(PROVIDED_NODE_IP.to_owned(), provided_node_ip.to_owned())];
    Node {
        name: name.to_owned(),
        uid: "u1".into(),
        resource_version: "1".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: [].into(),
        annotations: annotations.into(),
        provider_id: None,
        taints: vec![Taint::new(UNINITIALIZED_TAINT, "true", "NoSchedule")],
        addresses: Vec::new(),
        ready: Ready::False,
        network: None,
        pod_cidrs: Vec::new(),
        system_uuid: String::new(),
        os_image: String::new(),
    }
}
