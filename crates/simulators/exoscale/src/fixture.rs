//! The fixture: what a cloud contains at the beginning, as people write it (`cloud.yaml`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use bowline_simulator::faults::RawRule;
use bowline_simulator::timings::Timed;
use serde::Deserialize;

use super::balancer_fixture::BalancerSpec;
use super::config::{Config, Key, Quirks, TimingsSpec};

/// The whole fixture file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fixture {
    /// Who may use the cloud; none: one key for everything.
    pub keys: Vec<KeySpec>,
    /// The zones; none: one.
    pub zones: Vec<String>,
    pub timings: TimingsSpec,
    /// How the cloud behaves where that is not certain.
    pub quirks: Quirks,
    /// The root of the zones' addresses.
    pub public_url: Option<String>,
    pub private_networks: Vec<NetworkSpec>,
    pub instance_pools: Vec<PoolSpec>,
    /// Instances that are not made by their pool.
    pub instances: Vec<InstanceSpec>,
    pub sks_clusters: Vec<ClusterSpec>,
    pub load_balancers: Vec<BalancerSpec>,
    /// What goes wrong from the beginning.
    pub faults: Vec<RawRule>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySpec {
    /// The key itself: `EXO…`.
    pub key: String,
    pub secret: String,
    /// The only operations that its role allows; all if left out.
    pub allow: Option<BTreeSet<String>>,
    /// Operations that its role denies.
    #[serde(default)]
    pub deny: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSpec {
    /// Its name, by which instances refer to it.
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Its zone; the first if left out.
    pub zone: Option<String>,
    /// The first address that it gives out, where it does.
    pub start_ip: Option<Ipv4Addr>,
    /// The last one.
    pub end_ip: Option<Ipv4Addr>,
    pub netmask: Option<Ipv4Addr>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InstanceSpec {
    /// Its name; with `count`, the beginning of their names. Names need not be unique.
    pub name: String,
    /// How many; their names get numbers.
    pub count: Option<u32>,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Its zone; the first, or that of its pool, if left out.
    pub zone: Option<String>,
    /// Its type: `standard.medium`, or an id.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Its state; `running` if left out.
    pub state: Option<String>,
    /// `inet4` (if left out), `dual` or `none`.
    pub public_ip_assignment: Option<String>,
    /// Its public address; one is given out if left out.
    pub public_ip: Option<Ipv4Addr>,
    /// Its IPv6 address; given out if left out and the assignment is `dual`.
    pub ipv6_address: Option<Ipv6Addr>,
    /// Private networks by name or id.
    pub private_networks: Vec<String>,
    /// The pool that it is a member of, by name or id.
    pub instance_pool: Option<String>,
    pub labels: BTreeMap<String, String>,
}

bowline_simulator::setters! {
    /// One instance of that name, with a public address.
    InstanceSpec::named(name: &str) |spec| name.clone_into(&mut spec.name);
    id(id: &str) |spec| spec.id = Some(id.to_owned());
    zone(zone: &str) |spec| spec.zone = Some(zone.to_owned());
    /// Of that type: `standard.medium`, or an id.
    kind(kind: &str) |spec| spec.kind = Some(kind.to_owned());
    state(state: super::State) |spec| spec.state = Some(state.as_str().to_owned());
    public_ip(address: Ipv4Addr) |spec| spec.public_ip = Some(address);
    ipv6(address: Ipv6Addr) |spec| spec.ipv6_address = Some(address);
    /// In that private network, by name or id.
    private_network(network: &str) |spec| spec.private_networks.push(network.to_owned());
    /// A member of that pool, by name or id.
    pool(pool: &str) |spec| spec.instance_pool = Some(pool.to_owned());
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolSpec {
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Its zone; the first if left out.
    pub zone: Option<String>,
    pub description: Option<String>,
    /// The beginning of its members' names; `pool` if left out.
    pub instance_prefix: Option<String>,
    /// How many members it makes itself; `instances` of the fixture come on top.
    pub size: u64,
    /// The type of its members.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// How its members get addresses.
    pub public_ip_assignment: Option<String>,
    /// Private networks of its members, by name or id.
    pub private_networks: Vec<String>,
    /// Its labels, and those of its members.
    pub labels: BTreeMap<String, String>,
}

bowline_simulator::setters! {
    /// A pool of that name, with so many members of its own making.
    PoolSpec::named(name: &str, size: u64) |spec| {
        name.clone_into(&mut spec.name);
        spec.size = size;
    };
    id(id: &str) |spec| spec.id = Some(id.to_owned());
    zone(zone: &str) |spec| spec.zone = Some(zone.to_owned());
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSpec {
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Its zone; the first if left out.
    pub zone: Option<String>,
    /// Its version of Kubernetes.
    pub version: Option<String>,
    pub nodepools: Vec<NodepoolSpec>,
}

bowline_simulator::setters! {
    ClusterSpec::named(name: &str) |spec| name.clone_into(&mut spec.name);
    /// With that nodepool, whose instance pool exists, by name or id.
    nodepool(name: &str, pool: &str) |spec| spec.nodepools.push(NodepoolSpec {
        name: name.to_owned(),
        instance_pool: Some(pool.to_owned()),
        ..NodepoolSpec::default()
    });
}

/// A nodepool of a cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodepoolSpec {
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Its instance pool by name or id; one is made if left out.
    pub instance_pool: Option<String>,
    /// How many members the pool that is made has.
    pub size: u64,
}

impl Fixture {
    /// The part that says what the cloud is like.
    pub fn config(&self) -> Config {
        let default = Config::default();
        let keys = self.keys.iter().map(|spec| {
            let key = Key {
                secret: spec.secret.clone(),
                allowed: spec.allow.clone(),
                denied: spec.deny.clone(),
            };
            (spec.key.clone(), key)
        });
        Config {
            keys: if self.keys.is_empty() {
                default.keys
            } else {
                keys.collect()
            },
            zones: if self.zones.is_empty() {
                default.zones
            } else {
                self.zones.clone()
            },
            timings: default.timings.or_as(&self.timings),
            quirks: self.quirks,
            public_url: self.public_url.clone(),
        }
    }
}
