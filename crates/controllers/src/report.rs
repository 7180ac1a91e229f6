//! Reports of the controllers: one call emits a [`Fact`] as event, metric and log line.
//!
//! [`emit!`] is that call: it logs the fact, with fields of the caller, and gives it to
//! [`Recorder::emit`](crate::events::Recorder::emit), the only way to an event, which counts it. [`Reported`] is the only memory of reports:
//! controllers ask it before they repeat themselves.

use std::borrow::Borrow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use crate::kube::events::EventType;
use crate::lru::Lru;

/// What people should know about an object.
#[derive(Clone, Debug)]
pub struct Fact {
    pub about: ObjectReference,
    pub kind: EventType,
    pub reason: &'static str,
    pub message: String,
}

impl Fact {
    pub fn new(
        kind: EventType,
        about: ObjectReference,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            about,
            kind,
            reason,
            message: message.into(),
        }
    }

    pub fn normal(
        about: ObjectReference,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self::new(EventType::Normal, about, reason, message)
    }

    pub fn warning(
        about: ObjectReference,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self::new(EventType::Warning, about, reason, message)
    }
}

/// Logs a fact with these fields, in the name of the calling module, and emits it.
macro_rules! emit {
    ($recorder:expr, $fact:expr $(, $($field:tt)+)?) => {{
        let fact: $crate::report::Fact = $fact;
        match fact.kind {
            $crate::kube::events::EventType::Normal => {
                tracing::info!($($($field)+,)? "{}", fact.message);
            }
            $crate::kube::events::EventType::Warning => {
                tracing::warn!($($($field)+,)? "{}", fact.message);
            }
        }
        $recorder.emit(fact);
    }};
}
pub(crate) use emit;

/// What was reported last under each key, so that it is reported once.
#[derive(Debug)]
pub(crate) struct Reported<K, V = String>(Mutex<Lru<K, Report<V>>>);

#[derive(Debug)]
struct Report<V> {
    what: V,
    since: Instant,
    reported: Option<Instant>,
    /// Whether it came up since the last round ended.
    is_current: bool,
}

impl<K: Ord + Clone, V> Reported<K, V> {
    /// Under at most `limit` keys.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Mutex::new(Lru::new(limit)))
    }

    /// Whether that was not the last report under that key; from now on it is.
    pub(crate) fn is_new<T>(&self, key: K, what: &T) -> bool
    where
        V: Borrow<T>,
        T: ToOwned<Owned = V> + PartialEq + ?Sized,
    {
        self.is_due(key, what, Duration::MAX)
    }

    /// The same, and whether the report is as old as `period`.
    pub(crate) fn is_due<T>(&self, key: K, what: &T, period: Duration) -> bool
    where
        V: Borrow<T>,
        T: ToOwned<Owned = V> + PartialEq + ?Sized,
    {
        self.due_in(key, what, Duration::ZERO, period) == Some(Duration::ZERO)
    }

    /// How long until that is to be reported, which is when it has held for `patience`; none if it was
    /// reported within `period`.
    pub(crate) fn due_in<T>(
        &self,
        key: K,
        what: &T,
        patience: Duration,
        period: Duration,
    ) -> Option<Duration>
    where
        V: Borrow<T>,
        T: ToOwned<Owned = V> + PartialEq + ?Sized,
    {
        let mut all = self.lock();
        let known = all.remove(&key).filter(|it| it.what.borrow() == what);
        let mut report = known.unwrap_or_else(|| Report {
            what: what.to_owned(),
            since: Instant::now(),
            reported: None,
            is_current: true,
        });
        report.is_current = true;
        let is_open = report.reported.is_none_or(|at| at.elapsed() >= period);
        let left = patience.saturating_sub(report.since.elapsed());
        if is_open && left.is_zero() {
            report.reported = Some(Instant::now());
        }
        all.insert(key, report);
        is_open.then_some(left)
    }

    /// Forgets that key, and says whether there was a report.
    pub(crate) fn forget(&self, key: &K) -> bool {
        self.lock().remove(key).is_some()
    }

    pub(crate) fn retain(&self, keep: impl Fn(&K) -> bool) {
        self.lock().retain(|key, _| keep(key));
    }

    /// A round has ended. If it saw everything, what did not come up no longer holds, and is new when it
    /// comes again.
    pub(crate) fn end_round(&self, saw_everything: bool) {
        self.lock().retain(|_, report| {
            std::mem::replace(&mut report.is_current, false) || !saw_everything
        });
    }

    fn lock(&self) -> MutexGuard<'_, Lru<K, Report<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_report_is_due_when_it_has_held_for_some_time_and_again_after_a_period() {
        let reported: Reported<&str> = Reported::new(2);
        let (patience, period) = (Duration::from_secs(5), Duration::from_secs(60));
        let due = || reported.due_in("a", "x", patience, period);
        assert_eq!(due(), Some(patience));
        tokio::time::advance(patience).await;
        assert_eq!(due(), Some(Duration::ZERO));
        assert_eq!(due(), None);
        tokio::time::advance(period).await;
        assert_eq!(due(), Some(Duration::ZERO));
        assert!(reported.is_new("a", "y") && !reported.is_new("a", "y"));
        assert!(reported.forget(&"a") && !reported.forget(&"a"));
    }

    #[tokio::test]
    async fn what_a_whole_round_does_not_bring_up_is_new_again() {
        let reported: Reported<&str, ()> = Reported::new(9);
        assert!(reported.is_new("a", &()) && reported.is_new("b", &()));
        reported.end_round(true);
        assert!(!reported.is_new("a", &()));
        reported.end_round(false);
        assert!(!reported.is_new("b", &()));
        reported.end_round(true);
        assert!(!reported.is_new("b", &()) && reported.is_new("a", &()));
    }
}
