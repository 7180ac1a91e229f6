//! How long a failed key waits: doubling per key, and at most so many retries per second overall.

use std::time::Duration;

use bowline_core::TokenBucket;
use tokio::time::Instant;

use super::KEYS_LIMIT;
use crate::lru::Lru;

/// The retry delays of one queue.
#[derive(Debug)]
pub struct Backoff<K> {
    first: Duration,
    longest: Duration,
    /// One for each lane; none where retries are not limited.
    buckets: Vec<TokenBucket<Instant>>,
    /// Bounded, because a key that is never forgotten must not stay for ever.
    failures: Lru<K, u32>,
}

impl<K: Ord + Clone> Backoff<K> {
    /// `first` × 2ⁿ for the n-th repeated failure of a key, at most `longest`.
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            buckets: Vec::new(),
            failures: Lru::new(KEYS_LIMIT),
        }
    }

    /// And never sooner than a bucket shared by all keys of a lane allows.
    #[must_use]
    pub fn limited_by(mut self, bucket: TokenBucket<Instant>) -> Self {
        self.buckets = vec![bucket];
        self
    }

    /// The same for so many lanes: none uses up what another may need.
    pub(super) fn for_lanes(mut self, lanes: usize) -> Self {
        if let Some(bucket) = self.buckets.pop() {
            self.buckets = vec![bucket; lanes];
        }
        self
    }

    /// Of the queue `Nodes` and others: 5 ms doubling to 1000 s, 10 a second with a burst of 100.
    pub fn nodes() -> Self {
        Self::exponential(Duration::from_millis(5), Duration::from_secs(1000))
            .limited_by(TokenBucket::new(Duration::from_millis(100), 100))
    }

    /// Of the queue `service`: 5 s doubling to 300 s.
    pub fn services() -> Self {
        Self::exponential(Duration::from_secs(5), Duration::from_secs(300))
    }

    /// Counts a failure of that key; the answer is how long it has to wait.
    pub fn next(&mut self, key: &K, now: Instant) -> Duration {
        self.next_in(0, key, now)
    }

    /// The same for a key of that lane. Its failures are its own, in whichever lane they were.
    pub(super) fn next_in(&mut self, lane: usize, key: &K, now: Instant) -> Duration {
        let failures = self.failures(key);
        let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
        self.failures
            .insert(key.clone(), failures.saturating_add(1));
        let own = self.first.saturating_mul(factor).min(self.longest);
        let shared = self.buckets.get_mut(lane).map(|bucket| bucket.reserve(now));
        own.max(shared.unwrap_or_default())
    }

    /// Clears the failures of that key.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// How often that key has failed.
    pub fn failures(&mut self, key: &K) -> u32 {
        self.failures.get_mut(key).copied().unwrap_or_default()
    }
}
