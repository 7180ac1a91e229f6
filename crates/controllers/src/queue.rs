//! The work queue of every controller: keys in, one worker per key, retries with back-off.
//!
//! A key is queued at most once, is never with two workers, and a key added while a worker has it
//! is handed out once more afterwards. Order is first in, first out, and time is tokio's, so that a
//! simulated run is the same every time.
//!
//! ```text
//!                          ┌─▶ lane of cloud a ──▶ its workers
//!  add ─▶ line ─▶ sort ────┼─▶ lane of cloud b ──▶ its workers
//!  delays, retries ─▶┘     └─▶ common lane ──────▶ its workers
//! ```
//!
//! Where there are several clouds, each has a lane ([`Lanes`]) with workers and a retry budget of its own: keys of
//! a cloud that does not answer wait for each other, and for nobody else.

mod backoff;
mod lanes;
mod serve;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::{QueueMetrics, QueueSeries, UnfinishedWork};
pub use backoff::Backoff;
pub use lanes::Lanes;

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
    lanes: Lanes<K>,
    /// Held while keys are sorted, so that what was decided last counts. Never taken with `state` held: deciding
    /// reads what others change while they add keys.
    sorting: Mutex<()>,
    state: Mutex<QueueState<K>>,
    /// For each lane, something may have changed for its workers.
    changed: Vec<Notify>,
    drained: Notify,
    series: QueueSeries,
}

#[derive(Debug)]
struct QueueState<K> {
    /// Keys to be sorted into their lanes, or to be looked at once more because they were asked for again.
    arrived: VecDeque<K>,
    /// The keys of each lane, first in, first out.
    ready: Vec<VecDeque<K>>,
    /// All keys that wait for a worker.
    places: BTreeMap<K, QueuePosition>,
    /// Keys whose next run comes before those of all others.
    urgent: BTreeSet<K>,
    /// Keys that need a run, with the moment they were asked for; those being worked on included.
    wanted: BTreeMap<K, Instant>,
    /// Keys with a worker, since when, and of which lane.
    working: BTreeMap<K, (Instant, usize)>,
    delayed: BTreeSet<(Instant, u64, K)>,
    due: BTreeMap<K, (Instant, u64)>,
    sequence: u64,
    backoff: Backoff<K>,
    stopped: bool,
}

/// Where a key waits.
#[derive(Clone, Copy, Debug, Default)]
struct QueuePosition {
    /// Its lane; none before it was sorted for the first time.
    lane: Option<usize>,
    /// Whether it is among those that arrived.
    arrived: bool,
    /// Whether it waits before those that are not urgent.
    first: bool,
}

/// A key in the hands of a worker. Dropping it ends the run.
#[derive(Debug)]
pub struct Work<K: Ord + Clone + Debug + Send + 'static> {
    key: K,
    lane: usize,
    queue: WorkQueue<K>,
}

impl<K: Ord + Clone + Debug + Send + 'static> Work<K> {
    /// What is to be worked on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// In which lane it is worked on.
    pub fn lane(&self) -> usize {
        self.lane
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
    /// A queue under that name in the metrics (`Nodes`, `service`, …), with that back-off, of one lane.
    pub fn new(name: &'static str, backoff: Backoff<K>, metrics: &QueueMetrics) -> Self {
        Self::with_lanes(name, backoff, metrics, Lanes::one())
    }

    /// The same with these lanes; each has the whole of the back-off's budget.
    pub fn with_lanes(
        name: &'static str,
        backoff: Backoff<K>,
        metrics: &QueueMetrics,
        lanes: Lanes<K>,
    ) -> Self {
        let count = lanes.count();
        let shared = Arc::new(Shared {
            name,
            lanes,
            sorting: Mutex::new(()),
            state: Mutex::new(QueueState {
                arrived: VecDeque::new(),
                ready: (0..count).map(|_| VecDeque::new()).collect(),
                places: BTreeMap::new(),
                urgent: BTreeSet::new(),
                wanted: BTreeMap::new(),
                working: BTreeMap::new(),
                delayed: BTreeSet::new(),
                due: BTreeMap::new(),
                sequence: 0,
                backoff: backoff.for_lanes(count),
                stopped: false,
            }),
            changed: (0..count).map(|_| Notify::new()).collect(),
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
        self.ask(key, false)
    }

    /// The same, before all keys of its lane that are not urgent, also if it waits already. Urgent keys keep the
    /// order in which they came.
    pub fn add_urgent(&self, key: K) -> bool {
        self.ask(key, true)
    }

    fn ask(&self, key: K, urgent: bool) -> bool {
        let mut state = self.state();
        let taken = self.admit(&mut state, &key) && {
            if urgent {
                state.urgent.insert(key.clone());
            }
            self.want(&mut state, key, Instant::now());
            true
        };
        drop(state);
        self.wake_all();
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
        self.wake_all();
        true
    }

    /// Asks for another run after a failure; the answer is the delay.
    pub fn retry(&self, key: K) -> Duration {
        let delay = {
            let mut state = self.state();
            let lane = state.working.get(&key).map_or(0, |(_, lane)| *lane);
            state.backoff.next_in(lane, &key, Instant::now())
        };
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

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.0.lanes.count()
    }

    /// Keys ready to be handed out now, in whichever lane.
    pub fn len(&self) -> usize {
        let mut state = self.state();
        self.promote(&mut state);
        state.places.len()
    }

    /// Whether no key is ready to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next key of the first lane, which is the only one unless the queue was made with several.
    pub async fn next(&self) -> Option<Work<K>> {
        self.next_in(0).await
    }

    /// The next key of that lane, waiting for one; none when the queue is shut down. Safe to cancel.
    pub async fn next_in(&self, lane: usize) -> Option<Work<K>> {
        loop {
            let changed = self.0.changed[lane].notified();
            self.sort();
            let wake = {
                let mut state = self.state();
                if state.stopped {
                    return None;
                }
                if let Some(key) = self.take(&mut state, lane) {
                    if !state.ready[lane].is_empty() || !state.delayed.is_empty() {
                        self.0.changed[lane].notify_one();
                    }
                    drop(state);
                    let queue = self.clone();
                    return Some(Work { key, lane, queue });
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
        state.arrived.clear();
        state.ready.iter_mut().for_each(VecDeque::clear);
        state.places.clear();
        state.urgent.clear();
        state.wanted.clear();
        state.delayed.clear();
        state.due.clear();
        self.0.series.depth.set(0);
        drop(state);
        for lane in &self.0.changed {
            lane.notify_waiters();
        }
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

    fn state(&self) -> MutexGuard<'_, QueueState<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, state: &mut QueueState<K>, key: &K) -> bool {
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
    fn promote(&self, state: &mut QueueState<K>) {
        let now = Instant::now();
        while state.delayed.first().is_some_and(|(at, ..)| *at <= now) {
            let Some((at, _, key)) = state.delayed.pop_first() else {
                return;
            };
            state.due.remove(&key);
            self.want(state, key, at);
        }
    }

    fn want(&self, state: &mut QueueState<K>, key: K, since: Instant) {
        if state.wanted.contains_key(&key) {
            // What it is about may have changed, and with that its lane.
            if state.places.contains_key(&key) {
                arrive(state, key);
            }
            return;
        }
        self.0.series.adds.inc();
        state.wanted.insert(key.clone(), since);
        if !state.working.contains_key(&key) {
            arrive(state, key);
            self.show_depth(state);
        }
    }

    /// Sorts what arrived into lanes. A key that has another lane by now goes to the end of that one.
    fn sort(&self) {
        let sorting = self.0.sorting.lock();
        let _sorting = sorting.unwrap_or_else(PoisonError::into_inner);
        let arrived = {
            let mut state = self.state();
            self.promote(&mut state);
            let arrived = std::mem::take(&mut state.arrived);
            for key in &arrived {
                if let Some(place) = state.places.get_mut(key) {
                    place.arrived = false;
                }
            }
            arrived
        };
        if arrived.is_empty() {
            return;
        }
        let lane_of = |key| (self.0.lanes.of(&key), key);
        let sorted: Vec<(usize, K)> = arrived.into_iter().map(lane_of).collect();
        let mut state = self.state();
        let mut filled = BTreeSet::new();
        for (lane, key) in sorted {
            if place(&mut state, key, lane) {
                filled.insert(lane);
            }
        }
        drop(state);
        for lane in filled {
            self.0.changed[lane].notify_one();
        }
    }

    fn take(&self, state: &mut QueueState<K>, lane: usize) -> Option<K> {
        let key = state.ready[lane].pop_front()?;
        state.places.remove(&key);
        state.urgent.remove(&key);
        let now = Instant::now();
        if let Some(since) = state.wanted.remove(&key) {
            let waited = now.saturating_duration_since(since);
            self.0.series.waited.observe(waited.as_secs_f64());
        }
        if let Some((at, sequence)) = state.due.remove(&key) {
            state.delayed.remove(&(at, sequence, key.clone()));
        }
        state.working.insert(key.clone(), (now, lane));
        self.show_depth(state);
        Some(key)
    }

    fn done(&self, key: &K) {
        let mut state = self.state();
        if let Some((since, _)) = state.working.remove(key) {
            self.0.series.worked.observe(since.elapsed().as_secs_f64());
        }
        if state.wanted.contains_key(key) {
            arrive(&mut state, key.clone());
            self.show_depth(&state);
        }
        let drained = state.working.is_empty();
        drop(state);
        self.wake_all();
        if drained {
            self.0.drained.notify_waiters();
        }
    }

    /// One worker of each lane looks: nobody knows the lane of what arrived before it is sorted.
    fn wake_all(&self) {
        for lane in &self.0.changed {
            lane.notify_one();
        }
    }

    fn show_depth(&self, state: &QueueState<K>) {
        let depth = i64::try_from(state.places.len()).unwrap_or(i64::MAX);
        self.0.series.depth.set(depth);
    }
}

/// The key is to be sorted, once.
fn arrive<K: Ord + Clone>(state: &mut QueueState<K>, key: K) {
    let place = state.places.entry(key.clone()).or_default();
    if !std::mem::replace(&mut place.arrived, true) {
        state.arrived.push_back(key);
    }
}

/// Puts a key that waits into that lane; says whether it was not there, or further back.
fn place<K: Ord + Clone>(state: &mut QueueState<K>, key: K, lane: usize) -> bool {
    // It may have been taken meanwhile.
    let Some(place) = state.places.get_mut(&key) else {
        return false;
    };
    let urgent = state.urgent.contains(&key);
    let former = place.lane.replace(lane);
    let was_first = std::mem::replace(&mut place.first, urgent);
    if former == Some(lane) && was_first == urgent {
        return false;
    }
    if let Some(former) = former {
        state.ready[former].retain(|it| *it != key);
    }
    let line = &mut state.ready[lane];
    let others = line.iter().position(|it| !state.urgent.contains(it));
    match others {
        Some(at) if urgent => line.insert(at, key),
        _ => line.push_back(key),
    }
    true
}

impl<K: Send + Debug + 'static> UnfinishedWork for Shared<K> {
    fn ages(&self) -> Vec<Duration> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since = state.working.values().map(|(since, _)| since);
        since.map(Instant::elapsed).collect()
    }
}
