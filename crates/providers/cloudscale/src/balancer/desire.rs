//! What is wanted in the cloud for one Service. Pure.

mod bodies;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bowline_core::{Notice, Protocol, Service, ServicePort, TrafficPolicy};
use ipnet::IpNet;
use uuid::Uuid;

use super::settings::table::MONITOR_TYPE;
use super::settings::{
    Fault, HttpOptions, INVALID, MonitorWish, PortSettings, Settings, VipWish, canonical,
};
use crate::api::Server;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host {
    pub(crate) node: String,
    pub(crate) server: Server,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) zone: ZoneWish,
    pub(crate) flavor: String,
    pub(crate) vips: Vec<VipWish>,
    pub(crate) floating_ips: Vec<IpAddr>,
    /// Tags that the load balancer must have beside those of others.
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) child_tags: BTreeMap<String, String>,
    pub(crate) pools: Vec<WantedPool>,
    /// The listeners that the Service's source ranges filter, by name.
    pub(crate) filtered_by_service: BTreeSet<String>,
}

impl Wanted {
    /// Whether there are ports, and nothing behind any of them.
    pub(crate) fn has_no_members(&self) -> bool {
        !self.pools.is_empty() && self.pools.iter().all(|pool| pool.members.is_empty())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ZoneWish {
    /// By annotation.
    Chosen(String),
    /// All nodes are there.
    Common(String),
    /// The nodes are in several.
    Several(BTreeSet<String>),
    /// There are no nodes.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedPool {
    pub(crate) name: String,
    pub(crate) algorithm: String,
    pub(crate) protocol: String,
    pub(crate) members: Vec<WantedMember>,
    pub(crate) listener: WantedListener,
    pub(crate) monitor: WantedMonitor,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedMember {
    /// The node that it belongs to.
    pub(crate) node: String,
    pub(crate) name: String,
    pub(crate) ip: IpAddr,
    pub(crate) address: String,
    pub(crate) subnet: Uuid,
    pub(crate) protocol_port: u16,
    pub(crate) monitor_port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedListener {
    pub(crate) name: String,
    pub(crate) protocol: String,
    pub(crate) protocol_port: u16,
    pub(crate) allowed_cidrs: Vec<IpNet>,
    pub(crate) timeout_client_data: i64,
    pub(crate) timeout_member_connect: i64,
    pub(crate) timeout_member_data: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedMonitor {
    pub(crate) kind: String,
    pub(crate) delay: i64,
    pub(crate) timeout: i64,
    pub(crate) up: i64,
    pub(crate) down: i64,
    /// Only for `http` and `https`.
    pub(crate) http: Option<HttpOptions>,
}

pub(crate) struct Desire {
    pub(crate) wanted: Wanted,
    pub(crate) faults: Vec<Fault>,
    pub(crate) notices: Vec<Notice>,
}

/// What is wanted for that Service on those hosts, which the selector has chosen already.
/// `by_service`: whether the Service's source ranges filter.
pub(crate) fn desire(
    service: &Service,
    settings: &Settings,
    hosts: &[Host],
    by_service: bool,
) -> Desire {
    let mut faults = Vec::new();
    let ranges = source_ranges(service, settings, by_service, &mut faults);
    let mut pools: Vec<WantedPool> = Vec::new();
    let mut filtered_by_service = BTreeSet::new();
    for (port, port_settings) in service.ports.iter().zip(&settings.ports) {
        let allowed = port_settings.allowed_cidrs.as_ref().or(ranges.as_ref());
        match pool(service, settings, hosts, port, port_settings, allowed) {
            Ok(pool) if pools.iter().any(|other| other.name == pool.name) => {
                faults.push(of_a_port(format!("two ports make a pool {:?}", pool.name)));
            }
            Ok(pool) => {
                if ranges.is_some() && port_settings.allowed_cidrs.is_none() {
                    filtered_by_service.insert(pool.listener.name.clone());
                }
                pools.push(pool);
            }
            Err(message) => faults.push(of_a_port(message)),
        }
    }
    Desire {
        wanted: Wanted {
            name: settings.name.clone(),
            zone: zone(settings, hosts),
            flavor: settings.flavor.clone(),
            vips: settings.vips.clone(),
            floating_ips: settings.floating_ips.clone(),
            tags: BTreeMap::new(),
            child_tags: BTreeMap::new(),
            pools,
            filtered_by_service,
        },
        faults,
        notices: udp_health_monitor(service, settings).into_iter().collect(),
    }
}

fn of_a_port(message: String) -> Fault {
    Fault {
        reason: INVALID,
        message,
        about_members: true,
    }
}

/// A check over TCP finds nothing behind UDP, but that is how it has always been.
fn udp_health_monitor(service: &Service, settings: &Settings) -> Option<Notice> {
    let only_udp = service.ports.iter().all(|it| it.protocol == Protocol::Udp);
    let local = service.traffic_policy == TrafficPolicy::Local;
    let ports = service.ports.iter().zip(&settings.ports);
    let unset: Vec<String> = ports
        .filter(|(_, port_settings)| port_settings.monitor.kind.is_none())
        .map(|(port, _)| port.port.to_string())
        .collect();
    let of_some = if unset.len() < service.ports.len() {
        format!(" of port {}", unset.join(", "))
    } else {
        String::new()
    };
    (only_udp && !local && !unset.is_empty()).then(|| Notice {
        warning: true,
        reason: "UDPHealthMonitor",
        message: format!(
            "all ports are UDP and the health check{of_some} is tcp: members are down unless \
             something answers TCP on the same node port; annotation {} can be udp-connect",
            MONITOR_TYPE.key
        ),
    })
}

fn zone(settings: &Settings, hosts: &[Host]) -> ZoneWish {
    if let Some(zone) = &settings.zone {
        return ZoneWish::Chosen(zone.clone());
    }
    let zones: BTreeSet<String> = hosts
        .iter()
        .map(|host| host.server.zone.clone())
        .filter(|zone| !zone.is_empty())
        .collect();
    match (zones.first(), zones.len()) {
        (Some(zone), 1) => ZoneWish::Common(zone.clone()),
        (Some(_), _) => ZoneWish::Several(zones),
        (None, _) => ZoneWish::Unknown,
    }
}

/// The Service's own ranges, if they filter: where no annotation overrides them.
fn source_ranges(
    service: &Service,
    settings: &Settings,
    by_service: bool,
    faults: &mut Vec<Fault>,
) -> Option<Vec<IpNet>> {
    let ranges = &service.source_ranges;
    let port_settings = |port: &PortSettings| port.allowed_cidrs.is_some();
    if !by_service || ranges.is_empty() || settings.ports.iter().all(port_settings) {
        return None;
    }
    let networks = canonical(ranges);
    if networks.is_none() {
        faults.push(Fault {
            reason: INVALID,
            message: format!(
                "spec.loadBalancerSourceRanges: {ranges:?} is not allowed; allowed is a list of \
                 networks in CIDR notation"
            ),
            about_members: false,
        });
    }
    networks
}

fn pool(
    service: &Service,
    settings: &Settings,
    hosts: &[Host],
    port: &ServicePort,
    port_settings: &PortSettings,
    allowed: Option<&Vec<IpNet>>,
) -> Result<WantedPool, String> {
    let number = port.port;
    let (prefix, protocol, listener_protocol) = match &port.protocol {
        Protocol::Tcp => (
            "tcp",
            &*port_settings.pool_protocol,
            &*settings.listener_protocol,
        ),
        Protocol::Udp => ("udp", "udp", "udp"),
        Protocol::Other(other) => {
            return Err(format!(
                "port {number} is {other}, and load balancers know only TCP and UDP"
            ));
        }
    };
    if port.node_port == 0 {
        return Err(format!(
            "port {number} has an unknown port on the nodes: no nodePort is allocated"
        ));
    }
    let name = match port.name.as_str() {
        "" => prefix.to_owned(),
        name => format!("{prefix}/{name}"),
    };
    Ok(WantedPool {
        name,
        algorithm: port_settings.algorithm.clone(),
        protocol: protocol.to_owned(),
        members: members(service, settings, hosts, port),
        listener: WantedListener {
            name: format!("{listener_protocol}/{number}").to_lowercase(),
            protocol: listener_protocol.to_owned(),
            protocol_port: number,
            allowed_cidrs: allowed.cloned().unwrap_or_default(),
            timeout_client_data: port_settings.timeout_client_data,
            timeout_member_connect: port_settings.timeout_member_connect,
            timeout_member_data: port_settings.timeout_member_data,
        },
        monitor: monitor(service, &port_settings.monitor, port),
    })
}

/// Every private address of every host, as far as its subnet is wanted. A pool takes an address
/// and port only once.
fn members(
    service: &Service,
    settings: &Settings,
    hosts: &[Host],
    port: &ServicePort,
) -> Vec<WantedMember> {
    let local = service.traffic_policy == TrafficPolicy::Local;
    let health_port = service.health_check_node_port.filter(|_| local);
    let (mut seen, mut members) = (BTreeSet::new(), Vec::new());
    for host in hosts {
        let private = host.server.interfaces.iter().filter(|it| !it.public);
        for address in private.flat_map(|interface| &interface.addresses) {
            let Some(subnet) = address.subnet else {
                continue;
            };
            let wanted = &settings.allowed_subnets;
            if !wanted.is_empty() && !wanted.contains(&subnet) || !seen.insert(address.ip) {
                continue;
            }
            members.push(WantedMember {
                node: host.node.clone(),
                name: match address.ip {
                    IpAddr::V4(_) => format!("{}:{}", address.text, port.node_port),
                    IpAddr::V6(_) => format!("[{}]:{}", address.text, port.node_port),
                },
                ip: address.ip,
                address: address.text.clone(),
                subnet,
                protocol_port: port.node_port,
                monitor_port: health_port.unwrap_or(port.node_port),
            });
        }
    }
    members
}

fn monitor(service: &Service, request: &MonitorWish, port: &ServicePort) -> WantedMonitor {
    let local = service.traffic_policy == TrafficPolicy::Local;
    let kind = match request.kind.as_deref().unwrap_or("tcp") {
        _ if local => "http",
        "udp-connect" if port.protocol != Protocol::Udp => "tcp",
        kind => kind,
    };
    let http = match (&request.http, local) {
        (Some(port_settings), _) => port_settings.clone(),
        (None, true) => HttpOptions::local(),
        (None, false) => HttpOptions::default(),
    };
    let (delay, timeout) = if kind == "udp-connect" {
        (3, 2)
    } else {
        (2, 1)
    };
    WantedMonitor {
        kind: kind.to_owned(),
        delay: request.delay.unwrap_or(delay),
        timeout: request.timeout.unwrap_or(timeout),
        up: request.up,
        down: request.down,
        http: matches!(kind, "http" | "https").then_some(http),
    }
}
