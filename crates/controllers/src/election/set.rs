//! Several Leases at once, all or nothing.

use futures::future::{Either, join_all, select, select_all};

use super::elector::{Elector, Held};
use super::fence::Fence;
use super::terms::{ElectionError, Lost};

/// Candidates for several Leases, all of which are needed before any work starts: for example the
/// Leases of the controller managers that are being replaced.
pub struct LeaseSet(Vec<Elector>);

/// Several Leases that are ours.
pub struct HeldSet(Vec<Held>);

impl LeaseSet {
    /// Takes the candidates. They are acquired in the order of the Leases' names, so that two
    /// processes that want the same Leases never wait for each other; one Lease counts once.
    pub fn new(mut electors: Vec<Elector>) -> Self {
        electors.sort_by(|a, b| a.lease().cmp(b.lease()));
        electors.dedup_by(|a, b| a.lease() == b.lease());
        Self(electors)
    }

    /// All fences in one, shut until all Leases are held.
    pub fn fence(&self) -> Fence {
        self.0
            .iter()
            .fold(Fence::open(), |all, elector| all.and(&elector.fence()))
    }

    /// Competes for one Lease after the other while renewing those already held.
    pub async fn acquire(self) -> Result<HeldSet, Lost> {
        let mut held = HeldSet(Vec::new());
        for elector in self.0 {
            let next = if held.0.is_empty() {
                elector.acquire().await
            } else {
                let acquiring = std::pin::pin!(elector.acquire());
                let renewing = std::pin::pin!(held.renew());
                // The renewals are polled first: losing one matters more than gaining another.
                match select(renewing, acquiring).await {
                    Either::Left((lost, _)) => return Err(lost),
                    Either::Right((next, _)) => next,
                }
            };
            held.0.push(next);
        }
        Ok(held)
    }
}

impl HeldSet {
    /// All fences in one: to be asked before every write.
    pub fn fence(&self) -> Fence {
        self.0
            .iter()
            .fold(Fence::open(), |all, held| all.and(&held.fence()))
    }

    /// Renews all until the first is lost. An empty set is never lost.
    pub async fn renew(&mut self) -> Lost {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        let renewals = self.0.iter_mut().map(|held| Box::pin(held.renew()));
        let (lost, _, _) = select_all(renewals).await;
        lost
    }

    /// Gives all back, at the same time. The first error is returned.
    pub async fn release(self) -> Result<(), ElectionError> {
        join_all(self.0.into_iter().map(Held::release))
            .await
            .into_iter()
            .collect()
    }
}

impl From<Held> for HeldSet {
    fn from(held: Held) -> Self {
        Self(vec![held])
    }
}
