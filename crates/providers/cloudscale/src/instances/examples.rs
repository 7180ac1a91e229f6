//! Servers and nodes for the tests of these modules.

use std::sync::atomic::{AtomicU64, Ordering};

use bowline_core::Node;
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
    Server::read(
        &json!({
            "uuid": format!("00000000-0000-4000-8000-{number:012x}"),
            "name": name,
            "status": "running",
            "zone": {"slug": "rma1"},
            "flavor": {"slug": "flex-8-4"},
            "interfaces": interfaces,
        })
        .to_string(),
    )
    .unwrap()
}

pub(super) fn node(name: &str) -> Node {
    bowline_test_kit::node(name, "")
}
