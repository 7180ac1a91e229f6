//! The wanted tags of each machine, gathered from all Services and from the metrics groups.
//!
//! Nothing runs in the background: only a caller of [`TagReconciler::reconcile`] or
//! [`TagReconciler::reconcile_all`], who waits for it, writes. So a process without the lease
//! writes nothing.

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
use crate::data_center::DataCenter;

/// The outcome of reconciling one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagOutcome {
    Done,
    Working {
        after: Duration,
    },
    /// The machine cannot be written: our write has not shown for a minute. The next call after
    /// another minute writes again; callers should not wait for it.
    Pending {
        since: Instant,
    },
    /// The server refuses it, with this reason.
    Refused(String),
    /// A list on the machine cannot be parsed; it stays untouched.
    Bad(Bad),
    /// The machine is marked as another cluster's; nothing was written.
    OtherCluster(String),
    /// The machine is destroyed; there is nothing to clean.
    Gone,
}

/// What a caller asks about. One write carries everything wanted on a machine; this selects the
/// part that the answer is about, and that is tried alone if the server refuses the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    Label(&'a str),
    Groups,
    Machine,
}

#[derive(Debug)]
pub struct TagReconciler {
    pub(super) data_center: Arc<DataCenter>,
    pub(super) repairs: Counter,
    /// As many as the cluster has, and a few that have left it.
    machines: Mutex<BTreeMap<Uuid, Machine>>,
}

impl TagReconciler {
    /// `repairs` counts what others took away and we restored.
    pub fn new(data_center: Arc<DataCenter>, repairs: Counter) -> Self {
        Self {
            data_center,
            repairs,
            machines: Mutex::default(),
        }
    }

    pub fn data_center(&self) -> &Arc<DataCenter> {
        &self.data_center
    }

    /// A label is wanted on a machine with those ports, or, with none, not at all. Labels that were
    /// never wanted here stay as they are.
    pub fn want(&self, machine: Uuid, label: &str, ports: Option<Ports>) {
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
    pub fn want_groups(&self, machine: Uuid, role: Role, groups: BTreeSet<String>) {
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

    /// A machine that is marked as another cluster's is to be taken over, with the next write and
    /// only then.
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

    /// Whether these tags of a machine, from a list, have a label as wanted, so that there is
    /// nothing to do. Writes nothing, but remembers a label that it saw in place.
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
            // The list may not show yet what is wanted since, or is in flight.
            let wanted = known.wanted.labels.get(label);
            let other = wanted.is_some_and(|wanted| wanted.as_ref() != ports);
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

    pub fn wants(&self, machine: Uuid, label: &str) -> bool {
        let machines = self.lock();
        let wanted = machines.get(&machine).map(|it| &it.wanted.labels);
        wanted.is_some_and(|wanted| matches!(wanted.get(label), Some(Some(_))))
    }

    /// Whether the write in flight to a machine carries what is wanted now of that.
    pub fn is_on_its_way(&self, machine: Uuid, about: About<'_>) -> bool {
        let machines = self.lock();
        let Some(known) = machines.get(&machine) else {
            return false;
        };
        // Whoever is at work there may be writing what was wanted before.
        let work = known.work.try_lock();
        let in_flight = work.as_ref().ok().and_then(|work| work.in_flight.as_ref());
        in_flight.is_some_and(|in_flight| in_flight.carries(&known.wanted.only(about), about))
    }

    pub fn shows_groups(&self, (machine, tags): (Uuid, &Tags), groups: &BTreeSet<String>) -> bool {
        let there = holds_groups(tags, groups);
        let mut machines = self.lock();
        if let Some(known) = machines.get(&machine) {
            let wanted = known.wanted.groups.as_ref();
            if known.open_groups || wanted.is_some_and(|wanted| wanted != groups) {
                return false;
            }
        }
        if there && !groups.is_empty() {
            machines.entry(machine).or_default().seen_groups = Some(groups.clone());
        }
        there
    }

    /// Machines that still need a look: not yet as wanted, with a write in flight, unwritable, not
    /// clean after they left, or cleaned so lately that another tool may write back what it had
    /// read before.
    pub fn unreconciled(&self) -> BTreeSet<Uuid> {
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
        machine.gone = false;
        work(machine)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Machine>> {
        crate::lock(&self.machines)
    }
}
