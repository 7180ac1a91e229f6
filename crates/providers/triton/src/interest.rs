//! Whether anybody wants to know. A process that does not lead asks its cloud nothing, and then
//! nothing is listed or followed in the background either.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lock;

/// Nodes are asked about every few minutes for as long as somebody leads.
const LASTING: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Default)]
pub(crate) struct ActivityGate {
    last: Mutex<Option<Instant>>,
    asked: Notify,
}

impl ActivityGate {
    pub(crate) fn show(&self) {
        *lock(&self.last) = Some(Instant::now());
        self.asked.notify_waiters();
    }

    pub(crate) fn is_there(&self) -> bool {
        let last = *lock(&self.last);
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
