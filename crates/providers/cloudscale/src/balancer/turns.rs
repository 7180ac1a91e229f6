//! One write at a time for each load balancer: more only queue up in the cloud.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

/// Who has a turn. Nobody who waits is forgotten; what nobody uses is.
#[derive(Default)]
pub(crate) struct Turns(Mutex<BTreeMap<Uuid, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits for the turn on that load balancer.
    pub(crate) async fn of(&self, balancer: Uuid) -> OwnedMutexGuard<()> {
        let turn = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(all.entry(balancer).or_default())
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_for_each_and_nothing_is_kept() {
        let turns = Turns::default();
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let first = turns.of(one).await;
        let other = turns.of(two).await;
        let second = turns.of(one);
        tokio::pin!(second);
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        let second = second.await;
        drop((second, other));
        drop(turns.of(two).await);
        assert_eq!(turns.0.lock().unwrap().len(), 1);
    }
}
