//! Services and load balancers for the tests of these modules.

use std::sync::Arc;

use std::collections::BTreeSet;

use bowline_core::{BalancerRequest, Service, ServicePort};
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

pub(super) fn named(name: &str, uid: &str) -> Service {
    Service {
        finalizers: Vec::new(),
        ports: vec![port("TCP", 80, 30080)],
        ..bowline_test_kit::service("default", name, uid)
    }
}

/// The Service with these annotations, by suffix or by their whole keys.
pub(super) fn annotated(pairs: &[(&str, &str)]) -> Service {
    let mut service = service();
    for (suffix, value) in pairs {
        bowline_test_kit::set(&mut service, PREFIX, suffix, value);
    }
    service.annotations.get_or_insert_default();
    service
}

pub(super) fn port(protocol: &str, port: u16, node_port: u16) -> ServicePort {
    let name = format!("{protocol}-{port}");
    bowline_test_kit::named_port(&name, protocol, port, node_port)
}

/// A service of a load balancer as the API shows it.
pub(super) fn listener(number: u8, name: &str, port: u16, node_port: u16) -> Value {
    json!({"id": format!("00000000-0000-4000-8000-{number:012}"), "name": name, "state": "running",
           "protocol": "tcp", "port": port, "target-port": node_port, "strategy": "round-robin",
           "instance-pool": {"id": P1},
           "healthcheck": {"mode": "tcp", "port": node_port, "interval": 10, "timeout": 5,
                           "retries": 1}})
}

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
pub(super) fn request(service: &Service, all: &[Arc<Service>]) -> BalancerRequest {
    BalancerRequest {
        service: Arc::new(service.clone()),
        all: Arc::new(all.to_vec()),
        all_known: true,
        cluster_name: "blue".into(),
        has_ip_mode: true,
        cluster_uid: Some("blue-uid".into()),
        ..BalancerRequest::default()
    }
}

/// What is known about a Service: what is remembered, and which pools have nodes.
pub(super) struct Around {
    pub(super) request: BalancerRequest,
    pub(super) record: Record,
    pub(super) pools: Option<BTreeSet<uuid::Uuid>>,
}

impl Around {
    /// With nodes in pool P1.
    pub(super) fn new(service: &Service, all: &[Arc<Service>]) -> Self {
        Self {
            request: request(service, all),
            record: Record::of(service),
            pools: Some([P1.parse().unwrap()].into()),
        }
    }

    pub(super) fn context(&self) -> OwnershipContext<'_> {
        OwnershipContext {
            request: &self.request,
            record: &self.record,
            pools: self.pools.as_ref(),
            by_ports: true,
        }
    }
}
