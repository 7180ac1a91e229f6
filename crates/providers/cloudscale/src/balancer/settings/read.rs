//! The forms that the values of annotations have.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bowline_core::{Annotation, AnnotationReader, IpMode, Selector, Service};
use ipnet::IpNet;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::table::{IP_MODE, NODE_SELECTOR, PORT_SETTINGS, of_ports};
use super::{PortSettings, VipWish, single};

/// A text; an empty one counts as absent.
pub(super) fn text(reader: &mut AnnotationReader<'_>, row: Annotation) -> Option<String> {
    let text = reader.value(row, |text| Some(text.to_owned()));
    text.filter(|text| !text.is_empty())
}

/// The settings of each port: its own, or else those of all.
pub(super) fn ports(reader: &mut AnnotationReader<'_>, service: &Service) -> Vec<PortSettings> {
    let mut shared = PortSettings::default();
    for row in of_ports() {
        reader.value(row, |text| shared.take(row, text));
    }
    let ports = &service.ports;
    let Some(text) = service.annotation(PORT_SETTINGS.key) else {
        return vec![shared; ports.len()];
    };
    let (settings, faults) = single::read(text, ports, &shared);
    for fault in faults {
        reader.fault(fault);
    }
    settings
}

/// A name that the API server takes in a status.
pub(super) fn hostname(text: &str) -> Option<String> {
    (text.is_empty() || is_hostname(text)).then(|| text.to_owned())
}

/// Words of its own: people look for them.
pub(super) fn ip_mode(reader: &mut AnnotationReader<'_>, service: &Service) -> IpMode {
    match service.annotation(IP_MODE.key) {
        None | Some("Proxy") => IpMode::Proxy,
        Some("VIP") => IpMode::Vip,
        Some(other) => {
            let (key, allowed) = (IP_MODE.key, IP_MODE.allowed);
            let message =
                format!("annotation {key}: unsupported IP mode {other:?}; allowed is {allowed}");
            reader.fault_of(IP_MODE, message);
            IpMode::Proxy
        }
    }
}

/// A message of its own: the grammar explains more than "not allowed".
pub(super) fn selector(reader: &mut AnnotationReader<'_>, service: &Service) -> Selector {
    let text = service.annotation(NODE_SELECTOR.key).unwrap_or_default();
    Selector::parse(text).unwrap_or_else(|error| {
        let message = format!("annotation {}: {error}", NODE_SELECTOR.key);
        reader.fault_of(NODE_SELECTOR, message);
        Selector::default()
    })
}

/// A whole number above 0, in decimal digits with an optional sign.
pub(super) fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| *number > 0)
}

/// A list of texts; an empty or blank value is an empty list.
fn texts(text: &str) -> Option<Vec<String>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    serde_json::from_str(text).ok()
}

pub(super) fn subnets(text: &str) -> Option<BTreeSet<Uuid>> {
    let all = texts(text)?.into_iter();
    all.map(|text| Uuid::try_parse(&text).ok()).collect()
}

/// Addresses, with or without a prefix length.
pub(super) fn floating_ips(text: &str) -> Option<Vec<IpAddr>> {
    let all = texts(text)?.into_iter();
    let read: Option<Vec<IpAddr>> = all.map(|text| Some(network(&text)?.addr())).collect();
    let mut seen = BTreeSet::new();
    let mut addresses = read?;
    addresses.retain(|address| seen.insert(*address));
    Some(addresses)
}

/// Networks in their canonical form, each once, in the order of the list.
pub(super) fn networks(text: &str) -> Option<Vec<IpNet>> {
    canonical(&texts(text)?)
}

/// The same for a list that is one already.
pub(crate) fn canonical(list: &[String]) -> Option<Vec<IpNet>> {
    let read: Option<Vec<IpNet>> = list
        .iter()
        .map(|text| Some(network(text.trim())?.trunc()))
        .collect();
    let mut seen = BTreeSet::new();
    let mut networks = read?;
    networks.retain(|network| seen.insert(*network));
    Some(networks)
}

/// A network, or an address as the network of itself.
fn network(text: &str) -> Option<IpNet> {
    text.parse()
        .ok()
        .or_else(|| Some(IpNet::from(text.parse::<IpAddr>().ok()?)))
}

pub(super) fn vips(text: &str) -> Option<Vec<VipWish>> {
    let list: Vec<Value> = serde_json::from_str(text).ok()?;
    list.into_iter()
        .map(|item| {
            let fields = object(item)?;
            let address = match fields.get("address") {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) if text.is_empty() => None,
                Some(text) => Some(text.as_str()?.parse().ok()?),
            };
            let subnet = Uuid::try_parse(fields.get("subnet")?.as_str()?).ok()?;
            Some(VipWish { subnet, address })
        })
        .collect()
}

/// An object with its keys in lower case: letter case does not count in them.
pub(super) fn object(value: Value) -> Option<BTreeMap<String, Value>> {
    let fields: Map<String, Value> = serde_json::from_value(value).ok()?;
    let lower = fields.into_iter();
    Some(lower.map(|(k, v)| (k.to_lowercase(), v)).collect())
}

fn is_hostname(text: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= 253 && text.parse::<IpAddr>().is_err() && text.split('.').all(label)
}
