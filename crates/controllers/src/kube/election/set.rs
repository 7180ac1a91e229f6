//! Several Leases at once, all or nothing.
//!
//! ```text
//!  compete for the first ─▶ then for each of the others in order ─▶ all are held ─▶ work
//!        ▲                   (those held are renewed, those whose        │
//!        │                    turn has not come are looked at)           ▼
//!        │                          │                one is lost: all is over · the end: given back, last first
//!        │                          ▼
//!        └── until all are free ◀── one takes too long: given back
//! ```

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;

use futures::future::{join_all, select_all};
use tokio::time::sleep;

use super::elector::{Elector, Held, Kin};
use super::fence::Fence;
use super::terms::{ElectionError, Lost};
use tokio_util::sync::CancellationToken;

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
enum WaitEnd {
    Lost(Lost),
    Stopped,
    Ours,
    TooLong,
}

impl LeaseSet {
    /// The Lease that replicas compete for, and those that its holder has to have besides. All are acquired in the
    /// order of their names, whichever is whose own: so two processes never wait for each other. One Lease counts once.
    pub fn new(own: Elector, others: Vec<Elector>) -> Self {
        let kin = Kin::default();
        let others = others
            .into_iter()
            .filter(|other| other.lease() != own.lease())
            .map(|other| other.of(&kin, false));
        let mut all: Vec<Elector> = others.collect();
        all.push(own.of(&kin, true));
        all.sort_by(|a, b| a.lease().cmp(b.lease()));
        all.dedup_by(|a, b| a.lease() == b.lease());
        Self(all.into())
    }

    /// All fences in one, shut until all Leases are held.
    pub fn fence(&self) -> Fence {
        let fences = self.0.iter().map(Elector::fence);
        fences.fold(Fence::open(), |all, fence| all.and(&fence))
    }

    /// Competes until all are held. Who has some and waits too long for another gives them back: a process that goes
    /// by another order may need them. It takes none again before all can be had.
    pub async fn acquire(self, stop: &CancellationToken) -> Result<HeldSet, Interrupted> {
        let Self(mut waiting) = self;
        loop {
            let mut held = HeldSet(Vec::new());
            match take(&mut held, &mut waiting, stop).await {
                WaitEnd::Ours => return Ok(held),
                WaitEnd::Stopped => return Err(Interrupted::Stopped(held)),
                WaitEnd::Lost(lost) => return Err(Interrupted::Lost(lost)),
                WaitEnd::TooLong => {}
            }
            for elector in held.give_back().await {
                waiting.push_front(elector);
            }
            let free = until_free(waiting.make_contiguous());
            if stop.run_until_cancelled(free).await.is_none() {
                return Err(Interrupted::Stopped(HeldSet(Vec::new())));
            }
        }
    }
}

/// Competes for one Lease after the other while renewing those already held.
///
/// Whoever lost the first Lease has lost the right to work, whatever else it still holds: what it
/// left behind is taken over at once, instead of waiting for each to run out.
async fn take(
    held: &mut HeldSet,
    waiting: &mut VecDeque<Elector>,
    stop: &CancellationToken,
) -> WaitEnd {
    while let Some(mut next) = waiting.pop_front() {
        next.succeed(held.0.first().and_then(Held::predecessor));
        let rest = if held.is_empty() && next.is_own() {
            // A standby looks at nothing but its own.
            &mut []
        } else {
            waiting.make_contiguous()
        };
        match wait_for(held, &mut next, rest, stop).await {
            WaitEnd::Ours => held.0.push(next.hold()),
            ended => {
                if matches!(ended, WaitEnd::TooLong) {
                    tracing::info!(lease = %next.lease(), "it takes too long: what is held is given back");
                }
                waiting.push_front(next);
                return ended;
            }
        }
    }
    WaitEnd::Ours
}

async fn wait_for(
    held: &mut HeldSet,
    next: &mut Elector,
    rest: &mut [Elector],
    stop: &CancellationToken,
) -> WaitEnd {
    let patience = (!held.is_empty()).then(|| next.patience());
    let renewing = pin!(held.renew());
    let following = pin!(follow(rest));
    let competing = pin!(next.compete());
    let too_long = pin!(async {
        match patience {
            Some(patience) => sleep(patience).await,
            None => pending().await,
        }
    });
    tokio::select! {
        // Losing one matters more than gaining another.
        biased;
        lost = renewing => WaitEnd::Lost(lost),
        () = stop.cancelled() => WaitEnd::Stopped,
        () = competing => WaitEnd::Ours,
        () = too_long => WaitEnd::TooLong,
        never = following => match never {},
    }
}

/// Looks at all Leases until none is anybody else's.
async fn until_free(electors: &mut [Elector]) {
    loop {
        let looks = electors.iter_mut().map(|elector| {
            elector.succeed(None);
            elector.is_free()
        });
        let free = join_all(looks).await;
        match electors.first() {
            Some(first) if free.contains(&false) => first.pause().await,
            _ => return,
        }
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

    /// The same, and the candidates may compete again. One that cannot be given back runs out.
    async fn give_back(self) -> Vec<Elector> {
        self.fence().shut();
        let mut electors = Vec::new();
        for held in self.0.into_iter().rev() {
            let (elector, released) = held.give_back().await;
            if let Err(error) = released {
                tracing::warn!("a lease was not given back: {}", error.chain());
            }
            electors.push(elector);
        }
        electors
    }
}
