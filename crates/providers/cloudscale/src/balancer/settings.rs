//! Reads and checks the annotations of a Service. An invalid value is a fault of that setting,
//! reported with its key, its value and what is allowed; the others are read all the same.

mod http;
mod page;
mod port;
mod read;
mod single;
pub mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;

pub(crate) use bowline_core::TAKE_OVER;
use bowline_core::{AnnotationFault, HAND_OVER, IpMode, Selector, Service};
use uuid::Uuid;

use super::ownership::uid_in_name;
pub(crate) use http::HttpOptions;
pub(crate) use port::{MonitorWish, PortSettings};
pub(crate) use read::canonical;
use table::{
    ALLOWED_SUBNETS, FLAVOR, FLOATING_IPS, FORCE_HOSTNAME, LISTENER_PROTOCOL, NAME, NODE_SELECTOR,
    PUBLISH_FLOATING_IPS, TABLE, UUID, VIP_ADDRESSES, ZONE,
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// None if absent, empty, or not a uuid: then the name decides.
    pub(crate) uuid: Option<Uuid>,
    pub(crate) zone: Option<String>,
    pub(crate) name: String,
    pub(crate) flavor: String,
    pub(crate) vips: Vec<VipWish>,
    pub(crate) floating_ips: Vec<IpAddr>,
    pub(crate) listener_protocol: String,
    /// Empty means all.
    pub(crate) allowed_subnets: BTreeSet<Uuid>,
    /// One for each port of the Service, in their order.
    pub(crate) ports: Vec<PortSettings>,
    pub(crate) force_hostname: Option<String>,
    pub(crate) ip_mode: IpMode,
    pub(crate) selector: Selector,
    pub(crate) publish_floating_ips: bool,
    pub(crate) take_over: Option<Uuid>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VipWish {
    pub(crate) subnet: Uuid,
    /// Any if none.
    pub(crate) address: Option<IpAddr>,
}

pub(crate) const INVALID: &str = "InvalidLoadBalancerConfig";

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: &'static str,
    /// Key, value, and what is allowed.
    pub(crate) message: String,
    /// Whether it is open because of it which members are wanted.
    pub(crate) about_members: bool,
}

impl From<AnnotationFault> for Fault {
    fn from(fault: AnnotationFault) -> Self {
        let AnnotationFault { row, message } = fault;
        Self {
            reason: INVALID,
            message,
            about_members: row.is_some_and(|row| [ALLOWED_SUBNETS, NODE_SELECTOR].contains(&row)),
        }
    }
}

/// What the name of a load balancer begins with if nobody gives it one; the Service's uid follows.
pub(crate) const DEFAULT_NAME: &str = "k8s-service-";

pub(crate) fn default_name(service_uid: &str) -> String {
    format!("{DEFAULT_NAME}{service_uid}")
}

/// Whether people may give a load balancer that name: not an empty one, and not the default name of
/// another Service's.
fn is_name(name: &str, service_uid: &str) -> bool {
    !name.is_empty() && uid_in_name(name).is_none_or(|uid| uid == service_uid)
}

pub(crate) fn uuid_of(service: &Service) -> Option<Uuid> {
    Uuid::try_parse(service.annotation(UUID.key)?.trim()).ok()
}

/// The name of a Service's load balancer, for those who only look for it: one that cannot be used
/// counts as absent.
pub(crate) fn name_of(service: &Service) -> String {
    match service.annotation(NAME.key) {
        Some(name) if is_name(name, &service.uid) => name.to_owned(),
        _ => default_name(&service.uid),
    }
}

/// Whether another Service may be one of ours: it has no class, or one that names a cloud of ours.
pub(crate) fn may_be_ours(service: &Service) -> bool {
    let class = service.class.as_deref();
    class.is_none_or(|class| class.starts_with("bowline.dev/"))
}

/// The floating IPs of another Service; an unreadable list is its own business.
pub(crate) fn floating_ips_of(service: &Service) -> Vec<IpAddr> {
    let text = service.annotation(FLOATING_IPS.key).unwrap_or_default();
    read::floating_ips(text).unwrap_or_default()
}

/// What a Service asks for that only one Service can have: floating IPs, and what others hand over.
pub(crate) fn contends_for(service: &Service) -> BTreeSet<String> {
    let addresses = floating_ips_of(service);
    let mut all: BTreeSet<String> = addresses.iter().map(IpAddr::to_string).collect();
    let handed = |to: &str| format!("{HAND_OVER} {to}");
    all.extend(service.annotation(HAND_OVER).map(|to| handed(to.trim())));
    let takes = service.annotation(TAKE_OVER);
    all.extend(takes.map(|_| handed(&service.key.to_string())));
    all
}

/// The node selector; none if it cannot be read.
pub(crate) fn selector_of(service: &Service) -> Option<Selector> {
    let text = service.annotation(NODE_SELECTOR.key).unwrap_or_default();
    Selector::parse(text).ok()
}

impl Settings {
    /// Reads all annotations. What cannot be used has its default, and a fault.
    pub(crate) fn read(service: &Service) -> (Self, Vec<Fault>) {
        let mut reader = TABLE.reader(service);
        let settings = Self {
            uuid: uuid_of(service),
            zone: read::text(&mut reader, ZONE),
            name: reader
                .value(NAME, |text| {
                    is_name(text, &service.uid).then(|| text.to_owned())
                })
                .unwrap_or_else(|| default_name(&service.uid)),
            flavor: reader
                .value(FLAVOR, |text| (!text.is_empty()).then(|| text.to_owned()))
                .unwrap_or_else(|| FLAVOR.default.to_owned()),
            vips: reader.value(VIP_ADDRESSES, read::vips).unwrap_or_default(),
            floating_ips: reader
                .value(FLOATING_IPS, read::floating_ips)
                .unwrap_or_default(),
            listener_protocol: reader
                .choice(LISTENER_PROTOCOL)
                .unwrap_or(LISTENER_PROTOCOL.default)
                .to_owned(),
            allowed_subnets: reader
                .value(ALLOWED_SUBNETS, read::subnets)
                .unwrap_or_default(),
            ports: read::ports(&mut reader, service),
            force_hostname: reader
                .value(FORCE_HOSTNAME, read::hostname)
                .filter(|text| !text.is_empty()),
            ip_mode: read::ip_mode(&mut reader, service),
            selector: read::selector(&mut reader, service),
            publish_floating_ips: reader
                .value(PUBLISH_FLOATING_IPS, |text| text.parse().ok())
                .unwrap_or_default(),
            take_over: service
                .annotation(TAKE_OVER)
                .and_then(|text| Uuid::try_parse(text.trim()).ok()),
        };
        if !settings.floating_ips.is_empty() && !settings.vips.is_empty() {
            reader.fault(format!(
                "annotations {} and {}: floating IPs cannot point to a load balancer with private \
                 addresses; allowed is one of the two",
                FLOATING_IPS.key, VIP_ADDRESSES.key
            ));
        }
        (
            settings,
            reader.faults.into_iter().map(Fault::from).collect(),
        )
    }
}
