//! The Service of the specification's cases.

use bowline_core::{Protocol, Service, ServiceKey, ServicePort, TrafficPolicy};

pub(crate) const UID: &str = "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01";

/// A port of a Service.
pub(crate) fn port(protocol: &str, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: format!("{protocol}-{port}").to_lowercase(),
        protocol: Protocol::from(protocol),
        port,
        node_port,
        target_port: port.to_string(),
        application_protocol: None,
    }
}

/// `prod/web` with one port.
pub(crate) fn web() -> Service {
    Service {
        key: ServiceKey {
            namespace: "prod".into(),
            name: "web".into(),
        },
        uid: UID.into(),
        resource_version: "7".into(),
        created: "2026-02-01T00:00:00Z".parse().unwrap(),
        deleting: false,
        annotations: None,
        finalizers: Vec::new(),
        is_load_balancer: true,
        class: None,
        ports: vec![port("TCP", 80, 30080)],
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
