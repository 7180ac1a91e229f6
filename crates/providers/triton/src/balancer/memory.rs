//! What is remembered between two plans: since when something has been so. Nothing of it has to survive
//! a restart; at worst something is waited for once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{Node, Ready, Service};
use tokio::time::Instant;
use uuid::Uuid;

/// Machines whose names are remembered; beyond, the memory begins anew. A few are asked for each
/// Service, mostly the same ones.
const MOST_NAMES: usize = 1024;

/// Since when.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By the uid of the node.
    not_ready: BTreeMap<String, Instant>,
    /// By the uid of the Service.
    without_endpoints: BTreeMap<String, Instant>,
    /// The name that is waited for, by the uid of the Service.
    awaited: BTreeMap<String, (String, Instant)>,
    /// The DNS names of a machine and when they were asked for.
    names: BTreeMap<Uuid, (Arc<Vec<String>>, Instant)>,
    /// Machines whose tags do not change, with their names.
    pending: BTreeMap<Uuid, String>,
    /// What was last told about nodes, by reason: the uids of the nodes.
    told: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
            *name = hostname.to_owned();
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

    /// The Service's name is there.
    pub(crate) fn arrived(&self, uid: &str) {
        self.lock().awaited.remove(uid);
    }

    /// The DNS names of a machine, if they were asked for lately.
    pub(crate) fn names(&self, machine: Uuid, age: Duration) -> Option<Arc<Vec<String>>> {
        let inner = self.lock();
        let (names, asked) = inner.names.get(&machine)?;
        (asked.elapsed() < age).then(|| Arc::clone(names))
    }

    /// A machine has these DNS names.
    pub(crate) fn note_names(&self, machine: Uuid, names: Arc<Vec<String>>) {
        let inner = &mut self.lock().names;
        if inner.len() >= MOST_NAMES {
            inner.clear();
        }
        inner.insert(machine, (names, Instant::now()));
    }

    /// What was written to a machine does not show. Says whether that is news.
    pub(crate) fn note_pending(&self, machine: Uuid, name: &str) -> bool {
        let pending = &mut self.lock().pending;
        pending.insert(machine, name.to_owned()).is_none()
    }

    /// What was written to a machine shows.
    pub(crate) fn note_written(&self, machine: Uuid) {
        self.lock().pending.remove(&machine);
    }

    /// Those of these machines whose tags do not change, with their names.
    pub(crate) fn pending(&self, machines: impl Fn(Uuid) -> bool) -> BTreeMap<Uuid, String> {
        let inner = self.lock();
        let pending = inner.pending.iter().filter(|(id, _)| machines(**id));
        pending.map(|(id, name)| (*id, name.clone())).collect()
    }

    /// It is so with these nodes, and no others. Says with which of them that is news.
    pub(crate) fn news(&self, reason: &'static str, nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
        let uids = nodes.iter().map(|node| node.uid.clone()).collect();
        let told = self.lock().told.insert(reason, uids).unwrap_or_default();
        let fresh = nodes.iter().filter(|node| !told.contains(&node.uid));
        fresh.cloned().collect()
    }

    /// These are all Services.
    pub(crate) fn forget_others(&self, all: &[Arc<Service>]) {
        let uids: BTreeSet<&str> = all.iter().map(|it| it.uid.as_str()).collect();
        let mut inner = self.lock();
        inner.awaited.retain(|uid, _| uids.contains(uid.as_str()));
        let since = &mut inner.without_endpoints;
        since.retain(|uid, _| uids.contains(uid.as_str()));
    }
}
