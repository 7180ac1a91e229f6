//! Examples for the tests of this crate.

pub(crate) mod cluster;
pub(crate) mod pki;

use bowline_core::Node;
use bowline_test_kit::{fresh, with_node_ip};

/// A node that waits to be initialised.
pub(crate) fn node(name: &str, provided_node_ip: &str) -> Node {
    Node {
        uid: "u1".into(),
        ..with_node_ip(fresh(name, ""), provided_node_ip)
    }
}
