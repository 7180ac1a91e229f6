//! Reading one annotation after the other, and the forms that their values have.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bowline_core::{IpMode, Origin, Selector, Service, Setting};
use ipnet::IpNet;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::table::{Annotation, PORT_SETTINGS, of_ports};
use super::{Fault, INVALID, PortSettings, VipWish, single};

/// Reads annotations and collects what is wrong.
pub(super) struct Reader<'a> {
    service: &'a Service,
    pub(super) faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(service: &'a Service) -> Self {
        Self {
            service,
            faults: Vec::new(),
        }
    }

    /// A fault that is not about members.
    pub(super) fn fault(&mut self, message: String) {
        self.faults.push(Fault {
            reason: INVALID,
            message,
            about_members: false,
        });
    }

    fn fault_of(&mut self, row: Annotation, message: String) {
        self.faults.push(Fault {
            reason: INVALID,
            message,
            about_members: row.about_members,
        });
    }

    /// A value with a form; a wrong one is a fault, and the default holds.
    pub(super) fn value<T>(
        &mut self,
        row: Annotation,
        default: impl FnOnce() -> T,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> T {
        let Some(text) = self.service.annotation(row.key) else {
            return default();
        };
        let origin = Origin::Annotation(row.key.to_owned());
        match Setting::read(text, origin, row.allowed, parse) {
            Ok(setting) => setting.value,
            Err(error) => {
                self.fault_of(row, error.to_string());
                default()
            }
        }
    }

    /// A text; an empty one counts as absent.
    pub(super) fn text(&mut self, row: Annotation) -> Option<String> {
        self.value(row, || None, |text| Some(Some(text.to_owned())))
            .filter(|text| !text.is_empty())
    }

    /// A text that must not be empty.
    pub(super) fn required(&mut self, row: Annotation, default: impl FnOnce() -> String) -> String {
        self.value(row, default, |text| {
            (!text.is_empty()).then(|| text.to_owned())
        })
    }

    /// One of several words; the row's default is one of them.
    pub(super) fn choice(&mut self, row: Annotation, choices: &[&str]) -> String {
        let default = || row.default.to_owned();
        self.value(row, default, |text| {
            choices.contains(&text).then(|| text.to_owned())
        })
    }

    /// What holds for each port: what is said about it, or else about all.
    pub(super) fn ports(&mut self) -> Vec<PortSettings> {
        let mut shared = PortSettings::default();
        for row in of_ports() {
            self.value(row, || (), |text| shared.take(row, text));
        }
        let ports = &self.service.ports;
        let Some(text) = self.service.annotation(PORT_SETTINGS.key) else {
            return vec![shared; ports.len()];
        };
        let (settings, faults) = single::read(text, ports, &shared);
        for fault in faults {
            self.fault(fault);
        }
        settings
    }

    /// A name that the API server takes in a status.
    pub(super) fn hostname(&mut self, row: Annotation) -> Option<String> {
        self.value(
            row,
            || None,
            |text| {
                let usable = text.is_empty() || is_hostname(text);
                usable.then(|| Some(text.to_owned()))
            },
        )
        .filter(|text| !text.is_empty())
    }

    /// Words of its own: people look for them.
    pub(super) fn ip_mode(&mut self, row: Annotation) -> IpMode {
        match self.service.annotation(row.key) {
            None | Some("Proxy") => IpMode::Proxy,
            Some("VIP") => IpMode::Vip,
            Some(other) => {
                self.fault_of(
                    row,
                    format!(
                        "annotation {}: unsupported IP mode {other:?}; allowed is {}",
                        row.key, row.allowed
                    ),
                );
                IpMode::Proxy
            }
        }
    }

    /// Words of its own: the grammar says more than "not allowed".
    pub(super) fn selector(&mut self, row: Annotation) -> Selector {
        let text = self.service.annotation(row.key).unwrap_or_default();
        Selector::parse(text).unwrap_or_else(|error| {
            self.fault_of(row, format!("annotation {}: {error}", row.key));
            Selector::default()
        })
    }
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
