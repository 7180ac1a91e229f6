//! Load balancer machines: what they make of their metadata, and where their backends are.
//!
//! Traffic is not carried; tests see where it would go.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::Value;

use super::Triton;
use super::jobs::Event;
use super::model::{Cloud, Machine, State};

/// The image from which load balancers are made.
const IMAGE: &str = "cloud-load-balancer";
/// What begins the keys of their metadata.
const PREFIX: &str = "cloud.tritoncompute:";
/// What a load balancer can do with a port.
const KINDS: [&str; 6] = [
    "http",
    "https",
    "https+insecure",
    "https-http",
    "tcp",
    "tcp-proxy-v2",
];
/// Backends of an entry: the least and the most.
const SLOTS: (u64, u64) = (32, 1024);

/// A check of backends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Check {
    path: Option<String>,
    port: Option<u16>,
    rise: Option<u16>,
    fall: Option<u16>,
}

/// One entry of a port map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    kind: String,
    listen: u16,
    backend: String,
    port: Option<u16>,
    check: Option<Check>,
}

/// What a load balancer has made of its metadata.
#[derive(Clone, Debug, Default)]
pub(super) struct Appliance {
    entries: Vec<Entry>,
    dropped: Vec<String>,
    slots: u64,
    certificate: Option<String>,
}

/// An entry of a load balancer, as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// `tcp`, `https-http`, …
    pub kind: String,
    /// The port that it listens on.
    pub listen: u16,
    /// The name of its backends.
    pub backend: String,
    /// Where its traffic goes now.
    pub targets: Vec<(Ipv4Addr, u16)>,
    /// The path and port of its HTTP check, if it has one.
    pub check: Option<(String, Option<u16>)>,
}

/// A load balancer, as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplianceInfo {
    pub entries: Vec<EntryInfo>,
    /// What it has dropped from its port map, without telling anybody.
    pub dropped: Vec<String>,
    /// How many backends an entry may have.
    pub slots: u64,
    /// The names of its certificate.
    pub certificate: Option<String>,
}

/// The entries of a port map: separated by comma, space or line feed outside of braces.
fn split(map: &str) -> Vec<String> {
    let mut entries = vec![String::new()];
    let mut inside = false;
    for letter in map.chars() {
        inside = (inside || letter == '{') && letter != '}';
        if !inside && matches!(letter, ',' | ' ' | '\n') {
            entries.push(String::new());
        } else if let Some(last) = entries.last_mut() {
            last.push(letter);
        }
    }
    entries.retain(|entry| !entry.is_empty());
    entries
}

fn port(text: &str) -> Option<u16> {
    let number: u16 = text.parse().ok()?;
    (1..=65534).contains(&number).then_some(number)
}

impl Entry {
    /// Reads an entry; none if it does not parse.
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once("://")?;
        let kind = kind.to_lowercase();
        if !KINDS.contains(&kind.as_str()) {
            return None;
        }
        let (rest, check) = match rest.split_once('{') {
            Some((rest, braces)) => (rest, Some(Check::parse(braces.strip_suffix('}')?)?)),
            None => (rest, None),
        };
        let mut parts = rest.split(':');
        let listen = port(parts.next()?)?;
        let backend = parts.next().filter(|name| is_name(name))?.to_lowercase();
        let backend_port = match parts.next() {
            Some(text) => Some(port(text)?),
            None => None,
        };
        parts.next().is_none().then_some(Self {
            kind,
            listen,
            backend,
            port: backend_port,
            check,
        })
    }
}

fn is_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.bytes().all(letter)
}

impl Check {
    fn parse(braces: &str) -> Option<Self> {
        let mut check = Self::default();
        for part in braces.split(',') {
            let (key, value) = part.split_once(':')?;
            match key {
                "check" => check.path = Some(value.to_owned()).filter(|it| it.starts_with('/')),
                "port" => check.port = Some(port(value)?),
                "rise" => check.rise = Some(value.parse().ok()?),
                "fall" => check.fall = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(check)
    }
}

impl Appliance {
    /// What a machine's metadata says.
    fn read(machine: &Machine) -> Self {
        let text = |key: &str| {
            let value = machine.metadata.get(&format!("{PREFIX}{key}"));
            value.and_then(Value::as_str).map(str::to_owned)
        };
        let mut appliance = Self {
            slots: SLOTS.0,
            certificate: text("certificate_name"),
            ..Self::default()
        };
        if let Some(slots) = text("max_rs").and_then(|text| text.parse::<u64>().ok()) {
            appliance.slots = slots.clamp(SLOTS.0, SLOTS.1);
        }
        for one in split(&text("portmap").unwrap_or_default()) {
            match Entry::parse(&one) {
                Some(entry) => appliance.entries.push(entry),
                None => appliance.dropped.push(one),
            }
        }
        appliance
    }
}

impl Cloud {
    fn is_balancer(&self, machine: &Machine) -> bool {
        let image = self.images.get(&machine.image);
        let switch = machine.metadata.get(&format!("{PREFIX}loadbalancer"));
        image.is_some_and(|image| image.name == IMAGE) && switch.is_some_and(|on| on == "true")
    }

    /// Notes that a load balancer may have something to read at its next interval.
    pub(super) fn wake_appliance(&mut self, id: &str, now: Timestamp) {
        let is_one = self.machines.get(id).is_some_and(|it| self.is_balancer(it));
        if !is_one || !self.waking.insert(id.to_owned()) {
            return;
        }
        let interval = i64::try_from(self.timings.appliance.as_millis())
            .unwrap_or(i64::MAX)
            .max(1);
        let next = (now.as_millisecond() / interval + 1).saturating_mul(interval);
        let next = Timestamp::from_millisecond(next).unwrap_or(Timestamp::MAX);
        self.schedule(next, Event::Appliance(id.to_owned()));
    }

    /// Lets a load balancer read its metadata, if it runs.
    pub(super) fn read_metadata(&mut self, id: &str) {
        self.waking.remove(id);
        let machine = self
            .machines
            .get(id)
            .filter(|it| it.state == State::Running);
        if let Some(machine) = machine {
            let appliance = Appliance::read(machine);
            self.appliances.insert(id.to_owned(), appliance);
        }
    }

    /// Where the traffic of an entry goes: addresses with the entry's port, or what SRV records tell.
    fn targets(&self, entry: &Entry) -> Vec<(Ipv4Addr, u16)> {
        let records = |name: &str| self.names.records.get(name);
        let addresses = |name: &str| {
            let found = records(name).map(|it| it.addresses.iter().copied().collect::<Vec<_>>());
            found.unwrap_or_default()
        };
        if let Some(port) = entry.port {
            return addresses(&entry.backend)
                .into_iter()
                .map(|it| (it, port))
                .collect();
        }
        let services = records(&entry.backend).map(|it| it.services.iter());
        let services = services.into_iter().flatten();
        let found = services.flat_map(|(port, target)| {
            addresses(target)
                .into_iter()
                .map(|it| (it, *port))
                .collect::<Vec<_>>()
        });
        found.collect()
    }
}

impl Triton {
    /// What a load balancer does now; none if the machine is none, or has not yet read its metadata.
    pub fn appliance(&self, machine: &str) -> Option<ApplianceInfo> {
        self.with(|cloud| {
            let id = cloud.find_machine(machine)?;
            cloud
                .machines
                .get(&id)
                .filter(|it| it.state == State::Running)?;
            let appliance = cloud.appliances.get(&id)?;
            let entries = appliance.entries.iter().map(|entry| EntryInfo {
                kind: entry.kind.clone(),
                listen: entry.listen,
                backend: entry.backend.clone(),
                targets: cloud.targets(entry),
                check: entry
                    .check
                    .as_ref()
                    .and_then(|it| Some((it.path.clone()?, it.port))),
            });
            Some(ApplianceInfo {
                entries: entries.collect(),
                dropped: appliance.dropped.clone(),
                slots: appliance.slots,
                certificate: appliance.certificate.clone(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_map_is_read_as_the_appliance_does() {
        let map = "tcp://80:a.b:30080,HTTPS-HTTP://443:a.b:30443{check:/healthz,port:31000,rise:2} \
                   http://8080:srv.b\ntcp-proxy-v2://25:m:25";
        let entries: Vec<_> = split(map).iter().map(|one| Entry::parse(one)).collect();
        assert_eq!(entries.len(), 4);
        let second = entries[1].clone().unwrap();
        assert_eq!(
            (second.kind.as_str(), second.port),
            ("https-http", Some(30443))
        );
        assert_eq!(
            second.check.as_ref().unwrap().path.as_deref(),
            Some("/healthz")
        );
        assert_eq!(entries[2].as_ref().unwrap().port, None);
        for bad in [
            "udp://53:a.b:53",
            "tcp://65535:a.b:80",
            "tcp://80:a.b:0",
            "tcp://80",
            "tcp://80:a.b:80{}",
            "tcp://80:a.b:80{speed:1}",
            "tcp://80:a.b:80:90",
            "80:a.b:80",
        ] {
            assert_eq!(Entry::parse(bad), None, "{bad}");
        }
    }
}
