//! State between two plans of one Service. Losing it costs a little time, and nothing else.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use bowline_http::KeyedMutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::backend::Form;
use super::observe::Lookups;
use crate::lock;

/// How long no machine is created after a refusal, or after too many have failed.
pub(crate) const HOLD: Duration = Duration::from_secs(300);
/// How long a machine that goes is out of DNS before it goes: names are remembered for 30 s, and
/// published every 10 s.
pub(crate) const DRAIN: Duration = Duration::from_secs(60);
/// How many machines may fail before making more waits for a while.
pub(crate) const MOST_FAILURES: u32 = 3;
/// How long a name of backends that is in use may be missing before another one is used.
pub(crate) const MISSED: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) until: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct ClbState {
    services: Mutex<BTreeMap<String, Remembered>>,
    /// The uid of the cluster, once known.
    cluster: OnceLock<String>,
    pub(crate) lookups: Lookups,
    /// One change at a time of a port map that several Services share.
    pub(crate) map_locks: KeyedMutex<Uuid>,
}

#[derive(Debug, Default)]
struct Remembered {
    /// What its machines were to be like; a hold does not count for others.
    wanted: String,
    failures: u32,
    hold: Option<Hold>,
    drained: BTreeMap<Uuid, Instant>,
    made: BTreeMap<Uuid, Instant>,
    /// Machines that failed before they served and are still to be destroyed, and why.
    failed_machines: BTreeMap<Uuid, &'static str>,
    /// Since when the name of the backends that is in use is missing.
    missed: Option<Instant>,
}

impl ClbState {
    pub(crate) fn cluster(&self) -> Option<String> {
        self.cluster.get().cloned()
    }

    /// This is the uid of the cluster; it never changes.
    pub(crate) fn is_in(&self, cluster: &str) {
        self.cluster.get_or_init(|| cluster.to_owned());
    }

    /// Why no machine may be created for that Service now. Failures of other machines than `wanted`
    /// do not count.
    pub(crate) fn hold(&self, uid: &str, wanted: &str) -> Option<Hold> {
        let mut all = lock(&self.services);
        let it = all.entry(uid.to_owned()).or_default();
        if it.wanted != wanted {
            wanted.clone_into(&mut it.wanted);
            it.failures = 0;
            it.hold = None;
        }
        it.hold.clone().filter(|hold| hold.until > Instant::now())
    }

    pub(crate) fn refuse(&self, uid: &str, reason: &'static str, message: String) {
        let until = Instant::now() + HOLD;
        self.of(uid, |it| {
            it.hold = Some(Hold {
                reason,
                message,
                until,
            });
        });
    }

    /// A machine failed before it served; returns how many have by now.
    pub(crate) fn failed(&self, uid: &str, machine: Uuid, what: &'static str) -> u32 {
        self.of(uid, |it| {
            it.failed_machines.insert(machine, what);
            it.failures += 1;
            it.failures
        })
    }

    pub(crate) fn failed_machines(&self, uid: &str) -> BTreeMap<Uuid, &'static str> {
        self.of(uid, |it| it.failed_machines.clone())
    }

    pub(crate) fn is_gone(&self, uid: &str, machine: Uuid) {
        self.of(uid, |it| it.failed_machines.remove(&machine));
    }

    pub(crate) fn succeeded(&self, uid: &str, machine: Uuid) {
        self.of(uid, |it| {
            it.failures = 0;
            it.made.remove(&machine);
        });
    }

    /// How long a machine has been out of DNS, as far as we know: from now on, if nobody knew.
    pub(crate) fn drained(&self, uid: &str, machine: Uuid) -> Duration {
        self.of(uid, |it| {
            it.drained
                .entry(machine)
                .or_insert_with(Instant::now)
                .elapsed()
        })
    }

    /// How long a machine has been in the making, as far as we know.
    pub(crate) fn creating_for(&self, uid: &str, machine: Uuid) -> Duration {
        self.of(uid, |it| {
            it.made
                .entry(machine)
                .or_insert_with(Instant::now)
                .elapsed()
        })
    }

    /// Records whether the better name of backends is shown, if that is known; returns how long it
    /// has been in use without being shown.
    pub(crate) fn missed(&self, uid: &str, shown: Option<bool>, used: Option<Form>) -> Duration {
        let Some(shown) = shown else {
            return Duration::ZERO;
        };
        self.of(uid, |it| {
            if shown || used != Some(Form::Qualified) {
                it.missed = None;
                return Duration::ZERO;
            }
            it.missed.get_or_insert_with(Instant::now).elapsed()
        })
    }

    /// Keeps nothing about machines that are gone.
    pub(crate) fn keep(&self, uid: &str, is_there: impl Fn(Uuid) -> bool) {
        self.of(uid, |it| {
            it.drained.retain(|id, _| is_there(*id));
            it.made.retain(|id, _| is_there(*id));
        });
    }

    pub(crate) fn forget(&self, uid: &str) {
        lock(&self.services).remove(uid);
    }

    fn of<T>(&self, uid: &str, work: impl FnOnce(&mut Remembered) -> T) -> T {
        work(lock(&self.services).entry(uid.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_holds_for_five_minutes_or_until_something_else_is_wanted() {
        let state = ClbState::default();
        assert_eq!(state.hold("u", "a"), None);
        state.refuse("u", "QuotaExceeded", "too many".to_owned());
        tokio::time::advance(HOLD.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(state.hold("u", "a").unwrap().reason, "QuotaExceeded");
        assert_eq!(state.hold("v", "a"), None, "each for itself");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(state.hold("u", "a"), None);
        state.refuse("u", "QuotaExceeded", "too many".to_owned());
        let failed = || state.failed("u", Uuid::nil(), "has failed");
        assert_eq!(failed(), 1);
        assert_eq!(state.hold("u", "b"), None, "another machine is wanted");
        assert_eq!(failed(), 1, "counted anew");
        state.succeeded("u", Uuid::nil());
        assert_eq!(failed(), 1);
        assert_eq!(state.failed_machines("u").len(), 1);
        state.is_gone("u", Uuid::nil());
        assert_eq!(state.failed_machines("u").len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn times_are_counted_from_the_first_look() {
        let state = ClbState::default();
        let second = Duration::from_secs(1);
        assert_eq!(state.drained("u", Uuid::nil()), Duration::ZERO);
        let missed = |shown| state.missed("u", Some(shown), Some(Form::Qualified));
        assert_eq!(missed(false), Duration::ZERO);
        tokio::time::advance(second).await;
        assert_eq!(state.drained("u", Uuid::nil()), second);
        assert_eq!(state.creating_for("u", Uuid::nil()), Duration::ZERO);
        assert_eq!(missed(false), second);
        assert_eq!(missed(true), Duration::ZERO);
        assert_eq!(missed(false), Duration::ZERO);
        state.keep("u", |_| false);
        assert_eq!(state.drained("u", Uuid::nil()), Duration::ZERO);
        state.forget("u");
        assert_eq!(state.services.lock().unwrap().len(), 0);
    }
}
