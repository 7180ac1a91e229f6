//! What a simulated Triton contains.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use bowline_simulator::collection::Collection;
use bowline_simulator::control::by_id_or_name;
use ipnet::Ipv4Net;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::appliance::Appliance;
use super::config::{Quirks, Throttle, Timings};
use super::firewall::Rule;
use super::jobs::Event;
use super::keys::PublicKey;
use super::names::Names;
use super::throttle::Buckets;

bowline_simulator::words! {
    /// The state of a machine.
    #[derive(PartialOrd, Ord)]
    pub enum State {
        /// It is being made.
        Provisioning = "provisioning",
        /// A short phase of a reboot.
        Ready = "ready",
        Running = "running",
        /// It is being stopped.
        Stopping = "stopping",
        /// It does not run.
        Stopped = "stopped",
        /// Its compute node does not answer.
        Offline = "offline",
        Deleted = "deleted",
        /// It could not be made.
        Failed = "failed",
        /// Nobody knows.
        Unknown = "unknown",
    }
}

impl State {
    /// The word of the services behind the API, which the change feed tells.
    pub(super) fn internal(self) -> &'static str {
        match self {
            Self::Offline => "unreachable",
            Self::Deleted => "destroyed",
            other => other.as_str(),
        }
    }

    /// Whether its kubelet runs.
    pub(super) fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Unknown | Self::Offline)
    }

    /// Neither destroyed nor failed.
    pub(super) fn lives(self) -> bool {
        !matches!(self, Self::Deleted | Self::Failed)
    }
}

/// A card of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nic {
    pub(super) mac: String,
    /// An address, or a word such as `dhcp`.
    pub(super) ip: String,
    pub(super) primary: bool,
    pub(super) netmask: String,
    pub(super) gateway: Option<String>,
    pub(super) network: String,
}

/// Something that was done to a machine.
#[derive(Clone, Debug)]
pub(super) struct Deed {
    pub(super) action: &'static str,
    pub(super) time: Timestamp,
    pub(super) caller: Value,
    /// None while it is not done.
    pub(super) success: Option<bool>,
}

/// A virtual machine or container.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that have nothing to do with each other"
)]
pub(super) struct Machine {
    pub(super) id: String,
    pub(super) name: String,
    /// The login of its account.
    pub(super) owner: String,
    pub(super) brand: String,
    pub(super) state: State,
    pub(super) image: String,
    pub(super) package: String,
    pub(super) memory: Value,
    pub(super) disk: Value,
    pub(super) metadata: Map<String, Value>,
    pub(super) tags: Map<String, Value>,
    pub(super) nics: Vec<Nic>,
    pub(super) firewall: bool,
    pub(super) protected: bool,
    pub(super) compute_node: Option<String>,
    pub(super) docker: bool,
    pub(super) created: Timestamp,
    pub(super) updated: Timestamp,
    pub(super) role_tags: Vec<String>,
    pub(super) deeds: Vec<Deed>,
    /// When the last of its jobs ends: they run one after the other.
    pub(super) busy_until: Timestamp,
    /// Its image cannot be found out.
    pub(super) image_lost: bool,
}

impl Machine {
    pub(super) fn kind(&self) -> &'static str {
        if matches!(self.brand.as_str(), "kvm" | "bhyve") {
            "virtualmachine"
        } else {
            "smartmachine"
        }
    }
}

/// A network, or a pool of networks.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that have nothing to do with each other"
)]
pub(super) struct Network {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) public: bool,
    /// The account that alone may use it; none: everybody.
    pub(super) owner: Option<String>,
    /// The VLAN of a fabric network.
    pub(super) vlan: Option<u16>,
    pub(super) subnet: Ipv4Net,
    pub(super) start: Ipv4Addr,
    pub(super) end: Ipv4Addr,
    pub(super) gateway: Option<Ipv4Addr>,
    pub(super) resolvers: Vec<Ipv4Addr>,
    pub(super) routes: BTreeMap<String, String>,
    pub(super) nat: bool,
    /// The DNS zones of machines on it.
    pub(super) zones: Vec<String>,
    /// What a pool consists of; empty for a network.
    pub(super) members: Vec<String>,
    /// A member of a pool, which the API does not show.
    pub(super) hidden: bool,
    /// The default network of its fabric, which cannot be deleted.
    pub(super) default: bool,
}

/// A size of machines.
#[derive(Clone, Debug)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) memory: u64,
    pub(super) disk: u64,
    pub(super) vcpus: u64,
    pub(super) brand: Option<String>,
    pub(super) group: String,
    pub(super) no_fabric: bool,
}

/// What machines are made from.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) os: String,
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) published: Timestamp,
}

/// A key of an account or user.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) public: PublicKey,
    pub(super) created: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) id: String,
    pub(super) login: String,
    pub(super) email: String,
    pub(super) keys: Vec<Key>,
    pub(super) created: Timestamp,
}

/// A role: its members, those for whom it is active without asking, and its policies.
#[derive(Clone, Debug, Default)]
pub(super) struct Role {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) members: Vec<String>,
    pub(super) default_members: Vec<String>,
    pub(super) policies: Vec<String>,
}

/// A policy: rules such as `CAN listmachines and getmachine`.
#[derive(Clone, Debug, Default)]
pub(super) struct Policy {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) rules: Vec<String>,
    pub(super) description: Option<String>,
}

/// Who may do what below an account.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    pub(super) users: BTreeMap<String, User>,
    pub(super) roles: BTreeMap<String, Role>,
    pub(super) policies: BTreeMap<String, Policy>,
    /// Roles by resource (`/machines`, `/machines/<id>`, the empty word for the account itself).
    pub(super) tags: BTreeMap<String, Vec<String>>,
}

/// What an account may have.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// `ram` (MiB), `quota` (GiB); left out: machines.
    pub by: Option<String>,
    /// How much.
    pub value: u64,
    /// Only machines of that kind count: `brand`, `image` or `os`.
    pub check: Option<String>,
    /// With `check: brand`.
    pub brand: Option<String>,
    /// With `check: image`.
    pub image: Option<String>,
    /// With `check: os`.
    pub os: Option<String>,
}

/// A tenant.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that have nothing to do with each other"
)]
pub(super) struct Account {
    pub(super) id: String,
    pub(super) login: String,
    pub(super) email: String,
    pub(super) details: Map<String, Value>,
    pub(super) names_enabled: bool,
    pub(super) approved: bool,
    pub(super) disabled: bool,
    /// May act as every other account.
    pub(super) operator: bool,
    pub(super) keys: Vec<Key>,
    pub(super) limits: Vec<Limit>,
    pub(super) vlans: BTreeMap<u16, (String, Option<String>)>,
    pub(super) default_network: Option<String>,
    pub(super) rights: Rights,
    /// The rights as they are in effect, which may be late.
    pub(super) effective: Rights,
    pub(super) created: Timestamp,
    pub(super) updated: Timestamp,
}

/// A time in which writes are refused, with the end that the operator gave, if they did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maintenance {
    pub(super) until: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(super) struct Cloud {
    pub(super) datacenter: String,
    pub(super) datacenters: BTreeMap<String, String>,
    pub(super) services: BTreeMap<String, String>,
    pub(super) accounts: BTreeMap<String, Account>,
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) networks: Collection<Network>,
    pub(super) packages: Collection<Package>,
    pub(super) images: Collection<Image>,
    pub(super) rules: BTreeMap<String, Rule>,
    pub(super) compute_nodes: Vec<String>,
    /// Compute nodes that do not answer, and since when.
    pub(super) dead: BTreeMap<String, Timestamp>,
    pub(super) timings: Timings,
    pub(super) quirks: Quirks,
    pub(super) throttle: Option<Throttle>,
    pub(super) buckets: Buckets,
    /// Writes are refused.
    pub(super) maintenance: Option<Maintenance>,
    /// How far the server's clock is ahead, in seconds.
    pub(super) skew: i64,
    /// How the next machines end that are made.
    pub(super) fail_provisions: u32,
    /// What is still to happen, in order.
    pub(super) events: BTreeMap<(Timestamp, u64), Event>,
    pub(super) counter: u64,
    /// What waits for a dead compute node.
    pub(super) stalled: Vec<Event>,
    /// The DNS zone of networks that have none of their own.
    pub(super) wildcard_zone: Option<String>,
    /// What the name service publishes.
    pub(super) names: Names,
    /// What load balancers do, and which of them have something to read.
    pub(super) appliances: BTreeMap<String, Appliance>,
    pub(super) waking: BTreeSet<String>,
    /// Machines that changed since the last look, and in what.
    pub(super) touched: Vec<(String, Vec<&'static str>)>,
    /// When the next timer rings.
    pub(super) alarm: Option<Timestamp>,
}

impl Cloud {
    /// The id of a machine by its id or by a name that only one live machine has.
    pub(super) fn find_machine(&self, name: &str) -> Option<String> {
        if self.machines.contains_key(name) {
            return Some(name.to_owned());
        }
        let all = self.machines.values();
        let mut named = all.filter(|it| it.name == name && it.state.lives());
        let found = named.next()?.id.clone();
        named.next().is_none().then_some(found)
    }

    /// A network by its id, or by a name that only one has.
    pub(super) fn find_network(&self, name: &str) -> Option<&Network> {
        by_id_or_name(self.networks.all(), name, |it| &it.id, |it| &it.name)
    }

    /// A package by id or name.
    pub(super) fn find_package(&self, name: &str) -> Option<&Package> {
        let mut all = self.packages.all();
        all.find(|it| it.id == name || it.name == name)
    }

    /// The first address of a network that no live machine has.
    pub(super) fn free_address(&self, network: &Network) -> Option<Ipv4Addr> {
        let used = self.used_addresses(&network.id);
        (u32::from(network.start)..=u32::from(network.end))
            .map(Ipv4Addr::from)
            .find(|address| !used.contains(address) && Some(*address) != network.gateway)
    }

    /// The addresses of a network that live machines have.
    pub(super) fn used_addresses(&self, network: &str) -> BTreeSet<Ipv4Addr> {
        let live = self.machines.values().filter(|it| it.state.lives());
        let nics = live.flat_map(|it| it.nics.iter());
        let on = nics.filter(|nic| nic.network == network);
        on.filter_map(|nic| nic.ip.parse().ok()).collect()
    }

    /// Notes that a machine changed, and in what.
    pub(super) fn touch(&mut self, machine: &str, parts: &[&'static str], now: Timestamp) {
        if let Some(machine) = self.machines.get_mut(machine) {
            machine.updated = now;
        }
        self.touched.push((machine.to_owned(), parts.to_vec()));
        self.wake_appliance(machine, now);
        self.names_changed(now);
    }
}

/// A time as the API writes it.
pub(super) fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// A name as the name service spells it: lower case, every run of other characters one dash.
pub fn dnsify(name: &str) -> String {
    let mut spelled = String::new();
    let mut gap = false;
    for letter in name.to_lowercase().chars() {
        if letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-' {
            spelled.push(letter);
            gap = false;
        } else if !gap {
            spelled.push('-');
            gap = true;
        }
    }
    spelled
}
