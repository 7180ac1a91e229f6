//! A token bucket, without a clock of its own: one token per interval, a few of them saved up.
//!
//! Time comes in as a value, so that the same arithmetic limits requests, retries and reviews, on a
//! real clock and on a paused one. Kept is only the moment at which the bucket is full again:
//!
//! ```
//! # use std::time::Duration;
//! use bowline_core::TokenBucket;
//!
//! let second = Duration::from_secs(1);
//! let mut bucket = TokenBucket::new(second, 2);
//! let now = Duration::ZERO;
//! assert!(bucket.try_take(now) && bucket.try_take(now) && !bucket.try_take(now));
//! assert_eq!(bucket.reserve(now), second, "a token of the future");
//! ```

use std::ops::{Add, Sub};
use std::time::Duration;

/// Moments are of type `T`: any clock that counts on.
#[derive(Clone, Debug)]
pub struct TokenBucket<T> {
    interval: Duration,
    tolerance: Duration,
    /// When the bucket is full again; none while it is.
    full_at: Option<T>,
}

impl<T: Copy + Ord + Add<Duration, Output = T> + Sub<T, Output = Duration>> TokenBucket<T> {
    /// One token per `interval`, at most `burst` of them saved up.
    pub fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            tolerance: interval.saturating_mul(burst),
            full_at: None,
        }
    }

    /// How long it takes until there is a token; nothing is taken.
    pub fn wait(&self, now: T) -> Duration {
        (self.after_one(now) - now).saturating_sub(self.tolerance)
    }

    /// Takes a token, perhaps one of the future; the answer is how long it takes to come.
    pub fn reserve(&mut self, now: T) -> Duration {
        let wait = self.wait(now);
        self.full_at = Some(self.after_one(now));
        wait
    }

    /// Takes a token only if there is one now.
    pub fn try_take(&mut self, now: T) -> bool {
        let there = self.wait(now).is_zero();
        if there {
            self.reserve(now);
        }
        there
    }

    /// When the bucket is full again, with one token less.
    fn after_one(&self, now: T) -> T {
        self.full_at.unwrap_or(now).max(now) + self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_burst_and_then_one_per_interval() {
        let ms = Duration::from_millis;
        for (interval, burst, pause) in [(10, 1, 0), (10, 3, 3), (7, 5, 7), (9, 2, 20), (1, 100, 0)]
        {
            let mut bucket = TokenBucket::new(ms(interval), burst);
            let mut taken = Vec::new();
            let mut now = Duration::ZERO;
            for _ in 0..500 {
                let wait = bucket.wait(now);
                assert_eq!(bucket.try_take(now), wait.is_zero());
                if !wait.is_zero() {
                    now += wait;
                    assert!(bucket.try_take(now), "there after the wait");
                }
                taken.push(now);
                now += ms(pause);
            }
            let burst = burst as usize;
            for (first, last) in taken.iter().zip(&taken[burst..]) {
                assert!(*last >= *first + ms(interval), "{interval} {burst} {pause}");
            }
        }
    }

    #[test]
    fn reserved_tokens_come_one_after_the_other_and_leave_none_to_take() {
        let second = Duration::from_secs(1);
        let mut bucket = TokenBucket::new(second, 1);
        let now = Duration::ZERO;
        let waits: Vec<Duration> = (0..4).map(|_| bucket.reserve(now)).collect();
        assert_eq!(waits, [0, 1, 2, 3].map(Duration::from_secs));
        assert!(!bucket.try_take(now + second * 3) && bucket.try_take(now + second * 4));
    }
}
