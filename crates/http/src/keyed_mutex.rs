//! One at a time for each key: a change of one object of a cloud, or work that two generations of controllers must not
//! do at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// A mutex for each key. Nobody who waits is forgotten; a key that nobody uses is. Clones share them.
#[derive(Debug)]
pub struct KeyedMutex<K>(Arc<Mutex<BTreeMap<K, Arc<tokio::sync::Mutex<()>>>>>);

/// Permission to work on what a key stands for, until it is dropped.
pub type KeyedGuard = OwnedMutexGuard<()>;

impl<K> Default for KeyedMutex<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for KeyedMutex<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Ord> KeyedMutex<K> {
    /// Waits until nobody else has that key.
    pub async fn lock(&self, key: K) -> KeyedGuard {
        self.entry(key).lock_owned().await
    }

    /// The key, unless somebody has it.
    pub fn try_lock(&self, key: K) -> Option<KeyedGuard> {
        self.entry(key).try_lock_owned().ok()
    }

    fn entry(&self, key: K) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(all.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_for_each_and_nothing_is_kept() {
        let keys = KeyedMutex::default();
        let first = keys.lock(1).await;
        let other = keys.clone().lock(2).await;
        assert!(keys.try_lock(1).is_none());
        let second = keys.lock(1);
        tokio::pin!(second);
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        let second = second.await;
        drop((second, other));
        drop(keys.try_lock(2));
        drop(keys.lock(2).await);
        assert_eq!(keys.0.lock().unwrap().len(), 1);
    }
}
