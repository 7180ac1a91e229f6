//! The one wall-clock handle. Everything else about time comes from tokio's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Tells the time of day.
///
/// In production it reads the system's clock. In a simulated run it starts at a given moment and
/// advances with tokio's clock, so that pausing and jumping that clock moves the dates too.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Simulated {
        start: Timestamp,
        origin: tokio::time::Instant,
        /// How far somebody has set it, in seconds.
        set: Arc<AtomicI64>,
    },
}

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that shows `start` now and then follows tokio's clock. Needs a tokio runtime.
    pub fn simulated(start: Timestamp) -> Self {
        Self(Source::Simulated {
            start,
            origin: tokio::time::Instant::now(),
            set: Arc::default(),
        })
    }

    /// Sets a simulated clock, and all clones of it, forward or back by so many seconds, as somebody might do with that
    /// of a machine. Does nothing to the clock of the machine.
    pub fn set_by(&self, seconds: i64) {
        if let Source::Simulated { set, .. } = &self.0 {
            set.fetch_add(seconds, Ordering::Relaxed);
        }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
            Source::System => Timestamp::now(),
            Source::Simulated { start, origin, set } => start
                .saturating_add(origin.elapsed())
                .and_then(|now| {
                    now.saturating_add(SignedDuration::from_secs(set.load(Ordering::Relaxed)))
                })
                .unwrap_or(Timestamp::MAX),
        }
    }

    /// The time from `earlier` to now; zero if `earlier` lies in the future.
    pub fn since(&self, earlier: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(earlier)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_simulated_clock_follows_the_paused_clock() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::simulated(start);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
        assert_eq!(clock.since(start), Duration::from_secs(3600));
        assert_eq!(
            clock.since("2027-01-01T00:00:00Z".parse().unwrap()),
            Duration::ZERO
        );
    }
}
