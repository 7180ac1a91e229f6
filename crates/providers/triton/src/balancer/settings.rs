//! Reads and checks the annotations of a Service before any request to the cloud. An invalid value
//! is a fault of that setting, reported with its key, its value and what is allowed.

mod read;
pub mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use bowline_core::{AnnotationReader, Problem, Selector, Service};
use ipnet::Ipv4Net;

use crate::config::{BalancerMode, LoadBalancerConfig};
use table::{
    CERTIFICATE_NAME, CNS_NETWORK, CNS_PORT_MODE, CNS_SERVICE, DELETION_PROTECTION, HEALTH_CHECK,
    HOSTNAME, IMAGE, INTERNAL, IPV4, LB_INSTANCE, MAX_RS, METRICS_ACL, METRICS_PORT, MODE,
    NODE_SELECTOR, PACKAGE, PROTOCOL, PROTOCOLS, PROXY_PROTOCOL, PUBLISH, REPLICAS, SYSLOG, TABLE,
    TIMEOUTS,
};

pub(crate) const INVALID: &str = "InvalidAnnotation";
pub(crate) const CNS_CLASS: &str = "cloud.tritoncompute/cns";
pub(crate) const CLB_CLASS: &str = "cloud.tritoncompute/clb";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Cns,
    Clb,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PortMode {
    #[default]
    NodePort,
    /// The Service's port, which pods have on the host.
    Service,
    /// The Service's port, which kube-proxy answers.
    Direct,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publish {
    Ip,
    Hostname,
    /// The name, then addresses.
    Both,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BalancingProtocol {
    #[default]
    Tcp,
    Http,
    /// As HTTP, encrypted on both sides.
    Https,
    /// The same, whatever the nodes' certificates are.
    HttpsInsecure,
    /// As HTTP, encrypted on the clients' side.
    HttpsHttp,
}

impl BalancingProtocol {
    /// The word in annotations and in port maps.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::Https => "https",
            Self::HttpsInsecure => "https+insecure",
            Self::HttpsHttp => "https-http",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::Tcp,
            Self::Http,
            Self::Https,
            Self::HttpsInsecure,
            Self::HttpsHttp,
        ];
        all.into_iter().find(|it| it.as_str() == text)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Check {
    /// As the Service's traffic policy suggests.
    #[default]
    Automatic,
    /// By a connection, without an annotation about it.
    Off,
    Given {
        path: Option<String>,
        port: Option<u16>,
        rise: Option<u16>,
        fall: Option<u16>,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// The mode that the Service names, by its class or its annotation.
    pub(crate) mode: Option<Mode>,
    pub(crate) cns_service: Option<String>,
    pub(crate) cns_network: Option<String>,
    pub(crate) port_mode: PortMode,
    pub(crate) internal: bool,
    pub(crate) node_selector: Selector,
    /// None: as the mode suggests.
    pub(crate) publish: Option<Publish>,
    pub(crate) hostname: Option<String>,
    pub(crate) clb: ClbSettings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClbSettings {
    /// None: as many as the targets need.
    pub(crate) max_rs: Option<u16>,
    /// The first is the subject, the others are its other names.
    pub(crate) certificate_names: Vec<String>,
    pub(crate) metrics_acl: BTreeSet<Ipv4Net>,
    pub(crate) metrics_port: Option<u16>,
    /// `host:port`.
    pub(crate) syslog: Option<String>,
    /// Without braces: `connect:5000,client:60000`.
    pub(crate) timeouts: Option<String>,
    /// Of ports that `protocols` does not name.
    pub(crate) protocol: BalancingProtocol,
    /// By the number of the Service's port.
    pub(crate) protocols: BTreeMap<u16, BalancingProtocol>,
    pub(crate) proxy_protocol: bool,
    pub(crate) check: Check,
    pub(crate) replicas: Option<u8>,
    pub(crate) package: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) ipv4: Option<Ipv4Addr>,
    pub(crate) lb_instance: Option<String>,
    pub(crate) deletion_protection: Option<bool>,
}

impl Settings {
    /// Reads all annotations. What cannot be used has its default, and a fault.
    pub(crate) fn read(service: &Service, config: &LoadBalancerConfig) -> (Self, Vec<Problem>) {
        let mut reader = TABLE.reader(service);
        let annotated = reader.value(MODE, |text| match text {
            "cns" => Some(Mode::Cns),
            "clb" => Some(Mode::Clb),
            _ => None,
        });
        let settings = Self {
            mode: of_class(service).or(annotated),
            cns_service: reader.value(CNS_SERVICE, read::label),
            cns_network: reader.value(CNS_NETWORK, read::word),
            port_mode: reader.value(CNS_PORT_MODE, port_mode).unwrap_or_default(),
            internal: reader.value(INTERNAL, read::yes_or_no).unwrap_or_default(),
            node_selector: reader
                .value(NODE_SELECTOR, |text| Selector::parse(text).ok())
                .unwrap_or_default(),
            publish: reader.value(PUBLISH, publish),
            hostname: reader.value(HOSTNAME, read::host),
            clb: machines(&mut reader, service),
        };
        if reader.faults.is_empty() && settings.mode_or(config) == Some(Mode::Clb) {
            settings.check_combinations(service, config, &mut reader);
        }
        (settings, reader.problems(INVALID))
    }

    /// Values that are valid alone but exclude each other.
    fn check_combinations(
        &self,
        service: &Service,
        config: &LoadBalancerConfig,
        reader: &mut AnnotationReader<'_>,
    ) {
        let clb = &self.clb;
        let mut protocols = service.ports.iter().map(|port| clb.protocol_of(port.port));
        if clb.proxy_protocol && protocols.any(|it| it != BalancingProtocol::Tcp) {
            reader.fault(format!(
                "annotation {}: true goes only with protocol tcp, for all ports",
                PROXY_PROTOCOL.key
            ));
        }
        if clb.ipv4.is_some() && (!self.internal || clb.replicas.unwrap_or(config.clb_replicas) > 1)
        {
            reader.fault(format!(
                "annotation {}: a fixed address needs {}: \"true\" and one replica",
                IPV4.key, INTERNAL.key
            ));
        }
    }

    pub(crate) fn mode_or(&self, config: &LoadBalancerConfig) -> Option<Mode> {
        self.mode.or(match config.mode {
            BalancerMode::Cns => Some(Mode::Cns),
            BalancerMode::Clb => Some(Mode::Clb),
            BalancerMode::None => None,
        })
    }
}

/// Whether a Service is to be served at all: the mode comes from its annotation or class, or from
/// the configuration.
pub(crate) fn is_served(service: &Service, config: &LoadBalancerConfig) -> bool {
    config.mode != BalancerMode::None
        || of_class(service).is_some()
        || TABLE.value(service, MODE).is_some()
}

impl ClbSettings {
    pub(crate) fn protocol_of(&self, port: u16) -> BalancingProtocol {
        self.protocols.get(&port).copied().unwrap_or(self.protocol)
    }
}

fn of_class(service: &Service) -> Option<Mode> {
    match service.class.as_deref()? {
        CNS_CLASS => Some(Mode::Cns),
        CLB_CLASS => Some(Mode::Clb),
        _ => None,
    }
}

fn port_mode(text: &str) -> Option<PortMode> {
    match text {
        "nodeport" => Some(PortMode::NodePort),
        "service" => Some(PortMode::Service),
        "direct" => Some(PortMode::Direct),
        _ => None,
    }
}

fn publish(text: &str) -> Option<Publish> {
    match text {
        "ip" => Some(Publish::Ip),
        "hostname" => Some(Publish::Hostname),
        "both" => Some(Publish::Both),
        _ => None,
    }
}

fn machines(reader: &mut AnnotationReader<'_>, service: &Service) -> ClbSettings {
    let replicas = reader.number(REPLICAS, read::whole);
    ClbSettings {
        max_rs: reader.number(MAX_RS, read::whole),
        certificate_names: reader
            .value(CERTIFICATE_NAME, read::hosts)
            .unwrap_or_default(),
        metrics_acl: reader
            .value(METRICS_ACL, read::networks)
            .unwrap_or_default(),
        metrics_port: reader.number(METRICS_PORT, read::whole),
        syslog: reader.value(SYSLOG, read::host_and_port),
        timeouts: reader.value(TIMEOUTS, read::timeouts),
        protocol: reader
            .value(PROTOCOL, BalancingProtocol::parse)
            .unwrap_or_default(),
        protocols: reader
            .value(PROTOCOLS, |text| read::protocols(text, service))
            .unwrap_or_default(),
        proxy_protocol: reader
            .value(PROXY_PROTOCOL, read::yes_or_no)
            .unwrap_or_default(),
        check: reader.value(HEALTH_CHECK, read::check).unwrap_or_default(),
        replicas: replicas.and_then(|it| u8::try_from(it).ok()),
        package: reader.value(PACKAGE, read::word),
        image: reader.value(IMAGE, read::word),
        ipv4: reader.value(IPV4, |text| text.parse().ok()),
        lb_instance: reader.value(LB_INSTANCE, read::word),
        deletion_protection: reader.value(DELETION_PROTECTION, read::yes_or_no),
    }
}

/// The nodes that may be targets, if the Service has a valid selector.
pub(crate) fn selector(service: &Service) -> Option<Selector> {
    Selector::parse(TABLE.value(service, NODE_SELECTOR)?).ok()
}
