//! Account proofs of all clouds: whether their credentials see the account of the cluster. The whole
//! process shares them.
//!
//! ```text
//!  batcher (found by id) ─┐                      ┌─▶ life cycle: may a machine be gone?
//!  service (drafts) ──────┼─▶ AccountProof ──────┼─▶ nodes: may this one be initialised?
//!  watch (looks, lease) ─┘   (core, one a set)  ├─▶ services, routes, orphans
//!                                                └─▶ events, /readyz, bowline_account_state
//! ```
//!
//! A proof belongs to a set of credentials with endpoint, zone and project ([`Cloud::account`]), and not to a cloud object
//! or its name: it outlasts reloads and renames that leave the set as it is.

mod account_watch;
mod fingerprint;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{
    AccountProof, AccountState, Claim, Cloud, CloudName, FoundBy, Known, Lookup, Node, Service,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

pub(crate) use account_watch::{AccountWatch, AccountWatchParts};
pub use fingerprint::{AccountKey, AccountNote};

use crate::kube::election::LeaseNotes;

/// Sets that are remembered. Credentials change a few times a year; beyond this the oldest by key are forgotten, and
/// have to be proven again.
const SETS: usize = 64;
/// How long anybody waits for the first look: as long as a flight may take.
const FIRST_LOOK: Duration = Duration::from_secs(120);

/// For how long the word of witnesses counts: a Service that waits for it is looked at again after a second.
const WITNESSED_FOR: Duration = Duration::from_secs(10);

/// What accounts were called that are not configured any more, and the provider of each.
pub(crate) type Departed = Vec<(CloudName, String)>;

/// What is known of all accounts. Clones share it.
#[derive(Clone, Default)]
pub struct Accounts(Arc<Shared>);

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    /// Counts changes of any account's state.
    changes: watch::Sender<u64>,
    notes: LeaseNotes,
}

#[derive(Default)]
struct Inner {
    proofs: BTreeMap<AccountKey, AccountProof>,
    /// When each was last asked for its witnesses, and since when somebody waits for that.
    witnessed: BTreeMap<AccountKey, Instant>,
    doubted: BTreeMap<AccountKey, Instant>,
    /// What the metric shows.
    shown: BTreeMap<CloudName, AccountState>,
}

impl Accounts {
    /// Where fingerprints are kept.
    pub fn notes(&self) -> LeaseNotes {
        self.0.notes.clone()
    }

    /// Whether the credentials that a cloud uses now see the cluster's account; always, if it has none.
    pub fn state(&self, cloud: &Arc<dyn Cloud>) -> AccountState {
        let key = AccountKey::of(cloud);
        key.map_or(AccountState::Proven, |key| {
            self.with(key, |proof| proof.state())
        })
    }

    /// Whether another account than the one in use was proven last.
    pub fn is_other(&self, cloud: &Arc<dyn Cloud>) -> bool {
        let last = self.last_proven(cloud.name());
        let key = AccountKey::of(cloud);
        let differs = |(last, key): (AccountNote, AccountKey)| !key.is_like(&last.fingerprint);
        last.zip(key).is_some_and(differs)
    }

    /// The account of that cloud that was proven last, by whichever process.
    fn last_proven(&self, cloud: &CloudName) -> Option<AccountNote> {
        let note = self.0.notes.get(cloud.as_str());
        note.map(|it| AccountNote::read(&it))
    }

    /// The accounts that were proven once, by whichever process, and are not of these clouds. Nodes may still be theirs.
    pub(crate) fn departed(&self, clouds: &[Arc<dyn Cloud>]) -> Departed {
        let keys: Vec<AccountKey> = clouds.iter().filter_map(AccountKey::of).collect();
        let is_configured = |name: &CloudName, note: &AccountNote| {
            let is_known = |it: &AccountKey| it.is_like(&note.fingerprint);
            clouds.iter().any(|it| it.name() == name) || keys.iter().any(is_known)
        };
        let notes = self.0.notes.all().into_iter();
        let notes = notes.filter_map(|(name, note)| {
            let (name, note) = (CloudName::parse(&name).ok()?, AccountNote::read(&note));
            let is_departed = !is_configured(&name, &note);
            is_departed.then_some((name, note.provider?))
        });
        notes.collect()
    }

    /// Accounts of these clouds that were proven under another name, which is not configured any more: that name, and the
    /// one of today.
    pub(crate) fn renamed(&self, clouds: &[Arc<dyn Cloud>]) -> BTreeMap<CloudName, CloudName> {
        let all = clouds.iter().flat_map(|cloud| {
            let key = AccountKey::of(cloud).into_iter();
            let names = key.flat_map(|key| self.former_names(key, clouds));
            names.filter_map(|name| Some((CloudName::parse(&name).ok()?, cloud.name().clone())))
        });
        all.collect()
    }

    /// Under which names that account is noted that are not those of these clouds.
    fn former_names(&self, key: AccountKey, clouds: &[Arc<dyn Cloud>]) -> Vec<String> {
        let notes = self.0.notes.all().into_iter();
        let notes = notes.filter(|(name, note)| {
            let is_configured = clouds.iter().any(|it| it.name().as_str() == name);
            !is_configured && key.is_like(&AccountNote::read(note).fingerprint)
        });
        notes.map(|(name, _)| name).collect()
    }

    /// A cloud answered about the machines of nodes, with the credentials of `key` before and after.
    pub(crate) fn saw(
        &self,
        cloud: &Arc<dyn Cloud>,
        key: Option<AccountKey>,
        nodes: &[Arc<Node>],
        answers: &[Lookup],
    ) {
        let Some(key) = key.filter(|key| AccountKey::of(cloud) == Some(*key)) else {
            return;
        };
        if self.with(key, |proof| proof.proven_by().is_some()) {
            return;
        }
        for (node, answer) in nodes.iter().zip(answers) {
            if let (Lookup::Found(_), Some(id)) = (answer, its_id(cloud, node)) {
                self.with(key, |proof| proof.found(id, FoundBy::Id));
            }
        }
    }

    /// This process is about to give a node that id, by what the cloud says.
    pub(crate) fn gives(&self, cloud: &Arc<dyn Cloud>, id: &str) {
        if let Some(key) = AccountKey::of(cloud) {
            self.with(key, |proof| proof.gives(id));
        }
    }

    /// Takes note of a look at a Service's load balancer; gives what became of the account, and whether it may be
    /// contradicted any moment.
    pub(crate) fn saw_balancer(
        &self,
        cloud: &Arc<dyn Cloud>,
        key: Option<AccountKey>,
        seen: &BalancerLook<'_>,
    ) -> (AccountState, bool) {
        let Some(now) = AccountKey::of(cloud) else {
            return (AccountState::Proven, false);
        };
        self.with(now, |proof| {
            if proof.proven_by().is_none() && key == Some(now) {
                proof.balancer(seen.service, seen.known, seen.is_certain, seen.remembering);
            }
            let settling = proof.is_settling() || !proof.has_looked_for_any(seen.remembering);
            (proof.state(), settling)
        })
    }

    /// Something waits for the account to be proven.
    pub(crate) fn want(&self, cloud: &Arc<dyn Cloud>) {
        if let Some(key) = AccountKey::of(cloud) {
            self.with(key, AccountProof::want);
        }
    }

    /// Waits until somebody has looked at the account, and says what it is then.
    pub(crate) async fn first_look(&self, cloud: &Arc<dyn Cloud>) -> AccountState {
        let settled = || {
            let key = AccountKey::of(cloud);
            key.is_none_or(|key| !self.with(key, |proof| proof.is_settling()))
        };
        let mut changes = self.changes();
        let looked = async { changes.wait_for(|_| settled()).await.is_ok() };
        let _ = timeout(FIRST_LOOK, looked).await;
        self.state(cloud)
    }

    /// Whether what a proven account does not have may be believed: it was asked for its witnesses a moment ago. If not,
    /// it will be within seconds, and since when that is waited for is the answer.
    pub(crate) fn doubt(&self, cloud: &Arc<dyn Cloud>) -> Option<Duration> {
        let key = AccountKey::of(cloud)?;
        let mut inner = self.lock();
        let last = inner.witnessed.get(&key);
        if last.is_some_and(|at| at.elapsed() < WITNESSED_FOR) {
            return None;
        }
        let since = inner.doubted.entry(key).or_insert_with(Instant::now);
        Some(since.elapsed())
    }

    fn is_doubted(&self, key: AccountKey) -> bool {
        self.lock().doubted.contains_key(&key)
    }

    fn note_witnessed(&self, key: AccountKey) {
        let mut inner = self.lock();
        inner.witnessed.insert(key, Instant::now());
        inner.doubted.remove(&key);
    }

    /// Tells of changes of any account's state.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// How each cloud's account stands, for the metric.
    pub(crate) fn shown(&self) -> BTreeMap<CloudName, AccountState> {
        self.lock().shown.clone()
    }

    fn show(&self, cloud: &CloudName, state: AccountState) {
        self.lock().shown.insert(cloud.clone(), state);
    }

    fn hide(&self, cloud: &CloudName) {
        self.lock().shown.remove(cloud);
    }

    fn with<T>(&self, key: AccountKey, work: impl FnOnce(&mut AccountProof) -> T) -> T {
        let (done, changed) = {
            let mut inner = self.lock();
            if inner.proofs.len() >= SETS
                && !inner.proofs.contains_key(&key)
                && let Some((key, _)) = inner.proofs.pop_first()
            {
                inner.witnessed.remove(&key);
                inner.doubted.remove(&key);
            }
            let proof = inner.proofs.entry(key).or_default();
            let before = (proof.state(), proof.is_settling());
            let done = work(proof);
            (done, (proof.state(), proof.is_settling()) != before)
        };
        if changed {
            self.0.changes.send_modify(|count| *count += 1);
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// A look at the load balancer of a Service.
pub(crate) struct BalancerLook<'a> {
    pub(crate) service: &'a Service,
    /// Whether it was found.
    pub(crate) known: Known,
    /// Whether it has the Service's uid in mark or name.
    pub(crate) is_certain: bool,
    /// The uids of all Services that had one in this cloud.
    pub(crate) remembering: &'a BTreeSet<String>,
}

/// The id of a node's machine, if it is one of that cloud's and its machine is asked for by it.
fn its_id<'a>(cloud: &Arc<dyn Cloud>, node: &'a Node) -> Option<&'a str> {
    let id = node.provider_id.as_deref()?;
    let instances = cloud.instances()?;
    let is_asked_for = cloud.match_node(node).claim == Claim::Mine && !instances.is_declared(node);
    is_asked_for.then_some(id)
}

#[cfg(test)]
mod tests;
