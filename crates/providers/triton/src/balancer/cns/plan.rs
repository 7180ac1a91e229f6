//! Compares the labels on machines with the wanted ones: one step for each machine. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{Change, Impact, Notice, ResourceRef, ResourceState};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::labels::Claims;
use crate::api::{Machine, TagValue};
use crate::balancer::steps::{self, MACHINE, there};
use crate::balancer::targets::{Nodes, carries, recorded};
use crate::machine_cache::Listing;
use crate::tags::{self, NODE, Ports, SERVICES, Tags, Wanted};

/// Writes that bring a machine from anything to anything: the list, its record and the mark, one
/// after the other, for both lists.
const MOST_WRITES: usize = 6;

/// A machine, and one label on it; without one, all of it.
pub(crate) type Question = (Uuid, Option<String>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) machine: Uuid,
    pub(crate) name: String,
    /// Labels with their ports; none: it is to go.
    pub(crate) labels: BTreeMap<String, Option<Ports>>,
    /// Those of them that no known Service wants any more.
    pub(crate) stale: BTreeSet<String>,
    pub(crate) take_over: bool,
    /// Whether it has left the cluster, and all of ours goes.
    pub(crate) release: bool,
}

impl Work {
    /// Whether something is put there; such steps come first.
    pub(crate) fn puts(&self) -> bool {
        self.labels.values().any(Option::is_some)
    }

    /// What the tag reconciler is asked about: each label, or the machine as a whole.
    pub(crate) fn questions(&self) -> Vec<Question> {
        if self.release {
            return vec![(self.machine, None)];
        }
        let labels = self.labels.keys().cloned();
        labels.map(|label| (self.machine, Some(label))).collect()
    }

    pub(crate) fn reason(&self) -> String {
        if self.release {
            return "the machine is no node of the cluster any more".to_owned();
        }
        let entry = |(label, ports): (&String, &Option<Ports>)| match ports {
            Some(ports) => format!(
                "DNS service {} is put there",
                entries(label, ports).join(" ")
            ),
            None => format!("DNS service {label} is taken away"),
        };
        let all: Vec<String> = self.labels.iter().map(entry).collect();
        all.join(", ")
    }
}

/// A label with its ports, as tags have them.
pub(crate) fn entries(label: &str, ports: &Ports) -> Vec<String> {
    let entry = |port: &Option<u16>| match port {
        Some(port) => format!("{label}:{port}"),
        None => label.to_owned(),
    };
    ports.iter().map(entry).collect()
}

pub(crate) struct CnsRequest<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) nodes: &'a Nodes,
    /// The labels that are this plan's business; on each, the ports of the machines that are to
    /// have it.
    pub(crate) labels: &'a BTreeMap<String, BTreeMap<Uuid, Ports>>,
    pub(crate) claims: &'a Claims,
    /// Whether a label without a known Service was put on a machine by one that is too new to be
    /// known.
    pub(crate) is_held: &'a dyn Fn(Uuid, &str) -> bool,
    pub(crate) left: &'a BTreeSet<Uuid>,
    /// Machines with a write in flight that the list does not show yet.
    pub(crate) unreconciled: &'a BTreeSet<Uuid>,
    /// Machines whose nodes may be among the unreadable ones: they keep what they have.
    pub(crate) unclear: &'a BTreeSet<Uuid>,
}

impl CnsRequest<'_> {
    /// The work, machine by machine, those that get a label first. `shows`: whether a machine has a
    /// label as wanted.
    pub(crate) fn works(
        &self,
        listing: &Listing,
        shows: impl Fn(&Machine, &str, Option<&Ports>) -> bool,
    ) -> Vec<Work> {
        let machines = listing.machines.values();
        let machines = machines.filter(|it| !it.state.is_over());
        let mut works: Vec<Work> = machines
            .filter_map(|machine| self.work(machine, &shows))
            .collect();
        works.sort_by_key(|work| !work.puts());
        works
    }

    fn work(
        &self,
        machine: &Machine,
        shows: &impl Fn(&Machine, &str, Option<&Ports>) -> bool,
    ) -> Option<Work> {
        let node = self.nodes.ours.get(&machine.id);
        let take_over = node.is_some_and(|it| it.take_over);
        let is_marked = machine.tags.get(NODE) == Some(&TagValue::from(self.cluster));
        if !is_marked && node.is_none() && !self.unreconciled.contains(&machine.id) {
            return None;
        }
        let mut work = Work {
            machine: machine.id,
            name: machine.name.clone(),
            labels: BTreeMap::new(),
            stale: BTreeSet::new(),
            take_over,
            release: self.left.contains(&machine.id),
        };
        if work.release {
            return Some(work);
        }
        for (label, targets) in self.labels {
            let ports = targets.get(&machine.id);
            if ports.is_none() && self.unclear.contains(&machine.id) {
                continue;
            }
            if !shows(machine, label, ports) {
                work.labels.insert(label.clone(), ports.cloned());
            }
        }
        if is_marked {
            let recorded = recorded(&machine.tags).into_iter();
            let stale = recorded.filter(|it| {
                let own = self.labels.contains_key(*it);
                !own && self.claims.is_stale(it) && !(self.is_held)(machine.id, it)
            });
            work.stale = stale.map(str::to_owned).collect();
            let gone = work.stale.iter().map(|it| (it.clone(), None));
            work.labels.extend(gone);
        }
        (!work.labels.is_empty()).then_some(work)
    }
}

/// The changes of a machine's tags; or that its list cannot be parsed.
pub(crate) fn preview(tags: &Tags, work: &Work, cluster: &str) -> Result<Vec<Change>, Notice> {
    let wanted = Wanted {
        labels: work.labels.clone(),
        released: work.release,
        take_over: work.take_over,
        ..Wanted::default()
    };
    let mut then = tags.clone();
    for _ in 0..MOST_WRITES {
        let Ok(change) = tags::change(&then, &wanted, cluster) else {
            break;
        };
        if let Some(bad) = change.bad.iter().find(|bad| bad.tag == SERVICES) {
            return Err(bad_tag(&work.name, &bad.problem));
        }
        if change.is_empty() {
            break;
        }
        then.extend(change.set);
        for key in change.delete {
            then.remove(key);
        }
    }
    let keys: BTreeSet<&String> = tags.keys().chain(then.keys()).collect();
    let changed = keys
        .into_iter()
        .filter(|key| tags.get(*key) != then.get(*key));
    Ok(changed
        .map(|key| steps::change(key, json!(tags.get(key)), json!(then.get(key))))
        .collect())
}

pub(crate) fn bad_tag(machine: &str, problem: &str) -> Notice {
    Notice {
        warning: true,
        reason: "BadCNSTag",
        message: format!(
            "machine {machine} is left out: its tag {SERVICES} {problem}, and what cannot be understood is \
             not replaced"
        ),
    }
}

/// What a step means for traffic. A name on no machine any more is destroyed.
pub(crate) fn impact(
    work: &Work,
    tags: &Tags,
    wanted: &BTreeMap<String, BTreeMap<Uuid, Ports>>,
) -> Impact {
    let ends = |(label, ports): (&String, &Option<Ports>)| {
        ports.is_none() && wanted.get(label).is_some_and(BTreeMap::is_empty)
    };
    if work.labels.iter().any(ends) {
        Impact::Interrupts
    } else if work.puts() && !work.labels.keys().any(|it| carries(tags, it)) {
        Impact::None
    } else {
        Impact::InPlace
    }
}

pub(crate) fn object(work: &Work) -> ResourceRef {
    there(MACHINE, &work.name, &work.machine)
}

pub(crate) fn found(
    listing: &Listing,
    cluster: &str,
    labels: &BTreeSet<&str>,
) -> Vec<ResourceState> {
    let ours = TagValue::from(cluster);
    let machines = listing.machines.values();
    let carrying = machines.filter(|it| {
        it.tags.get(NODE) == Some(&ours) && labels.iter().any(|label| carries(&it.tags, label))
    });
    carrying
        .map(|machine| {
            let items = steps::services(&machine.tags).into_iter();
            let items = items.filter(|it| labels.contains(it.name.as_str()));
            let texts = items.map(|it| it.text).collect();
            state_of(machine.id, &machine.name, texts)
        })
        .collect()
}

pub(crate) fn wanted(
    listing: &Listing,
    label: &str,
    targets: &BTreeMap<Uuid, Ports>,
) -> Vec<ResourceState> {
    targets
        .iter()
        .filter_map(|(id, ports)| {
            let machine = listing.machines.get(id)?;
            Some(state_of(*id, &machine.name, entries(label, ports)))
        })
        .collect()
}

fn state_of(id: Uuid, name: &str, mut entries: Vec<String>) -> ResourceState {
    entries.sort();
    let mut attributes = Map::new();
    attributes.insert("DNS services".to_owned(), Value::from(entries));
    ResourceState {
        object: there(MACHINE, name, &id),
        attributes,
    }
}
