//! The client-side limit of requests, on tokio's clock.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::Limits;

/// What a client gets that asks for 0 requests per second: the originals' library default.
const DEFAULT: Limits = Limits {
    qps: 5.0,
    burst: 10,
};

#[derive(Clone, Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A token bucket that serves in the order of arrival.
#[derive(Debug)]
pub(super) struct Bucket {
    clock: TokioClock,
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Duration>>,
    turn: Mutex<()>,
}

impl Bucket {
    /// None for no limit.
    pub(super) fn new(limits: Limits) -> Option<Self> {
        if limits.qps < 0.0 || limits.qps.is_infinite() {
            return None;
        }
        let limits = if limits.qps == 0.0 { DEFAULT } else { limits };
        let period = Duration::try_from_secs_f64(1.0 / f64::from(limits.qps)).ok()?;
        let burst = u32::try_from(limits.burst).ok().and_then(NonZeroU32::new)?;
        let quota = Quota::with_period(period)?.allow_burst(burst);
        let clock = TokioClock(Instant::now());
        let limiter = RateLimiter::direct_with_clock(quota, clock.clone());
        Some(Self {
            clock,
            limiter,
            turn: Mutex::new(()),
        })
    }

    /// Waits for a token; says how long that took.
    pub(super) async fn wait(&self) -> Duration {
        let from = Instant::now();
        let _turn = self.turn.lock().await;
        while let Err(not_yet) = self.limiter.check() {
            sleep(not_yet.wait_time_from(self.clock.now())).await;
        }
        from.elapsed()
    }
}
