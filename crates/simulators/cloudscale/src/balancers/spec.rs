//! Load balancers as people write them: in a fixture, for the control handle, in tests.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::model::BalancerStatus;
use crate::fixture::default_project;

/// A load balancer with everything that belongs to it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BalancerSpec {
    pub name: String,
    /// Its uuid; one is drawn if left out.
    pub uuid: Option<String>,
    #[serde(default = "default_project", skip_serializing)]
    pub project: String,
    pub zone: Option<String>,
    /// Its flavor; any word will do.
    #[serde(default = "default_flavor")]
    pub flavor: String,
    /// Its addresses; a public one of each version if left out.
    #[serde(default)]
    pub vip_addresses: Vec<VipSpec>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// What is shown whatever the state; its true status if left out.
    #[serde(skip_serializing)]
    pub status: Option<BalancerStatus>,
    #[serde(default, skip_serializing)]
    pub pools: Vec<PoolSpec>,
    /// Its listeners without a pool.
    #[serde(default, skip_serializing)]
    pub listeners: Vec<ListenerSpec>,
}

/// An address of a load balancer: in a private subnet, or a public one.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VipSpec {
    /// The uuid of a private subnet; left out: the address is a public one.
    pub subnet: Option<String>,
    /// The address; chosen if left out.
    pub address: Option<IpAddr>,
}

/// A pool with everything that belongs to it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSpec {
    pub name: String,
    /// Its uuid; one is drawn if left out.
    pub uuid: Option<String>,
    /// How it chooses among its members.
    #[serde(default = "default_algorithm")]
    pub algorithm: String,
    /// How it speaks to its members.
    #[serde(default = "default_protocol")]
    pub protocol: String,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    #[serde(default, skip_serializing)]
    pub members: Vec<MemberSpec>,
    #[serde(default, skip_serializing)]
    pub listeners: Vec<ListenerSpec>,
    #[serde(skip_serializing)]
    pub monitor: Option<MonitorSpec>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MemberSpec {
    /// Its name; address and port if left out.
    pub name: Option<String>,
    /// Its uuid; one is drawn if left out.
    pub uuid: Option<String>,
    pub address: IpAddr,
    /// The subnet of the address; the first one that contains it if left out.
    pub subnet: Option<String>,
    pub protocol_port: u16,
    /// The port that is checked, if it is another one.
    pub monitor_port: Option<u16>,
    /// Whether it takes part; yes if left out.
    pub enabled: Option<bool>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// A listener of a pool, or of a load balancer without a pool.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerSpec {
    /// Its name; protocol and port if left out.
    pub name: Option<String>,
    /// Its uuid; one is drawn if left out.
    pub uuid: Option<String>,
    /// `tcp` or `udp`.
    #[serde(default = "default_protocol")]
    pub protocol: String,
    pub protocol_port: u16,
    /// Who may connect; everybody if left out.
    #[serde(default)]
    pub allowed_cidrs: Vec<String>,
    /// How long the client may be silent.
    pub timeout_client_data_ms: Option<u64>,
    /// How long connecting to a member may take.
    pub timeout_member_connect_ms: Option<u64>,
    /// How long the member may be silent.
    pub timeout_member_data_ms: Option<u64>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

bowline_simulator::setters! {
    /// A listener of that protocol and port, open to everybody.
    ListenerSpec::on(protocol: &str, port: u16) |spec| {
        protocol.clone_into(&mut spec.protocol);
        spec.protocol_port = port;
    };
}

/// A health monitor of a pool.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorSpec {
    /// Its uuid; one is drawn if left out.
    pub uuid: Option<String>,
    /// What it does to find out.
    #[serde(default = "default_protocol", rename = "type")]
    pub kind: String,
    /// Seconds from check to check.
    pub delay_s: Option<u64>,
    /// Seconds that a check may take.
    pub timeout_s: Option<u64>,
    /// Good checks until a member is up.
    pub up_threshold: Option<u64>,
    /// Bad checks until a member is down.
    pub down_threshold: Option<u64>,
    /// What it asks for by HTTP.
    pub http: Option<HttpSpec>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

bowline_simulator::setters! {
    /// A monitor of that type with the API's defaults.
    MonitorSpec::of(kind: &str) |spec| kind.clone_into(&mut spec.kind);
}

/// What a monitor asks for by HTTP; the API's defaults for what is left out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSpec {
    /// Codes that mean up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_codes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_path: Option<String>,
    /// `1.0` or `1.1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The `Host` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

fn default_flavor() -> String {
    super::FLAVORS[0].0.to_owned()
}

fn default_algorithm() -> String {
    "round_robin".to_owned()
}

fn default_protocol() -> String {
    "tcp".to_owned()
}

bowline_simulator::setters! {
    /// A load balancer of that name with public addresses and without pools.
    BalancerSpec::named(name: &str) |spec| {
        name.clone_into(&mut spec.name);
        spec.project = default_project();
        spec.flavor = default_flavor();
    };
    uuid(uuid: &str) |spec| spec.uuid = Some(uuid.to_owned());
    project(project: &str) |spec| project.clone_into(&mut spec.project);
    zone(zone: &str) |spec| spec.zone = Some(zone.to_owned());
    tag(key: &str, value: &str) |spec| spec.tags.insert(key.to_owned(), value.to_owned());
    /// With a further address; without a subnet it is a public one.
    vip(subnet: Option<&str>, address: Option<IpAddr>) |spec| {
        let subnet = subnet.map(str::to_owned);
        spec.vip_addresses.push(VipSpec { subnet, address });
    };
    pool(pool: PoolSpec) |spec| spec.pools.push(pool);
    listener(listener: ListenerSpec) |spec| spec.listeners.push(listener);
    /// Shown with that status, whatever its state.
    status(status: BalancerStatus) |spec| spec.status = Some(status);
}

bowline_simulator::setters! {
    /// A pool of that name, round robin over TCP.
    PoolSpec::named(name: &str) |spec| {
        name.clone_into(&mut spec.name);
        spec.algorithm = default_algorithm();
        spec.protocol = default_protocol();
    };
    protocol(protocol: &str) |spec| protocol.clone_into(&mut spec.protocol);
    member(member: MemberSpec) |spec| spec.members.push(member);
    listener(listener: ListenerSpec) |spec| spec.listeners.push(listener);
    monitor(monitor: MonitorSpec) |spec| spec.monitor = Some(monitor);
}

impl MemberSpec {
    /// A member at that address and port, checked at the same port.
    pub fn at(address: IpAddr, port: u16) -> Self {
        Self {
            name: None,
            uuid: None,
            address,
            subnet: None,
            protocol_port: port,
            monitor_port: Some(port),
            enabled: None,
            tags: BTreeMap::new(),
        }
    }
}
