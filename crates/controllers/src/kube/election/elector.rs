//! Runs the election against the API server: acquire, renew, release.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_http::{Clock, Random};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::fence::Fence;
use super::notes::LeaseNotes;
use super::record::{Act, Observation, Record, decide};
use super::terms::{ElectionError, LeaseName, Loss, Lost, Observer, Timing, Wait};
use crate::kube::store::version_number;

/// How far attempts to acquire are spread: standbys shall not all knock at the same moment.
const JITTER_FACTOR: f64 = 1.2;
/// Looks at the Lease while giving it back; each needs one GET and one PUT.
const RELEASE_TRIES: u32 = 2;
/// Retry periods beyond a lease duration that others are kept waiting for a further Lease: one that runs out is seen to
/// have done so at the next look, and the longest pause before it is a little more than two of them.
const PATIENCE_RETRIES: u32 = 3;

/// Who competes for which Lease, and how.
pub struct LeaseCandidate {
    /// Reaches the API server; with a rate limit of its own, so that no other work delays a renewal.
    pub client: Client,
    pub lease: LeaseName,
    /// Who we are, see [`identity`](super::identity).
    pub identity: String,
    /// The three durations.
    pub timing: Timing,
    /// The time of day.
    pub clock: Clock,
    /// For the jitter.
    pub random: Random,
    /// Hears what happens.
    pub observer: Arc<dyn Observer>,
    /// What the Lease carries besides.
    pub notes: LeaseNotes,
}

/// Competes for one Lease.
pub struct Elector {
    api: Api<Lease>,
    lease: LeaseName,
    identity: String,
    timing: Timing,
    clock: Clock,
    random: Random,
    observer: Arc<dyn Observer>,
    notes: LeaseNotes,
    fence: Fence,
    seen: Option<(Lease, Observation)>,
    leading: bool,
    /// Who is known to have ended: its claim counts no more, expired or not.
    ended: Option<String>,
    /// From whom the Lease was taken because it did not give it back.
    predecessor: Option<String>,
    kin: Kin,
    /// Whether it is the Lease that replicas compete for, and not one that is needed besides.
    own: bool,
}

/// Who holds the Lease that replicas compete for, once it was looked at: who holds a further Lease as well is one of them,
/// and no stranger that people would have to hear of.
#[derive(Clone, Default)]
pub(super) struct Kin(Arc<Mutex<Option<String>>>);

impl Kin {
    fn holder(&self) -> Option<String> {
        let holder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        holder.clone()
    }

    fn note(&self, holder: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(holder.to_owned());
    }
}

/// What one attempt found.
enum Attempt {
    Ours,
    HeldBy(String),
}

impl Elector {
    /// Registers the candidate; nothing is sent before [`acquire`](Self::acquire).
    pub fn new(candidate: LeaseCandidate) -> Self {
        let LeaseCandidate {
            client,
            lease,
            identity,
            timing,
            clock,
            random,
            observer,
            notes,
        } = candidate;
        observer.leading(&lease, false);
        let fence = Fence::closed(
            lease.to_string(),
            timing.renew_deadline,
            timing.lease_duration,
            clock.clone(),
        );
        Self {
            api: Api::namespaced(client, &lease.namespace),
            lease,
            identity,
            timing,
            clock,
            random,
            observer,
            notes,
            fence,
            seen: None,
            leading: false,
            ended: None,
            predecessor: None,
            kin: Kin::default(),
            own: true,
        }
    }

    /// The same, as one of several: those have the replicas' own Lease in common.
    #[must_use]
    pub(super) fn of(mut self, kin: &Kin, own: bool) -> Self {
        self.kin = kin.clone();
        self.own = own;
        self
    }

    /// Whether it is the Lease that replicas compete for.
    pub(super) fn is_own(&self) -> bool {
        self.own
    }

    /// How long others are kept waiting for this Lease.
    pub(super) fn patience(&self) -> Duration {
        self.timing.lease_duration + PATIENCE_RETRIES * self.timing.retry_period
    }

    /// The fence of this Lease: shut until it is held. Its health belongs into `/healthz`.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Where the Lease is.
    pub fn lease(&self) -> &LeaseName {
        &self.lease
    }

    /// Lets the claim of that identity count no more: whoever was called so is known to work no longer.
    pub(super) fn succeed(&mut self, ended: Option<String>) {
        self.ended = ended;
    }

    /// Only looks, for ever, so that the Lease of somebody who is gone runs out by our clock.
    pub(super) async fn follow(&mut self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::debug!(lease = %self.lease, "cannot look at it: {}", error.chain());
            }
            self.pause().await;
        }
    }

    /// Looks at the Lease, and reports for whom it waits if it is not to be had.
    pub(super) async fn is_free(&mut self) -> bool {
        if let Err(error) = self.look().await {
            let wait = Wait::Failing(error.chain());
            self.observer.waiting(&self.lease, None, &wait);
            return false;
        }
        let free = self.decide(Instant::now(), self.clock.now()) != Act::Wait;
        if let Some((lease, seen)) = self.seen.as_ref().filter(|_| !free) {
            self.report(lease, &seen.record.holder);
        }
        free
    }

    /// Reports who has the Lease, unless it is one of us, or may be.
    fn report(&self, lease: &Lease, holder: &str) {
        let wait = Wait::HeldBy(holder);
        match self.kin.holder() {
            Some(kin) if !self.own && kin == holder => self.observer.standing_by(&self.lease),
            None if !self.own => {}
            _ => self.observer.waiting(&self.lease, Some(lease), &wait),
        }
    }

    pub(super) async fn pause(&self) {
        sleep(self.random.jitter(self.timing.retry_period, JITTER_FACTOR)).await;
    }

    /// Competes until the Lease is ours. Survives an API server that is away; can be dropped at any
    /// point.
    pub async fn acquire(mut self) -> Held {
        self.compete().await;
        self.hold()
    }

    /// What [`acquire`](Self::acquire) waits for.
    pub(super) async fn compete(&mut self) {
        tracing::info!(lease = %self.lease, identity = self.identity, "competing for the lease");
        let mut reported = String::new();
        loop {
            let (now, sick) = match self.attempt().await {
                Ok(Attempt::Ours) => break,
                Ok(Attempt::HeldBy(holder)) => {
                    if let Some((lease, _)) = &self.seen {
                        self.report(lease, &holder);
                    }
                    (Wait::HeldBy(&holder).to_string(), false)
                }
                Err(error) => {
                    let wait = Wait::Failing(error.chain());
                    self.observer.waiting(&self.lease, None, &wait);
                    (wait.to_string(), true)
                }
            };
            // Once per change, not once per attempt: a standby stands by for months.
            if now != reported {
                if sick {
                    tracing::warn!(lease = %self.lease, "cannot compete for the lease: {now}");
                } else {
                    tracing::info!(lease = %self.lease, "waiting for the lease: {now}");
                }
                reported = now;
            }
            self.pause().await;
        }
    }

    /// To be called right after [`compete`](Self::compete).
    pub(super) fn hold(mut self) -> Held {
        self.leading = true;
        self.announce("became leader", true);
        Held(self)
    }

    /// One try to make or keep the Lease ours.
    async fn attempt(&mut self) -> Result<Attempt, ElectionError> {
        if self.leading && self.renew_directly().await? {
            return Ok(Attempt::Ours);
        }
        let written = self.version().filter(|_| self.leading);
        self.look().await?;
        if written
            .zip(self.version())
            .is_some_and(|(written, read)| read < written)
        {
            self.observer.went_back(&self.lease);
        }
        let (date, now) = (self.clock.now(), Instant::now());
        let sighting = self.seen.as_ref().map(|(_, sighting)| sighting);
        if let Some(holder) = sighting.map(|seen| &seen.record.holder)
            && self.leading
            && !holder.is_empty()
            && *holder != self.identity
        {
            // Somebody took it; whether it has expired since is no longer our business.
            return Ok(Attempt::HeldBy(holder.clone()));
        }
        let before = sighting.map(|seen| seen.record.holder.clone());
        let lost = before.filter(|holder| !holder.is_empty() && !self.leading);
        match self.decide(now, date) {
            Act::Create(record) => self.write(record, false).await?,
            Act::Update(record) => self.write(record, true).await?,
            Act::Wait => {
                let holder = sighting.map(|seen| seen.record.holder.clone());
                return Ok(Attempt::HeldBy(holder.unwrap_or_default()));
            }
        }
        if lost.is_some() {
            self.fence.succeed_a_lost_leader();
            self.predecessor = lost;
        }
        Ok(Attempt::Ours)
    }

    fn decide(&self, now: Instant, date: Timestamp) -> Act {
        let sighting = self.seen.as_ref().map(|(_, sighting)| sighting);
        let (identity, ended) = (&self.identity, self.ended.as_deref());
        decide(
            sighting,
            (now, date),
            identity,
            ended,
            self.timing.lease_duration,
        )
    }

    /// Renews from what we remember, without reading first. False if that did not work and the
    /// Lease must be read.
    async fn renew_directly(&mut self) -> Result<bool, ElectionError> {
        let (date, now) = (self.clock.now(), Instant::now());
        let sighting = self.seen.as_ref().map(|(_, sighting)| sighting);
        if !sighting.is_some_and(|seen| seen.is_valid(now)) {
            return Ok(false);
        }
        let Act::Update(record) = self.decide(now, date) else {
            return Ok(false);
        };
        match self.write(record, true).await {
            Ok(()) => Ok(true),
            Err(error) => {
                tracing::debug!(lease = %self.lease, "direct renewal failed: {}", error.chain());
                self.observer.slow_path(&self.lease);
                Ok(false)
            }
        }
    }

    /// Reads the Lease and remembers since when it is as it is.
    async fn look(&mut self) -> Result<(), ElectionError> {
        let found = self
            .within(self.api.get_opt(&self.lease.name), ElectionError::Read)
            .await?;
        let before = self.seen.take().map(|(_, sighting)| sighting);
        self.seen = found.map(|lease| {
            self.notes.learn(&lease);
            let record = Record::from_spec(lease.spec.as_ref());
            (lease, Observation::look(before, record, Instant::now()))
        });
        self.note_kin();
        Ok(())
    }

    /// The version of the Lease as it was seen or written last.
    fn version(&self) -> Option<u64> {
        let (lease, _) = self.seen.as_ref()?;
        version_number(lease.metadata.resource_version.as_deref()?)
    }

    fn note_kin(&self) {
        let holder = self.seen.as_ref().map(|(_, seen)| &seen.record.holder);
        if self.own {
            self.kin.note(holder.map_or("", String::as_str));
        }
    }

    /// Creates or replaces the Lease; the resource version guards against anybody in between.
    async fn write(&mut self, record: Record, exists: bool) -> Result<(), ElectionError> {
        let (sent, date) = (Instant::now(), self.clock.now());
        let written = self.put(&record, exists).await?;
        let record = Record::from_spec(written.spec.as_ref());
        self.seen = Some((
            written,
            Observation {
                record,
                since: sent,
            },
        ));
        self.note_kin();
        // An answer that came after the deadline is no leadership; the fence knows.
        if self.fence.renew(sent, date).is_err() {
            let limit = self.timing.renew_deadline;
            return Err(ElectionError::Timeout(self.lease.clone(), limit));
        }
        Ok(())
    }

    async fn put(&self, record: &Record, exists: bool) -> Result<Lease, ElectionError> {
        let mut lease = match &self.seen {
            Some((lease, _)) if exists => lease.clone(),
            _ => Lease {
                metadata: ObjectMeta {
                    name: Some(self.lease.name.clone()),
                    namespace: Some(self.lease.namespace.clone()),
                    ..ObjectMeta::default()
                },
                ..Lease::default()
            },
        };
        record.write_to(lease.spec.get_or_insert_default());
        self.notes.write_to(&mut lease);
        let parameters = PostParams::default();
        if exists {
            let request = self.api.replace(&self.lease.name, &parameters, &lease);
            self.within(request, ElectionError::Write).await
        } else {
            self.within(self.api.create(&parameters, &lease), ElectionError::Write)
                .await
        }
    }

    async fn within<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
        failed: fn(LeaseName, Box<kube::Error>) -> ElectionError,
    ) -> Result<T, ElectionError> {
        let limit = self.timing.request_timeout();
        match timeout(limit, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failed(self.lease.clone(), Box::new(error))),
            Err(_) => Err(ElectionError::Timeout(self.lease.clone(), limit)),
        }
    }

    fn announce(&self, what: &str, leading: bool) {
        tracing::info!(lease = %self.lease, identity = self.identity, "{what}");
        self.observer.leading(&self.lease, leading);
        if let Some((lease, _)) = &self.seen {
            self.observer
                .event(lease, &format!("{} {what}", self.identity));
        }
    }
}

/// A Lease that is ours, for as long as [`renew`](Self::renew) runs.
pub struct Held(Elector);

impl Held {
    pub fn lease(&self) -> &LeaseName {
        &self.0.lease
    }

    /// To be asked before every write.
    pub fn fence(&self) -> Fence {
        self.0.fence()
    }

    /// From whom it was taken, if that one did not give it back.
    pub(super) fn predecessor(&self) -> Option<String> {
        self.0.predecessor.clone()
    }

    /// Renews until the Lease is lost. When it returns, the fence is shut. Can be dropped at any
    /// point and called again.
    pub async fn renew(&mut self) -> Lost {
        let elector = &mut self.0;
        let loss = loop {
            let Some(expires) = elector.fence.expires() else {
                break Loss::Deadline;
            };
            sleep_until(expires.min(Instant::now() + elector.timing.retry_period)).await;
            // Time may have jumped: a process that was frozen wakes up here, with others leading.
            if elector.fence.check().is_err() {
                break Loss::Deadline;
            }
            match timeout_at(expires, elector.attempt()).await {
                Ok(Ok(Attempt::Ours)) => {}
                Ok(Ok(Attempt::HeldBy(holder))) => break Loss::Taken(holder),
                Ok(Err(error)) => tracing::warn!("renewal failed: {}", error.chain()),
                Err(_) => break Loss::Deadline,
            }
        };
        elector.fence.shut();
        if std::mem::take(&mut elector.leading) {
            // No event: others may lead by now, and who has lost the Lease writes nothing more.
            elector.observer.leading(&elector.lease, false);
        }
        Lost {
            lease: elector.lease.clone(),
            loss,
        }
    }

    /// Gives the Lease back, so that another replica can lead at once. Only after all work stopped:
    /// the fence shuts first. A Lease that is no longer ours is left alone.
    pub async fn release(self) -> Result<(), ElectionError> {
        self.give_back().await.1
    }

    /// The same, and the candidate may compete again.
    pub(super) async fn give_back(self) -> (Elector, Result<(), ElectionError>) {
        let Self(mut elector) = self;
        let released = elector.release().await;
        (elector, released)
    }
}

impl Elector {
    async fn release(&mut self) -> Result<(), ElectionError> {
        let elector = self;
        elector.fence.shut();
        elector.leading = false;
        let mut result = Ok(());
        for attempt in 0..RELEASE_TRIES {
            // The first try is from memory; a renewal cut off by the shutdown makes it stale.
            if attempt > 0 {
                elector.look().await?;
            }
            let record = match &elector.seen {
                Some((_, seen)) if seen.record.holder == elector.identity => seen.record.clone(),
                _ => return Ok(()),
            };
            result = elector
                .put(&record.released(elector.clock.now()), true)
                .await
                .map(drop);
            match &result {
                Ok(()) => break,
                Err(error) if error.status() == Some(409) => {}
                Err(_) => return result,
            }
        }
        elector.announce("stopped leading", false);
        result
    }
}
