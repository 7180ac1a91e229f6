//! Nodes that cannot be read: whose members they are nobody knows, so that none goes.

use std::sync::Arc;

use bowline_core::{AddressKind, ExcludedNodes, Node, NodeAddress, TrafficPolicy, Verb};

use super::harness::{Harness, members, open, steps};

const BOTH: [&str; 2] = ["10.20.0.11:31080", "10.20.0.12:31080"];

/// A test whose load balancer is there, and one of whose nodes is unknown by now.
async fn doubtful() -> Harness {
    let mut test = open().await;
    test.nodes.pop();
    test.excluded = unknown();
    test
}

fn unknown() -> ExcludedNodes {
    ExcludedNodes {
        unknown: vec!["worker-b".into()],
        ..ExcludedNodes::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_may_be_that_of_an_unknown_node_stays_and_goes_when_all_are_known() {
    let mut test = doubtful().await;
    let outcome = test.ensure().await;
    assert_eq!(
        outcome.problem_of("NodeUnreadable"),
        "members at [10.20.0.12] stay although no known node wants them: they may be those of \
         nodes [worker-b], which cannot be read"
    );
    assert_eq!(
        (outcome.error.as_ref(), outcome.plan.steps.len()),
        (None, 0)
    );
    assert_eq!(test.writes(), [""; 0]);
    assert_eq!(members(&test.pool()), BOTH);
    test.excluded = ExcludedNodes::default();
    test.ensure().await.good();
    assert_eq!(members(&test.pool()), ["10.20.0.11:31080"]);
}

#[tokio::test(start_paused = true)]
async fn no_known_node_at_all_leaves_every_member() {
    let mut test = doubtful().await;
    test.nodes.clear();
    test.ensure().await.problem_of("NodeUnreadable");
    assert_eq!(members(&test.pool()), BOTH);
    // A wrong setting beside it changes nothing about that.
    test.set("ip-mode", "x");
    let outcome = test.ensure().await;
    assert_eq!(outcome.plan.problems.len(), 2);
    assert_eq!(members(&test.pool()), BOTH);
}

#[tokio::test(start_paused = true)]
async fn new_members_come_in_spite_of_an_unknown_node() {
    let mut test = Harness::new();
    let second = test.nodes.pop().unwrap();
    test.excluded = unknown();
    // Nothing is there that could be its member: nothing is wrong, and the address is published.
    test.ensure().await.good();
    assert!(!test.service.ingress.is_empty());
    assert_eq!(members(&test.pool()), ["10.20.0.11:31080"]);
    test.nodes.push(second);
    test.ensure().await.good();
    assert_eq!(members(&test.pool()), BOTH);
}

#[tokio::test(start_paused = true)]
async fn an_unpublished_address_is_published_in_spite_of_it() {
    let mut test = doubtful().await;
    let ingress = std::mem::take(&mut test.service.ingress);
    test.ensure().await.problem_of("NodeUnreadable");
    assert_eq!(test.service.ingress, ingress);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_replaced_takes_such_members_along() {
    let mut test = doubtful().await;
    test.set("pool-algorithm", "source_ip");
    let outcome = test.ensure().await;
    outcome.problem_of("NodeUnreadable");
    assert_eq!(outcome.error, None);
    let pool = test.pool();
    assert_eq!(
        (&*pool.algorithm, members(&pool)),
        ("source_ip", BOTH.map(String::from).into())
    );
}

#[tokio::test(start_paused = true)]
async fn such_members_follow_the_ports_of_the_service() {
    let mut test = doubtful().await;
    test.service.ports[0].node_port = 31081;
    let outcome = test.ensure().await;
    assert_eq!(outcome.error, None);
    assert_eq!(
        members(&test.pool()),
        ["10.20.0.11:31081", "10.20.0.12:31081"]
    );
    test.service.traffic_policy = TrafficPolicy::Local;
    test.service.health_check_node_port = Some(32100);
    test.ensure().await.problem_of("NodeUnreadable");
    let pool = test.pool();
    assert_eq!(pool.members.len(), 2);
    assert!(pool.members.iter().all(|it| it.monitor_port == Some(32100)));
    let outcome = test.ensure().await;
    assert_eq!(steps(&outcome.plan), [""; 0]);
    assert!(!outcome.plan.steps.iter().any(|it| it.verb == Verb::Delete));
}

#[tokio::test(start_paused = true)]
async fn proof_case_05_a_node_whose_owner_is_not_known_keeps_its_members_and_gets_no_others() {
    let mut test = open().await;
    let mut away = test.nodes.pop().unwrap();
    away.addresses = vec![NodeAddress::new(AddressKind::InternalIp, "10.20.0.12")];
    let hold = |node: &Node| ExcludedNodes {
        held: vec![Arc::new(node.clone())],
        ..ExcludedNodes::default()
    };
    test.excluded = hold(&away);
    let outcome = test.ensure().await;
    assert_eq!(
        (outcome.plan.held.as_slice(), steps(&outcome.plan).len()),
        (&["worker-b".to_owned()][..], 0)
    );
    assert_eq!(outcome.plan.problems, []);
    assert_eq!(members(&test.pool()), BOTH);
    // All of them: nothing goes, and no problem claims that there is no node.
    let first = test.nodes.pop().unwrap();
    let mut own = first.clone();
    own.addresses = vec![NodeAddress::new(AddressKind::InternalIp, "10.20.0.11")];
    test.excluded.held.push(Arc::new(own));
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), [""; 0]);
    assert_eq!(members(&test.pool()), BOTH);
    // Where its members are not, none come; and what is of nobody goes.
    away.addresses = vec![NodeAddress::new(AddressKind::InternalIp, "10.20.0.99")];
    test.nodes.push(first);
    test.excluded = hold(&away);
    test.ensure().await.good();
    assert_eq!(members(&test.pool()), ["10.20.0.11:31080"]);
}
