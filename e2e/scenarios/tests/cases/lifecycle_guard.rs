//! The deletion guard at work in the manager: proof, budget, and what it tells.

use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::known;
use bowline_scenarios::{TestCluster, is_real, scenario};

const INTERNAL: &str = "InternalIP:10.0.0.5";

async fn every_twelve_seconds() -> TestCluster {
    let mut bench = TestCluster::idle(&["--node-monitor-period=12s"]).await;
    bench.cloud().say("n1", Script::Gone);
    bench
        .put_aged(known("n1", "demo://m-1", "Unknown", &[INTERNAL]), 1800)
        .await;
    bench.cloud().fail_canaries(true);
    bench.start();
    bench
}

#[scenario]
async fn framework_case_147_a_failed_check_read_takes_back_the_first_look() {
    let bench = every_twelve_seconds().await;
    bench
        .until("the check read failed", |it| it.cloud().canaries() == 1)
        .await;
    let first = bench.world.clock.now();
    bench.cloud().fail_canaries(false);
    bench
        .until("the second round", |it| it.cloud().canaries() == 2)
        .await;
    let second = bench.since(first);
    let late = bench.slack().as_secs();
    assert!(
        (12 - late.min(5)..13 + late).contains(&second.as_secs()),
        "{second:?}"
    );
    bench.seconds(8).await;
    assert!(bench.find("n1").is_some());
    bench.until_deleted("n1").await;
    let third = bench.since(first);
    assert!(
        (24 - late.min(5)..25 + 2 * late).contains(&third.as_secs()),
        "{third:?}"
    );
}

#[scenario]
async fn framework_case_147_a_node_made_again_counts_anew() {
    let bench = every_twelve_seconds().await;
    bench.cloud().fail_canaries(false);
    bench
        .until("the check read passed", |it| it.cloud().canaries() == 1)
        .await;
    let first = bench.world.clock.now();
    bench.delete("n1").await;
    bench
        .put_aged(known("n1", "demo://m-1", "Unknown", &[INTERNAL]), 1800)
        .await;
    bench.until_deleted("n1").await;
    let took = bench.since(first).as_secs();
    let late = bench.slack().as_secs();
    assert!(
        took >= 24 - late.min(5),
        "the look at its namesake counted: {took} s"
    );
    assert!(took <= 24 + 2 * late, "{took} s");
}

const HELD: &str = "bowline_guard_held_nodes{cloud=\"demo\",reason=\"BudgetSpent\"}";

/// A running manager and forty nodes, of which the first ten are silent and their machines gone.
async fn ten_gone_of_forty() -> TestCluster {
    let mut bench = TestCluster::idle(&[]).await;
    for number in 0..40 {
        let (name, id) = (format!("n{number}"), format!("demo://m-{number}"));
        let alive = Script::Machine(machine(&id, &[INTERNAL]));
        bench
            .cloud()
            .say(&name, if number < 10 { Script::Gone } else { alive });
        let ready = if number < 10 { "Unknown" } else { "True" };
        bench.put(known(&name, &id, ready, &[INTERNAL])).await;
    }
    bench.start();
    bench
}

#[scenario]
async fn no_more_nodes_are_deleted_than_the_budget_allows() {
    let bench = ten_gone_of_forty().await;
    bench.long(540).await;
    // A tenth of forty.
    assert_eq!(bench.cluster.nodes().len(), 36);
    assert_eq!(bench.metric(HELD), Some(6.0));
    let kept = (0..10)
        .map(|number| format!("n{number}"))
        .filter(|it| bench.find(it).is_some());
    for name in kept {
        assert_eq!(bench.event_count(&name, "NodeDeletionHeld"), 1, "{name}");
        assert_eq!(bench.event_count(&name, "DeletingNode"), 0, "{name}");
        assert_eq!(bench.deletions(&name), []);
    }
}

#[scenario(only_in_memory = "the window of the budget is ten minutes long")]
async fn the_budget_comes_back_in_ten_minutes() {
    let bench = ten_gone_of_forty().await;
    let left = |it: &TestCluster| it.cluster.nodes().len();
    bench.seconds(540).await;
    assert_eq!(left(&bench), 36);
    // The window moves on: three of the 36 that are left, then three more.
    bench.seconds(120).await;
    assert_eq!(left(&bench), 33);
    bench.seconds(660).await;
    assert_eq!(left(&bench), 30);
    bench.seconds(3600).await;
    assert_eq!(left(&bench), 30);
    assert_eq!(bench.metric(HELD), Some(0.0));
}

#[scenario]
async fn a_restart_starts_looking_anew() {
    let mut bench = TestCluster::idle(&[]).await;
    bench.cloud().say("n1", Script::Gone);
    bench
        .put(known("n1", "demo://m-1", "Unknown", &[INTERNAL]))
        .await;
    for _ in 0..if is_real() { 6 } else { 20 } {
        bench.start();
        bench.seconds(9).await;
        bench.kill().await;
    }
    assert_eq!(bench.calls("n1"), []);
    bench.start();
    bench.until_deleted("n1").await;
    bench.pass(Duration::from_secs(1)).await;
    bench.stop().await;
    assert_eq!(bench.event_count("n1", "DeletingNode"), 1);
}

#[scenario]
async fn deletions_without_an_answer_count_against_the_budget() {
    let mut bench = TestCluster::idle(&[]).await;
    for number in 0..10 {
        let (name, id) = (format!("n{number}"), format!("demo://m-{number}"));
        bench.cloud().say(&name, Script::Gone);
        bench.put(known(&name, &id, "Unknown", &[INTERNAL])).await;
    }
    let lost = Rule::new(Action::LostAnswer).server("kubernetes");
    bench.fault(lost.on("DELETE", "/api/v1/nodes/*"));
    bench.start();
    bench.long(500).await;
    assert_eq!(bench.cluster.nodes().len(), 7);
}

#[scenario]
async fn an_unreachable_server_does_not_eat_the_budget_of_the_nodes_it_was_asked_for() {
    let mut bench = TestCluster::idle(&[]).await;
    for name in ["n1", "n2", "n3"] {
        bench.cloud().say(name, Script::Gone);
        bench
            .put(known(
                name,
                &format!("demo://{name}"),
                "Unknown",
                &[INTERNAL],
            ))
            .await;
    }
    let unreachable = Rule::new(Action::Reset).server("kubernetes").times(60);
    bench.fault(unreachable.on("DELETE", "/api/v1/nodes/*"));
    bench.start();
    for name in ["n1", "n2", "n3"] {
        bench.until_deleted(name).await;
    }
    let tries = bench.deletions("n1").len();
    assert!(tries >= 20, "{tries} tries");
    assert_eq!(bench.event_count("n1", "DeletingNode"), 1);
}
