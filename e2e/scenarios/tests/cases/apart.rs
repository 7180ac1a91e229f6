//! One cloud is down, slow or denies everything: nothing about the nodes of another is later than without that.

use std::time::Duration;

use bowline_scenarios::cloud::{Script, machine, stopped};
use bowline_scenarios::objects::{addresses, fresh, known};
use bowline_scenarios::{Setup, TestCluster, assert_not_later, is_real, scenario};

/// How the other cloud is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum East {
    Well,
    /// No call ends before it is given up.
    Hangs,
    /// Every call fails, at once.
    Fails,
}

/// More nodes than retries are saved up for, and far more than are written at once.
fn crowd() -> usize {
    if is_real() { 20 } else { 150 }
}

async fn bench(east: East, crowd: usize) -> TestCluster {
    let period = if is_real() { 5 } else { 300 };
    let frequency = format!("--node-status-update-frequency={period}s");
    let mut bench = TestCluster::set_up(Setup {
        clouds: &[("east", "east"), ("west", "west")],
        flags: &[&frequency],
        ..Setup::default()
    })
    .await;
    match east {
        East::Well => {}
        East::Hangs => bench.clouds[0].take(Duration::from_secs(3600)),
        East::Fails => bench.clouds[0].fail_with(1.0),
    }
    for number in 0..crowd {
        let (name, id) = (format!("e{number}"), format!("east://e{number}"));
        let script = Script::Machine(machine(&id, &["InternalIP:10.1.0.1"]));
        bench.clouds[0].say(&name, script);
        let mut node = fresh(&name);
        node["spec"]["providerID"] = id.into();
        bench.create(node).await;
    }
    // Its initialised nodes are looked at in every round.
    for name in ["old1", "old2"] {
        let node = known(name, &format!("east://{name}"), "Unknown", &[INTERNAL]);
        bench.put(node).await;
    }
    for name in ["w2", "w3", "w4"] {
        bench.clouds[1].say(name, found(name, INTERNAL));
        let node = known(name, &format!("west://{name}"), "True", &[INTERNAL]);
        bench.put(node).await;
    }
    bench.start();
    bench
}

const INTERNAL: &str = "InternalIP:10.0.0.5";

fn found(name: &str, address: &str) -> Script {
    Script::Machine(machine(&format!("west://{name}"), &[address]))
}

/// What happens to nodes of the cloud west, and how long each of it takes.
async fn story(east: East) -> Vec<(&'static str, Duration)> {
    let mut bench = bench(east, crowd()).await;
    bench.seconds(if is_real() { 10 } else { 130 }).await;
    let west = bench.clouds[1].clone();
    let mut took = Vec::new();
    let mut begun = bench.world.clock.now();
    let mut note = |bench: &TestCluster, what| {
        took.push((what, bench.since(begun)));
        begun = bench.world.clock.now();
    };
    // The first answer is an error, so that it depends on retries.
    west.say_in_turn("w1", [Script::Error("busy"), found("w1", INTERNAL)]);
    let mut node = fresh("w1");
    node["spec"]["providerID"] = "west://w1".into();
    bench.create(node).await;
    bench.until_initialized("w1").await;
    note(&bench, "initialised");
    west.say("w2", found("w2", "InternalIP:10.0.0.77"));
    bench
        .until("w2 has its new address", |it| {
            addresses(&it.node("w2")) == ["InternalIP:10.0.0.77"]
        })
        .await;
    note(&bench, "address refreshed");
    west.say("w3", Script::Machine(stopped("west://w3")));
    bench.set_ready("w3", "Unknown").await;
    bench.shutdown_taint("w3", true).await;
    note(&bench, "shut down");
    west.say("w4", Script::Gone);
    bench.set_ready("w4", "Unknown").await;
    bench.until_deleted("w4").await;
    note(&bench, "deleted");
    // What is wrong is reported about that cloud alone.
    let ready = |cloud| bench.metric(&format!("bowline_cloud_ready{{cloud=\"{cloud}\"}}"));
    if !is_real() {
        let east_ready = f64::from(u8::from(east == East::Well));
        assert_eq!(ready("east"), Some(east_ready), "{east:?}");
    }
    assert_eq!(ready("west"), Some(1.0), "{east:?}");
    bench.stop().await;
    took
}

#[scenario]
async fn nodes_of_one_cloud_are_not_later_because_another_hangs_or_denies() {
    let ordinary = story(East::Well).await;
    for east in [East::Hangs, East::Fails] {
        assert_not_later(&ordinary, &story(east).await, east);
    }
}

#[scenario]
async fn a_node_that_only_a_cloud_that_hangs_could_know_waits_alone() {
    let bench = bench(East::Hangs, 0).await;
    // Without a provider id it may be either's, and nobody guesses.
    bench.clouds[1].say("n1", found("n1", INTERNAL));
    bench.create(fresh("n1")).await;
    bench.settle().await;
    bench.clouds[1].say("w1", found("w1", INTERNAL));
    let mut node = fresh("w1");
    node["spec"]["providerID"] = "west://w1".into();
    let begun = bench.world.clock.now();
    bench.create(node).await;
    bench.until_initialized("w1").await;
    assert!(bench.since(begun) <= Duration::from_secs(1) + bench.slack());
    assert!(!bench.is_initialized("n1"));
}
