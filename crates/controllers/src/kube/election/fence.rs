//! The fence: proof of leadership by the local clock, checked before every write.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bowline_http::Clock;
use jiff::Timestamp;
use tokio::time::Instant;

/// How much longer than a lease duration a leader may go without a renewal before `/healthz`
/// reports it: it should have given up long before, so by then something is stuck.
const HEALTH_TOLERANCE: Duration = Duration::from_secs(20);

/// Work was refused because leadership is no longer certain, or was never wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fenced {
    /// Somebody else may lead by now.
    #[error("not leading: lease {lease} was not renewed in time")]
    NotLeading {
        /// `namespace/name` of the Lease.
        lease: String,
    },
    /// The manager only looks.
    #[error("observing: nothing is changed")]
    Observing,
}

/// Tells, without asking anybody, whether one or several Leases are certainly still ours.
///
/// Ask it right before every write. It compares the last good renewal, dated at the moment its
/// request was *sent*, with the renew deadline; others wait a whole lease duration from the moment
/// they *saw* it, which is later and longer. So two processes are never unfenced at the same time,
/// however long one of them was frozen. The time of day is checked as well, because the monotonic
/// clock stands still while a machine is suspended.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    leases: Vec<Arc<LeaseCheck>>,
    observing: bool,
}

#[derive(Debug)]
struct LeaseCheck {
    lease: String,
    deadline: Duration,
    lease_duration: Duration,
    clock: Clock,
    state: Mutex<FenceState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FenceState {
    /// When the last good renewal was sent; none when not leading.
    renewed: Option<(Instant, Timestamp)>,
    /// Whether the one before us was not seen to end its work.
    succeeds_a_lost_leader: bool,
}

impl Fence {
    /// A fence that lets nobody pass until it is renewed.
    pub(crate) fn closed(
        lease: String,
        deadline: Duration,
        lease_duration: Duration,
        clock: Clock,
    ) -> Self {
        let state = Mutex::new(FenceState::default());
        Self {
            leases: vec![Arc::new(LeaseCheck {
                lease,
                deadline,
                lease_duration,
                clock,
                state,
            })],
            observing: false,
        }
    }

    /// A fence that never lets pass: for a manager that only looks.
    pub fn observing() -> Self {
        Self {
            leases: Vec::new(),
            observing: true,
        }
    }

    /// Whether it is the fence of a manager that only looks.
    pub fn is_observing(&self) -> bool {
        self.observing
    }

    /// A fence that always lets pass: for a manager without leader election.
    pub fn open() -> Self {
        Self::default()
    }

    /// Both fences in one: it lets pass what both let pass.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            leases: self.leases.iter().chain(&other.leases).cloned().collect(),
            observing: self.observing || other.observing,
        }
    }

    /// Whether all Leases are certainly still ours.
    pub fn check(&self) -> Result<(), Fenced> {
        if self.observing {
            return Err(Fenced::Observing);
        }
        self.leases
            .iter()
            .try_for_each(|lease_check| lease_check.check())
    }

    /// Whether somebody who led before may have left writes under way, which may yet take effect:
    /// that leader did not give the Lease back. Without a Lease nobody knows, so that it may be.
    pub fn may_follow_unfinished_writes(&self) -> bool {
        let lost = |lease_check: &Arc<LeaseCheck>| lease_check.state().succeeds_a_lost_leader;
        self.leases.is_empty() || self.leases.iter().any(lost)
    }

    /// Notes that the one who led before did not give the Lease back.
    pub(super) fn succeed_a_lost_leader(&self) {
        for lease_check in &self.leases {
            lease_check.state().succeeds_a_lost_leader = true;
        }
    }

    /// Goes on with work for as long as all Leases are certainly ours, and gives it up then: it is
    /// asked anew each time the work goes on. One call of a cloud is often several requests, and
    /// who was frozen after the first must not send the second.
    pub async fn during<W: Future>(&self, work: W) -> Result<W::Output, Fenced> {
        let mut work = pin!(work);
        poll_fn(|context| match self.check() {
            Ok(()) => work.as_mut().poll(context).map(Ok),
            Err(fenced) => Poll::Ready(Err(fenced)),
        })
        .await
    }

    /// The state of the `leaderElection` health check: bad only if we believe to lead and have not
    /// renewed for a lease duration and [20 s](HEALTH_TOLERANCE) more.
    pub fn health(&self) -> Result<(), Fenced> {
        self.leases
            .iter()
            .try_for_each(|lease_check| lease_check.health())
    }

    /// When the first of the Leases stops being certain; none if no Lease is held.
    pub fn expires(&self) -> Option<Instant> {
        self.leases
            .iter()
            .filter_map(|lease_check| Some(lease_check.state().renewed?.0 + lease_check.deadline))
            .min()
    }

    /// Opens it, or keeps it open: a request sent at that moment made the Lease ours. A fence that
    /// has expired stays shut, because somebody else may have been told so.
    pub(super) fn renew(&self, sent: Instant, sent_date: Timestamp) -> Result<(), Fenced> {
        self.leases.iter().try_for_each(|lease_check| {
            let was_leading = lease_check.state().renewed.is_some();
            if was_leading {
                lease_check.check()?;
            }
            lease_check.state().renewed = Some((sent, sent_date));
            let fresh = lease_check.check();
            if fresh.is_err() && !was_leading {
                // It was never open, so nobody relied on it: the next attempt may open it.
                lease_check.state().renewed = None;
            }
            fresh
        })
    }

    /// Shuts it at once.
    pub(super) fn shut(&self) {
        for lease_check in &self.leases {
            lease_check.state().renewed = None;
        }
    }
}

impl LeaseCheck {
    fn state(&self) -> MutexGuard<'_, FenceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<(), Fenced> {
        let fresh = self.state().renewed.is_some_and(|(sent, date)| {
            sent.elapsed() < self.deadline && self.clock.since(date) < self.deadline
        });
        if fresh { Ok(()) } else { Err(self.fenced()) }
    }

    fn health(&self) -> Result<(), Fenced> {
        match self.state().renewed {
            Some((sent, _)) if sent.elapsed() > self.lease_duration + HEALTH_TOLERANCE => {
                Err(self.fenced())
            }
            _ => Ok(()),
        }
    }

    fn fenced(&self) -> Fenced {
        Fenced::NotLeading {
            lease: self.lease.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence() -> (Fence, Clock) {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let (deadline, duration) = (Duration::from_secs(10), Duration::from_secs(15));
        (
            Fence::closed("ns/name".to_owned(), deadline, duration, clock.clone()),
            clock,
        )
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_is_open_for_one_deadline_after_a_renewal_and_never_again_after_it() {
        let (fence, clock) = fence();
        assert!(fence.check().is_err(), "not yet leading");
        fence.renew(Instant::now(), clock.now()).unwrap();
        pass(9).await;
        fence.check().unwrap();
        fence.renew(Instant::now(), clock.now()).unwrap();
        pass(9).await;
        fence.check().unwrap();
        pass(1).await;
        let fenced = Fenced::NotLeading {
            lease: "ns/name".into(),
        };
        assert_eq!(fence.check(), Err(fenced));
        assert!(
            fence.renew(Instant::now(), clock.now()).is_err(),
            "too late"
        );
        assert!(fence.check().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_was_frozen_past_the_lease_is_given_up_where_it_was() {
        for (seconds, done) in [(8, 2), (20, 1)] {
            let (fence, clock) = fence();
            fence.renew(Instant::now(), clock.now()).unwrap();
            let requests = Mutex::new(0);
            let two = async {
                *requests.lock().unwrap() += 1;
                tokio::time::sleep(Duration::from_secs(5)).await;
                *requests.lock().unwrap() += 1;
            };
            let (ended, ()) = tokio::join!(fence.during(two), pass(seconds));
            assert_eq!(ended.is_ok(), done == 2);
            assert_eq!(*requests.lock().unwrap(), done);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_counts_from_the_sending_of_the_renewal() {
        let (fence, clock) = fence();
        let (sent, date) = (Instant::now(), clock.now());
        pass(4).await;
        fence.renew(sent, date).unwrap();
        pass(6).await;
        assert!(fence.check().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_slept_is_fenced_by_the_time_of_day() {
        let (fence, clock) = fence();
        // The monotonic clock says "just now", the calendar says otherwise.
        let long_ago = clock.now() - Duration::from_secs(3600);
        assert!(fence.renew(Instant::now(), long_ago).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_double_fence_needs_both() {
        let ((one, clock), (two, _)) = (fence(), fence());
        let both = one.and(&two);
        one.renew(Instant::now(), clock.now()).unwrap();
        assert!(both.check().is_err());
        two.renew(Instant::now(), clock.now()).unwrap();
        both.check().unwrap();
        two.shut();
        assert!(both.check().is_err());
        one.check().unwrap();
        Fence::open().check().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn health_fails_only_for_a_leader_stuck_past_the_lease_and_twenty_seconds() {
        let (fence, clock) = fence();
        pass(1000).await;
        fence.health().unwrap();
        fence.renew(Instant::now(), clock.now()).unwrap();
        pass(35).await;
        fence.health().unwrap();
        pass(1).await;
        assert!(fence.health().is_err());
        fence.shut();
        fence.health().unwrap();
    }
}
