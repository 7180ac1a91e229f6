//! Services and load balancers for the tests of these modules.

use std::sync::Arc;

use std::collections::BTreeSet;

use bowline_core::{
    BalancerRequest, ExcludedNodes, Goal, Protocol, Service, ServiceKey, ServicePort, TrafficPolicy,
};
use serde_json::{Value, json};

use super::ownership::OwnershipContext;
use super::record::Record;
use super::settings::table::PREFIX;
use crate::api::{LoadBalancer, LoadBalancerService};

pub(super) const UID: &str = "5c7b1f0e-6a53-4f6e-9a3d-1f2e3d4c5b6a";
pub(super) const OTHER: &str = "11111111-6a53-4f6e-9a3d-1f2e3d4c5b6a";
pub(super) const P1: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
pub(super) const P2: &str = "aa0e0d0c-0b0a-4908-8706-050403020101";
pub(super) const L1: &str = "7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01";

/// The Service `default/web` with one port.
pub(super) fn service() -> Service {
    named("web", UID)
}

/// A Service with one port.
pub(super) fn named(name: &str, uid: &str) -> Service {
    Service {
        key: ServiceKey {
            namespace: "default".into(),
            name: name.into(),
        },
        uid: uid.into(),
        resource_version: "7".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        annotations: None,
        finalizers: Vec::new(),
        is_load_balancer: true,
        type_name: "LoadBalancer".into(),
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

/// The Service with these annotations, by suffix or by their whole keys.
pub(super) fn annotated(pairs: &[(&str, &str)]) -> Service {
    let mut service = service();
    let pairs = pairs.iter().map(|(suffix, value)| {
        let key = if suffix.contains('/') {
            (*suffix).to_owned()
        } else {
            format!("{PREFIX}{suffix}")
        };
        (key, (*value).to_owned())
    });
    service.annotations = Some(pairs.collect());
    service
}

/// A port of a Service.
pub(super) fn port(protocol: &str, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: format!("{protocol}-{port}"),
        protocol: Protocol::from(protocol),
        port,
        node_port,
        target_port: port.to_string(),
        application_protocol: None,
    }
}

/// A service of a load balancer as the API shows it.
pub(super) fn listener(number: u8, name: &str, port: u16, node_port: u16) -> Value {
    json!({"id": format!("00000000-0000-4000-8000-{number:012}"), "name": name, "state": "running",
           "protocol": "tcp", "port": port, "target-port": node_port, "strategy": "round-robin",
           "instance-pool": {"id": P1},
           "healthcheck": {"mode": "tcp", "port": node_port, "interval": 10, "timeout": 5,
                           "retries": 1}})
}

/// The same, read.
pub(super) fn read_listener(value: Value) -> LoadBalancerService {
    serde_json::from_value(value).unwrap()
}

/// Load balancer L1 as the API shows it.
pub(super) fn balancer(name: &str, labels: &Value, services: &[Value]) -> LoadBalancer {
    let value = json!({"id": L1, "name": name, "state": "running", "ip": "203.0.113.80",
                       "labels": labels, "services": services});
    serde_json::from_value(value).unwrap()
}

/// What the Service wants, among these, in cluster `blue` with the uid `blue-uid`.
pub(super) fn wish(service: &Service, all: &[Arc<Service>]) -> BalancerRequest {
    BalancerRequest {
        service: Arc::new(service.clone()),
        goal: Goal::Present,
        nodes: Vec::new(),
        excluded: ExcludedNodes::default(),
        all: Arc::new(all.to_vec()),
        all_known: true,
        cluster_name: "blue".into(),
        has_ip_mode: true,
        cluster_uid: Some("blue-uid".into()),
        living: None,
        rules: Arc::default(),
        endpoints: None,
    }
}

/// What is known about a Service: what is remembered, and which pools have nodes.
pub(super) struct Around {
    pub(super) wish: BalancerRequest,
    pub(super) record: Record,
    pub(super) pools: Option<BTreeSet<uuid::Uuid>>,
}

impl Around {
    /// With nodes in pool P1.
    pub(super) fn new(service: &Service, all: &[Arc<Service>]) -> Self {
        Self {
            wish: wish(service, all),
            record: Record::of(service),
            pools: Some([P1.parse().unwrap()].into()),
        }
    }

    pub(super) fn family(&self) -> OwnershipContext<'_> {
        OwnershipContext {
            wish: &self.wish,
            record: &self.record,
            pools: self.pools.as_ref(),
            by_ports: true,
        }
    }
}
