//! What a Service asks for that a DNS name cannot give. Pure.

use std::ops::RangeInclusive;

use bowline_core::{Notice, Problem, Service, ServicePort};

use crate::balancer::settings::{PortMode, Settings};
use crate::tags::Ports;

/// Ports that nodes themselves answer at: kube-proxy would take them away.
const NODE_PORTS: [RangeInclusive<u16>; 12] = [
    22..=22,
    53..=53,
    111..=111,
    179..=179,
    2379..=2380,
    4240..=4240,
    5473..=5473,
    6443..=6443,
    9099..=9099,
    9345..=9345,
    10_248..=10_259,
    30_000..=32_767,
];

pub(crate) fn check(service: &Service, settings: &Settings) -> (Vec<Problem>, Vec<Notice>) {
    let mut faults = Vec::new();
    let families = &service.ip_families;
    if !families.is_empty() && families.iter().all(|family| family == "IPv6") {
        faults.push(Problem {
            reason: "IPv6Unsupported",
            message:
                "the Service is for IPv6 alone, and machines of this cloud have IPv4 addresses only"
                    .to_owned(),
        });
    }
    match settings.port_mode {
        PortMode::Direct => faults.extend(reserved(service)),
        PortMode::NodePort => faults.extend(lacking_node_ports(service)),
        PortMode::Service => {}
    }
    (faults, notices(service))
}

fn reserved(service: &Service) -> Option<Problem> {
    let ports = service.ports.iter().map(|it| it.port);
    let taken = ports.filter(|port| NODE_PORTS.iter().any(|range| range.contains(port)));
    let taken: Vec<String> = taken.map(|port| port.to_string()).collect();
    (!taken.is_empty()).then(|| Problem {
        reason: "PortReserved",
        message: format!(
            "in port mode direct kube-proxy would take port {} from the nodes themselves",
            taken.join(", ")
        ),
    })
}

fn lacking_node_ports(service: &Service) -> Option<Problem> {
    let lacking = service.ports.iter().filter(|it| it.node_port == 0);
    let lacking: Vec<String> = lacking.map(|it| it.port.to_string()).collect();
    (!lacking.is_empty()).then(|| Problem {
        reason: "NodePortsRequired",
        message: format!(
            "port {} has no node port, which port mode nodeport needs: see allocateLoadBalancerNodePorts",
            lacking.join(", ")
        ),
    })
}

fn notices(service: &Service) -> Vec<Notice> {
    let notice = |reason: &'static str, message: &str| Notice {
        warning: true,
        reason,
        message: message.to_owned(),
    };
    let affinity = service.client_affinity.map(|_| {
        let text = "sessionAffinity has no effect between nodes: clients choose among all of them";
        notice("SessionAffinityIgnored", text)
    });
    let address = service.requested_ip.as_ref().map(|_| {
        let text =
            "loadBalancerIP has no effect: the Service is served at the nodes' own addresses";
        notice("LoadBalancerIPIgnored", text)
    });
    affinity.into_iter().chain(address).collect()
}

/// The port of a node that clients of that port reach.
pub(crate) fn node_port(mode: PortMode, port: &ServicePort) -> u16 {
    match mode {
        PortMode::NodePort => port.node_port,
        PortMode::Service | PortMode::Direct => port.port,
    }
}

pub(crate) fn ports(service: &Service, mode: PortMode) -> Ports {
    let ports = service.ports.iter().map(|port| node_port(mode, port));
    ports.filter(|port| *port != 0).map(Some).collect()
}
