//! Whether this process leads, seen from the questions it gets. A standby asks its cloud nothing,
//! and then the background work (lists, change feed) rests too.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lock;

/// A leader asks about nodes every few minutes.
const LASTING: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Default)]
pub(crate) struct ActivityGate {
    last: Mutex<Option<Instant>>,
    asked: Notify,
}

impl ActivityGate {
    pub(crate) fn record(&self) {
        *lock(&self.last) = Some(Instant::now());
        self.asked.notify_waiters();
    }

    pub(crate) fn is_open(&self) -> bool {
        let last = *lock(&self.last);
        last.is_some_and(|last| last.elapsed() < LASTING)
    }

    /// Waits for the next question; returns at once if there was one lately.
    pub(crate) async fn wait(&self) {
        loop {
            let asked = self.asked.notified();
            tokio::pin!(asked);
            asked.as_mut().enable();
            if self.is_open() {
                return;
            }
            asked.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_gate_stays_open_for_a_while() {
        let activity = ActivityGate::default();
        assert!(!activity.is_open());
        tokio::join!(activity.wait(), async { activity.record() });
        tokio::time::advance(LASTING.saturating_sub(Duration::from_secs(1))).await;
        assert!(activity.is_open());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!activity.is_open());
    }
}
