//! The fixture: what a data center contains at the beginning, as people write it (`cloud.yaml`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use bowline_simulator::faults::RawRule;
use ipnet::Ipv4Net;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::{Quirks, Throttle, TimingsSpec};
use super::model::{Limit, State};

/// The whole fixture file. Left out: one account with a key, two networks, a few packages and images.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fixture {
    /// The name of the data center.
    pub datacenter: Option<String>,
    /// Other data centers and their addresses.
    pub datacenters: BTreeMap<String, String>,
    /// What ListServices shows beside the API itself, such as `cmon`.
    pub services: BTreeMap<String, String>,
    /// The root of the API's addresses, instead of the `Host` header.
    pub public_url: Option<String>,
    pub timings: TimingsSpec,
    pub quirks: Quirks,
    /// The limits of calls; left out: those of a real one.
    pub throttle: Option<Throttle>,
    /// Calls are not limited.
    pub unlimited: bool,
    /// Who may use the cloud.
    pub accounts: Vec<AccountSpec>,
    pub networks: Vec<NetworkSpec>,
    /// The DNS zone of private networks without a zone of their own.
    pub wildcard_zone: Option<String>,
    /// Sizes of machines.
    pub packages: Vec<PackageSpec>,
    /// What machines are made from.
    pub images: Vec<ImageSpec>,
    /// The physical servers, by id.
    pub compute_nodes: Vec<String>,
    pub machines: Vec<MachineSpec>,
    pub fwrules: Vec<RuleSpec>,
    /// What goes wrong from the beginning.
    pub faults: Vec<RawRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of a fixture that have nothing to do with each other"
)]
pub struct AccountSpec {
    pub login: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Its address.
    pub email: Option<String>,
    /// Whether its machines have DNS names.
    pub cns: bool,
    /// Not approved for provisioning.
    pub unapproved: bool,
    /// It may do nothing.
    pub disabled: bool,
    /// It may act as every other account.
    pub operator: bool,
    /// Its keys: lines as in `authorized_keys`, whose comments are their names.
    pub keys: Vec<String>,
    /// What it may have.
    pub limits: Vec<Limit>,
    /// Its VLANs: names by number.
    pub vlans: BTreeMap<u16, String>,
    pub users: Vec<UserSpec>,
    pub roles: Vec<RoleSpec>,
    /// Its policies: rules by name.
    pub policies: BTreeMap<String, Vec<String>>,
    /// Roles by resource: `machines`, `networks/<id>`, the empty word for the account; `*` for all.
    pub role_tags: BTreeMap<String, Vec<String>>,
}

/// A sub-user of the fixture.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserSpec {
    pub login: String,
    pub keys: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoleSpec {
    pub name: String,
    /// Who may take it.
    pub members: Vec<String>,
    /// For whom it is active without asking.
    pub default_members: Vec<String>,
    pub policies: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSpec {
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    pub description: Option<String>,
    pub public: bool,
    /// Its addresses; left out for a pool.
    pub subnet: Option<Ipv4Net>,
    /// The first address for machines; the fifth if left out.
    pub provision_start_ip: Option<Ipv4Addr>,
    /// The last one.
    pub provision_end_ip: Option<Ipv4Addr>,
    pub gateway: Option<Ipv4Addr>,
    pub resolvers: Vec<Ipv4Addr>,
    /// The VLAN of a fabric network.
    pub vlan_id: Option<u16>,
    /// The account that has it; the first account for fabric networks, else everybody.
    pub owner: Option<String>,
    /// Routes of a fabric network.
    pub routes: BTreeMap<String, String>,
    /// Whether a fabric network reaches the Internet.
    pub internet_nat: bool,
    /// DNS zones of machines on it; left out on private ones: the wildcard zone.
    pub zones: Vec<String>,
    /// Makes it a pool of these networks, which the API then does not show.
    pub pool: Vec<NetworkSpec>,
    /// It cannot be deleted.
    pub default: bool,
}

impl NetworkSpec {
    /// A private network of everybody's.
    pub fn named(name: &str, subnet: Ipv4Net) -> Self {
        Self {
            name: name.to_owned(),
            subnet: Some(subnet),
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PackageSpec {
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// MiB of memory; 1024 if left out.
    pub memory: Option<u64>,
    /// MiB of disk; 25 times the memory if left out.
    pub disk: Option<u64>,
    pub vcpus: u64,
    pub brand: Option<String>,
    /// It may not be used with a fabric network.
    pub no_fabric: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageSpec {
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    pub version: Option<String>,
    /// `linux` (if left out), `smartos`, …
    pub os: Option<String>,
    /// `zvol` (if left out), `zone-dataset`, `lx-dataset`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// `active` if left out.
    pub state: Option<String>,
    /// When it was published; now if left out.
    pub published_at: Option<jiff::Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineSpec {
    /// Its name; with `count`, the beginning of their names.
    pub name: String,
    /// How many; their names get numbers.
    pub count: Option<u32>,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Its account; the first if left out.
    pub owner: Option<String>,
    /// Its package; the first if left out.
    pub package: Option<String>,
    /// Its image by id or name; the first if left out.
    pub image: Option<String>,
    /// Its brand; that of package or image if left out.
    pub brand: Option<String>,
    /// Its state; `running` if left out.
    pub state: Option<String>,
    /// Its cards: networks by id or name; one on each network that is no pool if left out.
    pub networks: Option<Vec<String>>,
    /// Its addresses, in the order of its networks; chosen if left out. Words such as `dhcp` are taken.
    pub addresses: Vec<String>,
    pub tags: Map<String, Value>,
    pub metadata: Map<String, Value>,
    pub firewall_enabled: bool,
    /// Whether it is protected.
    pub deletion_protection: bool,
    /// Its physical server; the emptiest if left out.
    pub compute_node: Option<String>,
    /// It is a Docker container.
    pub docker: bool,
    /// Roles that it is tagged with.
    pub role_tags: BTreeSet<String>,
}

bowline_simulator::setters! {
    /// One machine of that name on the default networks.
    MachineSpec::named(name: &str) |spec| name.clone_into(&mut spec.name);
    id(id: &str) |spec| spec.id = Some(id.to_owned());
    package(package: &str) |spec| spec.package = Some(package.to_owned());
    state(state: State) |spec| spec.state = Some(state.as_str().to_owned());
    /// On these networks, by id or name, and no others.
    networks(networks: &[&str]) |spec| {
        spec.networks = Some(networks.iter().map(ToString::to_string).collect());
    };
    /// With these addresses, in the order of its networks.
    addresses(addresses: &[&str]) |spec| {
        spec.addresses = addresses.iter().map(ToString::to_string).collect();
    };
    tag(key: &str, value: impl Into<Value>) |spec| spec.tags.insert(key.to_owned(), value.into());
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSpec {
    pub rule: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Whether it holds.
    pub enabled: bool,
    pub description: Option<String>,
    /// It holds for everybody, and nobody may change it.
    pub global: bool,
    /// Its account; the first if left out.
    pub owner: Option<String>,
}
