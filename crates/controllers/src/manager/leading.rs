//! The leases of the manager: its own, those it holds for others, and that of a migration.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::{Manager, ManagerError};
use crate::kube::clients::{LEADER_ELECTION, LEADER_EVENTS};
use crate::kube::election::{
    Elector, Fence, HeldSet, Interrupted, LeaseCandidate, LeaseName, LeaseNotes, LeaseSet, Lost,
    Migration, Observer, Timing, Wait, hostname, identity,
};
use crate::kube::events::{Recorder, lease_reference};
use crate::metrics::Metrics;
use crate::report::{Fact, Reported};
use crate::serving::{Health, Readiness};
use tokio_util::sync::CancellationToken;

/// How long giving leases back may take, all together: one write each, which takes milliseconds. After that they run
/// out by themselves.
const RELEASE_LIMIT: Duration = Duration::from_secs(3);
/// How long events about it may take after that.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);
/// How often people are reminded of whom we wait for: events are forgotten after an hour.
const REMINDER: Duration = Duration::from_secs(10 * 60);
/// The condition of `/readyz` about leases that are held besides.
const HELD_LEASES: &str = "held-leases";

/// Leases to compete for.
pub(super) struct Term {
    pub(super) leases: LeaseSet,
    /// About winning them and giving them back.
    events: Recorder,
    /// How long work under them may go on after the signal to stop.
    grace: Duration,
}

impl Manager {
    /// The term of the manager's own lease, and of those that it holds besides.
    pub(super) fn main_term(&self, health: &Health, grace: Duration) -> Term {
        let election = &self.options().election;
        let held = election.held_leases();
        let term = self.candidacy();
        let notes = self.metrics.accounts.notes();
        let first = term.elector(self, election.lease(), Arc::new(term.announcer()), notes);
        let others = if held.is_empty() {
            Vec::new()
        } else {
            let readiness = health.add_readiness(HELD_LEASES);
            // A standby waits for nobody but its own kind.
            readiness.ready();
            let holder = Arc::new(Holder {
                announcer: term.announcer(),
                identity: term.identity.clone(),
                readiness,
                reported: Reported::new(1),
            });
            let notes = LeaseNotes::default;
            let elector = |lease| term.elector(self, lease, holder.clone(), notes());
            held.into_iter().map(elector).collect()
        };
        Term {
            leases: LeaseSet::new(first, others),
            events: term.events,
            grace,
        }
    }

    /// The term of controllers that move between controller managers.
    pub(super) fn second_term(&self, migration: &Migration, grace: Duration) -> Term {
        let term = self.candidacy();
        let lease = self.second_lease(migration);
        let notes = LeaseNotes::default();
        let elector = term.elector(self, lease, Arc::new(term.announcer()), notes);
        Term {
            leases: LeaseSet::new(elector, Vec::new()),
            events: term.events,
            grace,
        }
    }

    pub(super) fn second_lease(&self, migration: &Migration) -> LeaseName {
        LeaseName {
            name: migration.leader_name.clone(),
            ..self.options().election.lease()
        }
    }

    fn candidacy(&self) -> Candidacy {
        Candidacy {
            identity: identity(&hostname(), &self.random),
            events: Recorder::new(
                self.clients.root(LEADER_EVENTS),
                "cloud-controller-manager",
                &self.event_context(),
            ),
            metrics: self.metrics.clone(),
            restored: self.clients.restored(),
            namespace: self.options().election.resource_namespace.clone(),
        }
    }

    /// Competes for leases, works while all are held, and gives them back.
    pub(super) async fn lead<W>(
        &self,
        term: Term,
        stop: &CancellationToken,
        work: W,
    ) -> Result<(), ManagerError>
    where
        W: AsyncFnOnce(Fence, CancellationToken) -> Result<(), ManagerError>,
    {
        let Term {
            leases,
            events,
            grace,
        } = term;
        let mut held = match Box::pin(leases.acquire(stop)).await {
            Ok(held) => held,
            Err(Interrupted::Stopped(held)) => {
                give_back(held, &events).await;
                return Ok(());
            }
            Err(Interrupted::Lost(lost)) => return Err(lose(lost, &events)),
        };
        let working = CancellationToken::new();
        let work_ends = working.clone().drop_guard();
        let mut abandoned = false;
        let ended = {
            let mut work = std::pin::pin!(work(held.fence(), working));
            let mut renewing = std::pin::pin!(held.renew());
            // Losing the lease comes first: then nothing further may be done.
            let early = tokio::select! {
                biased;
                lost = &mut renewing => Some(Err(lost.into())),
                () = stop.cancelled() => None,
                ended = &mut work => Some(ended),
            };
            if let Some(ended) = early {
                ended
            } else {
                drop(work_ends);
                tokio::select! {
                    biased;
                    lost = &mut renewing => Err(lost.into()),
                    finished = timeout(grace, &mut work) => finished.unwrap_or_else(|_| {
                        abandoned = true;
                        Ok(())
                    }),
                }
            }
        };
        if let Err(ManagerError::Lost(lost)) = ended {
            return Err(lose(lost, &events));
        }
        if abandoned {
            // A call that is under way may yet do its work: no other leader is to start before.
            warn!(
                ?grace,
                "work under way was abandoned; the lease runs out by itself"
            );
            events.flush(FAREWELL_LIMIT).await;
            return ended;
        }
        give_back(held, &events).await;
        ended
    }
}

/// Nothing more is written, not even events, and no lease is given back: a call that is under way may yet do its work.
fn lose(lost: Lost, events: &Recorder) -> ManagerError {
    error!(%lost, "leadership is lost; stopping at once");
    events.abandon();
    lost.into()
}

async fn give_back(held: HeldSet, events: &Recorder) {
    if held.is_empty() {
        return;
    }
    match timeout(RELEASE_LIMIT, held.release()).await {
        Ok(Ok(())) => info!("lease released"),
        Ok(Err(error)) => warn!(%error, "the lease was not released; it runs out by itself"),
        Err(_) => warn!("the lease was not released in time; it runs out by itself"),
    }
    events.flush(FAREWELL_LIMIT).await;
}

/// What the candidates of one term have in common: one process is one holder of all.
struct Candidacy {
    identity: String,
    events: Recorder,
    metrics: Arc<Metrics>,
    restored: Arc<Notify>,
    /// Of the manager's own lease.
    namespace: String,
}

impl Candidacy {
    fn elector(
        &self,
        manager: &Manager,
        lease: LeaseName,
        observer: Arc<dyn Observer>,
        notes: LeaseNotes,
    ) -> Elector {
        Elector::new(LeaseCandidate {
            client: manager.clients.root(LEADER_ELECTION),
            lease,
            identity: self.identity.clone(),
            timing: Timing::from(&manager.options().election),
            clock: manager.clock.clone(),
            random: manager.random.clone(),
            observer,
            notes,
        })
    }

    fn announcer(&self) -> Announcer {
        Announcer {
            metrics: self.metrics.clone(),
            restored: self.restored.clone(),
            events: self.events.clone(),
            namespace: self.namespace.clone(),
        }
    }
}

/// Reports who leads, in metrics and events.
struct Announcer {
    metrics: Arc<Metrics>,
    /// Wakes the stores.
    restored: Arc<Notify>,
    events: Recorder,
    namespace: String,
}

impl Announcer {
    /// What metrics call a lease: its name, as in the originals, where that leaves no doubt.
    fn label(&self, lease: &LeaseName) -> String {
        if lease.namespace == self.namespace {
            lease.name.clone()
        } else {
            lease.to_string()
        }
    }
}

/// That very version of a lease.
fn reference(lease: &Lease) -> ObjectReference {
    let meta = &lease.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    ObjectReference {
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        ..lease_reference(namespace, meta.name.as_deref().unwrap_or_default())
    }
}

impl Observer for Announcer {
    fn leading(&self, lease: &LeaseName, leading: bool) {
        self.metrics.election.leading(&self.label(lease), leading);
    }

    fn slow_path(&self, lease: &LeaseName) {
        self.metrics.election.slow_renewal(&self.label(lease));
    }

    fn went_back(&self, lease: &LeaseName) {
        warn!(
            %lease,
            "the API server shows an earlier state of the lease: it was probably restored from a backup. Everything is \
             listed anew"
        );
        self.restored.notify_waiters();
    }

    fn event(&self, lease: &Lease, message: &str) {
        let fact = Fact::normal(reference(lease), "LeaderElection", message);
        self.events.emit(fact);
    }
}

/// The same for leases that are held besides. Their holders are other programs, which somebody has to end before this
/// one works: it reports for whom it waits.
struct Holder {
    announcer: Announcer,
    identity: String,
    readiness: Readiness,
    reported: Reported<()>,
}

impl Observer for Holder {
    fn leading(&self, lease: &LeaseName, leading: bool) {
        if leading {
            self.readiness.ready();
        }
        self.announcer.leading(lease, leading);
    }

    fn waiting(&self, lease: &LeaseName, seen: Option<&Lease>, wait: &Wait<'_>) {
        let what = format!("waiting for lease {lease} (--hold-leases): {wait}");
        if let Some(seen) = seen
            && self.reported.is_due((), &what, REMINDER)
        {
            let message = format!(
                "{} does nothing before it has this lease: {wait}",
                self.identity
            );
            let fact = Fact::warning(reference(seen), "WaitingForLease", message);
            self.announcer.events.emit(fact);
        }
        self.readiness.not_ready(what);
    }

    fn standing_by(&self, _: &LeaseName) {
        self.readiness.ready();
    }

    fn slow_path(&self, lease: &LeaseName) {
        self.announcer.slow_path(lease);
    }

    fn went_back(&self, lease: &LeaseName) {
        self.announcer.went_back(lease);
    }

    fn event(&self, lease: &Lease, message: &str) {
        self.announcer.event(lease, message);
    }
}
