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
/// How much older for each machine, where machines are known by their ids alone: with more than 5,000 of them, reading
/// lists would else be all that is done. Names are not believed that long.
const MACHINE_AGE: Duration = Duration::from_millis(1);
const OLDEST_LIST: Duration = Duration::from_secs(60);
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

/// A list for questions that arrived at `start`: a kept one, unless it is older than `age`, or leaves too much open and is
/// older than them.
pub async fn list_for<L, F: Future<Output = Result<L, CloudError>>>(
    cache: &CachedRead<L>,
    start: Instant,
    age: impl Fn(&L) -> Duration,
    list: impl Fn() -> F,
    leaves_open: impl FnOnce(&L) -> bool,
) -> Result<Cached<L>, CloudError> {
    let kept = match kept_list(cache, age) {
        Some(kept) => kept,
        None => cache.recent(LIST_AGE, list()).await?,
    };
    if kept.asked < start && leaves_open(&kept.value) {
        return cache.since(start, list()).await;
    }
    Ok(kept)
}

/// The last list, if it is not older than `age`.
pub fn kept_list<L>(cache: &CachedRead<L>, age: impl Fn(&L) -> Duration) -> Option<Cached<L>> {
    let kept = cache.kept(OLDEST_LIST)?;
    (kept.asked.elapsed() <= age(&kept.value)).then_some(kept)
}

/// How old a list of so many machines may be that are known by their ids alone.
pub fn age_by_ids(machines: usize) -> Duration {
    let machines = u32::try_from(machines).unwrap_or(u32::MAX);
    (MACHINE_AGE.saturating_mul(machines)).clamp(LIST_AGE, OLDEST_LIST)
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

    #[tokio::test(start_paused = true)]
    async fn the_list_of_a_large_account_answers_longer() {
        for (machines, age) in [(0, 5), (5_000, 5), (15_000, 15), (200_000, 60)] {
            let cache = CachedRead::default();
            let list =
                || async { Ok((0..machines).map(|it| (it, it)).collect::<BTreeMap<_, _>>()) };
            let age_of = |list: &BTreeMap<_, _>| age_by_ids(list.len());
            let first = Instant::now();
            for (wait, asked) in [(0, 0), (age, 0), (1, age + 1)] {
                tokio::time::advance(Duration::from_secs(wait)).await;
                let read = list_for(&cache, Instant::now(), age_of, list, |_| false).await;
                let asked = first + Duration::from_secs(asked);
                assert_eq!(read.unwrap().asked, asked, "{machines} machines");
            }
        }
    }

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
