//! How watchers hear of writes.
//!
//! Not a `tokio::sync::watch` channel: that wakes its receivers in an order drawn from a generator
//! nobody can seed, and two watches that end at once would then be opened anew in another order in
//! every run.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What a watcher waits on: it changes with every write and with every deliberate break.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The latest revision.
    pub revision: u64,
    /// How many times all watches were broken.
    pub breaks: u64,
}

#[derive(Debug, Default)]
struct Shared {
    pulse: Mutex<Pulse>,
    changed: Notify,
    gone: AtomicBool,
}

/// The store is gone: nothing will change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pulse> {
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of writes.
#[derive(Debug)]
pub(super) struct Pulses(Arc<Shared>);

impl Pulses {
    pub(super) fn new(first: Pulse) -> Self {
        let shared = Shared::default();
        *shared.lock() = first;
        Self(Arc::new(shared))
    }

    pub(super) fn modify(&self, change: impl FnOnce(&mut Pulse)) {
        change(&mut self.0.lock());
        self.0.changed.notify_waiters();
    }

    pub(super) fn subscribe(&self) -> Listener {
        let shared = self.0.clone();
        let seen = *shared.lock();
        Listener { shared, seen }
    }
}

impl Drop for Pulses {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }
}

/// Hears of writes. Those who wait are woken in the order in which they began to.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    seen: Pulse,
}

impl Listener {
    pub fn current(&self) -> Pulse {
        *self.shared.lock()
    }

    /// Takes the pulse now as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.current();
    }

    /// Waits for a change since the last call. Safe to cancel.
    pub async fn changed(&mut self) -> Result<(), Gone> {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            let now = self.current();
            if now != self.seen {
                self.seen = now;
                return Ok(());
            }
            if self.shared.gone.load(Ordering::Acquire) {
                return Err(Gone);
            }
            changed.await;
        }
    }

    /// Waits until `reached` holds.
    pub async fn wait_for(&mut self, reached: impl Fn(&Pulse) -> bool) -> Result<(), Gone> {
        while !reached(&self.current()) {
            self.changed().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_the_order_in_which_they_began() {
        // An order drawn at random would have to be right 64 times.
        for _ in 0..4 {
            let pulses = Pulses::new(Pulse::default());
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut waiting = tokio::task::JoinSet::new();
            for number in 0..16 {
                let (mut listener, order) = (pulses.subscribe(), order.clone());
                waiting.spawn(async move {
                    listener.changed().await.unwrap();
                    order.lock().unwrap().push(number);
                });
            }
            tokio::task::yield_now().await;
            pulses.modify(|pulse| pulse.breaks += 1);
            while waiting.join_next().await.is_some() {}
            assert_eq!(*order.lock().unwrap(), (0..16).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed_and_neither_is_the_end() {
        let pulses = Pulses::new(Pulse::default());
        let mut listener = pulses.subscribe();
        pulses.modify(|pulse| pulse.revision = 7);
        listener.changed().await.unwrap();
        let reached = listener.wait_for(|pulse| pulse.revision == 7).await;
        reached.unwrap();
        drop(pulses);
        assert_eq!(listener.changed().await, Err(Gone));
    }
}
