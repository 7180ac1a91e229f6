//! The fixture: what a cloud contains at the beginning, as people write it (`cloud.yaml`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bowline_simulator::faults::{RawRule, Span};
use bowline_simulator::timings::Timed;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de};

use super::balancers::BalancerSpec;
use super::config::{Config, DEFAULT_PROJECT, Quirks, TimingsSpec, Token};

/// The whole fixture file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fixture {
    /// Who may use the cloud; none: one token for everything.
    pub tokens: Vec<TokenSpec>,
    pub timings: TimingsSpec,
    /// How the cloud behaves where that is not certain.
    pub quirks: Quirks,
    /// The root of all `href` values.
    pub public_url: Option<String>,
    /// Networks and their subnets.
    pub networks: Vec<NetworkSpec>,
    pub machines: Vec<MachineSpec>,
    pub load_balancers: Vec<BalancerSpec>,
    pub floating_ips: Vec<FloatingIpSpec>,
    /// What goes wrong from the beginning.
    pub faults: Vec<RawRule>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSpec {
    /// What callers send.
    pub value: String,
    /// The project that it opens.
    #[serde(default = "default_project")]
    pub project: String,
    /// Whether its callers may only look.
    #[serde(default)]
    pub read_only: bool,
}

/// A single length of time.
#[derive(Clone, Copy, Debug)]
pub struct Length(pub Duration);

impl From<Length> for Duration {
    fn from(Length(length): Length) -> Self {
        length
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let span = Span::deserialize(deserializer)?;
        if span.least == span.most {
            Ok(Self(span.least))
        } else {
            Err(de::Error::custom(
                "a single length of time is needed here, not a range",
            ))
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// Its name, by which machines of the fixture refer to it.
    pub name: String,
    /// Its uuid; one is drawn if left out.
    pub uuid: Option<String>,
    #[serde(default = "default_project")]
    pub project: String,
    pub zone: Option<String>,
    pub mtu: Option<u64>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    #[serde(default)]
    pub subnets: Vec<SubnetSpec>,
}

bowline_simulator::setters! {
    /// A network of that name without subnets.
    NetworkSpec::named(name: &str) |spec| {
        name.clone_into(&mut spec.name);
        spec.project = default_project();
    };
    subnet(cidr: IpNet) |spec| spec.subnets.push(SubnetSpec {
        cidr,
        uuid: None,
        gateway: None,
        dns_servers: None,
        tags: BTreeMap::new(),
    });
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubnetSpec {
    pub cidr: IpNet,
    /// Its uuid; one is drawn if left out.
    pub uuid: Option<String>,
    pub gateway: Option<IpAddr>,
    /// Its resolvers; two defaults if left out.
    pub dns_servers: Option<Vec<IpAddr>>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// A server of the fixture, of the control handle and of tests.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Its name. With `count`, a number is added to it: `worker-1`, `worker-2`, …
    pub name: String,
    /// How many such machines; 1 if left out.
    pub count: Option<u32>,
    /// Its uuid; one is drawn if left out.
    pub uuid: Option<String>,
    #[serde(default = "default_project")]
    pub project: String,
    pub zone: Option<String>,
    pub flavor: Option<String>,
    pub image: Option<String>,
    /// `running` (if left out) or `stopped`.
    pub status: Option<String>,
    /// Its interfaces in order; one public one if left out.
    pub interfaces: Option<Vec<InterfaceSpec>>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

bowline_simulator::setters! {
    /// A running machine of that name with one public interface.
    MachineSpec::named(name: &str) |spec| {
        name.clone_into(&mut spec.name);
        spec.project = default_project();
    };
    uuid(uuid: &str) |spec| spec.uuid = Some(uuid.to_owned());
    project(project: &str) |spec| project.clone_into(&mut spec.project);
    zone(zone: &str) |spec| spec.zone = Some(zone.to_owned());
    flavor(flavor: &str) |spec| spec.flavor = Some(flavor.to_owned());
    /// Not running.
    stopped() |spec| spec.status = Some("stopped".to_owned());
    /// With a further interface: `public`, or a network by name or uuid.
    interface(network: &str, addresses: Option<Vec<IpAddr>>) |spec| {
        let network = network.to_owned();
        let interfaces = spec.interfaces.get_or_insert_default();
        interfaces.push(InterfaceSpec { network, addresses });
    };
}

/// An interface of a machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSpec {
    /// `public`, or a network by name or uuid.
    pub network: String,
    /// Its addresses; chosen if left out, none if empty.
    pub addresses: Option<Vec<IpAddr>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloatingIpSpec {
    /// Its address; one is drawn if left out.
    pub address: Option<IpAddr>,
    /// 4 or 6; 4 if left out and no address is given.
    pub ip_version: Option<u8>,
    #[serde(default = "default_project")]
    pub project: String,
    /// Its region; left out together with `global: true`.
    pub region: Option<String>,
    /// Whether it belongs to no region.
    #[serde(default)]
    pub global: bool,
    /// The machine that it points to, by name or uuid.
    pub machine: Option<String>,
    /// The load balancer that it points to, by name or uuid.
    pub load_balancer: Option<String>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

pub(super) fn default_project() -> String {
    DEFAULT_PROJECT.to_owned()
}

impl Fixture {
    /// The part that says what the cloud is like.
    pub fn config(&self) -> Config {
        let default = Config::default();
        let tokens = self.tokens.iter().map(|token| Token {
            value: token.value.clone(),
            project: token.project.clone(),
            read_only: token.read_only,
        });
        Config {
            tokens: if self.tokens.is_empty() {
                default.tokens
            } else {
                tokens.collect()
            },
            timings: default.timings.or_as(&self.timings),
            quirks: self.quirks,
            public_url: self.public_url.clone(),
        }
    }
}
