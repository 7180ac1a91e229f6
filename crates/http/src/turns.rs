//! One change at a time for each object of a cloud: more only queue up there, or are refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// Who has a turn. Nobody who waits is forgotten; what nobody uses is.
#[derive(Debug)]
pub struct Turns<K>(Mutex<BTreeMap<K, Arc<tokio::sync::Mutex<()>>>>);

/// A turn; it ends when this is dropped.
pub type Turn = OwnedMutexGuard<()>;

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord> Turns<K> {
    /// Waits for the turn on that object.
    pub async fn of(&self, object: K) -> Turn {
        self.entry(object).lock_owned().await
    }

    /// The turn on that object, unless somebody has it.
    pub fn now_of(&self, object: K) -> Option<Turn> {
        self.entry(object).try_lock_owned().ok()
    }

    fn entry(&self, object: K) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(all.entry(object).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_for_each_and_nothing_is_kept() {
        let turns = Turns::default();
        let first = turns.of(1).await;
        let other = turns.of(2).await;
        assert!(turns.now_of(1).is_none());
        let second = turns.of(1);
        tokio::pin!(second);
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        let second = second.await;
        drop((second, other));
        drop(turns.now_of(2));
        drop(turns.of(2).await);
        assert_eq!(turns.0.lock().unwrap().len(), 1);
    }
}
