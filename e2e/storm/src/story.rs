//! A story: what happens, and when. Drawn from a seed; told in simulated time.

use std::fmt::Write as _;
use std::time::Duration;

use bowline_http::Random;

use crate::act::{Act, Machine};
use crate::clouds::Kind;

/// Simulated milliseconds between two acts, at most: one time in three managers may have time enough to come to an end.
const LONGEST_PAUSE: u64 = 60_000;
/// The same otherwise.
const SHORT_PAUSE: u64 = 15_000;
/// One in so many stories is watched at rest.
const WATCHED: u64 = 4;
/// Clouds of a story, at most.
const MOST_CLOUDS: u64 = 3;

/// Everything that happens to a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Of the world: ids, jitter, which calls a fault strikes.
    pub seed: u64,
    /// A kind that comes twice is two accounts.
    pub clouds: Vec<Kind>,
    /// Whether each cloud has a node selector. Without one, the owner of a node is unknown when its instance is in neither
    /// of two accounts.
    pub has_selectors: bool,
    /// Whether nodes get pod ranges.
    pub has_ranges: bool,
    /// Managers that compete for the lease.
    pub replicas: u8,
    /// Whether it is watched for a while after all has settled, in which nothing may be written. That takes longer than the
    /// rest of it.
    pub is_watched_at_rest: bool,
    /// Each with the milliseconds that pass before it.
    pub acts: Vec<(u64, Act)>,
}

impl Story {
    /// The story of a seed, with some of these clouds, for about so long.
    pub fn of(seed: u64, kinds: &[Kind], minutes: u64) -> Self {
        let random = Random::seeded(seed);
        let replicas = if random.below(3) == 0 { 2 } else { 1 };
        let has_selectors = random.below(2) == 0;
        let has_ranges = random.below(2) == 0;
        let mut clouds: Vec<Kind> = Vec::new();
        for _ in 0..=random.below(MOST_CLOUDS) {
            let at = usize::try_from(random.below(kinds.len() as u64)).unwrap_or(0);
            let kind = kinds[at];
            if kind.has_accounts() || !clouds.contains(&kind) {
                clouds.push(kind);
            }
        }
        let count = u8::try_from(clouds.len()).unwrap_or(1);
        let mut acts = Vec::new();
        // Something to act on.
        for cloud in 0..count {
            for number in 0..2 {
                acts.push((0, Act::Boot(Machine(cloud, number))));
            }
        }
        let mut left = minutes * 60_000;
        while left > 0 {
            let longest = match random.below(3) {
                2 => LONGEST_PAUSE,
                _ => SHORT_PAUSE,
            };
            let pause = random.below(longest).min(left);
            left -= pause.max(1).min(left);
            acts.push((pause, Act::draw(&random, count, replicas)));
        }
        Self {
            seed,
            clouds,
            has_selectors,
            has_ranges,
            replicas,
            is_watched_at_rest: seed.is_multiple_of(WATCHED),
            acts,
        }
    }

    /// How long it takes, but for what follows until everything is at rest.
    pub fn length(&self) -> Duration {
        Duration::from_millis(self.acts.iter().map(|(pause, _)| pause).sum())
    }

    /// As a test that tells it again.
    pub fn as_test(&self) -> String {
        let mut text = format!(
            "#[test]\nfn seed_{}() {{\n    tell_again(&Story {{\n",
            self.seed
        );
        for (field, value) in [
            ("seed", self.seed.to_string()),
            ("clouds", format!("vec!{:?}", self.clouds)),
            ("has_selectors", self.has_selectors.to_string()),
            ("has_ranges", self.has_ranges.to_string()),
            ("replicas", self.replicas.to_string()),
            ("is_watched_at_rest", self.is_watched_at_rest.to_string()),
        ] {
            let _ = writeln!(text, "        {field}: {value},");
        }
        text.push_str("        acts: vec![\n");
        for (pause, act) in &self.acts {
            let _ = writeln!(text, "            ({pause}, {act:?}),");
        }
        text.push_str("        ],\n    });\n}\n");
        text
    }
}
