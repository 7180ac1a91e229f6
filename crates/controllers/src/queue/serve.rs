//! The workers of a queue.

use std::fmt::Debug;

use futures::future::join_all;
use tokio::task::JoinSet;

use super::{Work, WorkQueue};
use tokio_util::sync::CancellationToken;

impl<K: Ord + Clone + Debug + Send + 'static> WorkQueue<K> {
    /// Gives every key its turn until `stop`, at most `at_once` of each lane at the same time; then shuts down, and
    /// ends when the turns that are under way have. A turn that panics is over, and costs no worker.
    pub async fn serve<T>(
        &self,
        at_once: usize,
        stop: &CancellationToken,
        turn: impl Fn(Work<K>) -> T,
    ) where
        T: Future<Output = ()> + Send + 'static,
    {
        let lanes = (0..self.lanes()).map(|lane| self.serve_lane(lane, at_once, stop, &turn));
        join_all(lanes).await;
    }

    async fn serve_lane<T>(
        &self,
        lane: usize,
        at_once: usize,
        stop: &CancellationToken,
        turn: &impl Fn(Work<K>) -> T,
    ) where
        T: Future<Output = ()> + Send + 'static,
    {
        let mut turns = JoinSet::new();
        loop {
            while turns.try_join_next().is_some() {}
            let next = async {
                if turns.len() >= at_once {
                    turns.join_next().await;
                }
                self.next_in(lane).await
            };
            let Some(Some(work)) = stop.run_until_cancelled(next).await else {
                break;
            };
            turns.spawn(turn(work));
        }
        self.shut_down();
        while turns.join_next().await.is_some() {}
    }
}
