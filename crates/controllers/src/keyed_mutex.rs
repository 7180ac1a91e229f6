//! One at a time: what two shifts of controllers must not do at once to the same thing.
//!
//! Within a shift the work queues see to that. A shift that ends finishes the step in hand, which may take as long as
//! its cloud takes to answer; the next one works on everything else meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Mutex as Lock, OwnedMutexGuard};

/// Things that are being worked on, by name. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct KeyedMutex(Arc<Mutex<BTreeMap<String, Weak<Lock<()>>>>>);

/// The right to work on something, until it is dropped.
#[derive(Debug)]
pub struct KeyedGuard {
    name: String,
    turns: KeyedMutex,
    /// None only while it is given back.
    held: Option<OwnedMutexGuard<()>>,
}

impl KeyedMutex {
    /// Waits until nobody else works on what has that name.
    pub async fn take(&self, name: String) -> KeyedGuard {
        let lock = self.lock_of(&name);
        let held = Some(lock.lock_owned().await);
        KeyedGuard {
            name,
            turns: self.clone(),
            held,
        }
    }

    fn lock_of(&self, name: &str) -> Arc<Lock<()>> {
        let mut all = self.all();
        if let Some(lock) = all.get(name).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(Lock::new(()));
        all.insert(name.to_owned(), Arc::downgrade(&lock));
        lock
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Weak<Lock<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KeyedGuard {
    fn drop(&mut self) {
        self.held = None;
        let mut all = self.turns.all();
        // Names come and go; whoever waits for this one keeps it.
        if all.get(&self.name).is_some_and(|it| it.strong_count() == 0) {
            all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_name_has_one_turn_at_a_time_and_others_do_not_wait() {
        let turns = KeyedMutex::default();
        let first = turns.take("a".into()).await;
        assert!(turns.take("a".into()).now_or_never().is_none());
        assert!(turns.take("b".into()).now_or_never().is_some());
        let other = turns.clone();
        let waiting = tokio::spawn(async move { drop(other.take("a".into()).await) });
        sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap();
        assert_eq!(turns.all().len(), 0);
    }
}
