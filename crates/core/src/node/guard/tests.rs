use super::*;
use crate::node::examples::fresh_node;
use jiff::Timestamp;
use proptest::prelude::*;

const HOUR: i64 = 3600;

/// The moment `seconds` after the test's beginning; nodes are made at the beginning.
fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 0).unwrap()
}

fn gone(seconds: i64) -> Look {
    Look {
        evidence: Evidence {
            text: "GET server answered 404".into(),
            at: at(seconds),
        },
        at: Duration::from_secs(seconds.unsigned_abs()),
        trust: Trust::Full,
    }
}

/// The same, trusted only so far.
fn trusted(trust: Trust, seconds: i64) -> Look {
    Look {
        trust,
        ..gone(seconds)
    }
}

fn silent_node(uid: &str) -> Node {
    Node {
        uid: uid.into(),
        taints: Vec::new(),
        ready: Ready::Unknown,
        ..fresh_node()
    }
}

fn held(verdict: GuardVerdict) -> HoldReason {
    match verdict {
        GuardVerdict::Hold { reason, .. } => reason,
        GuardVerdict::Delete(proof) => panic!("deleted on {proof:?}"),
    }
}

#[test]
fn two_looks_and_a_check_between_them_are_proof() {
    let mut guard = Guard::default();
    let node = silent_node("u");
    assert_eq!(
        held(guard.gone(&node, gone(HOUR), 1)),
        HoldReason::SecondLookPending
    );
    assert!(guard.wants_canary());
    guard.canary(true);
    assert!(!guard.wants_canary());
    assert_eq!(
        held(guard.gone(&node, gone(HOUR + 9), 1)),
        HoldReason::SecondLookPending
    );
    let proof = Proof {
        first: gone(HOUR).evidence,
        second: gone(HOUR + 10).evidence,
    };
    assert_eq!(
        guard.gone(&node, gone(HOUR + 10), 1),
        GuardVerdict::Delete(proof)
    );
}

#[test]
fn without_a_check_nothing_is_proven() {
    let mut guard = Guard::default();
    let node = silent_node("u");
    guard.gone(&node, gone(HOUR), 1);
    assert_eq!(
        held(guard.gone(&node, gone(2 * HOUR), 1)),
        HoldReason::CloudUnproven
    );
}

#[test]
fn framework_case_147_a_failed_check_takes_back_the_first_look() {
    let mut guard = Guard::default();
    let node = silent_node("u");
    let half_an_hour = 1800;
    guard.gone(&node, gone(half_an_hour), 1);
    guard.canary(false);
    let second = guard.gone(&node, gone(half_an_hour + 12), 1);
    assert_eq!(held(second), HoldReason::SecondLookPending);
    guard.canary(true);
    assert!(matches!(
        guard.gone(&node, gone(half_an_hour + 24), 1),
        GuardVerdict::Delete(_)
    ));

    let reborn = silent_node("another uid");
    let first = guard.gone(&reborn, gone(half_an_hour + 36), 1);
    assert_eq!(held(first), HoldReason::SecondLookPending);
}

#[test]
fn a_machine_seen_again_or_an_answer_missing_starts_anew() {
    let reset: [fn(&mut Guard); 2] = [|guard| guard.present("u"), |guard| guard.inconclusive("u")];
    for reset in reset {
        let mut guard = Guard::default();
        let node = silent_node("u");
        guard.gone(&node, gone(HOUR), 1);
        guard.canary(true);
        reset(&mut guard);
        let look = guard.gone(&node, gone(HOUR + 60), 1);
        assert_eq!(held(look), HoldReason::SecondLookPending);
    }
}

#[test]
fn ready_and_young_nodes_are_kept() {
    let mut guard = Guard::default();
    let ready = Node {
        ready: Ready::True,
        ..silent_node("u")
    };
    assert_eq!(
        held(guard.gone(&ready, gone(HOUR), 1)),
        HoldReason::NodeReady
    );

    let young = silent_node("v");
    guard.gone(&young, gone(40), 1);
    guard.canary(true);
    assert_eq!(
        held(guard.gone(&young, gone(59), 1)),
        HoldReason::NodeTooYoung
    );
    assert!(matches!(
        guard.gone(&young, gone(60), 1),
        GuardVerdict::Delete(_)
    ));

    let uninitialized = Node {
        uid: "w".into(),
        ..fresh_node()
    };
    guard.gone(&uninitialized, gone(100), 1);
    guard.canary(true);
    assert_eq!(
        held(guard.gone(&uninitialized, gone(299), 1)),
        HoldReason::NodeTooYoung
    );
    assert!(matches!(
        guard.gone(&uninitialized, gone(300), 1),
        GuardVerdict::Delete(_)
    ));
}

#[test]
fn the_budget_is_the_larger_of_three_and_ten_percent_in_ten_minutes() {
    for (nodes, allowed) in [(5, 3), (30, 3), (40, 4), (200, 20)] {
        let mut guard = Guard::default();
        let all: Vec<Node> = (0..nodes).map(|i| silent_node(&format!("u{i}"))).collect();
        let mut left = all.clone();
        let mut look = |guard: &mut Guard, seconds: i64| -> usize {
            let before = left.len();
            left.retain(|node| {
                let verdict = guard.gone(node, gone(seconds), nodes);
                matches!(verdict, GuardVerdict::Hold { .. })
            });
            before - left.len()
        };
        assert_eq!(look(&mut guard, HOUR), 0);
        guard.canary(true);
        assert_eq!(look(&mut guard, HOUR + 10), allowed, "{nodes} nodes");
        assert_eq!(look(&mut guard, HOUR + 600), 0);
        assert_eq!(look(&mut guard, HOUR + 610), allowed.min(nodes - allowed));
    }
}

#[test]
fn a_deletion_without_an_answer_keeps_its_share_however_often_it_is_tried() {
    let mut guard = Guard::default();
    let nodes: Vec<Node> = (0..4).map(|i| silent_node(&format!("u{i}"))).collect();
    for node in &nodes {
        guard.gone(node, gone(HOUR), 4);
    }
    guard.canary(true);
    for round in 1..20 {
        for node in &nodes[..3] {
            let verdict = guard.gone(node, gone(HOUR + 10 * round), 4);
            assert!(matches!(verdict, GuardVerdict::Delete(_)));
        }
        assert_eq!(
            held(guard.gone(&nodes[3], gone(HOUR + 10 * round), 4)),
            HoldReason::BudgetSpent
        );
    }
    // The share counts from the last try on.
    let last = HOUR + 190;
    assert_eq!(
        held(guard.gone(&nodes[3], gone(last + 599), 4)),
        HoldReason::BudgetSpent
    );
    let verdict = guard.gone(&nodes[3], gone(last + 600), 4);
    assert!(matches!(verdict, GuardVerdict::Delete(_)));
}

#[test]
fn a_refunded_deletion_leaves_the_budget_whole() {
    let mut guard = Guard::default();
    let node = silent_node("u");
    guard.gone(&node, gone(HOUR), 1);
    guard.canary(true);
    for round in 1..20 {
        assert!(matches!(
            guard.gone(&node, gone(HOUR + 10 * round), 1),
            GuardVerdict::Delete(_)
        ));
        guard.refund(&node.uid);
    }
}

#[test]
fn a_reason_is_told_once_and_counted_while_it_lasts() {
    let mut guard = Guard::default();
    let young = silent_node("u");
    let is_new = |verdict| matches!(verdict, GuardVerdict::Hold { is_new: true, .. });
    assert!(is_new(guard.gone(&young, gone(5), 1)));
    assert!(!is_new(guard.gone(&young, gone(10), 1)));
    assert_eq!(
        guard.held(),
        BTreeMap::from([(HoldReason::NodeTooYoung, 1)])
    );
    guard.retain(&BTreeSet::new());
    assert_eq!(guard.held(), BTreeMap::new());
}

#[test]
fn a_hold_says_how_long_it_lasts_where_that_is_a_matter_of_time() {
    let mut guard = Guard::default();
    let node = silent_node("u");
    let wait = |guard: &mut Guard, seconds, uid: &str| {
        let node = Node {
            uid: uid.into(),
            ..node.clone()
        };
        match guard.gone(&node, gone(seconds), 1) {
            GuardVerdict::Hold { reason, wait, .. } => (reason, wait.map(|wait| wait.as_secs())),
            GuardVerdict::Delete(_) => panic!("deleted"),
        }
    };
    assert_eq!(
        wait(&mut guard, 22, "u"),
        (HoldReason::NodeTooYoung, Some(38))
    );
    assert_eq!(
        wait(&mut guard, HOUR, "v"),
        (HoldReason::SecondLookPending, Some(10))
    );
    assert_eq!(
        wait(&mut guard, HOUR + 10, "v"),
        (HoldReason::CloudUnproven, None)
    );
    for (uid, seconds) in [("a", 0), ("b", 5), ("c", 7), ("d", 7)] {
        wait(&mut guard, HOUR + seconds, uid);
    }
    guard.canary(true);
    for (uid, seconds) in [("a", 20), ("b", 25), ("c", 27)] {
        let node = silent_node(uid);
        let verdict = guard.gone(&node, gone(HOUR + seconds), 1);
        assert!(matches!(verdict, GuardVerdict::Delete(_)), "{verdict:?}");
    }
    assert_eq!(
        wait(&mut guard, HOUR + 80, "d"),
        (HoldReason::BudgetSpent, Some(540))
    );
}

#[test]
fn proof_case_40_a_clock_that_jumps_makes_nothing_happen_earlier_or_later() {
    // Old enough at any time.
    const LATER: i64 = 25 * HOUR;
    for jump in [-HOUR, 0, HOUR, 24 * HOUR] {
        let mut guard = Guard::default();
        let node = silent_node("u");
        let jumped = |seconds: i64| {
            let mut look = gone(seconds);
            look.evidence.at = at(seconds + jump);
            look
        };
        guard.gone(&node, gone(LATER), 1);
        guard.canary(true);
        let second = guard.gone(&node, jumped(LATER + 9), 1);
        assert_eq!(held(second), HoldReason::SecondLookPending, "{jump}");
        let third = guard.gone(&node, jumped(LATER + 10), 1);
        assert!(
            matches!(third, GuardVerdict::Delete(_)),
            "{jump}: {third:?}"
        );
        // The budget: three in ten minutes, whatever the date is meanwhile.
        for uid in ["v", "w", "x"] {
            guard.gone(&silent_node(uid), jumped(LATER + 20), 1);
        }
        guard.canary(true);
        for uid in ["v", "w"] {
            guard.gone(&silent_node(uid), jumped(LATER + 30), 1);
        }
        let spent = guard.gone(&silent_node("x"), gone(LATER + 30), 1);
        assert_eq!(held(spent), HoldReason::BudgetSpent);
        let spent = guard.gone(&silent_node("x"), jumped(LATER + 609), 1);
        assert_eq!(held(spent), HoldReason::BudgetSpent);
        let freed = guard.gone(&silent_node("x"), jumped(LATER + 610), 1);
        assert!(matches!(freed, GuardVerdict::Delete(_)), "{freed:?}");
    }
}

#[test]
fn an_account_that_is_not_proven_proves_nothing_gone() {
    let mut guard = Guard::default();
    let node = silent_node("u");
    for (trust, reason) in [
        (Trust::Contradicted, HoldReason::AccountContradicted),
        (Trust::Unproven, HoldReason::AccountUnproven),
    ] {
        for round in 0..200 {
            let look = trusted(trust, HOUR + 60 * round);
            assert_eq!(held(guard.gone(&node, look, 1)), reason);
            guard.canary(true);
        }
    }
    // Looks of an account that is proven later were true all the same.
    let verdict = guard.gone(&node, gone(10 * HOUR), 1);
    assert!(matches!(verdict, GuardVerdict::Delete(_)));
}

#[test]
fn looks_at_a_contradicted_account_do_not_count_later() {
    let (mut guard, node) = (Guard::default(), silent_node("n"));
    guard.gone(&node, gone(HOUR), 5);
    guard.canary(true);
    let denied = trusted(Trust::Contradicted, HOUR + 10);
    let reason = HoldReason::AccountContradicted;
    assert_eq!(held(guard.gone(&node, denied, 5)), reason);
    guard.canary(true);
    let first = held(guard.gone(&node, gone(HOUR + 600), 5));
    assert_eq!(
        first,
        HoldReason::SecondLookPending,
        "the first that counts"
    );
    assert!(guard.wants_canary());
    guard.canary(true);
    let second = guard.gone(&node, gone(HOUR + 610), 5);
    assert!(matches!(second, GuardVerdict::Delete(_)), "{second:?}");
}

#[test]
fn proof_case_12_a_long_proof_takes_ten_looks_over_ten_minutes_with_a_check_each() {
    let mut guard = Guard::default();
    let node = silent_node("u");
    let long = |guard: &mut Guard, seconds: i64| {
        guard.gone(&node, trusted(Trust::Long, HOUR + seconds), 1)
    };
    for round in 0..120 {
        let verdict = long(&mut guard, 5 * round);
        assert_eq!(held(verdict), HoldReason::LongProofPending, "{round}");
        guard.canary(true);
    }
    assert!(matches!(long(&mut guard, 600), GuardVerdict::Delete(_)));

    // Without its check a look does not count, and a look that is not trusted begins anew.
    let mut guard = Guard::default();
    for round in 0..400 {
        let verdict = long(&mut guard, 60 * round);
        assert_eq!(held(verdict), HoldReason::LongProofPending, "{round}");
    }
    guard.canary(true);
    for round in 0..9 {
        long(&mut guard, 30_000 + 60 * round);
        guard.canary(true);
    }
    guard.gone(&node, trusted(Trust::Unproven, HOUR + 30_560), 1);
    for round in 0..10 {
        let verdict = long(&mut guard, 30_600 + 60 * round);
        assert_eq!(held(verdict), HoldReason::LongProofPending, "{round}");
        guard.canary(true);
    }
    assert!(matches!(long(&mut guard, 31_200), GuardVerdict::Delete(_)));
    let mut guard = Guard::default();
    let look = trusted(Trust::Confirmed, HOUR);
    let first = guard.gone(&node, look, 1);
    assert_eq!(held(first), HoldReason::SecondLookPending);
    guard.canary(true);
    let look = trusted(Trust::Confirmed, HOUR + 10);
    assert!(matches!(
        guard.gone(&node, look, 1),
        GuardVerdict::Delete(_)
    ));
}

/// One thing that can happen to the guard in a property test.
#[derive(Clone, Debug)]
enum Happening {
    Gone(usize),
    Present(usize),
    Inconclusive(usize),
    Canary(bool),
    Wait(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..8usize).prop_map(Happening::Gone),
        1 => (0..8usize).prop_map(Happening::Present),
        1 => (0..8usize).prop_map(Happening::Inconclusive),
        2 => any::<bool>().prop_map(Happening::Canary),
        3 => (1..20i64).prop_map(Happening::Wait),
    ]
}

proptest! {
    /// Whatever happens: no deletion without two looks far enough apart, nothing but "gone" and
    /// passed checks in between, and never more than the budget.
    #[test]
    fn nothing_is_deleted_on_doubt(story in proptest::collection::vec(happening(), 1..200)) {
        let mut guard = Guard::default();
        let nodes: Vec<Node> = (0..8).map(|i| silent_node(&format!("u{i}"))).collect();
        let mut now = HOUR;
        let mut first_look: BTreeMap<usize, i64> = BTreeMap::new();
        let mut checked: BTreeSet<usize> = BTreeSet::new();
        let mut deleted: BTreeMap<usize, i64> = BTreeMap::new();
        for step in story {
            match step {
                Happening::Wait(seconds) => now += seconds,
                Happening::Present(i) => {
                    guard.present(&nodes[i].uid);
                    first_look.remove(&i);
                    checked.remove(&i);
                }
                Happening::Inconclusive(i) => {
                    guard.inconclusive(&nodes[i].uid);
                    first_look.remove(&i);
                    checked.remove(&i);
                }
                Happening::Canary(true) => {
                    guard.canary(true);
                    checked.extend(first_look.keys());
                }
                Happening::Canary(false) => {
                    guard.canary(false);
                    first_look.clear();
                    checked.clear();
                }
                Happening::Gone(i) => {
                    let first = *first_look.entry(i).or_insert(now);
                    if let GuardVerdict::Delete(_) = guard.gone(&nodes[i], gone(now), nodes.len()) {
                        prop_assert!(now - first >= 10 && checked.contains(&i));
                        deleted.insert(i, now);
                        prop_assert!(deleted.values().filter(|t| now - **t < 600).count() <= 3);
                    }
                }
            }
        }
    }
}
