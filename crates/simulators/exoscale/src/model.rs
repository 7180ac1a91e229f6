//! What the cloud consists of: zones, each with its own instances, pools, load balancers, clusters,
//! networks and operations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bowline_simulator::collection::Collection;
use bowline_simulator::control::by_id_or_name;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::config::{Key, Quirks, Timings};
use super::operations::{Operation, Planned};

bowline_simulator::words! {
    /// What the API calls the state of an instance.
    pub enum State {
        /// On its way to `running`.
        Starting = "starting",
        Running = "running",
        /// On its way to `stopped`.
        Stopping = "stopping",
        /// It exists but does not run.
        Stopped = "stopped",
        /// On its way to another host.
        Migrating = "migrating",
        /// Something went wrong.
        Error = "error",
        /// On its way out.
        Destroying = "destroying",
        /// Gone, but still shown.
        Destroyed = "destroyed",
        /// Its disk is being erased.
        Expunging = "expunging",
    }
}

impl State {
    /// Whether the machine's programs run.
    pub(super) fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Migrating)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) state: State,
    /// The id of its type.
    pub(super) kind: String,
    pub(super) template: String,
    pub(super) public_ip: Option<Ipv4Addr>,
    pub(super) ipv6: Option<Ipv6Addr>,
    /// `inet4`, `dual` or `none`.
    pub(super) assignment: &'static str,
    /// Private networks by id, each with the address of its interface card.
    pub(super) networks: Vec<(String, String)>,
    /// The pool that it is a member of.
    pub(super) pool: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) created_at: Timestamp,
    pub(super) mac: String,
    pub(super) disk: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) prefix: String,
    pub(super) size: u64,
    pub(super) state: &'static str,
    pub(super) kind: String,
    pub(super) template: String,
    pub(super) assignment: &'static str,
    pub(super) networks: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) disk: u64,
    /// The nodepool that it belongs to.
    pub(super) nodepool: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Balancer {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) state: &'static str,
    pub(super) created_at: Timestamp,
    pub(super) ip: Ipv4Addr,
    /// When its address is reported; none while it is being made.
    pub(super) address_from: Option<Timestamp>,
    /// When it is first found.
    pub(super) visible_from: Timestamp,
    pub(super) services: Vec<Service>,
    /// Operations on it that have not ended.
    pub(super) under_way: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) protocol: &'static str,
    pub(super) port: u16,
    pub(super) target_port: u16,
    pub(super) strategy: &'static str,
    pub(super) pool: String,
    pub(super) healthcheck: Healthcheck,
    pub(super) state: &'static str,
}

/// How a load balancer finds out whether an instance serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healthcheck {
    /// `tcp`, `http` or `https`.
    pub mode: &'static str,
    pub port: u16,
    /// The path that is asked for.
    pub uri: Option<String>,
    /// Seconds between two checks.
    pub interval: u64,
    /// Seconds that a check may take.
    pub timeout: u64,
    /// Failures before an instance gets no more traffic.
    pub retries: u64,
    /// The name that is asked for with `https`.
    pub tls_sni: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) created_at: Timestamp,
    pub(super) nodepools: Vec<Nodepool>,
}

#[derive(Clone, Debug)]
pub(super) struct Nodepool {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) pool: String,
    pub(super) created_at: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) start: Option<Ipv4Addr>,
    pub(super) end: Option<Ipv4Addr>,
    pub(super) netmask: Option<Ipv4Addr>,
    /// Addresses that instances have, by the id of the instance.
    pub(super) leases: Vec<(Ipv4Addr, String)>,
}

/// One zone: what is in it is nowhere else.
#[derive(Debug, Default)]
pub(super) struct Zone {
    pub(super) instances: Collection<Instance>,
    pub(super) pools: Collection<Pool>,
    pub(super) balancers: Collection<Balancer>,
    pub(super) clusters: Collection<Cluster>,
    pub(super) networks: Collection<Network>,
    pub(super) operations: Collection<Operation>,
    /// Operations that will end, by moment and number.
    pub(super) due: BTreeMap<(Timestamp, u64), String>,
    /// Instances whose power the register of machines does not know yet.
    pub(super) touched: BTreeSet<String>,
}

impl Zone {
    /// Gives an instance another state.
    pub(super) fn set_state(&mut self, id: &str, state: State) {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.state = state;
            self.touched.insert(id.to_owned());
        }
    }

    /// Forgets an instance.
    pub(super) fn lose_instance(&mut self, id: &str) {
        self.instances.remove(id);
        self.touched.insert(id.to_owned());
    }

    /// Forgets several.
    pub(super) fn lose_instances(&mut self, ids: &[String]) {
        for id in ids {
            self.lose_instance(id);
        }
    }

    pub(super) fn members(&self, pool: &str) -> impl Iterator<Item = &Instance> {
        let all = self.instances.all();
        all.filter(move |instance| instance.pool.as_deref() == Some(pool))
    }

    /// The load balancer that holds on to a pool.
    pub(super) fn holder(&self, pool: &str) -> Option<&Balancer> {
        let targets = |balancer: &&Balancer| balancer.services.iter().any(|one| one.pool == pool);
        self.balancers.all().find(targets)
    }
}

impl Balancer {
    pub(super) fn service_mut(&mut self, id: &str) -> Option<&mut Service> {
        self.services.iter_mut().find(|service| service.id == id)
    }
}

/// Addresses that were given out; none is given out twice.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    taken: BTreeSet<IpAddr>,
    instances: u32,
    instances_v6: u32,
    balancers: u32,
}

/// Where instances have their addresses: the first half of the range for benchmarks, as those for
/// documentation are too small for thousands.
const INSTANCES: (Ipv4Addr, u32) = (Ipv4Addr::new(198, 18, 0, 0), 1 << 16);
/// Where load balancers have theirs, each with the number of its hosts: the ranges for documentation, and the
/// second half of the range for benchmarks.
const BALANCERS: [(Ipv4Addr, u32); 4] = [
    (Ipv4Addr::new(203, 0, 113, 0), 254),
    (Ipv4Addr::new(198, 51, 100, 0), 254),
    (Ipv4Addr::new(192, 0, 2, 0), 254),
    (Ipv4Addr::new(198, 19, 0, 0), 65_534),
];

impl Addresses {
    /// Notes an address that somebody chose.
    pub(super) fn reserve(&mut self, address: IpAddr) {
        self.taken.insert(address);
    }

    /// An address for an instance; none if all are taken.
    pub(super) fn instance(&mut self) -> Option<Ipv4Addr> {
        while self.instances < INSTANCES.1 - 2 {
            self.instances += 1;
            let address = Ipv4Addr::from(u32::from(INSTANCES.0) + self.instances);
            if self.taken.insert(address.into()) {
                return Some(address);
            }
        }
        None
    }

    /// An IPv6 address for an instance.
    pub(super) fn instance_v6(&mut self) -> Ipv6Addr {
        loop {
            self.instances_v6 += 1;
            let first = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0));
            let address = Ipv6Addr::from(first + u128::from(self.instances_v6));
            if self.taken.insert(address.into()) {
                return address;
            }
        }
    }

    /// Leaves out so many addresses of load balancers.
    pub(super) fn skip_balancers(&mut self, count: u32) {
        self.balancers = self.balancers.saturating_add(count);
    }

    /// An address for a load balancer; none if all are taken.
    pub(super) fn balancer(&mut self) -> Option<Ipv4Addr> {
        let hosts = BALANCERS.iter().flat_map(|(range, hosts)| {
            (1..=*hosts).map(|host| Ipv4Addr::from(u32::from(*range) + host))
        });
        let mut rest = hosts.skip(usize::try_from(self.balancers).ok()?);
        rest.find(|address| {
            self.balancers += 1;
            self.taken.insert((*address).into())
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Cloud {
    pub(super) keys: BTreeMap<String, Key>,
    pub(super) timings: Timings,
    pub(super) quirks: Quirks,
    pub(super) zones: BTreeMap<String, Zone>,
    pub(super) addresses: Addresses,
    /// How coming operations end.
    pub(super) planned: Vec<Planned>,
    /// How many operations there were.
    pub(super) counted: u64,
    /// What checks find, by the address or id of an instance: false is a failure.
    pub(super) health: BTreeMap<String, bool>,
    /// Members that replace those of a thing in every answer, by its id.
    pub(super) deformed: BTreeMap<String, Map<String, Value>>,
}

impl Cloud {
    /// Where something is: its zone and its id, by its id or by a name that only one has.
    pub(super) fn find(&self, wanted: &str, of: Sort) -> Option<(String, String)> {
        let zones = self.zones.iter();
        let all = zones.flat_map(|(zone, content)| of.all(zone, content));
        let (zone, id, _) = by_id_or_name(all, wanted, |it| it.1, |it| it.2)?;
        Some((zone.to_owned(), id.to_owned()))
    }
}

/// What can be found by its name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sort {
    Instance,
    Pool,
    Balancer,
    Network,
}

impl Sort {
    /// Zone, id and name of all of them.
    fn all<'a>(self, zone: &'a str, content: &'a Zone) -> Vec<(&'a str, &'a str, &'a str)> {
        match self {
            Self::Instance => {
                let all = content.instances.all();
                all.map(|it| (zone, &*it.id, &*it.name)).collect()
            }
            Self::Pool => {
                let all = content.pools.all();
                all.map(|it| (zone, &*it.id, &*it.name)).collect()
            }
            Self::Balancer => {
                let all = content.balancers.all();
                all.map(|it| (zone, &*it.id, &*it.name)).collect()
            }
            Self::Network => {
                let all = content.networks.all();
                all.map(|it| (zone, &*it.id, &*it.name)).collect()
            }
        }
    }

    /// As messages call it.
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::Pool => "instance pool",
            Self::Balancer => "load balancer",
            Self::Network => "private network",
        }
    }
}
