//! Load balancers of the fixture.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BalancerSpec {
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Its zone; the first if left out.
    pub zone: Option<String>,
    /// Its address; one is given out if left out.
    pub ip: Option<Ipv4Addr>,
    pub description: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub services: Vec<ServiceSpec>,
}

bowline_simulator::setters! {
    BalancerSpec::named(name: &str) |spec| name.clone_into(&mut spec.name);
    id(id: &str) |spec| spec.id = Some(id.to_owned());
    /// With that address.
    ip(ip: Ipv4Addr) |spec| spec.ip = Some(ip);
    service(service: ServiceSpec) |spec| spec.services.push(service);
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    pub description: Option<String>,
    /// Its pool, by name or id.
    pub instance_pool: String,
    /// `tcp` or `udp`.
    #[serde(default = "tcp")]
    pub protocol: String,
    pub port: u16,
    /// The port of the members.
    pub target_port: u16,
    /// `round-robin`, `source-hash` or `maglev-hash`.
    #[serde(default = "round_robin")]
    pub strategy: String,
    /// How members are checked; their port with TCP if left out.
    pub healthcheck: Option<HealthcheckSpec>,
}

impl ServiceSpec {
    /// A TCP service of a pool.
    pub fn new(name: &str, pool: &str, port: u16, target_port: u16) -> Self {
        Self {
            name: name.to_owned(),
            id: None,
            description: None,
            instance_pool: pool.to_owned(),
            protocol: tcp(),
            port,
            target_port,
            strategy: round_robin(),
            healthcheck: None,
        }
    }
}

/// The health check of a service, as the API takes it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HealthcheckSpec {
    /// `tcp`, `http` or `https`.
    pub mode: String,
    pub port: u16,
    /// The path that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Seconds between two checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<u64>,
    /// Seconds that a check may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Failures before a member gets no more traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// The name that is asked for with `https`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_sni: Option<String>,
}

fn tcp() -> String {
    "tcp".to_owned()
}

fn round_robin() -> String {
    "round-robin".to_owned()
}
