//! The Service of the specification's cases, for unit tests.

use bowline_core::{Protocol, Service, ServiceKey, ServicePort, TrafficPolicy};

/// `prod/web` with port 80, which nodes have at 30080.
pub(crate) fn web() -> Service {
    Service {
        key: ServiceKey {
            namespace: "prod".to_owned(),
            name: "web".to_owned(),
        },
        uid: "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01".to_owned(),
        resource_version: "7".to_owned(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        annotations: None,
        finalizers: Vec::new(),
        is_load_balancer: true,
        type_name: "LoadBalancer".into(),
        class: None,
        ports: vec![ServicePort {
            name: "http".to_owned(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: 30_080,
            target_port: "8080".to_owned(),
            application_protocol: None,
        }],
        client_affinity: None,
        requested_ip: None,
        external_ips: Vec::new(),
        source_ranges: Vec::new(),
        traffic_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        ip_families: vec!["IPv4".to_owned()],
        ingress: Vec::new(),
        conditions: Vec::new(),
    }
}

/// The same with annotations of our prefix.
pub(crate) fn annotated(pairs: &[(&str, &str)]) -> Service {
    let pairs = pairs
        .iter()
        .map(|(key, value)| (format!("cloud.tritoncompute/{key}"), (*value).to_owned()));
    Service {
        annotations: Some(pairs.collect()),
        ..web()
    }
}
