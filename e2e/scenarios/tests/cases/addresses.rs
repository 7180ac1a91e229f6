//! Section B of the cases: the addresses of nodes, at the start and in the slow round. (The pure
//! rules of the annotation, 25 to 33, are tested where they are decided, in core.)

use std::time::Duration;

use bowline_core::Instance;
use serde_json::{Value, json};

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::{PROVIDED_NODE_IP, addresses, fresh, known, labels};
use bowline_scenarios::{TestCluster, is_real, scenario};

const INTERNAL: &str = "InternalIP:10.0.0.5";
const EXTERNAL: &str = "ExternalIP:198.51.100.7";
const HOST: &str = "Hostname:n1";

/// The time between two address rounds: the default, or on the real clock so short that several
/// pass while one watches.
fn period() -> Duration {
    Duration::from_secs(if is_real() { 5 } else { 300 })
}

fn frequency() -> String {
    format!("--node-status-update-frequency={}s", period().as_secs())
}

/// A running manager and the initialised node n1 with these addresses; the cloud says `script`.
async fn settled(list: &[&str], script: Script) -> TestCluster {
    around(known("n1", "demo://m-1", "True", list), script).await
}

/// A running manager and this node n1; the cloud says `script`.
async fn around(node: Value, script: Script) -> TestCluster {
    let mut bench = TestCluster::idle(&[&frequency()]).await;
    bench.cloud().say("n1", script);
    bench.put(node).await;
    bench.start();
    bench
}

fn found(list: &[&str]) -> Script {
    Script::Machine(machine("demo://m-1", list))
}

/// Initialises n1 with that annotation from these addresses of the cloud.
async fn pinned(annotation: &str, cloud: &[&str]) -> Vec<String> {
    let bench = TestCluster::with(&[&frequency()]).await;
    bench.cloud().say("n1", found(cloud));
    let mut node = fresh("n1");
    node["metadata"]["annotations"] = json!({ PROVIDED_NODE_IP: annotation });
    bench.create(node).await;
    bench.until_initialized("n1").await;
    let first = addresses(&bench.node("n1"));
    // Two more rounds find nothing to change.
    bench.pass(period() * 2).await;
    assert_eq!(bench.written("n1").len(), 2);
    first
}

#[scenario]
async fn framework_case_025_a_pinned_address_is_stored_alone_of_its_kind() {
    let cloud = [
        "InternalIP:10.1.1.1",
        "InternalIP:10.2.2.2",
        "InternalIP:10.3.3.3",
        "ExternalIP:55.0.0.5",
        "Hostname:h",
    ];
    let wanted = ["InternalIP:10.1.1.1", "ExternalIP:55.0.0.5", "Hostname:h"];
    assert_eq!(pinned("10.1.1.1", &cloud).await, wanted);
}

#[scenario]
async fn framework_case_029_a_pinned_pair_is_stored_in_the_annotations_order() {
    let cloud = ["InternalIP:fc01::5678", "InternalIP:10.1.1.1", "Hostname:h"];
    let wanted = ["InternalIP:10.1.1.1", "InternalIP:fc01::5678", "Hostname:h"];
    assert_eq!(pinned("10.1.1.1,fc01::5678", &cloud).await, wanted);
}

#[scenario]
async fn framework_case_032_an_address_the_cloud_loses_leaves_the_node_as_it_is() {
    let list = ["InternalIP:10.1.1.1", "InternalIP:fc01::5678", HOST];
    let mut node = known("n1", "demo://m-1", "True", &list);
    node["metadata"]["annotations"] = json!({ PROVIDED_NODE_IP: "10.1.1.1,fc01::5678" });
    let bench = around(node, found(&["InternalIP:10.1.1.1"])).await;
    bench.pass(period() * 3).await;
    assert_eq!(addresses(&bench.node("n1")), list);
    assert_eq!(bench.calls("n1"), []);
}

#[scenario]
async fn framework_case_034_a_changed_address_is_written_within_one_period_and_nothing_else() {
    let list = [INTERNAL, EXTERNAL, HOST];
    let bench = settled(&list, found(&[INTERNAL, EXTERNAL])).await;
    bench.seconds(60).await;
    let before = bench.node("n1");
    assert_eq!(bench.calls("n1"), []);
    let moved = "ExternalIP:198.51.100.8";
    let changed = Instance {
        zone: "z2".into(),
        ..machine("demo://m-1", &[INTERNAL, moved])
    };
    bench.cloud().say("n1", Script::Machine(changed));
    let begun = bench.world.clock.now();
    bench
        .until("the address is there", |it| {
            addresses(&it.node("n1"))[1] == moved
        })
        .await;
    assert!(bench.since(begun) <= period() + bench.slack());
    bench.pass(period() * 2).await;
    assert_eq!(addresses(&bench.node("n1")), [INTERNAL, moved, HOST]);
    assert_eq!(labels(&bench.node("n1")), labels(&before));
    assert_eq!(bench.written("n1"), ["PATCH n1/status -> 200"]);
}

#[scenario]
async fn framework_case_035_another_order_of_kinds_is_no_change() {
    let bench = settled(&[HOST, EXTERNAL, INTERNAL], found(&[INTERNAL, EXTERNAL])).await;
    let rounds = bench.cloud().calls() + 3;
    bench
        .until("three rounds", |it| it.cloud().calls() >= rounds)
        .await;
    bench.pass(period()).await;
    assert_eq!(bench.all_calls(), [""; 0]);
}

#[scenario]
async fn framework_case_036_an_unchanged_dual_stack_node_costs_no_request() {
    let second = "InternalIP:fd00::5";
    let bench = settled(&[INTERNAL, second, HOST], found(&[INTERNAL, second])).await;
    bench
        .until("twelve rounds", |it| it.cloud().calls() >= 12)
        .await;
    bench.pass(period()).await;
    assert_eq!(bench.all_calls(), [""; 0]);
}

#[scenario]
async fn framework_case_037_a_cloud_without_addresses_takes_none_away() {
    let bench = settled(&[INTERNAL, HOST], found(&[INTERNAL])).await;
    bench.seconds(1).await;
    bench.cloud().say("n1", found(&[]));
    let rounds = bench.cloud().calls() + 3;
    bench
        .until("three rounds", |it| it.cloud().calls() >= rounds)
        .await;
    bench.pass(period()).await;
    assert_eq!(addresses(&bench.node("n1")), [INTERNAL, HOST]);
    assert_eq!(bench.all_calls(), [""; 0]);
}

#[scenario]
async fn framework_case_038_a_cloud_that_answers_none_changes_nothing() {
    let bench = settled(&[INTERNAL, HOST], Script::None).await;
    let rounds = bench.cloud().calls() + 3;
    bench
        .until("three rounds", |it| it.cloud().calls() >= rounds)
        .await;
    bench.pass(period()).await;
    assert!(bench.is_running());
    assert_eq!(bench.all_calls(), [""; 0]);
}

/// The node `n<number>` with the address that its machine has.
fn numbered(number: usize) -> (String, Value, Script) {
    let (name, id) = (format!("n{number}"), format!("demo://m-{number}"));
    let address = format!("InternalIP:10.0.0.{}", number + 1);
    let node = known(&name, &id, "True", &[&address, &format!("Hostname:{name}")]);
    (name, node, Script::Machine(machine(&id, &[&address])))
}

#[scenario]
async fn framework_case_039_a_round_over_a_hundred_right_nodes_is_one_question_and_no_write() {
    // Long enough for a round that asks twice to be told from two rounds.
    let period = period() * if is_real() { 6 } else { 1 };
    let frequency = format!("--node-status-update-frequency={}s", period.as_secs());
    let flags = ["--concurrent-node-status-updates=10", &frequency];
    let mut bench = TestCluster::idle(&flags).await;
    bench.cloud().take(Duration::from_millis(10));
    for number in 0..100 {
        let (name, node, script) = numbered(number);
        bench.cloud().say(&name, script);
        bench.put(node).await;
    }
    bench.start();
    for rounds in 1..=2 {
        let begun = bench.world.clock.now();
        let what = format!("round {rounds}");
        bench.until(&what, |it| it.cloud().calls() == rounds).await;
        bench.pass(period / 2).await;
        assert_eq!(bench.cloud().calls(), rounds);
        assert!(bench.since(begun) <= period * 3 / 2 + bench.slack());
    }
    assert_eq!(bench.all_calls(), [""; 0]);
}

#[scenario]
async fn framework_case_140_the_bodies_of_address_writes() {
    let bench = TestCluster::with(&[&frequency()]).await;
    bench.cloud().say("n1", found(&[INTERNAL]));
    let mut node = fresh("n1");
    node["status"]["addresses"] = json!([]);
    bench.create(node).await;
    let uid = bench.node("n1")["metadata"]["uid"].clone();
    bench.until_initialized("n1").await;
    // Ours: a merge patch, which replaces the list and needs no directive, guarded by the uid.
    let body = |list: Value| json!({ "metadata": { "uid": uid.clone() }, "status": { "addresses": list } });
    let first = json!([{ "type": "InternalIP", "address": "10.0.0.5" }]);
    assert_eq!(bench.writes("n1")[0].body, body(first.clone()));
    assert_eq!(bench.node("n1")["status"]["addresses"], first);
    bench.cloud().say(
        "n1",
        found(&["InternalIP:10.0.0.6", "InternalIP:fd00::6", EXTERNAL]),
    );
    bench
        .until("the later change is written", |it| {
            it.written("n1").len() == 3
        })
        .await;
    let second = json!([{ "type": "InternalIP", "address": "10.0.0.6" },
                        { "type": "InternalIP", "address": "fd00::6" },
                        { "type": "ExternalIP", "address": "198.51.100.7" }]);
    assert_eq!(bench.writes("n1")[2].body, body(second.clone()));
    assert_eq!(bench.node("n1")["status"]["addresses"], second);
}

#[scenario]
async fn framework_case_148_one_node_without_an_answer_does_not_hold_up_the_others() {
    let mut bench = TestCluster::idle(&[]).await;
    for number in 0..50 {
        let (name, mut node, script) = numbered(number);
        bench.cloud().say(&name, script);
        // Every one of them needs its address back.
        node["status"]["addresses"] = json!([{ "type": "Hostname", "address": name }]);
        bench.put(node).await;
    }
    bench.cloud().say("n17", Script::None);
    bench.start();
    let is_right = |it: &TestCluster, number: usize| {
        let wanted = usize::from(number != 17) + 1;
        addresses(&it.node(&format!("n{number}"))).len() == wanted
    };
    let begun = bench.world.clock.now();
    bench
        .until("all others have theirs", |it| {
            (0..50).all(|number| is_right(it, number))
        })
        .await;
    assert!(bench.since(begun) <= Duration::from_secs(10) + bench.slack());
    assert_eq!(bench.cloud().calls(), 1);
    bench.seconds(5).await;
    assert!(is_right(&bench, 17));
    assert_eq!(bench.calls("n17"), []);
    assert!(bench.is_running());
}
