//! Which endpoint is asked first: all of them in turn, but those last that did not answer lately.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_http::Random;
use tokio::time::Instant;

use crate::credentials::Credentials;
use crate::endpoint::Endpoint;

/// How long an endpoint that could not be reached is asked last.
pub(super) const REST: Duration = Duration::from_secs(10);
/// How long one is that hangs, or that is no machine's: each look at it costs somebody a second.
pub(super) const SET_ASIDE: Duration = Duration::from_secs(60);
/// How long a worker is. Machines seldom change their part.
const WORKER: Duration = Duration::from_secs(600);
/// Machines of the control plane that are remembered.
const LEARNT: usize = 32;

pub(super) struct Endpoints {
    random: Random,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The credentials that `shuffled` is of.
    generation: u64,
    shuffled: Vec<Endpoint>,
    next: usize,
    learnt: Vec<Endpoint>,
    lost: BTreeMap<Endpoint, Instant>,
    workers: BTreeMap<Endpoint, Instant>,
    /// Those reported in an event, until they answer again.
    reported: BTreeSet<Endpoint>,
}

impl Endpoints {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            state: Mutex::default(),
        }
    }

    /// All endpoints in the order in which they are to be asked. What was learnt comes after all
    /// that was said. `forwards` says that the question is about another machine.
    pub(super) fn order(&self, credentials: &Credentials, forwards: bool) -> Vec<Endpoint> {
        let mut state = self.state();
        if state.generation != credentials.generation {
            state.generation = credentials.generation;
            state.shuffled = self.shuffle(credentials.endpoints.clone());
            state.lost.clear();
            state.reported.clear();
        }
        let count = state.shuffled.len().max(1);
        let first = state.next % count;
        state.next = (first + 1) % count;
        let now = Instant::now();
        state.lost.retain(|_, until| *until > now);
        state.workers.retain(|_, until| *until > now);
        let (before, from) = state.shuffled.split_at(first.min(state.shuffled.len()));
        let mut order = [from, before].concat();
        let is_new = |it: &&Endpoint| !state.shuffled.contains(it);
        let mut further: Vec<Endpoint> = state.learnt.iter().filter(is_new).cloned().collect();
        // The sort keeps the order of those that are alike.
        let bad = |it: &Endpoint| {
            let worker = forwards && state.workers.contains_key(it);
            (worker, state.lost.contains_key(it))
        };
        order.sort_by_key(bad);
        further.sort_by_key(bad);
        order.append(&mut further);
        order
    }

    /// Replaces what was known of the control plane.
    pub(super) fn learnt(&self, mut machines: Vec<Endpoint>) {
        machines.sort();
        machines.dedup();
        machines.truncate(LEARNT);
        self.state().learnt = machines;
    }

    pub(super) fn answered(&self, endpoint: &Endpoint) {
        let mut state = self.state();
        state.lost.remove(endpoint);
        state.reported.remove(endpoint);
    }

    /// It is asked last for so long.
    pub(super) fn is_lost(&self, endpoint: &Endpoint, rest: Duration) {
        let until = Instant::now() + rest;
        self.state().lost.insert(endpoint.clone(), until);
    }

    /// Whether it was not reported yet that it does not answer.
    pub(super) fn is_news(&self, endpoint: &Endpoint) -> bool {
        self.state().reported.insert(endpoint.clone())
    }

    pub(super) fn is_a_worker(&self, endpoint: &Endpoint) {
        let until = Instant::now() + WORKER;
        self.state().workers.insert(endpoint.clone(), until);
    }

    fn shuffle(&self, mut endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
        for last in (1..endpoints.len()).rev() {
            let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
            let other = usize::try_from(self.random.below(bound)).unwrap_or(last);
            endpoints.swap(last, other);
        }
        endpoints
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_http::{Connector, Pipes};

    fn credentials(generation: u64, endpoints: &[&str]) -> Credentials {
        let endpoints = endpoints.iter().map(|it| Endpoint::parse(it).unwrap());
        let connector = Connector::simulated(Pipes::default());
        Credentials::of(generation, endpoints.collect(), connector)
    }

    fn hosts(order: &[Endpoint]) -> Vec<String> {
        let texts = order.iter().map(ToString::to_string);
        texts
            .map(|it| it.trim_end_matches(":50000").to_owned())
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn all_have_their_turn_and_a_seed_decides_who_is_first() {
        let endpoints = Endpoints::new(Random::seeded(3));
        let three = credentials(1, &["a", "b", "c"]);
        let orders: Vec<Vec<String>> = (0..6)
            .map(|_| hosts(&endpoints.order(&three, true)))
            .collect();
        assert_eq!(orders[..3], orders[3..]);
        let firsts: std::collections::BTreeSet<&String> =
            orders.iter().map(|order| &order[0]).collect();
        assert_eq!(firsts.len(), 3);
        let again = Endpoints::new(Random::seeded(3));
        assert_eq!(hosts(&again.order(&three, true)), orders[0]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_did_not_answer_and_who_is_a_worker_comes_last_for_a_while() {
        let endpoints = Endpoints::new(Random::seeded(3));
        let three = credentials(1, &["a", "b", "c"]);
        let [a, b] = ["a", "b"].map(|it| Endpoint::parse(it).unwrap());
        endpoints.order(&three, true);
        endpoints.is_lost(&a, REST);
        endpoints.is_a_worker(&b);
        for _ in 0..3 {
            assert_eq!(hosts(&endpoints.order(&three, true)), ["c", "a", "b"]);
        }
        let last = |forwards| hosts(&endpoints.order(&three, forwards)).pop();
        assert_eq!(last(false).as_deref(), Some("a"), "a worker knows itself");
        tokio::time::advance(REST).await;
        assert_eq!(last(true).as_deref(), Some("b"));
        tokio::time::advance(WORKER).await;
        let firsts: std::collections::BTreeSet<String> = (0..3)
            .map(|_| hosts(&endpoints.order(&three, true)).remove(0))
            .collect();
        assert_eq!(firsts.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_learnt_comes_after_what_was_said() {
        let endpoints = Endpoints::new(Random::seeded(3));
        let one = credentials(1, &["10.0.0.1"]);
        let learnt = ["10.0.0.3", "10.0.0.1", "10.0.0.2", "10.0.0.2"];
        let learnt = learnt.map(|it| Endpoint::of(it.parse().unwrap()));
        endpoints.learnt(learnt.to_vec());
        let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        assert_eq!(hosts(&endpoints.order(&one, true)), all);
        endpoints.is_lost(&learnt[1], REST);
        assert_eq!(hosts(&endpoints.order(&one, true)), all);
        let other = credentials(2, &["10.0.0.9"]);
        let order = hosts(&endpoints.order(&other, true));
        assert_eq!(order[0], "10.0.0.9");
        assert_eq!(order.len(), 4);
    }
}
