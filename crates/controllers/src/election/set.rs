//! Several Leases at once, all or nothing.
//!
//! ```text
//!  compete for the first ─▶ then for each of the others in order ─▶ all are held ─▶ work
//!                            (those held are renewed, those whose        │
//!                             turn has not come are looked at)           ▼
//!                                          one is lost: all is over · the end: given back, last first
//! ```

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;

use futures::future::{join_all, select_all};

use super::elector::{Elector, Held};
use super::fence::Fence;
use super::terms::{ElectionError, Lost};
use crate::stop::Stop;

/// Candidates for several Leases, all of which are needed before any work starts: the process's own,
/// and for example those of the controller managers that are being replaced.
pub struct LeaseSet(VecDeque<Elector>);

/// Several Leases that are ours.
pub struct HeldSet(Vec<Held>);

/// Why not all Leases became ours.
pub enum Interrupted {
    /// One that was ours already is lost.
    Lost(Lost),
    /// The signal to stop was given. These were ours by then.
    Stopped(HeldSet),
}

/// What ended the wait for one Lease.
enum Turn {
    Lost(Lost),
    Stopped,
    Ours(Held),
}

impl LeaseSet {
    /// The Lease that replicas compete for, and those that its holder has to have besides. The others
    /// are acquired in the order of their names, so that two processes that want the same Leases
    /// never wait for each other; one Lease counts once.
    pub fn new(first: Elector, mut others: Vec<Elector>) -> Self {
        others.sort_by(|a, b| a.lease().cmp(b.lease()));
        others.dedup_by(|a, b| a.lease() == b.lease());
        others.retain(|other| other.lease() != first.lease());
        Self(std::iter::once(first).chain(others).collect())
    }

    /// All fences in one, shut until all Leases are held.
    pub fn fence(&self) -> Fence {
        let fences = self.0.iter().map(Elector::fence);
        fences.fold(Fence::open(), |all, fence| all.and(&fence))
    }

    /// Competes for one Lease after the other while renewing those already held.
    ///
    /// Whoever lost the first Lease has lost the right to work, whatever else it still holds: what it
    /// left behind is taken over at once, instead of waiting for each to run out.
    pub async fn acquire(self, stop: &Stop) -> Result<HeldSet, Interrupted> {
        let Self(mut waiting) = self;
        let mut held = HeldSet(Vec::new());
        while let Some(mut next) = waiting.pop_front() {
            let rest = match held.0.first() {
                Some(first) => {
                    next.succeed(first.predecessor());
                    waiting.make_contiguous()
                }
                // A standby looks at nothing but the first.
                None => &mut [],
            };
            match turn(&mut held, next, rest, stop).await {
                Turn::Ours(one) => held.0.push(one),
                Turn::Stopped => return Err(Interrupted::Stopped(held)),
                Turn::Lost(lost) => return Err(Interrupted::Lost(lost)),
            }
        }
        Ok(held)
    }
}

async fn turn(held: &mut HeldSet, next: Elector, rest: &mut [Elector], stop: &Stop) -> Turn {
    let renewing = pin!(held.renew());
    let following = pin!(follow(rest));
    let acquiring = pin!(next.acquire());
    tokio::select! {
        // Losing one matters more than gaining another.
        biased;
        lost = renewing => Turn::Lost(lost),
        () = stop.given() => Turn::Stopped,
        one = acquiring => Turn::Ours(one),
        never = following => match never {},
    }
}

/// Looks at Leases whose turn has not come: if several holders are gone, their Leases run out at the
/// same time and not one after the other.
async fn follow(electors: &mut [Elector]) -> Infallible {
    join_all(electors.iter_mut().map(Elector::follow)).await;
    pending().await
}

impl HeldSet {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All fences in one: to be asked before every write.
    pub fn fence(&self) -> Fence {
        let fences = self.0.iter().map(Held::fence);
        fences.fold(Fence::open(), |all, fence| all.and(&fence))
    }

    /// Renews all until the first is lost. An empty set is never lost.
    pub async fn renew(&mut self) -> Lost {
        if self.0.is_empty() {
            return pending().await;
        }
        let renewals = self.0.iter_mut().map(|held| Box::pin(held.renew()));
        let (lost, _, _) = select_all(renewals).await;
        lost
    }

    /// Gives all back, the last one first: who gets the first finds the others free. Only after all
    /// work stopped. One that cannot be given back hinders no other; the first error is returned.
    pub async fn release(self) -> Result<(), ElectionError> {
        self.fence().shut();
        let mut result = Ok(());
        for held in self.0.into_iter().rev() {
            let released = held.release().await;
            result = result.and(released);
        }
        result
    }
}
