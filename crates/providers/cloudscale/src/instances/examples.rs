//! Servers and nodes for the tests of these modules.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_core::{Node, Ready};
use jiff::Timestamp;
use serde_json::json;

use crate::api::Server;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A running server with an id of its own; interfaces are (public, addresses).
pub(super) fn server(name: &str, interfaces: &[(bool, &[&str])]) -> Server {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let interfaces: Vec<_> = interfaces
        .iter()
        .map(|(public, addresses)| {
            let addresses: Vec<_> = addresses.iter().map(|a| json!({"address": a})).collect();
            let kind = if *public { "public" } else { "private" };
            json!({"type": kind, "addresses": addresses})
        })
        .collect();
    Server::read(json!({
        "uuid": format!("00000000-0000-4000-8000-{number:012x}"),
        "name": name,
        "status": "running",
        "zone": {"slug": "rma1"},
        "flavor": {"slug": "flex-8-4"},
        "interfaces": interfaces,
    }))
    .unwrap()
}

/// A node with nothing but a name.
pub(super) fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-{name}"),
        resource_version: "1".into(),
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        provider_id: None,
        taints: Vec::new(),
        addresses: Vec::new(),
        ready: Ready::False,
        network: None,
        pod_cidrs: Vec::new(),
        system_uuid: String::new(),
        os_image: String::new(),
    }
}
