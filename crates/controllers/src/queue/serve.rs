//! The workers of a queue.

use std::fmt::Debug;

use futures::future::join_all;
use tokio::task::JoinSet;

use super::{Work, WorkQueue};
use tokio_util::sync::CancellationToken;

impl<K: Ord + Clone + Debug + Send + 'static> WorkQueue<K> {
    /// Reconciles every key until `stop`, at most `at_once` of each lane at the same time; then shuts down, and
    /// ends when the runs under way have. A run that panics is over, and costs no worker.
    pub async fn serve<T>(
        &self,
        at_once: usize,
        stop: &CancellationToken,
        reconcile: impl Fn(Work<K>) -> T,
    ) where
        T: Future<Output = ()> + Send + 'static,
    {
        let lanes = (0..self.lanes()).map(|lane| self.serve_lane(lane, at_once, stop, &reconcile));
        join_all(lanes).await;
    }

    async fn serve_lane<T>(
        &self,
        lane: usize,
        at_once: usize,
        stop: &CancellationToken,
        reconcile: &impl Fn(Work<K>) -> T,
    ) where
        T: Future<Output = ()> + Send + 'static,
    {
        let mut runs = JoinSet::new();
        loop {
            while runs.try_join_next().is_some() {}
            let next = async {
                if runs.len() >= at_once {
                    runs.join_next().await;
                }
                self.next_in(lane).await
            };
            let Some(Some(work)) = stop.run_until_cancelled(next).await else {
                break;
            };
            runs.spawn(reconcile(work));
        }
        self.shut_down();
        while runs.join_next().await.is_some() {}
    }
}
