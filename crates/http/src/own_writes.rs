//! Which answers still count for whom, after writes of one's own.
//!
//! A list that many share ([`CachedRead`](crate::CachedRead)) shows nothing of a write that came after it. Whoever
//! wrote must not see such a list; everybody else may.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::{Freshness, Generation};

/// Remembers who wrote last when, as long as a list may be older than that.
#[derive(Debug)]
pub struct OwnWrites {
    /// How old a list may be.
    age: Duration,
    /// Counts writes.
    generation: Generation,
    /// Lists from before that are not used.
    oldest: AtomicU64,
    /// The last write of each.
    writes: Mutex<BTreeMap<String, (u64, Instant)>>,
}

impl OwnWrites {
    /// For lists that may be that old.
    pub fn new(age: Duration) -> Self {
        Self {
            age,
            generation: Generation::default(),
            oldest: AtomicU64::new(0),
            writes: Mutex::default(),
        }
    }

    /// What the caches of such lists share.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Something was written for that one, or may have been.
    pub fn wrote(&self, uid: &str) {
        let number = self.generation.advance();
        let now = Instant::now();
        let mut writes = self.writes();
        writes.retain(|_, (_, at)| now.duration_since(*at) <= self.age);
        writes.insert(uid.to_owned(), (number, now));
    }

    /// Something is being written for that one: it counts as written when the answer is dropped, also if whoever waits
    /// for the cloud is cancelled.
    pub fn writing<'a>(&'a self, uid: &'a str) -> Writing<'a> {
        Writing { writes: self, uid }
    }

    /// No list from before now is used again, for whomever.
    pub fn forget(&self) {
        let number = self.generation.advance();
        self.oldest.store(number, Ordering::SeqCst);
    }

    /// How fresh a list must be for that one.
    pub fn freshness(&self, uid: &str) -> Freshness {
        let oldest = self.oldest.load(Ordering::SeqCst);
        let last = self.writes().get(uid).map_or(0, |(number, _)| *number);
        Freshness {
            generation: Some(last.max(oldest)),
            since: Instant::now().checked_sub(self.age),
        }
    }

    fn writes(&self) -> MutexGuard<'_, BTreeMap<String, (u64, Instant)>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write under way.
#[derive(Debug)]
pub struct Writing<'a> {
    writes: &'a OwnWrites,
    uid: &'a str,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.writes.wrote(self.uid);
    }
}

#[cfg(test)]
mod tests {
    use bowline_core::CloudError;
    use tokio::time::advance;

    use super::*;
    use crate::CachedRead;

    const AGE: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn who_wrote_sees_a_new_list_and_others_a_kept_one_until_it_is_old_or_forgotten() {
        let writes = OwnWrites::new(AGE);
        let (lists, reads) = (
            CachedRead::sharing(writes.generation()),
            AtomicU64::default(),
        );
        let list = async |uid: &str| {
            let read = |_| async { Ok::<_, CloudError>(reads.fetch_add(1, Ordering::SeqCst) + 1) };
            *lists.get(writes.freshness(uid), read).await.unwrap().value
        };
        assert_eq!([list("a").await, list("b").await], [1, 1]);
        writes.wrote("a");
        assert_eq!(
            [list("b").await, list("a").await, list("b").await],
            [1, 2, 2]
        );
        advance(AGE + Duration::from_nanos(1)).await;
        assert_eq!([list("b").await, list("a").await], [3, 3]);
        writes.forget();
        assert_eq!([list("b").await, list("a").await], [4, 4]);
        let writing = async {
            let _writing = writes.writing("a");
            std::future::pending::<()>().await;
        };
        let mut writing = Box::pin(writing);
        assert!(futures::poll!(&mut writing).is_pending());
        drop(writing);
        assert_eq!(
            [list("b").await, list("a").await],
            [4, 5],
            "it was cancelled"
        );
    }
}
