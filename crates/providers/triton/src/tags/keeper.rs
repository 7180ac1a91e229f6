//! What everybody wants on each machine.
//!
//! Nothing goes on in the background: a write is made, and looked after, only by who calls
//! [`TagReconciler::settle`] or [`TagReconciler::settle_all`] and waits for it. So whoever may not write (any more)
//! does not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;
use uuid::Uuid;

use super::arithmetic::{Role, Wanted, has_any, holds, holds_groups};
use super::grammar::Bad;
use super::machine::Machine;
use super::{Ports, Tags};
use crate::site::DataCenter;

/// What came of bringing a machine to what is wanted on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Done,
    Working {
        after: Duration,
    },
    /// The machine cannot be written: what was written has not shown for a minute. It is tried again
    /// once a minute, by who asks then; nobody should wait for it.
    Pending {
        since: Instant,
    },
    /// The server does not take it, for the reason it gives.
    Refused(String),
    /// A list on the machine cannot be understood; it is left alone.
    Bad(Bad),
    /// The machine is marked as another cluster's; nothing was written.
    OtherCluster(String),
    /// The machine is destroyed; there is nothing to clean.
    Gone,
}

/// What somebody asks about. All that is wanted on a machine travels in one write; this says which of
/// it the answer is about, and what is tried alone if the server refuses the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    Label(&'a str),
    Groups,
    Machine,
}

#[derive(Debug)]
pub struct TagReconciler {
    pub(super) site: Arc<DataCenter>,
    pub(super) repairs: Counter,
    /// As many as the cluster has, and a few that have left it.
    machines: Mutex<BTreeMap<Uuid, Machine>>,
}

/// Telling what is wanted.
impl TagReconciler {
    /// Nothing is wanted yet. `repairs` counts what others took away and we put back.
    pub fn new(site: Arc<DataCenter>, repairs: Counter) -> Self {
        Self {
            site,
            repairs,
            machines: Mutex::default(),
        }
    }

    pub fn site(&self) -> &Arc<DataCenter> {
        &self.site
    }

    /// A label is wanted on a machine with those ports, or, with none, not at all. Labels that nobody
    /// has told anything about stay as they are.
    pub fn tell(&self, machine: Uuid, label: &str, ports: Option<Ports>) {
        let label = label.to_ascii_lowercase();
        let ports = ports.filter(|ports| !ports.is_empty());
        self.with(machine, |it| {
            if ports.is_some() {
                // Who is wanted again has not left.
                it.wanted.released = false;
            }
            if it.wanted.labels.get(&label) == Some(&ports) {
                return;
            }
            it.refused.remove(&label);
            it.open.insert(label.clone());
            it.wanted.labels.insert(label, ports);
        });
    }

    /// These are all the groups of ours that a machine is to be in.
    pub fn tell_groups(&self, machine: Uuid, role: Role, groups: BTreeSet<String>) {
        self.with(machine, |it| {
            it.wanted.role = role;
            if !groups.is_empty() {
                it.wanted.released = false;
            }
            if it.wanted.groups.as_ref() == Some(&groups) {
                return;
            }
            it.refused_groups = None;
            it.open_groups = true;
            it.wanted.groups = Some(groups);
        });
    }

    /// A machine that is marked as another cluster's is to be taken over, with the next write and only
    /// then.
    pub fn take_over(&self, machine: Uuid) {
        self.with(machine, |it| it.wanted.take_over = true);
    }

    /// A machine has left the cluster: everything of ours goes from it, at last its mark.
    pub fn release(&self, machine: Uuid) {
        self.with(machine, |it| {
            it.wanted = Wanted {
                released: true,
                role: it.wanted.role,
                ..Wanted::default()
            };
            it.open.clear();
            it.open_groups = false;
            it.seen.clear();
            it.seen_groups = None;
        });
    }

    /// Whether these tags of a machine, as a list showed them, are what is wanted of a label, so that
    /// nothing has to be done about it. Writes nothing; what it saw in place it knows as such.
    pub fn shows(
        &self,
        cluster: &str,
        (machine, tags): (Uuid, &Tags),
        label: &str,
        ports: Option<&Ports>,
    ) -> bool {
        let ports = ports.filter(|ports| !ports.is_empty());
        let there = holds(tags, cluster, label, ports);
        let mut machines = self.lock();
        if let Some(known) = machines.get(&machine) {
            // What was told meanwhile, or is on its way, the list does not show yet.
            let told = known.wanted.labels.get(label);
            let other = told.is_some_and(|told| told.as_ref() != ports);
            if other || known.open.contains(label) || (known.wanted.released && ports.is_some()) {
                return false;
            }
            // Somebody has written back what was ours.
            if ports.is_none() && has_any(tags, label, &known.former()) {
                return false;
            }
        }
        if let Some(ports) = ports.filter(|_| there) {
            let seen = &mut machines.entry(machine).or_default().seen;
            seen.insert(label.to_owned(), ports.clone());
        }
        there
    }

    /// Whether somebody has told that a label is wanted on a machine.
    pub fn wants(&self, machine: Uuid, label: &str) -> bool {
        let machines = self.lock();
        let told = machines.get(&machine).map(|it| &it.wanted.labels);
        told.is_some_and(|told| matches!(told.get(label), Some(Some(_))))
    }

    /// Whether a write that is on its way to a machine carries what is wanted by now of that.
    pub fn is_on_its_way(&self, machine: Uuid, about: About<'_>) -> bool {
        let machines = self.lock();
        let Some(known) = machines.get(&machine) else {
            return false;
        };
        // Whoever is at work there may be writing what was wanted before.
        let work = known.work.try_lock();
        let flight = work.as_ref().ok().and_then(|work| work.flight.as_ref());
        flight.is_some_and(|flight| flight.carries(&known.wanted.only(about), about))
    }

    pub fn shows_groups(&self, (machine, tags): (Uuid, &Tags), groups: &BTreeSet<String>) -> bool {
        let there = holds_groups(tags, groups);
        let mut machines = self.lock();
        if let Some(known) = machines.get(&machine) {
            let told = known.wanted.groups.as_ref();
            if known.open_groups || told.is_some_and(|told| told != groups) {
                return false;
            }
        }
        if there && !groups.is_empty() {
            machines.entry(machine).or_default().seen_groups = Some(groups.clone());
        }
        there
    }

    /// Machines that are not known to be as they are wanted, so that somebody should see to them:
    /// told and not brought there yet, on their way, unwritable, not clean after they left, or cleaned so
    /// lately that somebody may write back what he had read before.
    pub fn unsettled(&self) -> BTreeSet<Uuid> {
        let machines = self.lock();
        let open = machines.iter().filter(|(_, it)| {
            it.busy
                || it.wanted.released
                || !it.former().is_empty()
                || (it.open_groups && it.refused_groups.is_none())
                || it.open.iter().any(|label| !it.refused.contains_key(label))
        });
        open.map(|(id, _)| *id).collect()
    }

    pub(super) fn with<T>(&self, machine: Uuid, work: impl FnOnce(&mut Machine) -> T) -> T {
        let mut machines = self.lock();
        let machine = machines.entry(machine).or_default();
        // Who is told something about a machine asks for it anew.
        machine.gone = false;
        work(machine)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Machine>> {
        crate::lock(&self.machines)
    }
}
