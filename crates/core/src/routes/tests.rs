//! Routes: tables of what is decided, and what holds whatever there is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::node::examples::{addresses, fresh_node};
use crate::{GuardPolicy, Node, NodeOwner};

fn node(name: &str, cidrs: &[&str]) -> Arc<Node> {
    Arc::new(Node {
        name: name.into(),
        uid: format!("uid-{name}"),
        provider_id: Some(format!("demo://{name}")),
        pod_cidrs: cidrs.iter().map(|&it| it.to_owned()).collect(),
        addresses: addresses(&["InternalIP:10.0.1.1"]),
        ..fresh_node()
    })
}

fn own(nodes: &[Arc<Node>]) -> RouteNodes {
    RouteNodes::new(nodes, &BTreeMap::new(), |_| NodeOwner::Own)
}

/// `10.0.0.0/8 a`, `… !` leads to nobody, `… ?` somewhere, `… a!` to a node and into the dark.
fn route(text: &str) -> PodRoute {
    let (cidr, to) = text.split_once(' ').unwrap();
    let (target, blackhole) = match to {
        "!" => (Target::Nobody, true),
        "?" => (Target::Unclear, false),
        name => match name.strip_suffix('!') {
            Some(name) => (Target::Node(name.to_owned()), true),
            None => (Target::Node(name.to_owned()), false),
        },
    };
    PodRoute {
        name: format!("r-{cidr}"),
        table: String::new(),
        destination: cidr.to_owned(),
        target,
        blackhole,
        addresses: None,
    }
}

fn survey(routes: &[&str]) -> ObservedRoutes {
    ObservedRoutes {
        routes: routes.iter().map(|text| route(text)).collect(),
        placements: BTreeMap::new(),
    }
}

fn decided(nodes: &RouteNodes, survey: &ObservedRoutes) -> RouteDecision {
    let ranges = cluster_ranges("10.120.0.0/16,fd00:120::/48").unwrap();
    decide(nodes, &ranges, survey, |_| usize::MAX)
}

/// `- route (why)` and `+ route`, in order.
fn changes_of(decision: &RouteDecision) -> Vec<String> {
    let mut lines = Vec::new();
    for change in &decision.changes {
        let removals = change.removals.iter();
        lines.extend(removals.map(|it| format!("- {} ({:?})", it.route, it.why)));
        let creations = change.creations.iter();
        lines.extend(creations.map(|it| format!("+ {}", it.route)));
    }
    lines
}

fn unavailable(decision: &RouteDecision) -> Vec<(&str, Option<bool>)> {
    let all = decision.standings.iter();
    all.map(|(name, it)| (name.as_str(), it.unavailable()))
        .collect()
}

const NONE: [&str; 0] = [];

#[test]
fn framework_case_095_each_range_of_each_node_gets_a_route() {
    let nodes = own(&[node("a", &["10.120.0.0/24"]), node("b", &["10.120.1.0/24"])]);
    let decision = decided(&nodes, &survey(&[]));
    assert_eq!(
        changes_of(&decision),
        ["+ 10.120.0.0/24 to node a", "+ 10.120.1.0/24 to node b"]
    );
    let RouteStep::Create { hint, route } = decision.changes[0].creations[0].step() else {
        panic!("a creation creates");
    };
    assert_eq!(hint, "uid-a");
    assert_eq!(
        route.addresses,
        Some(addresses(&["InternalIP:10.0.1.1"])),
        "the cloud may want them"
    );
    assert_eq!(
        unavailable(&decision),
        [("a", Some(false)), ("b", Some(false))]
    );
    let again = decided(&nodes, &survey(&["10.120.0.0/24 a", "10.120.1.0/24 b"]));
    assert_eq!(changes_of(&again), NONE);
}

#[test]
fn framework_case_096_and_97_and_98_and_145_what_goes_and_what_stays() {
    let nodes = own(&[node("a", &["10.120.0.0/24"]), node("b", &["10.120.1.0/24"])]);
    for (routes, expected) in [
        (
            &["10.120.0.0/24 a", "10.120.1.0/24 b", "10.120.2.0/24 c"][..],
            &["- 10.120.2.0/24 to node c (NodeGone)"][..],
        ),
        (
            &["10.120.0.0/24 b", "10.120.1.0/24 a"],
            &[
                "- 10.120.0.0/24 to node b (NotItsRange)",
                "+ 10.120.0.0/24 to node a",
                "- 10.120.1.0/24 to node a (NotItsRange)",
                "+ 10.120.1.0/24 to node b",
            ],
        ),
        (
            &[
                "10.120.0.0/24 a",
                "10.120.1.0/24 b",
                "10.120.2.0/24 !",
                "10.1.2.0/24 !",
            ],
            &["- 10.120.2.0/24 to nobody (Blackhole)"],
        ),
        (
            &["10.120.0.0/24 a!", "10.120.1.0/24 b"],
            &[
                "- 10.120.0.0/24 to node a (Blackhole)",
                "+ 10.120.0.0/24 to node a",
            ],
        ),
        (
            &[
                "10.120.0.0/24 gone",
                "10.120.1.0/24 b",
                "192.168.0.0/24 gone",
                "words a",
            ],
            &[
                "- 10.120.0.0/24 to node gone (NodeGone)",
                "+ 10.120.0.0/24 to node a",
            ],
        ),
    ] {
        let decision = decided(&nodes, &survey(routes));
        assert_eq!(changes_of(&decision), expected, "{routes:?}");
        assert!(decision.held.is_empty(), "{routes:?}");
    }
}

#[test]
fn framework_case_099_a_route_by_other_addresses_is_replaced() {
    let nodes = own(&[node("a", &["10.120.0.0/24"])]);
    for (at, expected) in [
        (
            &["InternalIP:10.0.1.2"][..],
            &[
                "- 10.120.0.0/24 to node a (Moved)",
                "+ 10.120.0.0/24 to node a",
            ][..],
        ),
        (&["InternalIP:10.0.1.1"], &[]),
    ] {
        let mut survey = survey(&["10.120.0.0/24 a"]);
        survey.routes[0].addresses = Some(addresses(at));
        assert_eq!(changes_of(&decided(&nodes, &survey)), expected);
    }
    // Where they mean nothing they are not looked at.
    assert_eq!(
        changes_of(&decided(&nodes, &survey(&["10.120.0.0/24 a"]))),
        NONE
    );
}

#[test]
fn framework_case_100_a_node_without_ranges_is_left_alone_unless_it_has_routes() {
    let nodes = own(&[node("a", &[])]);
    let decision = decided(&nodes, &survey(&[]));
    assert_eq!(unavailable(&decision), [("a", None)]);
    let decision = decided(&nodes, &survey(&["10.120.0.0/24 a"]));
    assert_eq!(
        changes_of(&decision),
        ["- 10.120.0.0/24 to node a (NotItsRange)"]
    );
    assert_eq!(unavailable(&decision), [("a", Some(true))]);
}

#[test]
fn framework_case_102_responsible_is_who_has_the_first_or_the_last_address() {
    let ranges = cluster_ranges("10.244.0.0/14").unwrap();
    for (cidr, expected) in [
        ("10.247.255.0/24", true),
        ("10.244.0.0/16", true),
        ("10.248.0.0/24", false),
        ("10.243.255.0/24", false),
        ("10.243.0.0/15", false),
        ("10.240.0.0/13", true),
        ("10.0.0.0/8", false),
        ("fd00::/64", false),
        ("10.244.0.1", false),
        ("words", false),
    ] {
        assert_eq!(is_responsible(&ranges, cidr), expected, "{cidr}");
    }
}

#[test]
fn the_flag_says_one_range_or_one_of_each_family() {
    for (flag, expected) in [
        ("10.0.0.0/8", Some(1)),
        ("10.0.0.1/8, fd00::/48", Some(2)),
        ("fd00::/48,10.0.0.0/8", Some(2)),
        ("", None),
        (",", None),
        ("10.0.0.0", None),
        ("10.0.0.0/8,11.0.0.0/8", None),
        ("10.0.0.0/8,fd00::/48,fd01::/48", None),
    ] {
        let ranges = cluster_ranges(flag).ok().map(|it| it.len());
        assert_eq!(ranges, expected, "{flag:?}");
    }
    assert_eq!(
        cluster_ranges("x").unwrap_err().to_string(),
        "\"x\" in --cluster-cidr is no CIDR"
    );
}

#[test]
fn one_range_in_two_spellings_is_one_range() {
    let nodes = own(&[node("a", &["fd00:120:0:0::/64"])]);
    let decision = decided(&nodes, &survey(&["fd00:120::/64 a"]));
    assert_eq!(changes_of(&decision), NONE);
}

#[test]
fn what_others_have_is_left_alone() {
    let nodes = [node("a", &["10.120.0.0/24"]), node("x", &["10.120.9.0/24"])];
    let owner_of = |node: &Node| match node.name.as_str() {
        "a" => NodeOwner::Own,
        _ => NodeOwner::Foreign,
    };
    let nodes = RouteNodes::new(&nodes, &BTreeMap::new(), owner_of);
    let right = "10.120.0.0/24 a";
    for (routes, expected) in [
        // To the other node, or to wherever by its range.
        (&[right, "10.120.9.0/24 x", "10.120.8.0/24 x"][..], &[][..]),
        (&[right, "10.120.9.0/24 !", "10.120.9.0/24 gone"], &[]),
        (&[right, "10.120.9.0/24 ?"], &[]),
        // But ours has no such range.
        (
            &[right, "10.120.9.0/24 a"],
            &["- 10.120.9.0/24 to node a (NotItsRange)"],
        ),
        // And the other one has not this.
        (
            &["10.120.0.0/24 x"],
            &[
                "- 10.120.0.0/24 to node x (Taken)",
                "+ 10.120.0.0/24 to node a",
            ],
        ),
    ] {
        let decision = decided(&nodes, &survey(routes));
        assert_eq!(changes_of(&decision), expected, "{routes:?}");
        assert_eq!(unavailable(&decision), [("a", Some(false))], "only ours");
    }
}

#[test]
fn a_node_that_cannot_be_read_keeps_its_routes() {
    let a = node("a", &["10.120.0.0/24"]);
    let routes = [
        "10.120.0.0/24 a",
        "10.120.1.0/24 b",
        "10.120.2.0/24 c",
        "10.120.3.0/24 !",
    ];
    // As it was last known: its range is its own, and so is whatever leads to it.
    let unreadable = BTreeMap::from([("b".to_owned(), Some(node("b", &[])))]);
    let nodes = RouteNodes::new(std::slice::from_ref(&a), &unreadable, |_| NodeOwner::Own);
    let decision = decided(&nodes, &survey(&routes));
    assert_eq!(
        changes_of(&decision),
        [
            "- 10.120.2.0/24 to node c (NodeGone)",
            "- 10.120.3.0/24 to nobody (Blackhole)"
        ]
    );
    // Never read: whatever there is may be its own, but for what is known to be somebody else's.
    let unreadable = BTreeMap::from([("b".to_owned(), None)]);
    let nodes = RouteNodes::new(&[a], &unreadable, |_| NodeOwner::Own);
    let decision = decided(
        &nodes,
        &survey(&["10.120.0.0/24 !", routes[1], routes[2], routes[3]]),
    );
    assert_eq!(
        changes_of(&decision),
        [
            "- 10.120.0.0/24 to nobody (Blackhole)",
            "+ 10.120.0.0/24 to node a"
        ]
    );
    let why: Vec<RouteHold> = decision.held.iter().map(|it| it.why).collect();
    assert_eq!(why, [RouteHold::Unread, RouteHold::Unread]);
}

#[test]
fn no_nodes_at_all_prove_nothing() {
    let decision = decided(&RouteNodes::default(), &survey(&["10.120.0.0/24 a"]));
    assert_eq!(changes_of(&decision), NONE);
    assert_eq!(decision.held[0].why, RouteHold::NoNodes);
}

#[test]
fn where_nobody_can_tell_nothing_is_withdrawn() {
    let nodes = own(&[node("a", &["10.120.0.0/24"])]);
    let mut seen = survey(&["10.120.0.0/24 ?", "10.120.1.0/24 ?"]);
    let decision = decided(&nodes, &seen);
    assert_eq!(
        changes_of(&decision),
        ["- 10.120.0.0/24 (Taken)", "+ 10.120.0.0/24 to node a"],
        "what a known node needs is made right"
    );
    assert_eq!(decision.held[0].why, RouteHold::Unclear);
    let key = ("a".to_owned(), "10.120.0.0/24".to_owned());
    let unknown = RoutePlacement::Unknown("no answer".into());
    seen.placements.insert(key, unknown);
    let decision = decided(&nodes, &seen);
    assert_eq!(changes_of(&decision), NONE);
    assert_eq!(unavailable(&decision), [("a", None)]);
    assert!(decision.is_unclear);
}

#[test]
fn a_cloud_says_where_routes_have_to_be() {
    let nodes = own(&[
        node("a", &["10.120.0.0/24"]),
        node("b", &["10.120.1.0/24", "fd00:120:1::/64"]),
        node("c", &["10.120.2.0/24"]),
    ]);
    let key = |node: &str, cidr: &str| (node.to_owned(), cidr.to_owned());
    let remark = |reason| RouteNote {
        reason,
        message: "because".into(),
    };
    let both = RoutePlacement::In(vec!["one".into(), "two".into()]);
    let mut seen = survey(&["10.120.0.0/24 a", "10.120.1.0/24 b", "10.120.2.0/24 c"]);
    for route in &mut seen.routes {
        route.table = "one".into();
    }
    seen.placements = BTreeMap::from([
        (key("a", "10.120.0.0/24"), both),
        (
            key("b", "10.120.1.0/24"),
            RoutePlacement::In(vec!["one".into()]),
        ),
        (
            key("b", "fd00:120:1::/64"),
            RoutePlacement::Ignored(remark("Ignored")),
        ),
        (
            key("c", "10.120.2.0/24"),
            RoutePlacement::Refused(remark("NoCard")),
        ),
    ]);
    let decision = decided(&nodes, &seen);
    assert_eq!(
        changes_of(&decision),
        [
            "- 10.120.2.0/24 to node c in one (NotThere)",
            "+ 10.120.0.0/24 to node a in two",
        ]
    );
    assert_eq!(
        unavailable(&decision),
        [("a", Some(false)), ("b", Some(false)), ("c", Some(true))]
    );
    let remarks = |name: &str| decision.standings[name].remarks.len();
    assert_eq!((remarks("a"), remarks("b"), remarks("c")), (0, 1, 1));
    let mut standing = decision.standings["a"].clone();
    standing.lack();
    assert_eq!(standing.unavailable(), Some(true));
}

#[test]
fn what_nobody_needs_goes_at_the_guard_s_pace() {
    #[allow(clippy::disallowed_methods, reason = "only to count from it")]
    let begun = Instant::now();
    let minute = |minutes: u32| begun + Duration::from_secs(60) * minutes;
    let mut allowance = Allowance::new(GuardPolicy::default());
    assert_eq!(allowance.left(5, minute(0)), 3);
    assert_eq!(allowance.left(200, minute(0)), 20);
    for _ in 0..2 {
        allowance.spend(minute(0));
    }
    assert_eq!(allowance.left(3, minute(9)), 1);
    assert_eq!(allowance.left(98, minute(9)), 8, "ten of a hundred");
    assert_eq!(allowance.left(3, minute(10)), 3);

    let nodes = own(&[node("a", &["10.120.0.0/24"])]);
    let routes: Vec<String> = (0..9).map(|n| format!("10.120.{n}.0/24 gone")).collect();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let ranges = cluster_ranges("10.120.0.0/16").unwrap();
    let decision = decide(&nodes, &ranges, &survey(&routes), |all| {
        assert_eq!(all, 9);
        2
    });
    assert_eq!(
        changes_of(&decision),
        [
            "- 10.120.0.0/24 to node gone (NodeGone)",
            "+ 10.120.0.0/24 to node a",
            "- 10.120.1.0/24 to node gone (NodeGone)",
            "- 10.120.2.0/24 to node gone (NodeGone)",
        ],
        "a place that is needed is not counted"
    );
    assert_eq!(decision.held.len(), 6);
    assert!(
        decision
            .held
            .iter()
            .all(|it| it.why == RouteHold::BudgetSpent)
    );
}

/// What a cloud has after a decision was carried out.
fn carried_out(mut survey: ObservedRoutes, decision: &RouteDecision) -> ObservedRoutes {
    for change in &decision.changes {
        for removal in &change.removals {
            let at = survey.routes.iter().position(|it| *it == removal.route);
            survey.routes.remove(at.unwrap());
        }
        for creation in &change.creations {
            let name = format!("n-{}", creation.route.destination);
            let route = creation.route.clone();
            survey.routes.push(PodRoute { name, ..route });
        }
    }
    survey
}

proptest! {
    #[test]
    fn what_was_decided_settles_it_and_touches_nothing_of_others(
        owners in proptest::collection::vec(0..3_u8, 0..8),
        routes in proptest::collection::vec((0..12_u8, 0..10_u8, any::<bool>(), any::<bool>()), 0..16),
        unread in any::<bool>(),
    ) {
        let nodes: Vec<Arc<Node>> = owners
            .iter()
            .enumerate()
            .map(|(at, _)| node(&format!("n{at}"), &[&format!("10.120.{at}.0/24")]))
            .collect();
        let mut owner_of: BTreeMap<String, NodeOwner> = BTreeMap::new();
        for (node, owner) in nodes.iter().zip(&owners) {
            let node_owner = match owner {
                0 => NodeOwner::Foreign,
                _ => NodeOwner::Own,
            };
            owner_of.insert(node.name.clone(), node_owner);
        }
        let mut unreadable = BTreeMap::new();
        if unread {
            unreadable.insert("n9".to_owned(), None);
        }
        let nodes = RouteNodes::new(&nodes, &unreadable, |node| owner_of[&node.name]);
        let texts: BTreeSet<String> = routes
            .iter()
            .map(|(range, to, dark, outside)| {
                let net = if *outside { "10.9" } else { "10.120" };
                let target = match to {
                    8 => "!".to_owned(),
                    9 => "?".to_owned(),
                    to => format!("n{to}{}", if *dark { "!" } else { "" }),
                };
                format!("{net}.{range}.0/24 {target}")
            })
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let before = survey(&texts);
        let first = decided(&nodes, &before);
        for removal in first.changes.iter().flat_map(|it| &it.removals) {
            prop_assert!(removal.route.destination.starts_with("10.120."));
            if let Target::Node(name) = &removal.route.target {
                let is_other =
                    nodes.others.contains_key(name) || nodes.foreign.contains_key(name);
                prop_assert!(!is_other || removal.why == Why::Taken);
                prop_assert!(!nodes.unknown.contains(name));
            }
        }
        let after = carried_out(before, &first);
        let second = decided(&nodes, &after);
        prop_assert!(second.changes.is_empty(), "{:?}", changes_of(&second));
        for (name, standing) in &second.standings {
            prop_assert_eq!(standing.unavailable(), Some(false), "{}", name);
        }
    }
}
