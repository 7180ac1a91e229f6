//! State between two plans, mostly since when something has been so. It may be lost in a restart:
//! at worst a wait starts over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_core::{Node, Ready, Service};
use tokio::time::Instant;
use uuid::Uuid;

/// Bound of the machines with known names; the map is emptied when it is full. A few are asked for
/// each Service, mostly the same ones.
const MOST_NAMES: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct BalancerState(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    not_ready: BTreeMap<String, Instant>,
    /// By the uid of the Service.
    without_endpoints: BTreeMap<String, Instant>,
    /// The name that is waited for, by the uid of the Service.
    awaited: BTreeMap<String, (String, Instant)>,
    /// The DNS names of a machine and when they were asked for.
    names: BTreeMap<Uuid, (Arc<Vec<String>>, Instant)>,
    /// Machines whose tags do not change, with their names.
    pending: BTreeMap<Uuid, String>,
    /// Labels that Services of this process have put on nodes, by the uid of the Service.
    labels: BTreeMap<String, BTreeSet<String>>,
    /// The labels that Services wanted or showed when all of them were last understood.
    wanted: Option<BTreeSet<String>>,
    /// The uids of the nodes that the last events were about, by reason.
    reported: BTreeMap<&'static str, BTreeSet<String>>,
}

impl BalancerState {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        crate::lock(&self.0)
    }

    /// For how long these nodes, which are all, have been seen not to be Ready, by name.
    pub(crate) fn not_ready(&self, nodes: &[Arc<Node>]) -> BTreeMap<String, Duration> {
        let away = nodes.iter().filter(|node| node.ready != Ready::True);
        let away: BTreeMap<&str, &str> = away
            .map(|node| (node.uid.as_str(), node.name.as_str()))
            .collect();
        let since = &mut self.lock().not_ready;
        since.retain(|uid, _| away.contains_key(uid.as_str()));
        let lasting = |(uid, name): (&str, &str)| {
            let since = since.entry(uid.to_owned()).or_insert_with(Instant::now);
            (name.to_owned(), since.elapsed())
        };
        away.into_iter().map(lasting).collect()
    }

    /// For how long no node has had an endpoint of that Service, if so it is.
    pub(crate) fn without_endpoints(&self, service: &Service, lacks: bool) -> Duration {
        let since = &mut self.lock().without_endpoints;
        if !lacks {
            since.remove(&service.uid);
            return Duration::ZERO;
        }
        let since = since.entry(service.uid.clone());
        since.or_insert_with(Instant::now).elapsed()
    }

    /// For how long that name of the Service has been waited for.
    pub(crate) fn awaiting(&self, uid: &str, hostname: &str) -> Duration {
        let mut inner = self.lock();
        let awaited = inner.awaited.entry(uid.to_owned());
        let (name, since) = awaited.or_insert_with(|| (hostname.to_owned(), Instant::now()));
        if name != hostname {
            hostname.clone_into(name);
            *since = Instant::now();
        }
        since.elapsed()
    }

    /// For how long that name of the Service has been waited for; none if nobody waits.
    pub(crate) fn awaited(&self, uid: &str, hostname: &str) -> Option<Duration> {
        let inner = self.lock();
        let (name, since) = inner.awaited.get(uid)?;
        (name == hostname).then(|| since.elapsed())
    }

    pub(crate) fn arrived(&self, uid: &str) {
        self.lock().awaited.remove(uid);
    }

    /// The DNS names of a machine, if they were asked for lately.
    pub(crate) fn names(&self, machine: Uuid, age: Duration) -> Option<Arc<Vec<String>>> {
        let inner = self.lock();
        let (names, asked) = inner.names.get(&machine)?;
        (asked.elapsed() < age).then(|| Arc::clone(names))
    }

    pub(crate) fn note_names(&self, machine: Uuid, names: Arc<Vec<String>>) {
        let inner = &mut self.lock().names;
        if inner.len() >= MOST_NAMES {
            inner.clear();
        }
        inner.insert(machine, (names, Instant::now()));
    }

    /// A write to a machine does not show. Returns whether that is new.
    pub(crate) fn note_pending(&self, machine: Uuid, name: &str) -> bool {
        let pending = &mut self.lock().pending;
        pending.insert(machine, name.to_owned()).is_none()
    }

    pub(crate) fn note_written(&self, machine: Uuid) {
        self.lock().pending.remove(&machine);
    }

    /// Those of these machines whose tags do not change, with their names.
    pub(crate) fn pending(&self, machines: impl Fn(Uuid) -> bool) -> BTreeMap<Uuid, String> {
        let inner = self.lock();
        let pending = inner.pending.iter().filter(|(id, _)| machines(**id));
        pending.map(|(id, name)| (*id, name.clone())).collect()
    }

    pub(crate) fn holds(&self, uid: &str, label: &str) {
        let mut inner = self.lock();
        let labels = inner.labels.entry(uid.to_owned()).or_default();
        labels.insert(label.to_owned());
    }

    pub(crate) fn holds_nothing(&self, uid: &str) {
        self.lock().labels.remove(uid);
    }

    /// These labels on nodes belong to some Service; none: unknown.
    pub(crate) fn note_wanted(&self, wanted: Option<BTreeSet<String>>) {
        self.lock().wanted = wanted;
    }

    pub(crate) fn is_unwanted(&self, label: &str) -> bool {
        let inner = self.lock();
        let wanted = inner.wanted.as_ref();
        let mut held = inner.labels.values();
        wanted.is_some_and(|it| !it.contains(label)) && !held.any(|it| it.contains(label))
    }

    /// Whether another Service has put that label on nodes: it may be too new to be among all that
    /// somebody knew when a plan was made.
    pub(crate) fn is_held_by_others(&self, uid: &str, label: &str) -> bool {
        let inner = self.lock();
        let mut others = inner.labels.iter().filter(|(its, _)| *its != uid);
        others.any(|(_, labels)| labels.contains(label))
    }

    /// The reason holds for these nodes and no others. Returns those that it did not hold for
    /// before.
    pub(crate) fn newly_affected(
        &self,
        reason: &'static str,
        nodes: &[Arc<Node>],
    ) -> Vec<Arc<Node>> {
        let uids = nodes.iter().map(|node| node.uid.clone()).collect();
        let reported = self
            .lock()
            .reported
            .insert(reason, uids)
            .unwrap_or_default();
        let fresh = nodes.iter().filter(|node| !reported.contains(&node.uid));
        fresh.cloned().collect()
    }

    pub(crate) fn forget_others(&self, all: &[Arc<Service>]) {
        let uids: BTreeSet<&str> = all.iter().map(|it| it.uid.as_str()).collect();
        let mut inner = self.lock();
        inner.awaited.retain(|uid, _| uids.contains(uid.as_str()));
        let since = &mut inner.without_endpoints;
        since.retain(|uid, _| uids.contains(uid.as_str()));
    }
}
