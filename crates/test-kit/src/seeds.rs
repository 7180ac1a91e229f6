//! Random changes on a cloud that fails at random: after the dust settles all is as wanted, nothing exists twice,
//! and nothing of others was touched.

use bowline_core::TrafficPolicy;
use bowline_http::Random;
use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};

use crate::drive::Outcome;
use crate::harness::status;

/// Changes of the Service in one run.
const CHANGES: u64 = 6;
/// Tries for each change while the cloud fails, and once it does not.
pub const TRIES: u32 = 3;

/// A Service whose life can be tried with a seed.
#[allow(async_fn_in_trait, reason = "one runtime, one thread")]
pub trait Life: Sized {
    /// In a cloud with a load balancer of somebody else.
    async fn begin(seed: u64) -> Self;
    fn world(&self) -> &World;
    /// Changes something that a person may change.
    fn change(&mut self, random: &Random);
    /// One try while the cloud fails.
    async fn attempt(&mut self, random: &Random);
    /// After all tries of a change, when the cloud fails no more.
    async fn recover(&mut self);
    /// One try with settings that are right.
    async fn ensure_repaired(&mut self) -> Outcome;
    /// All is as wanted, and what is somebody else's is as it was.
    fn check(&self, seed: u64);
    /// Removes the load balancer, and leaves nothing behind.
    async fn end(self, seed: u64) -> World;
}

/// One run; returns its transcript.
pub async fn run<L: Life>(seed: u64) -> String {
    let mut life = L::begin(seed).await;
    let random = Random::seeded(seed);
    for _ in 0..CHANGES {
        life.change(&random);
        trouble(life.world());
        for _ in 0..TRIES {
            life.attempt(&random).await;
        }
        life.world().faults.clear();
        life.recover().await;
    }
    for _ in 0..TRIES {
        life.ensure_repaired().await;
    }
    let last = life.ensure_repaired().await;
    let steps = &last.good().plan.steps;
    assert!(last.plan.is_empty(), "seed {seed}: {steps:?}");
    life.check(seed);
    life.end(seed).await.journal.transcript()
}

/// Everything goes wrong now and then.
pub fn trouble(world: &World) {
    for (name, action) in [
        ("lost", Action::LostAnswer),
        ("reset", Action::Reset),
        ("page", Action::Html { code: 502 }),
        ("half", Action::Truncated),
        ("unavailable", status(503)),
    ] {
        let rule = Rule::new(action).named(name).probability(0.05);
        world.faults.add(rule).unwrap();
    }
}

pub fn pick<T: Clone>(random: &Random, choices: &[T]) -> T {
    let at = usize::try_from(random.below(choices.len() as u64)).unwrap();
    choices[at].clone()
}

/// A policy, and the port of its health checks.
pub fn traffic_policy(random: &Random) -> (TrafficPolicy, Option<u16>) {
    pick(
        random,
        &[
            (TrafficPolicy::Cluster, None),
            (TrafficPolicy::Local, Some(32100)),
        ],
    )
}
