//! What the control handle shows: machines, networks and rules as plain values.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Triton;
use super::model::{Cloud, Machine, State};

#[derive(Clone, Debug, PartialEq)]
pub struct MachineInfo {
    pub id: String,
    pub name: String,
    pub state: State,
    pub package: String,
    pub brand: String,
    pub image: String,
    pub tags: Map<String, Value>,
    pub metadata: Map<String, Value>,
    /// Its addresses, in the order of its cards.
    pub addresses: Vec<String>,
    pub networks: Vec<String>,
    /// Its physical server.
    pub compute_node: Option<String>,
    pub firewall_enabled: bool,
    /// Whether it is protected.
    pub deletion_protection: bool,
    /// The DNS names that are published for it.
    pub dns_names: Vec<String>,
}

impl MachineInfo {
    /// A tag that is a word.
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.tags.get(key).and_then(Value::as_str)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    pub id: String,
    /// Its text, as the server writes it.
    pub rule: String,
    /// Whether it holds.
    pub enabled: bool,
    pub description: Option<String>,
}

fn info(cloud: &Cloud, machine: &Machine) -> MachineInfo {
    let names = cloud.names.machines.get(&machine.id);
    MachineInfo {
        id: machine.id.clone(),
        name: machine.name.clone(),
        state: machine.state,
        package: machine.package.clone(),
        brand: machine.brand.clone(),
        image: machine.image.clone(),
        tags: machine.tags.clone(),
        metadata: machine.metadata.clone(),
        addresses: machine.nics.iter().map(|nic| nic.ip.clone()).collect(),
        networks: machine.nics.iter().map(|nic| nic.network.clone()).collect(),
        compute_node: machine.compute_node.clone(),
        firewall_enabled: machine.firewall,
        deletion_protection: machine.protected,
        dns_names: names
            .map(|names| names.iter().cloned().collect())
            .unwrap_or_default(),
    }
}

impl Triton {
    /// All live machines, by id.
    pub fn machines(&self) -> Vec<MachineInfo> {
        self.with(|cloud| {
            let live = cloud.machines.values().filter(|it| it.state.lives());
            live.map(|it| info(cloud, it)).collect()
        })
    }

    /// A machine by id, or by a name that only one live machine has; destroyed ones by id.
    pub fn machine(&self, machine: &str) -> Option<MachineInfo> {
        self.with(|cloud| {
            let id = cloud.find_machine(machine)?;
            cloud.machines.get(&id).map(|it| info(cloud, it))
        })
    }

    /// All firewall rules, by id.
    pub fn rules(&self) -> Vec<RuleInfo> {
        self.with(|cloud| {
            let all = cloud.rules.values().map(|rule| RuleInfo {
                id: rule.id.clone(),
                rule: rule.parsed.to_string(),
                enabled: rule.enabled,
                description: rule.description.clone(),
            });
            all.collect()
        })
    }

    /// The routes of a network, by its id or name.
    pub fn routes(&self, network: &str) -> BTreeMap<String, String> {
        self.with(|cloud| {
            let network = cloud.find_network(network);
            network.map(|it| it.routes.clone()).unwrap_or_default()
        })
    }

    /// The addresses that a DNS name stands for now.
    pub fn resolve(&self, name: &str) -> Vec<std::net::Ipv4Addr> {
        self.with(|cloud| {
            let records = cloud.names.records.get(&name.to_lowercase());
            records
                .map(|it| it.addresses.iter().copied().collect())
                .unwrap_or_default()
        })
    }

    /// The ports and targets that a DNS name's SRV records tell now.
    pub fn resolve_services(&self, name: &str) -> Vec<(u16, String)> {
        self.with(|cloud| {
            let records = cloud.names.records.get(&name.to_lowercase());
            records
                .map(|it| it.services.iter().cloned().collect())
                .unwrap_or_default()
        })
    }
}
