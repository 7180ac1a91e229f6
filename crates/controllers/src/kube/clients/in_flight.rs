//! How many writes are in flight at the same time, where nobody gave a number: as many as the API server takes.
//!
//! More writes are sent at once while the server answers as fast as it did, fewer when it answers more slowly or
//! refuses. That is decided once in a window, of as many answers as writes may be in flight, and only from writes
//! that were sent since the last decision.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Writes in flight at the beginning: enough for a server nearby, little for any server.
const START: usize = 8;
/// Writes in flight at most. API servers handle 200 mutating requests at a time by default, of all their clients.
pub(crate) const MOST_IN_FLIGHT: usize = 64;
/// An answer within this time is fast, whatever others took.
const FAST: Duration = Duration::from_millis(5);
/// Up to so many halves of the shortest time that a window took, latency holds.
const HOLDS: u32 = 3;
/// Beyond so many halves of it, latency grows. Between the two nothing is changed.
const GROWS: u32 = 6;

/// The decision, without any waiting.
#[derive(Debug)]
struct Limit {
    /// Writes that may be in flight.
    now: usize,
    /// Counts the decisions.
    window: u64,
    answers: u32,
    took: Duration,
    /// The shortest mean time of a window since writes were halved last.
    shortest: Option<Duration>,
}

impl Limit {
    fn new() -> Self {
        Self {
            now: START,
            window: 0,
            answers: 0,
            took: Duration::ZERO,
            shortest: None,
        }
    }

    /// Takes note of an answer to a write that was sent in that window.
    fn answered(&mut self, window: u64, took: Duration, refused: bool) {
        if window != self.window {
            return;
        }
        if refused {
            return self.decide((self.now / 2).max(1));
        }
        self.answers += 1;
        self.took += took;
        if self.answers as usize >= self.now {
            let mean = self.took / self.answers;
            self.end_window(mean);
        }
    }

    fn end_window(&mut self, mean: Duration) {
        let shortest = self.shortest.unwrap_or(mean).min(mean);
        let half = shortest.max(FAST) / 2;
        self.shortest = Some(shortest);
        if mean > half * GROWS {
            // What the server takes now is measured anew.
            self.shortest = None;
            self.decide((self.now / 2).max(1));
        } else if mean <= half * HOLDS {
            let more = self.now.div_ceil(4);
            self.decide((self.now + more).min(MOST_IN_FLIGHT));
        } else {
            self.decide(self.now);
        }
    }

    fn decide(&mut self, now: usize) {
        self.now = now;
        self.window += 1;
        self.answers = 0;
        self.took = Duration::ZERO;
    }
}

#[derive(Debug)]
struct State {
    limit: Limit,
    /// Whether writes are limited here; if not, by the workers whose number somebody gave.
    adapts: bool,
    /// Permits to be withdrawn as soon as writes that have them are answered.
    excess: usize,
}

/// The writes in flight of all controllers; clones share them.
#[derive(Clone, Debug)]
pub(super) struct WritesInFlight(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    permits: Semaphore,
}

impl Default for WritesInFlight {
    fn default() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                limit: Limit::new(),
                adapts: true,
                excess: 0,
            }),
            permits: Semaphore::new(START),
        }))
    }
}

impl WritesInFlight {
    /// Says whether writes are limited here from now on.
    pub(super) fn adapt(&self, adapts: bool) {
        self.state().adapts = adapts;
    }

    /// Waits until one more write may be sent; none where they are not limited.
    pub(super) async fn permit(&self) -> Option<Permit> {
        if !self.state().adapts {
            return None;
        }
        // Never closed.
        self.0.permits.acquire().await.ok()?.forget();
        let window = self.state().limit.window;
        Some(Permit {
            writes: self.clone(),
            window,
        })
    }

    fn answered(&self, window: u64, took: Duration, refused: bool) {
        let mut state = self.state();
        let before = state.limit.now;
        state.limit.answered(window, took, refused);
        let now = state.limit.now;
        if now < before {
            tracing::debug!(before, now, refused, "fewer writes in flight");
            let withdrawn = self.0.permits.forget_permits(before - now);
            state.excess += before - now - withdrawn;
        } else if now > before {
            let more = now - before;
            let kept = more.min(state.excess);
            state.excess -= kept;
            self.0.permits.add_permits(more - kept);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One write that may be in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    writes: WritesInFlight,
    window: u64,
}

impl Permit {
    /// The API server answered to what was sent then, or refused it for now.
    pub(super) fn answered(&self, sent: Instant, refused: bool) {
        let took = sent.elapsed();
        self.writes.answered(self.window, took, refused);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.writes.state();
        if state.excess > 0 {
            state.excess -= 1;
        } else {
            self.writes.0.permits.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(10);

    /// One window of answers that took so long each.
    fn window(limit: &mut Limit, took: Duration) -> usize {
        for _ in 0..limit.now {
            limit.answered(limit.window, took, false);
        }
        limit.now
    }

    #[test]
    fn writes_grow_while_latency_holds_and_no_further_than_the_most() {
        let mut limit = Limit::new();
        let grown: Vec<usize> = (0..11).map(|_| window(&mut limit, QUICK)).collect();
        assert_eq!(grown, [10, 13, 17, 22, 28, 35, 44, 55, 64, 64, 64]);
    }

    #[test]
    fn what_is_fast_anyway_does_not_count_as_growing() {
        let mut limit = Limit::new();
        window(&mut limit, Duration::from_micros(100));
        assert_eq!(window(&mut limit, FAST), 13);
    }

    #[test]
    fn latency_that_grows_somewhat_changes_nothing() {
        let mut limit = Limit::new();
        window(&mut limit, QUICK);
        assert_eq!(window(&mut limit, QUICK * 2), 10);
        assert_eq!(window(&mut limit, QUICK), 13);
    }

    #[test]
    fn latency_that_grows_much_halves_them_and_is_measured_anew() {
        let mut limit = Limit::new();
        window(&mut limit, QUICK);
        assert_eq!(window(&mut limit, QUICK * 4), 5);
        assert_eq!(window(&mut limit, QUICK * 4), 7, "that slow from now on");
    }

    #[test]
    fn a_refusal_halves_them_once_for_all_writes_that_were_on_their_way() {
        let mut limit = Limit::new();
        for _ in 0..3 {
            limit.answered(0, QUICK, true);
        }
        assert_eq!(limit.now, 4);
        for _ in 0..10 {
            limit.answered(limit.window, QUICK, true);
        }
        assert_eq!(limit.now, 1, "never none");
        assert_eq!(window(&mut limit, QUICK), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn permits_follow_the_limit() {
        let writes = WritesInFlight::default();
        let mut held = Vec::new();
        for _ in 0..START {
            held.push(writes.permit().await.unwrap());
        }
        let wait = Duration::from_secs(60);
        assert!(tokio::time::timeout(wait, writes.permit()).await.is_err());
        let sent = Instant::now();
        held[0].answered(sent, true);
        held.truncate(START / 2);
        assert!(
            tokio::time::timeout(wait, writes.permit()).await.is_err(),
            "four are in flight, and no more may be"
        );
        held.pop();
        assert!(writes.permit().await.is_some());
        writes.adapt(false);
        assert!(writes.permit().await.is_none(), "workers limit them");
    }
}
