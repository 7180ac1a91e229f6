//! How fast and how much at once one cloud is asked.

use std::num::NonZeroU32;
use std::time::Duration;

use bowline_core::TokenBucket;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};

/// A token bucket: `per_second` on average, `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests per second in the long run.
    pub per_second: NonZeroU32,
    /// Requests that may follow each other without a wait.
    pub burst: NonZeroU32,
}

impl Rate {
    /// Zeros count as one.
    pub fn new(per_second: u32, burst: u32) -> Self {
        let at_least_one = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self {
            per_second: at_least_one(per_second),
            burst: at_least_one(burst),
        }
    }
}

/// A token bucket on tokio's clock that serves in the order of arrival.
#[derive(Debug)]
pub struct Bucket {
    /// Held while waiting for a token: who waits longest is served first.
    tokens: Mutex<TokenBucket<Instant>>,
}

impl Bucket {
    /// One token per `period`, at most `burst` of them saved up; none if the period is zero.
    pub fn new(period: Duration, burst: NonZeroU32) -> Option<Self> {
        let tokens = Mutex::new(TokenBucket::new(period, burst.get()));
        (!period.is_zero()).then_some(Self { tokens })
    }

    /// Waits for a token; says how long that took. Whoever gives up has taken none.
    pub async fn wait(&self) -> Duration {
        let from = Instant::now();
        let mut tokens = self.tokens.lock().await;
        while !tokens.try_take(Instant::now()) {
            sleep(tokens.wait(Instant::now())).await;
        }
        from.elapsed()
    }
}

/// Lets requests through: so many at once, and so fast.
#[derive(Debug)]
pub(crate) struct Gate {
    bucket: Option<Bucket>,
    places: Semaphore,
}

impl Gate {
    pub(crate) fn new(rate: Option<Rate>, in_flight: usize) -> Self {
        let bucket = rate.and_then(|rate| {
            Bucket::new(Duration::from_secs(1) / rate.per_second.get(), rate.burst)
        });
        Self {
            bucket,
            places: Semaphore::new(in_flight.max(1)),
        }
    }

    /// Waits for a place and then for a token. The place is free again when the permit is dropped.
    pub(crate) async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        let place = self.places.acquire().await.ok();
        if let Some(bucket) = &self.bucket {
            bucket.wait().await;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let gate = Gate::new(Some(Rate::new(5, 10)), 100);
        let start = Instant::now();
        for _ in 0..10 {
            gate.enter().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..50 {
            gate.enter().await;
        }
        let taken = start.elapsed();
        assert!(
            taken >= Duration::from_secs(10) && taken < Duration::from_millis(10_100),
            "{taken:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_are_served_in_their_order() {
        let gate = Arc::new(Gate::new(Some(Rate::new(1, 1)), 100));
        let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
        for n in 0..20 {
            let (gate, done) = (Arc::clone(&gate), done.clone());
            tokio::spawn(async move {
                let _place = gate.enter().await;
                done.send(n).unwrap();
            });
        }
        for n in 0..20 {
            assert_eq!(order.recv().await, Some(n));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_allowed_number_is_in_flight() {
        let gate = Gate::new(None, 2);
        let first = gate.enter().await;
        let _second = gate.enter().await;
        let third = tokio::time::timeout(Duration::from_secs(9), gate.enter()).await;
        assert!(third.is_err());
        drop(first);
        assert!(gate.enter().await.is_some());
    }
}
