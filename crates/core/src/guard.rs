//! The deletion guard: a Node dies only on proof.
//!
//! One guard for each cloud. Evidence goes in, a verdict comes out:
//!
//! ```text
//!  gone ──▶ suspicion ──canary passed, ≥ 10 s──▶ gone again ──▶ old enough? budget left? ──▶ delete
//!              │                                                      │
//!              ├── machine seen again ──▶ forgotten                   └──▶ hold, with the reason
//!              └── no answer, or the canary failed ──▶ the look no longer counts
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::{Evidence, Node, Ready};

/// What the guard insists on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardPolicy {
    /// The least time between the two looks.
    pub looks_apart: Duration,
    /// The least age of a node.
    pub node_age: Duration,
    /// The least age of a node that was never initialised: clouds list new machines late.
    pub uninitialized_age: Duration,
    /// Deletions that are always allowed inside one window, however small the cloud.
    pub budget_floor: usize,
    /// The share of the cloud's nodes, in percent, that may be deleted inside one window.
    pub budget_percent: usize,
    /// The window of the budget.
    pub budget_window: Duration,
}

impl Default for GuardPolicy {
    fn default() -> Self {
        Self {
            looks_apart: Duration::from_secs(10),
            node_age: Duration::from_secs(60),
            uninitialized_age: Duration::from_secs(5 * 60),
            budget_floor: 3,
            budget_percent: 10,
            budget_window: Duration::from_secs(10 * 60),
        }
    }
}

impl GuardPolicy {
    /// How many nodes may be deleted inside one window in a cloud of that many nodes.
    pub(crate) fn budget(&self, nodes: usize) -> usize {
        self.budget_floor
            .max(nodes.saturating_mul(self.budget_percent) / 100)
    }
}

/// What the guard says about a node whose machine seems to be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is proven: delete the Node (with its uid as precondition).
    Delete(Proof),
    /// Not now.
    Hold {
        /// Why not.
        reason: HoldReason,
        /// Whether this reason is new for this node, so that it is told once.
        news: bool,
        /// How long this reason still holds at least; none if it is not a matter of time.
        wait: Option<Duration>,
    },
}

/// What a deletion rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The look that began it.
    pub first: Evidence,
    /// The look that settled it.
    pub second: Evidence,
}

/// Why a node is not deleted, although its machine seems to be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldReason {
    /// One look is not enough.
    SecondLookPending,
    /// The cloud has not proven itself healthy between the looks.
    CloudUnproven,
    /// The node says that it is Ready.
    NodeReady,
    /// The node is too young.
    NodeTooYoung,
    /// Too many nodes were deleted in the last minutes.
    BudgetSpent,
}

impl HoldReason {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::SecondLookPending,
        Self::CloudUnproven,
        Self::NodeReady,
        Self::NodeTooYoung,
        Self::BudgetSpent,
    ];

    /// A stable name for events and metric labels.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::SecondLookPending => "SecondLookPending",
            Self::CloudUnproven => "CloudUnproven",
            Self::NodeReady => "NodeReady",
            Self::NodeTooYoung => "NodeTooYoung",
            Self::BudgetSpent => "BudgetSpent",
        }
    }

    /// Whether it belongs to every deletion and is not worth telling anybody.
    pub const fn is_routine(self) -> bool {
        matches!(self, Self::SecondLookPending)
    }
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SecondLookPending => "a second look has to confirm it",
            Self::CloudUnproven => "the cloud did not answer a check read since the first look",
            Self::NodeReady => "the node is Ready",
            Self::NodeTooYoung => "the node is too young",
            Self::BudgetSpent => "too many nodes were deleted in the last minutes",
        })
    }
}

/// The guard of one cloud.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    policy: GuardPolicy,
    suspicions: BTreeMap<String, Suspicion>,
    /// Nodes (by uid) that were deleted, or may have been, and when; oldest first.
    deletions: VecDeque<(Timestamp, String)>,
}

/// What is held against one node (by uid).
#[derive(Clone, Debug)]
struct Suspicion {
    first: Evidence,
    canary_passed: bool,
    told: Option<HoldReason>,
}

impl Guard {
    /// A guard without any suspicion.
    pub fn new(policy: GuardPolicy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    /// Insists on something else from now on. What is held against nodes stays, and so does what was deleted.
    pub fn insist_on(&mut self, policy: GuardPolicy) {
        self.policy = policy;
    }

    /// The cloud is asked in another way from now on, perhaps about another account: earlier looks no longer count.
    pub fn forget_looks(&mut self) {
        self.suspicions.clear();
    }

    /// The machine of `node` was said to be gone, in a cloud that has `nodes` nodes in all.
    ///
    /// A verdict to delete takes the node's share of the budget at once, and a further one for the
    /// same node no second share; [`Guard::refund`] gives it back.
    pub fn gone(&mut self, node: &Node, evidence: Evidence, nodes: usize) -> Verdict {
        let now = evidence.at;
        let suspicion = self
            .suspicions
            .entry(node.uid.clone())
            .or_insert_with(|| Suspicion {
                first: evidence.clone(),
                canary_passed: false,
                told: None,
            });
        if let Some((reason, wait)) = hold(&self.policy, node, suspicion, now) {
            return tell(suspicion, reason, wait);
        }
        let window = self.policy.budget_window;
        self.deletions.retain(|(at, _)| !older(*at, now, window));
        let is_other = |(_, uid): &(Timestamp, String)| *uid != node.uid;
        let others = self.deletions.iter().filter(|it| is_other(it)).count();
        if others >= self.policy.budget(nodes) {
            let oldest = self.deletions.iter().find(|it| is_other(it));
            let wait = oldest.map(|(at, _)| left(*at, now, window));
            return tell(suspicion, HoldReason::BudgetSpent, wait);
        }
        self.deletions.retain(is_other);
        self.deletions.push_back((now, node.uid.clone()));
        Verdict::Delete(Proof {
            first: suspicion.first.clone(),
            second: evidence,
        })
    }

    /// The machine of that node was seen: whatever was held against it is forgotten.
    pub fn present(&mut self, uid: &str) {
        self.suspicions.remove(uid);
    }

    /// The cloud could not tell about that node: earlier looks no longer count.
    pub fn inconclusive(&mut self, uid: &str) {
        self.suspicions.remove(uid);
    }

    /// A check read was made after the latest looks. One that fails takes back all looks so far.
    pub fn canary(&mut self, passed: bool) {
        if passed {
            for suspicion in self.suspicions.values_mut() {
                suspicion.canary_passed = true;
            }
        } else {
            self.suspicions.clear();
        }
    }

    /// Whether a check read is needed before the next look.
    pub fn wants_canary(&self) -> bool {
        self.suspicions
            .values()
            .any(|suspicion| !suspicion.canary_passed)
    }

    /// The deletion of that node certainly did not happen: gives its share of the budget back.
    ///
    /// Not for a deletion without an answer, which may have happened.
    pub fn refund(&mut self, uid: &str) {
        self.deletions.retain(|(_, deleted)| deleted != uid);
    }

    /// Forgets all nodes but these (by uid).
    pub fn retain(&mut self, uids: &BTreeSet<&str>) {
        self.suspicions.retain(|uid, _| uids.contains(uid.as_str()));
    }

    /// How many nodes are held back, by reason; for the metric.
    pub fn held(&self) -> BTreeMap<HoldReason, usize> {
        let mut counts = BTreeMap::new();
        for reason in self
            .suspicions
            .values()
            .filter_map(|suspicion| suspicion.told)
        {
            *counts.entry(reason).or_default() += 1;
        }
        counts
    }
}

fn hold(
    policy: &GuardPolicy,
    node: &Node,
    suspicion: &Suspicion,
    now: Timestamp,
) -> Option<(HoldReason, Option<Duration>)> {
    let least_age = if node.is_uninitialized() {
        policy.uninitialized_age
    } else {
        policy.node_age
    };
    if node.ready == Ready::True {
        Some((HoldReason::NodeReady, None))
    } else if !older(node.created, now, least_age) {
        let wait = left(node.created, now, least_age);
        Some((HoldReason::NodeTooYoung, Some(wait)))
    } else if !older(suspicion.first.at, now, policy.looks_apart) {
        let wait = left(suspicion.first.at, now, policy.looks_apart);
        Some((HoldReason::SecondLookPending, Some(wait)))
    } else if !suspicion.canary_passed {
        Some((HoldReason::CloudUnproven, None))
    } else {
        None
    }
}

fn tell(suspicion: &mut Suspicion, reason: HoldReason, wait: Option<Duration>) -> Verdict {
    let news = suspicion.told != Some(reason);
    suspicion.told = Some(reason);
    Verdict::Hold { reason, news, wait }
}

/// How long until `then` lies at least `age` before `now`.
fn left(then: Timestamp, now: Timestamp, age: Duration) -> Duration {
    let passed = Duration::try_from(now.duration_since(then)).unwrap_or_default();
    age.saturating_sub(passed)
}

/// Whether `then` lies at least `age` before `now`.
fn older(then: Timestamp, now: Timestamp, age: Duration) -> bool {
    Duration::try_from(now.duration_since(then)).is_ok_and(|passed| passed >= age)
}

#[cfg(test)]
mod tests;
