//! Services and hosts for the tests of these modules.

use bowline_core::{Protocol, Service, ServiceKey, ServicePort, TrafficPolicy};
use serde_json::json;

use super::desire::Host;
use crate::api::Server;

/// The subnet of all hosts.
pub(super) const SUBNET: &str = "7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d";

/// The Service `shop/web` with one port.
pub(super) fn service() -> Service {
    Service {
        key: ServiceKey {
            namespace: "shop".into(),
            name: "web".into(),
        },
        uid: "5a4f2b10-0c67-4a3f-8f6e-3b9d2a7c1e55".into(),
        resource_version: "7".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        annotations: None,
        finalizers: Vec::new(),
        is_load_balancer: true,
        type_name: "LoadBalancer".into(),
        class: None,
        ports: vec![port("http", "TCP", 80, 31080)],
        client_affinity: None,
        requested_ip: None,
        external_ips: Vec::new(),
        source_ranges: Vec::new(),
        traffic_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        ip_families: vec!["IPv4".into()],
        ingress: Vec::new(),
        conditions: Vec::new(),
    }
}

/// A port of a Service.
pub(super) fn port(name: &str, protocol: &str, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: name.to_owned(),
        protocol: Protocol::from(protocol),
        port,
        node_port,
        target_port: port.to_string(),
        application_protocol: None,
    }
}

/// A host with these private addresses, and a public one.
pub(super) fn host(number: u8, zone: &str, addresses: &[&str]) -> Host {
    let private: Vec<_> = addresses
        .iter()
        .map(|address| json!({"address": address, "subnet": {"uuid": SUBNET}}))
        .collect();
    let server = Server::read(json!({
        "uuid": format!("00000000-0000-4000-8000-{number:012}"),
        "name": format!("node-{number}"),
        "status": "running",
        "zone": {"slug": zone},
        "interfaces": [
            {"type": "public", "addresses": [{"address": "203.0.113.1", "subnet": {"uuid": SUBNET}}]},
            {"type": "private", "addresses": private},
        ],
    }));
    Host {
        node: format!("node-{number}"),
        server: server.unwrap(),
    }
}
