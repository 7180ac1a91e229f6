//! Limits how many routes are withdrawn only because no node seems to need them.

use std::collections::VecDeque;
use std::time::Instant;

use crate::GuardPolicy;

/// Keeps the pace of the deletion guard: a cluster that seems to have lost most of its nodes may be
/// one that is not seen right, and routes that nobody needs harm nobody.
#[derive(Clone, Debug)]
pub struct Allowance {
    policy: GuardPolicy,
    withdrawn: VecDeque<Instant>,
}

impl Allowance {
    /// With the guard's numbers.
    pub fn new(policy: GuardPolicy) -> Self {
        Self {
            policy,
            withdrawn: VecDeque::new(),
        }
    }

    /// Keeps another pace from now on; what went so far counts.
    pub fn insist_on(&mut self, policy: GuardPolicy) {
        self.policy = policy;
    }

    /// How many may go now, in a cloud that has so many.
    pub fn left(&mut self, routes: usize, now: Instant) -> usize {
        let window = self.policy.budget_window;
        while let Some(first) = self.withdrawn.front()
            && now.saturating_duration_since(*first) >= window
        {
            self.withdrawn.pop_front();
        }
        // Those that went count among those that were.
        let all = routes + self.withdrawn.len();
        self.policy.budget(all).saturating_sub(self.withdrawn.len())
    }

    /// One went.
    pub fn spend(&mut self, now: Instant) {
        self.withdrawn.push_back(now);
    }
}
