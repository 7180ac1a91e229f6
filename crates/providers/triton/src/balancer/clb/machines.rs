//! Compares the load balancer machines that a Service wants with those that it has. Pure.
//!
//! Every machine has an ordinal, as in a StatefulSet, at the end of its name. A machine that has to
//! be replaced stays in service until another one with its ordinal runs.

#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use uuid::Uuid;

use crate::api::{Machine, MachineState, Network, NewMachine, Nic, TagValue};
use crate::instances::is_public;

/// The uid of the cluster that the machine is a load balancer of.
pub(crate) const CLUSTER_TAG: &str = "bowline.clb";
/// Namespace and name of the Service that it serves.
pub(crate) const SERVICE_TAG: &str = "bowline.service";
/// The uid of that Service.
pub(crate) const UID_TAG: &str = "bowline.uid";
/// The labels of its DNS names.
pub(crate) const NAMES_TAG: &str = "triton.cns.services";
/// Digits of a machine's id in the name of one that makes room for another: a name has at most 63
/// characters, of which a cluster's name, a uid and a seat take 55.
const ROOM: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    pub(crate) network: Uuid,
    pub(crate) public: bool,
    /// The address that it is to have there.
    pub(crate) address: Option<Ipv4Addr>,
}

/// What all load balancer machines of a Service have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blueprint {
    /// What names of machines begin with.
    pub(crate) stem: String,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) replicas: u8,
    /// What new machines are made from.
    pub(crate) image: Uuid,
    /// What a machine may have been made from: other versions of the same image too.
    pub(crate) images: BTreeSet<Uuid>,
    pub(crate) package: String,
    pub(crate) wires: Vec<Wire>,
    /// Whether firewalls are to be on; one that is on is never switched off.
    pub(crate) firewall: bool,
    /// None: as it is.
    pub(crate) protection: Option<bool>,
}

/// The name of a Service's machines without the ordinal.
pub(crate) fn stem(cluster_name: &str, service_uid: &str) -> String {
    let short: String = service_uid.chars().take(8).collect();
    format!("{cluster_name}-clb-{short}")
}

/// Whether the tags of a machine name that Service and that cluster. Other machines are never
/// changed.
pub(crate) fn is_ours(machine: &Machine, cluster_uid: &str, service_uid: &str) -> bool {
    has_tag(machine, CLUSTER_TAG, cluster_uid) && has_tag(machine, UID_TAG, service_uid)
}

pub(crate) fn has_tag(machine: &Machine, tag: &str, text: &str) -> bool {
    machine.tags.get(tag).and_then(TagValue::as_text) == Some(text)
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaving {
    pub(crate) machine: Machine,
    pub(crate) why: String,
    /// Whether another one replaces it.
    pub(crate) is_replaced: bool,
    /// Whether it failed before it served: it goes first, and needs no drain.
    pub(crate) has_failed: bool,
}

/// The machines of a Service by what becomes of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReplicaDiff {
    pub(crate) kept: BTreeMap<u8, Machine>,
    /// Ordinals without a machine.
    pub(crate) missing: Vec<u8>,
    pub(crate) leaving: Vec<Leaving>,
}

impl Blueprint {
    pub(crate) fn name(&self, ordinal: u8) -> String {
        format!("{}-{ordinal}", self.stem)
    }

    /// The name of a machine that makes room for its successor.
    pub(crate) fn former_name(&self, ordinal: u8, id: Uuid) -> String {
        let id = id.simple().to_string();
        let id: String = id.chars().take(ROOM).collect();
        format!("{}-{id}", self.name(ordinal))
    }

    pub(crate) fn ordinal(&self, machine: &Machine) -> Option<u8> {
        let rest = machine.name.strip_prefix(&self.stem)?.strip_prefix('-')?;
        let ordinal: u8 = rest.parse().ok()?;
        (ordinal.to_string() == rest).then_some(ordinal)
    }

    pub(crate) fn machine(&self, ordinal: u8, metadata: BTreeMap<String, String>) -> NewMachine {
        let tag = |(key, value): (&String, &String)| (key.clone(), TagValue::from(value.as_str()));
        let uid = self.tags.get(UID_TAG).map_or("", String::as_str);
        let affinity = (self.replicas > 1).then(|| format!("{UID_TAG}!=~{uid}"));
        let wire = |it: &Wire| (it.network, it.address.map(IpAddr::V4));
        NewMachine {
            name: self.name(ordinal),
            image: self.image,
            package: self.package.clone(),
            networks: self.wires.iter().map(wire).collect(),
            affinity: affinity.into_iter().collect(),
            tags: self.tags.iter().map(tag).collect(),
            metadata,
            firewall_enabled: self.firewall,
            deletion_protection: self.protection.unwrap_or(false),
        }
    }

    pub(crate) fn diff(
        &self,
        found: &[Machine],
        networks: &BTreeMap<Uuid, Network>,
    ) -> ReplicaDiff {
        let mut diff = ReplicaDiff::default();
        let mut unseated = Vec::new();
        let mut found: Vec<&Machine> = found.iter().collect();
        found.sort_by_key(|machine| machine.id);
        for machine in found {
            let leave = |why: String, is_replaced| Leaving {
                machine: machine.clone(),
                why,
                is_replaced,
                has_failed: false,
            };
            if let Some(why) = self.misfit(machine, networks) {
                diff.leaving.push(leave(why, true));
                continue;
            }
            match self.ordinal(machine) {
                Some(ordinal) if ordinal >= self.replicas => {
                    let why = format!("only {} are wanted", self.replicas);
                    diff.leaving.push(leave(why, false));
                }
                Some(ordinal) => {
                    diff.kept.insert(ordinal, machine.clone());
                }
                None => unseated.push(machine),
            }
        }
        for ordinal in 0..self.replicas {
            let Entry::Vacant(vacant) = diff.kept.entry(ordinal) else {
                continue;
            };
            if unseated.is_empty() {
                diff.missing.push(ordinal);
            } else {
                // Taken over, or renamed by somebody: it keeps its name.
                vacant.insert(unseated.remove(0).clone());
            }
        }
        diff.leaving.extend(unseated.into_iter().map(|it| Leaving {
            machine: it.clone(),
            why: format!("only {} are wanted", self.replicas),
            is_replaced: false,
            has_failed: false,
        }));
        diff
    }

    /// Why a machine cannot become what is wanted; none if it can, or if too little is known of it.
    fn misfit(&self, machine: &Machine, networks: &BTreeMap<Uuid, Network>) -> Option<String> {
        let package = &machine.package;
        if !package.is_empty() && *package != self.package {
            return Some(format!(
                "its package is {package}, and not {}",
                self.package
            ));
        }
        let image = machine.image.filter(|it| !self.images.contains(it));
        if let Some(image) = image {
            return Some(format!("its image is {image}, and not {}", self.image));
        }
        let nics = machine.nics.as_deref().unwrap_or_default();
        let misplaced = !nics.is_empty() && !self.is_wired(nics, networks);
        misplaced.then(|| "it is on other networks, or has another address".to_owned())
    }

    /// Whether cards are on the wanted networks, each on one.
    fn is_wired(&self, nics: &[Nic], networks: &BTreeMap<Uuid, Network>) -> bool {
        let mut left: Vec<&Nic> = nics.iter().collect();
        for wire in &self.wires {
            let fits = |nic: &&Nic| wire.is_of(nic, networks);
            let Some(at) = left.iter().position(fits) else {
                return false;
            };
            left.remove(at);
        }
        left.is_empty()
    }

    /// Whether that machine has the one address that only one can have.
    pub(crate) fn has_the_address(&self, machine: &Machine) -> bool {
        let wanted: Vec<IpAddr> = self
            .wires
            .iter()
            .filter_map(|it| it.address.map(IpAddr::V4))
            .collect();
        let nics = machine.nics.iter().flatten();
        let mut addresses = nics.filter_map(Nic::address);
        addresses.any(|it| wanted.contains(&it))
    }
}

impl Wire {
    /// Whether a card is on this network. One on a network that no list shows is on a network of
    /// some pool.
    fn is_of(&self, nic: &Nic, networks: &BTreeMap<Uuid, Network>) -> bool {
        let is_unlisted = nic.network.is_none_or(|it| !networks.contains_key(&it));
        let here = nic.network == Some(self.network)
            || (is_unlisted && is_public(nic, networks) == self.public);
        let addressed = self
            .address
            .is_none_or(|it| nic.address() == Some(IpAddr::V4(it)));
        here && addressed
    }
}

/// Where a machine is reached: from outside, or inside.
pub(crate) fn address(
    machine: &Machine,
    public: bool,
    networks: &BTreeMap<Uuid, Network>,
) -> Option<IpAddr> {
    let nics = machine.nics.iter().flatten();
    let mut nics = nics.filter(|nic| is_public(nic, networks) == public);
    nics.find_map(Nic::address)
}

pub(crate) fn runs(machine: &Machine) -> bool {
    machine.state == MachineState::Running
}
