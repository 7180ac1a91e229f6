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
//!
//! While the [account](crate::AccountProof) is not proven, nothing is gone; unless all machines of the cloud are, and a
//! long proof ([`LONG_LOOKS`]) says so. Looks and budget are measured in monotonic time, which the caller gives: a clock
//! on the wall that jumps makes nothing happen earlier or later. Only the age of a node when it is first suspected is a
//! matter of dates.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::cloud::account::{CONFIRM_GONE, Trust};
use crate::{Evidence, Node, Ready};

/// Looks of the long proof: what an account that is not proven has to say again and again …
pub const LONG_LOOKS: u32 = 10;
/// … over so long …
pub const LONG_TIME: Duration = Duration::from_secs(10 * 60);
/// … in looks that count only if they are so far apart: a check read belongs to each.
pub const LONG_APART: Duration = Duration::from_secs(60);

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

/// A look at a cloud, which said that a machine is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// What it said; its date is for people.
    pub evidence: Evidence,
    /// When, in monotonic time since any beginning that all looks of the guard share.
    pub at: Duration,
    /// How far that is to be trusted.
    pub trust: Trust,
}

/// What the guard says about a node whose machine seems to be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardVerdict {
    /// It is proven: delete the Node (with its uid as precondition).
    Delete(Proof),
    /// Not now.
    Hold {
        /// Why not.
        reason: HoldReason,
        /// Whether this reason is new for this node, so that it is reported once.
        is_new: bool,
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
    /// Nothing proves that the credentials see the cluster's account.
    AccountUnproven,
    /// They see another account.
    AccountContradicted,
    /// All machines of an account that is not proven seem to be gone, but not for long enough.
    LongProofPending,
}

impl HoldReason {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::SecondLookPending,
        Self::CloudUnproven,
        Self::NodeReady,
        Self::NodeTooYoung,
        Self::BudgetSpent,
        Self::AccountUnproven,
        Self::AccountContradicted,
        Self::LongProofPending,
    ];

    /// A stable name for events and metric labels.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::SecondLookPending => "SecondLookPending",
            Self::CloudUnproven => "CloudUnproven",
            Self::NodeReady => "NodeReady",
            Self::NodeTooYoung => "NodeTooYoung",
            Self::BudgetSpent => "BudgetSpent",
            Self::AccountUnproven => "AccountUnproven",
            Self::AccountContradicted => "AccountContradicted",
            Self::LongProofPending => "LongProofPending",
        }
    }

    /// Whether it belongs to every deletion and is not worth a report.
    pub const fn is_routine(self) -> bool {
        matches!(self, Self::SecondLookPending)
    }
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let long = LONG_TIME.as_secs() / 60;
        f.write_str(match self {
            Self::AccountUnproven => {
                "nothing proves that the credentials see the cluster's account, which event \
                 AccountUnproven on the lease explains"
            }
            Self::AccountContradicted => {
                "the credentials see another account, or have lost permissions, which event \
                 AccountContradicted on the lease explains"
            }
            Self::LongProofPending => {
                return write!(
                    f,
                    "the account is not proven, and all instances of the cloud seem to be gone: \
                     {LONG_LOOKS} looks over at least {long} minutes have to confirm it; if you \
                     know that the instance is gone, set annotation {CONFIRM_GONE} to \"true\" on \
                     the node, and two looks are enough"
                );
            }
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
    deletions: VecDeque<(Duration, String)>,
}

/// What is held against one node (by uid).
#[derive(Clone, Debug)]
struct Suspicion {
    first: Evidence,
    /// When that was, in monotonic time.
    since: Duration,
    /// How old the node was then.
    age: Duration,
    canary_passed: bool,
    /// Whether the looks so far were at an account that is contradicted: they say nothing.
    is_void: bool,
    long: Option<LongProof>,
    reported: Option<HoldReason>,
}

/// How far a long proof is.
#[derive(Clone, Copy, Debug)]
struct LongProof {
    since: Duration,
    last: Duration,
    looks: u32,
}

impl Suspicion {
    fn new(node: &Node, look: &Look) -> Self {
        let age = look.evidence.at.duration_since(node.created);
        Self {
            first: look.evidence.clone(),
            since: look.at,
            // A node of the future is as young as can be.
            age: Duration::try_from(age).unwrap_or_default(),
            canary_passed: false,
            is_void: false,
            long: None,
            reported: None,
        }
    }

    /// This look is the first one that counts.
    fn begin_anew(&mut self, look: &Look) {
        self.age += look.at.saturating_sub(self.since);
        self.since = look.at;
        self.first = look.evidence.clone();
        self.canary_passed = false;
        self.is_void = false;
    }

    /// Counts a look of the long proof; each wants a check read of its own.
    fn count_long_look(&mut self, now: Duration) -> LongProof {
        let long = self.long.get_or_insert(LongProof {
            since: now,
            last: now,
            looks: 0,
        });
        let is_due = self.canary_passed && now.saturating_sub(long.last) >= LONG_APART;
        if long.looks == 0 || is_due {
            long.looks += 1;
            long.last = now;
            self.canary_passed = false;
        }
        *long
    }
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
    pub fn gone(&mut self, node: &Node, look: Look, nodes: usize) -> GuardVerdict {
        let now = look.at;
        let suspicion = self
            .suspicions
            .entry(node.uid.clone())
            .or_insert_with(|| Suspicion::new(node, &look));
        if let Some((reason, wait)) = hold(&self.policy, node, suspicion, &look) {
            return held(suspicion, reason, wait);
        }
        let window = self.policy.budget_window;
        self.deletions
            .retain(|(at, _)| now.saturating_sub(*at) < window);
        let is_other = |(_, uid): &(Duration, String)| *uid != node.uid;
        let others = self.deletions.iter().filter(|it| is_other(it)).count();
        if others >= self.policy.budget(nodes) {
            let oldest = self.deletions.iter().find(|it| is_other(it));
            let wait = oldest.map(|(at, _)| left(*at, now, window));
            return held(suspicion, HoldReason::BudgetSpent, wait);
        }
        self.deletions.retain(is_other);
        self.deletions.push_back((now, node.uid.clone()));
        GuardVerdict::Delete(Proof {
            first: suspicion.first.clone(),
            second: look.evidence,
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
            .filter_map(|suspicion| suspicion.reported)
        {
            *counts.entry(reason).or_default() += 1;
        }
        counts
    }
}

fn hold(
    policy: &GuardPolicy,
    node: &Node,
    suspicion: &mut Suspicion,
    look: &Look,
) -> Option<(HoldReason, Option<Duration>)> {
    let now = look.at;
    if look.trust != Trust::Long {
        suspicion.long = None;
    }
    if look.trust == Trust::Contradicted {
        suspicion.is_void = true;
    } else if suspicion.is_void {
        suspicion.begin_anew(look);
    }
    let least_age = if node.is_uninitialized() {
        policy.uninitialized_age
    } else {
        policy.node_age
    };
    let age = suspicion.age + now.saturating_sub(suspicion.since);
    if node.ready == Ready::True {
        return Some((HoldReason::NodeReady, None));
    }
    if age < least_age {
        return Some((
            HoldReason::NodeTooYoung,
            Some(least_age.saturating_sub(age)),
        ));
    }
    match look.trust {
        Trust::Unproven => return Some((HoldReason::AccountUnproven, None)),
        Trust::Contradicted => return Some((HoldReason::AccountContradicted, None)),
        Trust::Long => {
            let long = suspicion.count_long_look(now);
            let wait = left(long.since, now, LONG_TIME);
            let is_over = long.looks >= LONG_LOOKS && wait.is_zero();
            return (!is_over).then_some((HoldReason::LongProofPending, Some(wait)));
        }
        Trust::Full | Trust::Confirmed => {}
    }
    let wait = left(suspicion.since, now, policy.looks_apart);
    if !wait.is_zero() {
        Some((HoldReason::SecondLookPending, Some(wait)))
    } else if !suspicion.canary_passed {
        Some((HoldReason::CloudUnproven, None))
    } else {
        None
    }
}

fn held(suspicion: &mut Suspicion, reason: HoldReason, wait: Option<Duration>) -> GuardVerdict {
    let is_new = suspicion.reported != Some(reason);
    suspicion.reported = Some(reason);
    GuardVerdict::Hold {
        reason,
        is_new,
        wait,
    }
}

/// How long until `then` lies at least `age` before `now`.
fn left(then: Duration, now: Duration, age: Duration) -> Duration {
    age.saturating_sub(now.saturating_sub(then))
}

#[cfg(test)]
mod tests;
