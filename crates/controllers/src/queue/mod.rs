//! The work queue of every controller: keys in, one worker per key, retries with back-off.
//!
//! A key is queued at most once, is never with two workers, and a key added while a worker has it
//! is handed out once more afterwards. Order is first in, first out, and time is tokio's, so that a
//! simulated run is the same every time.

mod backoff;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::{QueueMetrics, QueueSeries, UnfinishedWork};
pub use backoff::{Backoff, Bucket};

/// Keys that may wait in one queue, delayed ones included. Twenty times the largest cluster that
/// Kubernetes supports (5,000 nodes): only a defect gets there, and then memory stays bounded.
pub const KEYS_LIMIT: usize = 100_000;

/// A queue of keys; clones share it.
#[derive(Debug)]
pub struct WorkQueue<K: Ord + Clone + Debug + Send + 'static>(Arc<Shared<K>>);

impl<K: Ord + Clone + Debug + Send + 'static> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Shared<K> {
    name: &'static str,
    state: Mutex<State<K>>,
    changed: Notify,
    drained: Notify,
    series: QueueSeries,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// Keys that need a run, with the moment they were asked for; those being worked on included.
    wanted: BTreeMap<K, Instant>,
    working: BTreeMap<K, Instant>,
    delayed: BTreeSet<(Instant, u64, K)>,
    due: BTreeMap<K, (Instant, u64)>,
    sequence: u64,
    backoff: Backoff<K>,
    stopped: bool,
}

/// A key in the hands of a worker. Dropping it tells the queue that the worker is done.
#[derive(Debug)]
pub struct Work<K: Ord + Clone + Debug + Send + 'static> {
    key: K,
    queue: WorkQueue<K>,
}

impl<K: Ord + Clone + Debug + Send + 'static> Work<K> {
    /// What is to be worked on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The run succeeded: its failures are forgotten.
    pub fn succeeded(self) {
        self.queue.forget(&self.key);
    }

    /// The run failed: the key comes back after its back-off, whose length is the answer.
    pub fn failed(self) -> Duration {
        self.queue.retry(self.key.clone())
    }

    /// The run is to be repeated after that time; its failures are forgotten.
    pub fn again_after(self, delay: Duration) {
        self.queue.forget(&self.key);
        self.queue.add_after(self.key.clone(), delay);
    }
}

impl<K: Ord + Clone + Debug + Send + 'static> Drop for Work<K> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}

impl<K: Ord + Clone + Debug + Send + 'static> WorkQueue<K> {
    /// A queue under that name in the metrics (`Nodes`, `service`, …), with that back-off.
    pub fn new(name: &'static str, backoff: Backoff<K>, metrics: &QueueMetrics) -> Self {
        let shared = Arc::new(Shared {
            name,
            state: Mutex::new(State {
                ready: VecDeque::new(),
                wanted: BTreeMap::new(),
                working: BTreeMap::new(),
                delayed: BTreeSet::new(),
                due: BTreeMap::new(),
                sequence: 0,
                backoff,
                stopped: false,
            }),
            changed: Notify::new(),
            drained: Notify::new(),
            series: metrics.series(name),
        });
        let unfinished: Arc<dyn UnfinishedWork> = Arc::clone(&shared) as _;
        metrics.follow(name, Arc::downgrade(&unfinished));
        Self(shared)
    }

    /// Asks for a run of that key as soon as a worker is free. Says whether the queue took it:
    /// not when it is shut down or full.
    pub fn add(&self, key: K) -> bool {
        let mut state = self.state();
        let taken = self.admit(&mut state, &key) && {
            self.want(&mut state, key, Instant::now());
            true
        };
        drop(state);
        self.0.changed.notify_one();
        taken
    }

    /// Asks for a run of that key after `delay`. Of several delays for one key the shortest counts,
    /// and any run of the key makes the waiting ones void: it has seen the newest state.
    pub fn add_after(&self, key: K, delay: Duration) -> bool {
        if delay.is_zero() {
            return self.add(key);
        }
        let mut state = self.state();
        if !self.admit(&mut state, &key) {
            return false;
        }
        let at = Instant::now() + delay;
        if let Some((earlier, sequence)) = state.due.get(&key).copied() {
            if earlier <= at {
                return true;
            }
            state.delayed.remove(&(earlier, sequence, key.clone()));
        }
        state.sequence += 1;
        let sequence = state.sequence;
        state.due.insert(key.clone(), (at, sequence));
        state.delayed.insert((at, sequence, key));
        drop(state);
        self.0.changed.notify_one();
        true
    }

    /// Asks for another run after a failure; the answer is the delay.
    pub fn retry(&self, key: K) -> Duration {
        let delay = self.state().backoff.next(&key, Instant::now());
        self.0.series.retries.inc();
        self.add_after(key, delay);
        delay
    }

    /// Clears the failures of that key.
    pub fn forget(&self, key: &K) {
        self.state().backoff.forget(key);
    }

    /// How often that key has failed since it last succeeded.
    pub fn failures(&self, key: &K) -> u32 {
        self.state().backoff.failures(key)
    }

    /// Keys ready to be handed out now.
    pub fn len(&self) -> usize {
        let mut state = self.state();
        self.promote(&mut state);
        state.ready.len()
    }

    /// Whether no key is ready to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next key, waiting for one; none when the queue is shut down. Safe to cancel.
    pub async fn next(&self) -> Option<Work<K>> {
        loop {
            let changed = self.0.changed.notified();
            let wake = {
                let mut state = self.state();
                if state.stopped {
                    return None;
                }
                self.promote(&mut state);
                if let Some(key) = self.take(&mut state) {
                    if !state.ready.is_empty() || !state.delayed.is_empty() {
                        self.0.changed.notify_one();
                    }
                    drop(state);
                    let queue = self.clone();
                    return Some(Work { key, queue });
                }
                state.delayed.first().map(|(at, ..)| *at)
            };
            match wake {
                None => changed.await,
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// Stops handing out and taking in. Workers finish what they have.
    pub fn shut_down(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.ready.clear();
        state.wanted.clear();
        state.delayed.clear();
        state.due.clear();
        self.0.series.depth.set(0);
        drop(state);
        self.0.changed.notify_waiters();
        self.0.drained.notify_waiters();
    }

    /// Shuts down and waits until no worker holds a key.
    pub async fn drain(&self) {
        self.shut_down();
        loop {
            let drained = self.0.drained.notified();
            if self.state().working.is_empty() {
                return;
            }
            drained.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, state: &mut State<K>, key: &K) -> bool {
        if state.stopped {
            return false;
        }
        let known = state.wanted.contains_key(key) || state.due.contains_key(key);
        let full = !known && state.wanted.len() + state.due.len() >= KEYS_LIMIT;
        if full {
            tracing::error!(queue = self.0.name, ?key, "work queue is full, key dropped");
        }
        !full
    }

    /// Moves the delayed keys whose time has come to the end of the line.
    fn promote(&self, state: &mut State<K>) {
        let now = Instant::now();
        while state.delayed.first().is_some_and(|(at, ..)| *at <= now) {
            let Some((at, _, key)) = state.delayed.pop_first() else {
                return;
            };
            state.due.remove(&key);
            self.want(state, key, at);
        }
    }

    fn want(&self, state: &mut State<K>, key: K, since: Instant) {
        if state.wanted.contains_key(&key) {
            return;
        }
        self.0.series.adds.inc();
        state.wanted.insert(key.clone(), since);
        if !state.working.contains_key(&key) {
            state.ready.push_back(key);
            self.show_depth(state);
        }
    }

    fn take(&self, state: &mut State<K>) -> Option<K> {
        let key = state.ready.pop_front()?;
        let now = Instant::now();
        if let Some(since) = state.wanted.remove(&key) {
            let waited = now.saturating_duration_since(since);
            self.0.series.waited.observe(waited.as_secs_f64());
        }
        if let Some((at, sequence)) = state.due.remove(&key) {
            state.delayed.remove(&(at, sequence, key.clone()));
        }
        state.working.insert(key.clone(), now);
        self.show_depth(state);
        Some(key)
    }

    fn done(&self, key: &K) {
        let mut state = self.state();
        if let Some(since) = state.working.remove(key) {
            self.0.series.worked.observe(since.elapsed().as_secs_f64());
        }
        if state.wanted.contains_key(key) {
            state.ready.push_back(key.clone());
            self.show_depth(&state);
        }
        let drained = state.working.is_empty();
        drop(state);
        self.0.changed.notify_one();
        if drained {
            self.0.drained.notify_waiters();
        }
    }

    fn show_depth(&self, state: &State<K>) {
        let depth = i64::try_from(state.ready.len()).unwrap_or(i64::MAX);
        self.0.series.depth.set(depth);
    }
}

impl<K: Send + Debug> UnfinishedWork for Shared<K> {
    fn ages(&self) -> Vec<Duration> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.working.values().map(Instant::elapsed).collect()
    }
}
