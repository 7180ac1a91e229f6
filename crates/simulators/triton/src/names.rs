//! The name service: which DNS names machines have, published in turns.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::jobs::{Event, later};
use super::model::{Account, Cloud, Machine, Network, State, dnsify};
use super::tag_rules;

/// How long a compute node must be silent before the name service believes that it is down.
pub(super) const SILENCE: Duration = Duration::from_secs(3600);
/// The longest label of a DNS name; an alias of that length gets no name.
const LABEL: usize = 63;

/// What a name stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Records {
    pub(super) addresses: BTreeSet<Ipv4Addr>,
    /// Port and target.
    pub(super) services: BTreeSet<(u16, String)>,
    pub(super) texts: BTreeSet<String>,
}

/// What is published.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) records: BTreeMap<String, Records>,
    /// The names of each machine.
    pub(super) machines: BTreeMap<String, BTreeSet<String>>,
    /// Whether the next interval is on the calendar.
    scheduled: bool,
}

impl Cloud {
    /// Notes that names may have changed: they are published at the next interval.
    pub(super) fn names_changed(&mut self, now: Timestamp) {
        if std::mem::replace(&mut self.names.scheduled, true) {
            return;
        }
        let interval = i64::try_from(self.timings.commit.as_millis()).unwrap_or(i64::MAX);
        let interval = interval.max(1);
        let next = (now.as_millisecond() / interval + 1).saturating_mul(interval);
        let next = Timestamp::from_millisecond(next).unwrap_or(Timestamp::MAX);
        self.schedule(next, Event::Commit);
    }

    /// Publishes what is true now; nothing while the name service is away.
    pub(super) fn publish(&mut self, now: Timestamp) {
        self.names.scheduled = false;
        if self.quirks.names_down {
            return;
        }
        let mut names = Names {
            scheduled: self.names.scheduled,
            ..Names::default()
        };
        for machine in self.machines.values() {
            if let Some(account) = self.accounts.get(&machine.owner) {
                let own = self.names_of(machine, account, now, &mut names.records);
                if !own.is_empty() {
                    names.machines.insert(machine.id.clone(), own);
                }
            }
        }
        self.names = names;
    }

    /// The names of a machine, and its records added to all.
    fn names_of(
        &self,
        machine: &Machine,
        account: &Account,
        now: Timestamp,
        records: &mut BTreeMap<String, Records>,
    ) -> BTreeSet<String> {
        let mut own = BTreeSet::new();
        let hidden = machine.tags.get("triton.cns.disable");
        let hidden = hidden.is_some_and(|value| *value != Value::Bool(false));
        let made = !matches!(machine.state, State::Provisioning);
        if !account.names_enabled || !account.approved || hidden || !machine.state.lives() || !made
        {
            return own;
        }
        let services = machine
            .tags
            .get("triton.cns.services")
            .and_then(Value::as_str);
        let services = services.and_then(|text| tag_rules::services(text).ok());
        let services = services.unwrap_or_default();
        let listed = self.is_listed(machine, now);
        let zones = self.zones_of(machine);
        for label in self.account_labels(account) {
            for (zone, nics) in &zones {
                let suffix = format!("{label}.{zone}");
                let instance = self.instance_names(machine, &suffix);
                for name in &instance {
                    let records = records.entry(name.clone()).or_default();
                    records.addresses.extend(nics.iter().map(|nic| nic.1));
                    records.texts.insert(machine.id.clone());
                    own.insert(name.clone());
                }
                let target = instance.last().cloned().unwrap_or_default();
                for (service, port) in &services {
                    let mut names = vec![(format!("{service}.svc.{suffix}"), nics.clone())];
                    if self.wildcard_zone.as_ref() == Some(zone) {
                        names.extend(qualified(service, &suffix, account, nics));
                    }
                    for (name, nics) in names {
                        let records = records.entry(name.clone()).or_default();
                        if !listed {
                            records.texts.insert(format!("verifying:{}", machine.id));
                            continue;
                        }
                        records.addresses.extend(nics.iter().map(|nic| nic.1));
                        records.texts.insert(machine.id.clone());
                        if let Some(port) = port {
                            records.services.insert((*port, target.clone()));
                        }
                        own.insert(name);
                    }
                }
            }
        }
        own
    }

    /// Whether a machine is part of its services, not only of itself.
    fn is_listed(&self, machine: &Machine, now: Timestamp) -> bool {
        let status = machine.metadata.get("triton.cns.status");
        let node = machine.compute_node.as_ref();
        let since = node.and_then(|node| self.dead.get(node));
        machine.state == State::Running
            && status.is_none_or(|status| status == "up")
            && since.is_none_or(|since| now < later(*since, SILENCE))
    }

    /// The zones of a machine, each with the networks and addresses that it has there.
    fn zones_of<'a>(
        &'a self,
        machine: &'a Machine,
    ) -> BTreeMap<String, Vec<(&'a Network, Ipv4Addr)>> {
        let mut zones: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for nic in &machine.nics {
            let network = self.networks.get(&nic.network);
            let (Some(network), Ok(address)) = (network, nic.ip.parse()) else {
                continue;
            };
            for zone in &network.zones {
                zones
                    .entry(zone.clone())
                    .or_default()
                    .push((network, address));
            }
        }
        zones
    }

    fn instance_names(&self, machine: &Machine, suffix: &str) -> Vec<String> {
        let mut names = vec![format!("{}.inst.{suffix}", machine.id)];
        if !self.quirks.no_alias_names && machine.name.len() < LABEL {
            names.push(format!("{}.inst.{suffix}", dnsify(&machine.name)));
        }
        names
    }

    /// What stands for an account in its names.
    fn account_labels(&self, account: &Account) -> Vec<String> {
        let mut labels = vec![account.id.clone()];
        if self.quirks.login_names {
            labels.push(dnsify(&account.login));
        }
        labels
    }

    /// What the API tells about the names of machines on a network.
    pub(super) fn suffixes(&self, network: &Network, account: &Account) -> Vec<String> {
        let label = self.account_labels(account).pop().unwrap_or_default();
        let pairs = network
            .zones
            .iter()
            .flat_map(|zone| ["svc", "inst"].map(|kind| format!("{kind}.{label}.{zone}")));
        pairs.collect()
    }
}

/// The names of a service on single networks of the account.
fn qualified<'a>(
    service: &str,
    suffix: &str,
    account: &Account,
    nics: &[(&'a Network, Ipv4Addr)],
) -> Vec<(String, Vec<(&'a Network, Ipv4Addr)>)> {
    let owned = nics
        .iter()
        .filter(|(network, _)| network.owner.as_ref() == Some(&account.login));
    owned
        .map(|nic| {
            let name = format!("{}.{service}.svc.{suffix}", dnsify(&nic.0.name));
            (name, vec![*nic])
        })
        .collect()
}
