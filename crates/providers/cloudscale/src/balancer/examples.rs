//! Services and hosts for the tests of these modules.

use bowline_core::Service;
pub(super) use bowline_test_kit::named_port as port;
use serde_json::json;

use super::desire::Host;
use crate::api::Server;

pub(super) const SUBNET: &str = "7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d";

/// The Service `test/web` with one port.
pub(super) fn service() -> Service {
    Service {
        finalizers: Vec::new(),
        ports: vec![port("http", "TCP", 80, 31080)],
        ..bowline_test_kit::service("shop", "web", "5a4f2b10-0c67-4a3f-8f6e-3b9d2a7c1e55")
    }
}

/// A host with these private addresses, and a public one.
pub(super) fn host(number: u8, zone: &str, addresses: &[&str]) -> Host {
    let private: Vec<_> = addresses
        .iter()
        .map(|address| json!({"address": address, "subnet": {"uuid": SUBNET}}))
        .collect();
    let server = Server::read(&json!({
        "uuid": format!("00000000-0000-4000-8000-{number:012}"),
        "name": format!("node-{number}"),
        "status": "running",
        "zone": {"slug": zone},
        "interfaces": [
            {"type": "public", "addresses": [{"address": "203.0.113.1", "subnet": {"uuid": SUBNET}}]},
            {"type": "private", "addresses": private},
        ],
    }).to_string());
    Host {
        node: format!("node-{number}"),
        server: server.unwrap(),
    }
}
