//! What look-ups about many machines have in common: a few are read one by one, many are listed, and those that a list
//! does not show are read after all.
//!
//! ```text
//!  ids ─┬─ up to FEW ────────────────────────────────▶ read each ─┬─▶ Found, Gone, Failed
//!       └─ more ─▶ list (≤ LIST_AGE old) ─▶ ≤ CONFIRMATIONS of those it lacks ─┘
//! ```
//!
//! How a machine is recognised, and what proves that it is gone, differs from cloud to cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_core::{CloudError, Evidence, Lookup};
use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use crate::{Cached, CachedRead};

/// Up to so many machines are read one by one; above, one list costs less.
pub const FEW: usize = 3;
/// How old a list may be to answer again.
pub const LIST_AGE: Duration = Duration::from_secs(5);
/// Machines that a list does not show and that one look-up reads, in the order of their ids, so that the same ones are
/// read each time. The others are *cannot tell*.
pub const CONFIRMATIONS: usize = 128;
/// Single reads at the same time: half of what the client allows, so that others get a slot.
pub const READS_AT_ONCE: usize = 8;

/// What a single read of a machine gave.
#[derive(Debug)]
pub enum Reading<T> {
    /// It is there.
    Found(Box<T>),
    /// It is not.
    Gone(Evidence),
    /// Nobody knows.
    Failed(CloudError),
}

impl<T> Reading<T> {
    /// The machine, or the whole answer if there is none.
    pub fn machine(&self) -> Result<&T, Lookup> {
        match self {
            Self::Found(machine) => Ok(machine),
            Self::Gone(evidence) => Err(Lookup::Gone(evidence.clone())),
            Self::Failed(error) => Err(Lookup::CannotTell(error.copy())),
        }
    }
}

/// A list for questions that arrived at `start`: a kept one, unless it leaves too much open and is older than them.
pub async fn list_for<L, F: Future<Output = Result<L, CloudError>>>(
    cache: &CachedRead<L>,
    start: Instant,
    list: impl Fn() -> F,
    leaves_open: impl FnOnce(&L) -> bool,
) -> Result<Cached<L>, CloudError> {
    let kept = cache.recent(LIST_AGE, list()).await?;
    if kept.asked < start && leaves_open(&kept.value) {
        return cache.since(start, list()).await;
    }
    Ok(kept)
}

/// Reads one by one, that many at a time.
pub async fn read_each<K: Copy + Ord, T, F: Future<Output = T>>(
    keys: impl IntoIterator<Item = K>,
    at_once: usize,
    read: impl Fn(K) -> F,
) -> BTreeMap<K, T> {
    let read = &read;
    stream::iter(keys)
        .map(|key| async move { (key, read(key).await) })
        .buffered(at_once)
        .collect()
        .await
}

/// What is reported only once. Beyond the limit everything may be reported again.
#[derive(Debug)]
pub struct ReportedOnce {
    limit: usize,
    reported: Mutex<BTreeSet<String>>,
}

impl ReportedOnce {
    /// Remembers that many.
    pub fn new(limit: usize) -> Self {
        let reported = Mutex::default();
        Self { limit, reported }
    }

    /// Whether this is reported for the first time.
    pub fn is_new(&self, text: &str) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() >= self.limit {
            reported.clear();
        }
        reported.insert(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_once_is_not_reported_again_and_the_memory_is_bounded() {
        let reported = ReportedOnce::new(5);
        for number in 1..=5 {
            assert!(reported.is_new(&number.to_string()), "{number} is new");
            assert!(number == 5 || !reported.is_new("1"), "1 was reported");
        }
        assert!(reported.is_new("1"), "the memory was full and began anew");
        assert_eq!(reported.reported.lock().unwrap().len(), 1);
    }
}
