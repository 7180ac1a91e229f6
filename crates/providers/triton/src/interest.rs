//! Whether anybody wants to know. A process that does not lead asks its cloud nothing, and then
//! nothing is listed or followed in the background either.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Nodes are asked about every few minutes for as long as somebody leads.
const LASTING: Duration = Duration::from_secs(15 * 60);

/// Remembers the last question.
#[derive(Debug, Default)]
pub(crate) struct ActivityGate {
    last: Mutex<Option<Instant>>,
    asked: Notify,
}

impl ActivityGate {
    /// Somebody asks.
    pub(crate) fn show(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.asked.notify_waiters();
    }

    /// Whether somebody asked lately.
    pub(crate) fn is_there(&self) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < LASTING)
    }

    /// Waits until somebody asks; not at all if somebody did lately.
    pub(crate) async fn wait(&self) {
        loop {
            let asked = self.asked.notified();
            tokio::pin!(asked);
            asked.as_mut().enable();
            if self.is_there() {
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
    async fn interest_lasts_for_a_while() {
        let interest = ActivityGate::default();
        assert!(!interest.is_there());
        tokio::join!(interest.wait(), async { interest.show() });
        tokio::time::advance(LASTING.saturating_sub(Duration::from_secs(1))).await;
        assert!(interest.is_there());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!interest.is_there());
    }
}
