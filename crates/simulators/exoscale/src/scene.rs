//! A scene: what a cloud contains at the beginning, as people write it (`cloud.yaml`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bowline_simulator::faults::{RawRule, Span};
use serde::Deserialize;

use super::balancer_scene::BalancerSpec;
use super::config::{Config, Key, Quirks, Timings};

/// The whole fixture file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fixture {
    /// Who may use the cloud; none: one key for everything.
    pub keys: Vec<KeySpec>,
    /// The zones; none: one.
    pub zones: Vec<String>,
    /// How long things take.
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

/// An API key of the fixture.
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

/// Durations of the fixture, such as `2s` or `500ms`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimingsSpec {
    /// See [`Timings::operation`].
    pub operation: Option<Span>,
    /// See [`Timings::operations`].
    pub operations: BTreeMap<String, Span>,
    /// See [`Timings::address`].
    pub address: Option<Span>,
    /// See [`Timings::created_invisible`].
    pub created_invisible: Option<Span>,
}

impl TimingsSpec {
    /// The durations, with `or` for what is left out.
    pub fn over(&self, or: Timings) -> Timings {
        let length = |given: Option<Span>, or: Duration| given.map_or(or, |span| span.least);
        let mut operations = or.operations;
        let given = self.operations.iter();
        operations.extend(given.map(|(name, span)| (name.clone(), span.least)));
        Timings {
            operation: length(self.operation, or.operation),
            operations,
            address: length(self.address, or.address),
            created_invisible: length(self.created_invisible, or.created_invisible),
        }
    }
}

/// A private network of the fixture.
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
    /// Its mask.
    pub netmask: Option<Ipv4Addr>,
}

/// An instance of the fixture.
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

impl InstanceSpec {
    /// One instance of that name, with a public address.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }

    /// Of that type: `standard.medium`, or an id.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.to_owned());
        self
    }

    #[must_use]
    pub fn state(mut self, state: super::State) -> Self {
        self.state = Some(state.as_str().to_owned());
        self
    }

    #[must_use]
    pub fn public_ip(mut self, address: Ipv4Addr) -> Self {
        self.public_ip = Some(address);
        self
    }

    /// Without an IPv4 address.
    #[must_use]
    pub fn without_public_ip(mut self) -> Self {
        self.public_ip_assignment = Some("none".to_owned());
        self
    }

    #[must_use]
    pub fn ipv6(mut self, address: Ipv6Addr) -> Self {
        self.ipv6_address = Some(address);
        self
    }

    /// In that private network, by name or id.
    #[must_use]
    pub fn private_network(mut self, network: &str) -> Self {
        self.private_networks.push(network.to_owned());
        self
    }

    /// A member of that pool, by name or id.
    #[must_use]
    pub fn pool(mut self, pool: &str) -> Self {
        self.instance_pool = Some(pool.to_owned());
        self
    }
}

/// An instance pool of the fixture.
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

impl PoolSpec {
    /// A pool of that name, with so many members of its own making.
    pub fn named(name: &str, size: u64) -> Self {
        Self {
            name: name.to_owned(),
            size,
            ..Self::default()
        }
    }

    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }
}

/// A cluster of the fixture.
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

impl ClusterSpec {
    /// A cluster of that name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// With that nodepool, whose instance pool exists, by name or id.
    #[must_use]
    pub fn nodepool(mut self, name: &str, pool: &str) -> Self {
        self.nodepools.push(NodepoolSpec {
            name: name.to_owned(),
            instance_pool: Some(pool.to_owned()),
            ..NodepoolSpec::default()
        });
        self
    }
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
            timings: self.timings.over(default.timings),
            quirks: self.quirks,
            public_url: self.public_url.clone(),
        }
    }
}
