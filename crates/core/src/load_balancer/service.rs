//! A Kubernetes Service, as far as any decision about load balancers needs to know it.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

/// Keeps a Service in the API until its load balancer is gone.
pub const CLEANUP_FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The condition that shows the state of a Service's load balancer. We write it on Services that we serve, and nobody else
/// does. True: it is as the Service wants it. Unknown: the cloud cannot be read.
pub const READY_CONDITION: &str = "bowline.dev/LoadBalancerReady";
/// Its reason once the load balancer is gone: from then on the finalizer is that of whoever serves the Service next.
pub const REMOVED_REASON: &str = "Removed";
/// What the types of our conditions begin with.
pub const CONDITION_PREFIX: &str = "bowline.dev/";
/// The condition that remembers which cloud a Service's load balancer is in, where that is not the default; the name
/// of the cloud is its message.
pub const CLOUD_CONDITION: &str = "bowline.dev/Cloud";

/// Namespace and name: what a Service is called as long as it lives.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The parts of a Service object that decisions are made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Namespace and name.
    pub key: ServiceKey,
    /// `metadata.uid`: another Service of the same name has another one.
    pub uid: String,
    /// `metadata.resourceVersion`, to guard a write against what was read.
    pub resource_version: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.annotations`; none and an empty map are distinguished, as the framework does.
    pub annotations: Option<BTreeMap<String, String>>,
    /// `metadata.finalizers`, in order.
    pub finalizers: Vec<String>,
    /// Whether `spec.type` is `LoadBalancer`.
    pub is_load_balancer: bool,
    /// `spec.type` as it is written: for messages, decisions need only the line before.
    pub type_name: String,
    /// `spec.loadBalancerClass`; an empty text is a class too.
    pub class: Option<String>,
    /// `spec.ports`, in order.
    pub ports: Vec<ServicePort>,
    /// `spec.sessionAffinity` is `ClientIP`, with its time-out in seconds.
    pub client_affinity: Option<u32>,
    /// `spec.loadBalancerIP`.
    pub requested_ip: Option<String>,
    /// `spec.externalIPs`, in order.
    pub external_ips: Vec<String>,
    /// `spec.loadBalancerSourceRanges`, in order.
    pub source_ranges: Vec<String>,
    /// `spec.externalTrafficPolicy`.
    pub traffic_policy: TrafficPolicy,
    /// `spec.healthCheckNodePort`, if it is not 0.
    pub health_check_node_port: Option<u16>,
    /// `spec.ipFamilies`, in order.
    pub ip_families: Vec<String>,
    /// `status.loadBalancer.ingress`, in order.
    pub ingress: Vec<Ingress>,
    /// `status.conditions`, in order.
    pub conditions: Vec<Condition>,
}

impl Service {
    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether the cleanup finalizer holds it.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|it| it == CLEANUP_FINALIZER)
    }

    /// Whether it carries what only we write on Services that we serve. Others have the same finalizer; and one that was
    /// right when we took it over carries nothing of ours.
    pub fn was_served_by_us(&self) -> bool {
        let ours = |it: &Condition| it.kind == READY_CONDITION && it.reason != REMOVED_REASON;
        self.conditions.iter().any(ours)
    }

    /// The port that health checks of a load balancer must ask, if only nodes with local
    /// endpoints may get traffic: path `/healthz`.
    pub fn local_health_check_port(&self) -> Option<u16> {
        let local = self.is_load_balancer && self.traffic_policy == TrafficPolicy::Local;
        self.health_check_node_port.filter(|_| local)
    }
}

/// Which nodes may pass traffic on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// Every node, to any endpoint.
    #[default]
    Cluster,
    /// Only nodes with an endpoint of their own.
    Local,
}

impl TrafficPolicy {
    /// The name in the Kubernetes API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; empty if it has none.
    pub name: String,
    /// `TCP`, `UDP`, or something newer.
    pub protocol: Protocol,
    /// What clients connect to.
    pub port: u16,
    /// What nodes listen on; 0 if none is allocated.
    pub node_port: u16,
    /// A number or a name, as it is written.
    pub target_port: String,
    /// `appProtocol`.
    pub application_protocol: Option<String>,
}

/// The transport of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP, or something newer.
    Other(String),
}

impl Protocol {
    /// The name in the Kubernetes API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for Protocol {
    fn from(name: &str) -> Self {
        match name {
            // The API server fills it in; an object from a file may lack it.
            "TCP" | "" => Self::Tcp,
            "UDP" => Self::Udp,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How traffic from inside the cluster reaches a published address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpMode {
    /// The nodes may answer for the load balancer.
    Vip,
    /// It must go through the load balancer, which changes the packets.
    Proxy,
}

impl IpMode {
    /// The name in the Kubernetes API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vip => "VIP",
            Self::Proxy => "Proxy",
        }
    }
}

/// One published entrance of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    /// An address.
    pub ip: Option<String>,
    /// Or a name.
    pub hostname: Option<String>,
    /// Only with an address; not written to servers before 1.30.
    pub ip_mode: Option<IpMode>,
}

impl fmt::Display for Ingress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entrance = self.ip.as_deref().or(self.hostname.as_deref());
        f.write_str(entrance.unwrap_or("nothing"))?;
        match self.ip_mode {
            Some(mode) => write!(f, " ({})", mode.as_str()),
            None => Ok(()),
        }
    }
}

/// A condition in the status of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is about.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;

    /// The Service `shop/web` with one port, as the API server stores it.
    pub(crate) fn web() -> Service {
        Service {
            key: ServiceKey {
                namespace: "shop".into(),
                name: "web".into(),
            },
            uid: "5a4f2b10-0c67-4a3f-8f6e-3b9d2a7c1e55".into(),
            resource_version: "7".into(),
            is_load_balancer: true,
            type_name: "LoadBalancer".into(),
            ports: vec![ServicePort {
                name: "http".into(),
                port: 80,
                node_port: 31080,
                target_port: "8080".into(),
                ..ServicePort::default()
            }],
            ip_families: vec!["IPv4".into()],
            ..Service::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_local_policy_asks_for_the_health_check_port() {
        let mut service = examples::web();
        service.health_check_node_port = Some(32100);
        assert_eq!(service.local_health_check_port(), None);
        service.traffic_policy = TrafficPolicy::Local;
        assert_eq!(service.local_health_check_port(), Some(32100));
        service.is_load_balancer = false;
        assert_eq!(service.local_health_check_port(), None);
    }
}
