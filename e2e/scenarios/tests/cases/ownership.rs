//! Whose node it is, with two clouds in one manager: in doubt nobody writes, and people are told.

use std::time::Duration;

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::{fresh, known};
use bowline_scenarios::{Setup, TestCluster, scenario};

const INTERNAL: &str = "InternalIP:10.0.0.5";

fn found(id: &str) -> Script {
    Script::Machine(machine(id, &[INTERNAL]))
}

async fn two(first: &'static str, second: &'static str) -> TestCluster {
    let mut bench = TestCluster::set_up(Setup {
        clouds: &[("east", first), ("west", second)],
        ..Setup::default()
    })
    .await;
    bench.start();
    bench
}

#[scenario]
async fn the_only_cloud_that_knows_a_node_gets_it() {
    let bench = two("east", "west").await;
    bench.clouds[1].say("n1", found("west://m-1"));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    assert_eq!(bench.node("n1")["spec"]["providerID"], "west://m-1");
    // From now on the other one is not asked.
    let asked = bench.clouds[0].calls();
    bench.set_ready("n1", "Unknown").await;
    bench.long(600).await;
    assert_eq!(bench.clouds[0].calls(), asked);
}

#[scenario]
async fn a_node_that_two_clouds_recognise_is_nobodys_until_one_lets_go() {
    let bench = two("east", "west").await;
    bench.clouds[0].say("n1", found("east://m-1"));
    bench.clouds[1].say("n1", found("west://m-1"));
    bench.create(fresh("n1")).await;
    let before = bench.node("n1");
    bench.live("n1", 6).await;
    assert_eq!(bench.calls("n1"), []);
    assert_eq!(bench.node("n1")["spec"], before["spec"]);
    let reported = "Warning NodeContested cloud-node-controller: left alone: claimed by several \
                clouds (east, west) (1)";
    assert_eq!(bench.events("n1"), [reported]);
    bench.clouds[0].say("n1", Script::None);
    bench.until_initialized("n1").await;
    assert_eq!(bench.node("n1")["spec"]["providerID"], "west://m-1");
}

#[scenario]
async fn a_provider_id_that_two_clouds_claim_is_nobodys() {
    let mut bench = TestCluster::set_up(Setup {
        clouds: &[("east", "demo"), ("west", "demo"), ("north", "other")],
        ..Setup::default()
    })
    .await;
    bench.start();
    for cloud in &bench.clouds {
        cloud.say("n1", found("demo://m-1"));
        cloud.say("n2", Script::Gone);
    }
    let mut node = fresh("n1");
    node["spec"]["providerID"] = "demo://m-1".into();
    bench.create(node).await;
    bench
        .put(known("n2", "demo://m-2", "Unknown", &[INTERNAL]))
        .await;
    let begun = bench.world.clock.now();
    bench.long(3600).await;
    let minutes = usize::try_from(bench.since(begun).as_secs() / 60).unwrap() + 1;
    assert_eq!(bench.calls("n1"), []);
    assert_eq!(bench.calls("n2"), []);
    assert_eq!(bench.event_count("n1", "NodeContested"), 1);
    assert_eq!(bench.event_count("n2", "NodeContested"), 1);
    // Both are asked which of them has the machines, and nobody else: both have the one, and none the other. Each
    // is asked about each node once a minute, beside the first tries to initialise the new one.
    for cloud in &bench.clouds[..2] {
        for (node, first) in [("n1", 2), ("n2", 1)] {
            let asked = cloud.asked_about(node).len();
            assert!(
                (1..=minutes + first).contains(&asked),
                "{node}: {asked} in {minutes} minutes"
            );
        }
        assert_eq!(cloud.canaries(), 0);
    }
    assert_eq!(bench.clouds[2].calls(), 0);
}

#[scenario]
async fn of_two_accounts_that_claim_a_provider_id_the_one_that_has_the_machine_looks_after_the_node()
 {
    let bench = two("demo", "demo").await;
    bench.clouds[0].say("n1", Script::Gone);
    bench.clouds[1].say("n1", found("demo://m-1"));
    bench
        .put(known("n1", "demo://m-1", "Unknown", &[INTERNAL]))
        .await;
    bench.long(600).await;
    // One account has the machine, so that the other's word counts for nothing.
    assert_eq!(bench.node("n1")["spec"]["providerID"], "demo://m-1");
    // The account that had it says that it is gone.
    bench.clouds[1].say("n1", Script::Gone);
    bench.until_deleted("n1").await;
}

#[scenario]
async fn an_outage_of_one_cloud_hands_no_node_to_another() {
    let bench = two("east", "west").await;
    bench.clouds[0].say("n1", Script::Error("east is down"));
    bench.clouds[1].say("n1", found("west://m-1"));
    bench.create(fresh("n1")).await;
    bench.long(1800).await;
    assert_eq!(bench.calls("n1"), []);
    assert!(!bench.is_initialized("n1"));
    let events = bench.events("n1");
    assert_eq!(events.len(), 1, "{events:?}");
    let reported = "Warning NodeInitializationFailed cloud-node-controller: Initialising keeps \
                failing: node n1: ";
    assert!(
        events[0].starts_with(reported) && events[0].contains("east is down"),
        "{events:?}"
    );
    bench.clouds[0].say("n1", Script::None);
    let begun = bench.world.clock.now();
    bench.until_initialized("n1").await;
    assert!(bench.since(begun) <= Duration::from_secs(61) + bench.slack());
    assert_eq!(bench.node("n1")["spec"]["providerID"], "west://m-1");
}

#[scenario]
async fn an_outage_of_one_cloud_does_not_hold_up_the_other() {
    let bench = two("east", "west").await;
    bench.clouds[0].take(Duration::from_secs(100));
    bench.clouds[0].say("n1", Script::Error("slow and broken"));
    bench.clouds[1].say("n2", Script::Gone);
    bench
        .put(known("n1", "east://m-1", "Unknown", &[INTERNAL]))
        .await;
    bench
        .put(known("n2", "west://m-2", "Unknown", &[INTERNAL]))
        .await;
    let begun = bench.world.clock.now();
    bench.until_deleted("n2").await;
    assert!(bench.since(begun) <= Duration::from_secs(20) + bench.slack());
    bench.long(1800).await;
    assert_eq!(bench.calls("n1"), []);
}

#[scenario]
async fn a_malformed_provider_id_is_told_once_and_the_node_left_alone() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1"));
    let mut node = fresh("n1");
    node["spec"]["providerID"] = "demo://".into();
    bench.create(node).await;
    bench.live("n1", 10).await;
    let reported = "Warning MalformedProviderID cloud-node-controller: left alone: its provider id \
                is not one of demo: it is empty (1)";
    assert_eq!(bench.events("n1"), [reported]);
    assert_eq!(bench.calls("n1"), []);
    assert_eq!(bench.cloud().calls(), 0);
    // Another node of that name is told about anew.
    let again = bench.node("n1");
    bench.delete("n1").await;
    bench.seconds(1).await;
    let mut node = fresh("n1");
    node["spec"] = again["spec"].clone();
    bench.create(node).await;
    bench.long(120).await;
    assert_eq!(bench.event_count("n1", "MalformedProviderID"), 2);
}
