//! What the cloud consists of: projects with servers, networks, subnets, groups, floating IPs and
//! load balancers (which have a room of their own).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bowline_simulator::control::by_id_or_name;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::balancers::{Balancer, Health, Listener, Monitor, Pool};
use super::config::{Quirks, Timings};
pub(super) use bowline_simulator::collection::Collection;

bowline_simulator::words! {
    /// What the API calls a server's status.
    pub enum Status {
        /// On its way to another status.
        Changing = "changing",
        Running = "running",
        /// It exists but does not run.
        Stopped = "stopped",
    }
}

/// A change of a server's status that takes time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transition {
    /// Distinguishes it from later ones of the same server.
    pub(super) number: u64,
    /// When it is over.
    pub(super) until: Timestamp,
    /// Whether the server is being made: it cannot be deleted meanwhile.
    pub(super) creating: bool,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) created_at: Timestamp,
    /// Whether it runs once it no longer changes.
    pub(super) runs: bool,
    pub(super) transition: Option<Transition>,
    pub(super) zone: String,
    pub(super) flavor: String,
    pub(super) image: String,
    pub(super) volumes: Vec<Volume>,
    pub(super) interfaces: Vec<Interface>,
    pub(super) groups: Vec<String>,
    pub(super) tags: BTreeMap<String, String>,
    /// When a read first shows it.
    pub(super) visible_from: Timestamp,
}

impl Server {
    pub(super) fn status(&self, now: Timestamp) -> Status {
        match self.transition {
            Some(transition) if now < transition.until => Status::Changing,
            _ if self.runs => Status::Running,
            _ => Status::Stopped,
        }
    }

    /// Whether it is still being made.
    pub(super) fn is_creating(&self, now: Timestamp) -> bool {
        self.transition.is_some_and(|t| t.creating && now < t.until)
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.interfaces
            .iter()
            .flat_map(|interface| &interface.addresses)
    }

    /// Its first public address of that version.
    pub(super) fn public_address(&self, version: u8) -> Option<IpAddr> {
        let public = self.interfaces.iter().filter(|interface| interface.public);
        let mut addresses = public.flat_map(|interface| &interface.addresses);
        let found = addresses.find(|address| version_of(&address.address) == version);
        found.map(|address| address.address)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Volume {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) size_gb: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) public: bool,
    pub(super) network: String,
    pub(super) addresses: Vec<Address>,
}

#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) address: IpAddr,
    pub(super) subnet: String,
}

#[derive(Debug)]
pub(super) struct Network {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) created_at: Timestamp,
    pub(super) mtu: u64,
    pub(super) zone: String,
    pub(super) tags: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(super) struct Subnet {
    pub(super) uuid: String,
    pub(super) network: String,
    pub(super) cidr: IpNet,
    pub(super) gateway: Option<IpAddr>,
    pub(super) dns_servers: Vec<IpAddr>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) taken: BTreeSet<IpAddr>,
    /// Where the search for a free address goes on, counted from the network address.
    pub(super) next: u128,
}

/// The first host number that is given out: the ones below are for gateways and services.
const FIRST_HOST: u128 = 11;

impl Subnet {
    pub(super) fn new(uuid: String, network: &str, cidr: IpNet) -> Self {
        Self {
            uuid,
            network: network.to_owned(),
            cidr,
            gateway: None,
            dns_servers: Vec::new(),
            tags: BTreeMap::new(),
            taken: BTreeSet::new(),
            next: FIRST_HOST,
        }
    }

    /// Takes a free address; none if there is none left.
    pub(super) fn take_any(&mut self) -> Option<IpAddr> {
        let hosts = 1_u128
            .checked_shl(u32::from(
                self.cidr.max_prefix_len() - self.cidr.prefix_len(),
            ))
            .unwrap_or(u128::MAX);
        // Once round, from where the last search ended: at most as many steps as are taken.
        for step in 0..hosts {
            let number = (self.next + step) % hosts;
            let Some(address) = host(&self.cidr, number) else {
                continue;
            };
            if self.is_free(&address) {
                self.next = number + 1;
                self.taken.insert(address);
                return Some(address);
            }
        }
        None
    }

    /// Takes that address, if it lies in the subnet and is free.
    pub(super) fn take(&mut self, address: IpAddr) -> bool {
        self.is_free(&address) && self.taken.insert(address)
    }

    fn is_free(&self, address: &IpAddr) -> bool {
        self.cidr.contains(address)
            && self.cidr.network() != *address
            && self.cidr.broadcast() != *address
            && self.gateway.as_ref() != Some(address)
            && !self.taken.contains(address)
    }
}

/// The address with that number in a network.
pub(super) fn host(cidr: &IpNet, number: u128) -> Option<IpAddr> {
    match cidr.network() {
        IpAddr::V4(network) => {
            let number = u32::try_from(number).ok()?;
            Some(IpAddr::V4(u32::from(network).checked_add(number)?.into()))
        }
        IpAddr::V6(network) => Some(IpAddr::V6(u128::from(network).checked_add(number)?.into())),
    }
}

/// 4 or 6.
pub(super) fn version_of(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 4 } else { 6 }
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) created_at: Timestamp,
    pub(super) kind: String,
    pub(super) zone: String,
    pub(super) tags: BTreeMap<String, String>,
}

/// What a floating IP points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Server(String),
    Balancer(String),
}

#[derive(Debug)]
pub(super) struct FloatingIp {
    pub(super) created_at: Timestamp,
    pub(super) network: IpNet,
    /// None: global.
    pub(super) region: Option<String>,
    pub(super) target: Option<Target>,
    pub(super) reverse_ptr: String,
    pub(super) tags: BTreeMap<String, String>,
}

/// What one token sees.
#[derive(Debug, Default)]
pub(super) struct Project {
    pub(super) servers: Collection<Server>,
    /// Deleted servers that reads still show, and until when.
    pub(super) ghosts: Vec<(Timestamp, Server)>,
    pub(super) networks: Collection<Network>,
    pub(super) subnets: Collection<Subnet>,
    pub(super) groups: Collection<Group>,
    pub(super) floating_ips: Collection<FloatingIp>,
    pub(super) balancers: Collection<Balancer>,
    pub(super) pools: Collection<Pool>,
    pub(super) listeners: Collection<Listener>,
    pub(super) monitors: Collection<Monitor>,
    /// What monitors find out, by uuid, `address:port` or address of a member.
    pub(super) health: BTreeMap<String, Health>,
    /// Members of answers that are replaced, by uuid, for scenes with broken things.
    pub(super) deformed: BTreeMap<String, Map<String, Value>>,
}

/// The public network of a zone, which all projects share.
#[derive(Debug)]
pub(super) struct PublicNetwork {
    pub(super) network: Network,
    pub(super) ipv4: Subnet,
    pub(super) ipv6: Subnet,
}

#[derive(Debug, Default)]
pub(super) struct Cloud {
    pub(super) projects: BTreeMap<String, Project>,
    pub(super) public: BTreeMap<String, PublicNetwork>,
    /// Floating addresses that were given out, by where they are drawn from.
    pub(super) floating: BTreeMap<String, Subnet>,
    pub(super) transitions: u64,
    pub(super) timings: Timings,
    pub(super) quirks: Quirks,
    /// How many operations on load balancers are still to fail.
    pub(super) failing: u32,
}

impl Cloud {
    /// A subnet that a project can see, its own or a public one.
    pub(super) fn subnet(&self, project: &str, uuid: &str) -> Option<&Subnet> {
        let own = self.projects.get(project)?.subnets.get(uuid);
        let public = || {
            let all = self
                .public
                .values()
                .flat_map(|public| [&public.ipv4, &public.ipv6]);
            all.into_iter().find(|subnet| subnet.uuid == uuid)
        };
        own.or_else(public)
    }

    /// The same, to be changed.
    pub(super) fn subnet_mut(&mut self, project: &str, uuid: &str) -> Option<&mut Subnet> {
        let own = self.projects.get_mut(project)?.subnets.get_mut(uuid);
        if own.is_some() {
            return own;
        }
        let all = self
            .public
            .values_mut()
            .flat_map(|public| [&mut public.ipv4, &mut public.ipv6]);
        all.into_iter().find(|subnet| subnet.uuid == uuid)
    }

    /// Whether the operation that begins now is one that fails.
    pub(super) fn strike(&mut self) -> bool {
        let strikes = self.failing > 0;
        self.failing = self.failing.saturating_sub(1);
        strikes
    }

    /// The project and uuid of a server, found by uuid or by a name that only one has.
    pub(super) fn find(&self, machine: &str) -> Option<(String, String)> {
        let all = self.projects.iter();
        let all = all.flat_map(|(name, project)| project.servers.all().map(move |s| (name, s)));
        let found = by_id_or_name(all, machine, |(_, it)| &it.uuid, |(_, it)| &it.name);
        found.map(|(project, server)| (project.clone(), server.uuid.clone()))
    }

    /// A network that a project can see, its own or a public one.
    pub(super) fn network(&self, project: &str, uuid: &str) -> Option<&Network> {
        let own = self.projects.get(project)?.networks.get(uuid);
        let public = || {
            let all = self.public.values().map(|public| &public.network);
            all.into_iter().find(|network| network.uuid == uuid)
        };
        own.or_else(public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_gives_each_address_once_until_none_is_left() {
        let mut subnet = Subnet::new(String::new(), "", "10.0.0.0/28".parse().unwrap());
        subnet.gateway = Some("10.0.0.1".parse().unwrap());
        assert_eq!(subnet.take_any().unwrap().to_string(), "10.0.0.11");
        assert!(subnet.take("10.0.0.12".parse().unwrap()));
        assert!(!subnet.take("10.0.0.12".parse().unwrap()), "taken");
        assert!(!subnet.take("10.0.0.1".parse().unwrap()), "the gateway");
        assert!(!subnet.take("10.0.0.0".parse().unwrap()), "the network");
        assert!(!subnet.take("10.0.1.5".parse().unwrap()), "elsewhere");
        let rest = std::iter::from_fn(|| subnet.take_any()).count();
        assert_eq!(rest, 16 - 2 - 1 - 2);
    }
}
