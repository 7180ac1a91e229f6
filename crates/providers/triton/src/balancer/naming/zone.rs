//! Which network a name is published in, and so which zone. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use uuid::Uuid;

use crate::api::{Machine, Network, Nic};
use crate::instances::{is_public, zones_of};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Zones<'a> {
    pub(crate) networks: &'a BTreeMap<Uuid, Network>,
    pub(crate) account: Uuid,
    pub(crate) targets: &'a [&'a Machine],
    /// The names that some of them have now.
    pub(crate) names: &'a BTreeMap<Uuid, Vec<String>>,
    pub(crate) internal: bool,
    pub(crate) network: Option<Uuid>,
    /// The configured zone, for networks that do not report theirs.
    pub(crate) zone: Option<&'a str>,
    pub(crate) published: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The network; none if only the zone is known.
    pub(crate) network: Option<Uuid>,
    /// What follows the label: `svc.<account>.<zone>`.
    pub(crate) suffix: String,
    /// The other suffixes that fit as well; a person should choose.
    pub(crate) others: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Place(Place),
    /// Several zones fit.
    Unclear(BTreeSet<String>),
    /// Not known yet: no targets, or the name service names none of them.
    Unknown,
}

impl Zones<'_> {
    pub(crate) fn choose(&self) -> Choice {
        let candidates = self.candidates();
        let with_suffix: Vec<(Uuid, &str)> = candidates
            .iter()
            .filter_map(|network| Some((network.id, suffix(network)?)))
            .collect();
        if let Some((network, suffix)) = self.kept(&with_suffix) {
            return place(network, suffix, Vec::new());
        }
        let narrowed = if self.internal {
            // The best one, whatever zones the others are in.
            let best = candidates.first().map(|it| it.id);
            let mut fitting = with_suffix;
            fitting.retain(|it| Some(it.0) == best);
            fitting
        } else {
            self.narrowed(&with_suffix)
        };
        if let Some(&(network, suffix)) = narrowed.first() {
            let others: BTreeSet<&str> = narrowed.iter().map(|it| it.1).collect();
            let others = others.into_iter().filter(|it| *it != suffix);
            let others = others.map(str::to_owned).collect();
            return place(network, suffix, others);
        }
        self.without_suffix(candidates.first().map(|it| it.id))
    }

    /// The networks that would do, the best first.
    fn candidates(&self) -> Vec<&Network> {
        if let Some(named) = self.network {
            return self.networks.get(&named).into_iter().collect();
        }
        let Some(first) = self.targets.first() else {
            return Vec::new();
        };
        let all_on = |public: bool| -> Vec<&Network> {
            let entries = self.networks.values().filter(|it| it.public == public);
            let on = |network: &&Network| {
                let mut targets = self.targets.iter();
                targets.all(|it| nics_on(it, network, self.networks).next().is_some())
            };
            entries.filter(on).collect()
        };
        let primary = primary(first).and_then(|nic| self.networks.get(&nic.network?));
        let mut found = all_on(!self.internal);
        if self.internal {
            // That of the first card is as good a guess as any, and stays the same.
            let first = found
                .iter()
                .position(|it| Some(it.id) == primary.map(|it| it.id));
            if let Some(at) = first {
                let best = found.remove(at);
                found.insert(0, best);
            }
        }
        if found.is_empty() {
            found.extend(primary);
        }
        found
    }

    /// A name that is published stays where it is while it can.
    fn kept<'b>(&self, candidates: &[(Uuid, &'b str)]) -> Option<(Uuid, &'b str)> {
        let published = self.published?;
        let is_there = |suffix: &str| {
            let label = published.strip_suffix(suffix);
            label.is_some_and(|label| label.ends_with('.'))
        };
        candidates.iter().copied().find(|it| is_there(it.1))
    }

    /// Those in whose zone the name service has the first target, if they differ at all.
    fn narrowed<'b>(&self, candidates: &[(Uuid, &'b str)]) -> Vec<(Uuid, &'b str)> {
        let suffixes: BTreeSet<&str> = candidates.iter().map(|it| it.1).collect();
        if suffixes.len() < 2 {
            return candidates.to_vec();
        }
        let first = self.targets.first();
        let names = first.and_then(|first| self.names.get(&first.id));
        let names = names.map(Vec::as_slice).unwrap_or_default();
        let occurs = |network: Uuid| {
            let network = self.networks.get(&network);
            let mut zones = network.into_iter().flat_map(zones_of);
            zones.any(|zone| names.iter().any(|name| is_in_zone(name, zone)))
        };
        let occurring: Vec<_> = candidates
            .iter()
            .copied()
            .filter(|it| occurs(it.0))
            .collect();
        if occurring.is_empty() {
            candidates.to_vec()
        } else {
            occurring
        }
    }

    /// For networks that do not report a zone: from the configuration, or from the targets' names.
    fn without_suffix(&self, network: Option<Uuid>) -> Choice {
        let account = self.account;
        let choice = |zone: &str| {
            Choice::Place(Place {
                network,
                suffix: format!("svc.{account}.{zone}"),
                others: Vec::new(),
            })
        };
        if let Some(zone) = self.zone {
            return choice(zone);
        }
        let mut zones = BTreeSet::new();
        for target in self.targets {
            let begin = format!("{}.inst.{account}.", target.id);
            let names = self.names.get(&target.id).into_iter().flatten();
            zones.extend(names.filter_map(|name| name.strip_prefix(&begin)));
        }
        match (zones.first(), zones.len()) {
            (Some(zone), 1) => choice(zone),
            (Some(_), _) => Choice::Unclear(zones.into_iter().map(str::to_owned).collect()),
            (None, _) => Choice::Unknown,
        }
    }
}

fn place(network: Uuid, suffix: &str, others: Vec<String>) -> Choice {
    Choice::Place(Place {
        network: Some(network),
        suffix: suffix.to_owned(),
        others,
    })
}

/// Of the suffixes of Services on that network, the first in the order of texts.
fn suffix(network: &Network) -> Option<&str> {
    let suffixes = network.suffixes.iter().flatten();
    let services = suffixes.filter(|it| it.starts_with("svc."));
    services.min().map(String::as_str)
}

fn is_in_zone(name: &str, zone: &str) -> bool {
    let rest = name.strip_suffix(zone);
    rest.is_some_and(|rest| rest.ends_with('.'))
}

fn primary(machine: &Machine) -> Option<&Nic> {
    let nics = machine.nics.as_deref()?;
    nics.iter().find(|nic| nic.primary).or(nics.first())
}

/// The cards of a machine that are on that network. A public card whose network no list shows is of
/// a pool, and counts as being on every public entry.
fn nics_on<'a>(
    machine: &'a Machine,
    network: &'a Network,
    networks: &'a BTreeMap<Uuid, Network>,
) -> impl Iterator<Item = &'a Nic> {
    let nics = machine.nics.as_deref().unwrap_or_default().iter();
    nics.filter(move |nic| match nic.network {
        Some(id) if id == network.id => true,
        Some(id) if networks.contains_key(&id) => false,
        _ => network.public && is_public(nic, networks),
    })
}

/// The addresses of a machine on that network; without one, that of its first card.
pub(crate) fn addresses_on(
    machine: &Machine,
    network: Option<Uuid>,
    networks: &BTreeMap<Uuid, Network>,
) -> Vec<IpAddr> {
    match network.and_then(|id| networks.get(&id)) {
        Some(network) => nics_on(machine, network, networks)
            .filter_map(Nic::address)
            .collect(),
        None => primary(machine)
            .and_then(Nic::address)
            .into_iter()
            .collect(),
    }
}
