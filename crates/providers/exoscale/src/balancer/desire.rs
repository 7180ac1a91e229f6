//! What is wanted in the cloud for one Service. Pure.

use bowline_core::{Notice, Problem, Protocol, Service, ServicePort, TrafficPolicy};
use uuid::Uuid;

use super::settings::table::{CHECK_MODE, CHECK_PORT, CHECK_URI};
use super::settings::{CheckSettings, Settings, invalid};
use crate::api::{HealthCheck, NewService, Reference};
use crate::config::LocalPolicyHealthCheck;

const MOST_SERVICES: usize = 10;
/// What kube-proxy answers at the Service's health check port.
const LOCAL_PATH: &str = "/healthz";

/// What clients connect to: only one service of a load balancer can have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entrance {
    pub(crate) port: u16,
    /// `tcp` or `udp`.
    pub(crate) protocol: String,
}

impl std::fmt::Display for Entrance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.port, self.protocol)
    }
}

/// The services that a load balancer is to have, in the order of the ports, all but their pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desire {
    pub(crate) services: Vec<WantedService>,
    pub(crate) faults: Vec<Problem>,
    pub(crate) notices: Vec<Notice>,
}

/// A service of a load balancer, but for its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedService {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) entrance: Entrance,
    pub(crate) target_port: u16,
    pub(crate) strategy: String,
    pub(crate) check: HealthCheck,
}

impl WantedService {
    pub(crate) fn body(&self, pool: Uuid) -> NewService {
        NewService {
            name: self.name.clone(),
            description: self.description.clone(),
            protocol: self.entrance.protocol.clone(),
            port: self.entrance.port,
            target_port: self.target_port,
            strategy: self.strategy.clone(),
            instance_pool: Reference { id: pool },
            healthcheck: self.check.clone(),
        }
    }
}

/// The entrance of a port, if the cloud has such ones.
pub(crate) fn entrance(port: &ServicePort) -> Option<Entrance> {
    let protocol = match port.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Other(_) => return None,
    };
    Some(Entrance {
        port: port.port,
        protocol: protocol.to_owned(),
    })
}

pub(crate) fn default_service_name(uid: &str, entrance: &Entrance) -> String {
    let udp = if entrance.protocol == "udp" {
        "-udp"
    } else {
        ""
    };
    format!("{uid}-{}{udp}", entrance.port)
}

pub(crate) fn desire(
    service: &Service,
    settings: &Settings,
    local: LocalPolicyHealthCheck,
) -> Desire {
    let mut desire = Desire::default();
    if service.ports.len() > MOST_SERVICES {
        desire.faults.push(invalid(format!(
            "the Service has {} ports, and a load balancer has at most {MOST_SERVICES} services",
            service.ports.len()
        )));
    }
    let checks = Checks::new(service, &settings.check, local);
    for port in &service.ports {
        let Some(entrance) = entrance(port) else {
            desire.faults.push(invalid(format!(
                "port {}: only TCP and UDP are supported as service port protocols, and not {}",
                port.port, port.protocol
            )));
            continue;
        };
        if port.node_port == 0 {
            desire.faults.push(invalid(format!(
                "port {}: it has no node port, and a load balancer sends to node ports; \
                 spec.allocateLoadBalancerNodePorts must not be false",
                port.port
            )));
            continue;
        }
        let name = settings.service_name.clone();
        desire.services.push(WantedService {
            name: name.unwrap_or_else(|| default_service_name(&service.uid, &entrance)),
            description: settings.service_description.clone(),
            target_port: port.node_port,
            strategy: settings.strategy.clone(),
            check: checks.of(port),
            entrance,
        });
        desire.notices.extend(checks.udp_notice(port));
    }
    desire.notices.extend(checks.local_notice());
    desire.notices.extend(ranges_notice(service));
    desire
}

struct Checks<'a> {
    service: &'a Service,
    settings: &'a CheckSettings,
    mode: &'a str,
    uri: &'a str,
}

impl<'a> Checks<'a> {
    fn new(
        service: &'a Service,
        settings: &'a CheckSettings,
        local: LocalPolicyHealthCheck,
    ) -> Self {
        let by_request =
            service.traffic_policy == TrafficPolicy::Local && local == LocalPolicyHealthCheck::Http;
        let (mode, uri) = match &settings.mode {
            Some(mode) => (mode.as_str(), settings.uri.as_str()),
            None if by_request && settings.uri.is_empty() => ("http", LOCAL_PATH),
            None if by_request => ("http", settings.uri.as_str()),
            None => ("tcp", settings.uri.as_str()),
        };
        Self {
            service,
            settings,
            mode,
            uri,
        }
    }

    fn of(&self, port: &ServicePort) -> HealthCheck {
        HealthCheck {
            mode: self.mode.to_owned(),
            port: self.port(port),
            uri: self.uri.to_owned(),
            interval: self.settings.interval,
            timeout: self.settings.timeout,
            retries: self.settings.retries,
            tls_sni: self.settings.tls_sni.clone(),
        }
    }

    fn port(&self, port: &ServicePort) -> u16 {
        self.settings
            .port
            .or_else(|| self.local_port())
            .or_else(|| self.tcp_sibling(port))
            .unwrap_or(port.node_port)
    }

    /// Where kube-proxy reports whether a node has endpoints.
    fn local_port(&self) -> Option<u16> {
        let local = self.service.traffic_policy == TrafficPolicy::Local;
        self.service.health_check_node_port.filter(|_| local)
    }

    /// The node port of the TCP port with the same number as this UDP port: a check of UDP is none.
    fn tcp_sibling(&self, port: &ServicePort) -> Option<u16> {
        let mut all = self.service.ports.iter();
        let sibling = all.find(|it| it.protocol == Protocol::Tcp && it.port == port.port);
        let sibling = sibling.filter(|it| it.node_port != 0);
        sibling
            .filter(|_| port.protocol == Protocol::Udp)
            .map(|it| it.node_port)
    }

    fn udp_notice(&self, port: &ServicePort) -> Option<Notice> {
        let elsewhere = self.settings.port.or_else(|| self.local_port());
        let doubtful = port.protocol == Protocol::Udp
            && elsewhere.is_none()
            && self.tcp_sibling(port).is_none();
        doubtful.then(|| Notice {
            warning: true,
            reason: "UdpHealthCheck",
            message: format!(
                "port {}/udp is checked by a connection to its node port {}, where only UDP is \
                 served; annotation {} names a port that can be checked",
                port.port, port.node_port, CHECK_PORT.key
            ),
        })
    }

    /// A connection to kube-proxy's port succeeds on nodes without endpoints too.
    fn local_notice(&self) -> Option<Notice> {
        let CheckSettings { mode, port, .. } = self.settings;
        let doubtful = self.local_port().is_some() && mode.is_none() && port.is_none();
        (doubtful && self.mode == "tcp").then(|| Notice {
            warning: true,
            reason: "LocalPolicyHealthCheck",
            message: format!(
                "externalTrafficPolicy is Local, and the health check is a connection, which succeeds on \
                 nodes without endpoints as well: traffic to them is lost; annotations {}: http and {}: \
                 {LOCAL_PATH} make it right, or loadBalancer.localPolicyHealthCheck: http for all Services",
                CHECK_MODE.key, CHECK_URI.key
            ),
        })
    }
}

/// The cloud cannot filter by source at a load balancer.
fn ranges_notice(service: &Service) -> Option<Notice> {
    (!service.source_ranges.is_empty()).then(|| Notice {
        warning: true,
        reason: "SourceRangesIgnored",
        message: format!(
            "spec.loadBalancerSourceRanges ({}) has no effect: the load balancer lets everybody in; rules \
             of the instances' security groups can limit who connects",
            service.source_ranges.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests;
