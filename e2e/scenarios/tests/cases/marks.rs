//! Marks: labels, annotations and taints that a cloud wants on a node, added or owned.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::metadata::{FIELD_MANAGER, TAINTS_ANNOTATION};
use bowline_core::{Instance, MetadataPolicy, NodeMetadata, Taint};
use bowline_simulator::journal::Entry;
use serde_json::{Value, json};

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::{UNINITIALIZED, addresses, fresh, known, labels, taints};
use bowline_scenarios::{TestCluster, is_real, refuse, scenario};

const INTERNAL: &str = "InternalIP:10.0.0.5";
const ROLE: &str = "node-role.kubernetes.io/web";
const RACK: &str = "rack=z1:NoExecute";

/// The time between two slow rounds: the default, or on the real clock so short that several pass
/// while one watches.
fn period() -> Duration {
    Duration::from_secs(if is_real() { 5 } else { 300 })
}

fn frequency() -> String {
    format!("--node-status-update-frequency={}s", period().as_secs())
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn marks(labels: &[(&str, &str)], annotations: &[(&str, &str)], racks: &[&str]) -> NodeMetadata {
    NodeMetadata {
        labels: map(labels),
        annotations: map(annotations),
        taints: racks
            .iter()
            .map(|rack| Taint::new("rack", rack, "NoExecute"))
            .collect(),
        keeping: MetadataPolicy::Add,
    }
}

fn owned(labels: &[(&str, &str)], annotations: &[(&str, &str)], racks: &[&str]) -> NodeMetadata {
    NodeMetadata {
        keeping: MetadataPolicy::Own,
        ..marks(labels, annotations, racks)
    }
}

/// The machine with these marks.
fn marked(marks: NodeMetadata) -> Script {
    Script::Machine(Instance {
        marks,
        ..machine("demo://m-1", &[INTERNAL])
    })
}

/// The initialised node n1, as its machine is.
fn settled() -> Value {
    known("n1", "demo://m-1", "True", &[INTERNAL, "Hostname:n1"])
}

fn annotations(node: &Value) -> BTreeMap<String, String> {
    let all = node["metadata"]["annotations"].as_object();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = all.into_iter().flatten();
    all.map(|(key, value)| (key.clone(), text(value))).collect()
}

/// Waits until the machine of n1 was asked for so many more times, and a little longer.
async fn rounds(bench: &TestCluster, more: usize) {
    let wanted = bench.cloud().asked_about("n1").len() + more;
    bench
        .until("the slow rounds", |it| {
            it.cloud().asked_about("n1").len() >= wanted
        })
        .await;
    bench.settle().await;
}

/// The writes of n1 by server-side apply.
fn applies(bench: &TestCluster) -> Vec<Entry> {
    let by_us = |it: &Entry| it.query.contains(&format!("fieldManager={FIELD_MANAGER}"));
    bench.writes("n1").into_iter().filter(by_us).collect()
}

#[scenario]
async fn marks_are_there_before_the_taint_goes() {
    let bench = TestCluster::new().await;
    let wanted = marks(
        &[(ROLE, ""), ("tier", "db")],
        &[("x.example/id", "7")],
        &["z1"],
    );
    bench.cloud().say("n1", marked(wanted));
    let mut node = fresh("n1");
    node["metadata"]["labels"]["tier"] = "by-hand".into();
    node["metadata"]["labels"]["theirs"] = "1".into();
    bench.create(node).await;
    let uid = bench.node("n1")["metadata"]["uid"].clone();
    bench.until_initialized("n1").await;
    let node = bench.node("n1");
    let all = labels(&node);
    assert_eq!((&*all[ROLE], &*all["tier"]), ("", "db"));
    assert_eq!(
        (&*all["theirs"], &*all["topology.kubernetes.io/zone"]),
        ("1", "z1")
    );
    assert_eq!(annotations(&node)["x.example/id"], "7");
    assert!(taints(&node).contains(&RACK.to_owned()));
    // There is no moment without a taint that keeps pods away.
    for version in bench.versions("n1") {
        let all = taints(&version);
        let waits = all.iter().any(|it| it.starts_with(UNINITIALIZED));
        assert!(waits || all.contains(&RACK.to_owned()), "{all:?}");
    }
    let ours = ["PATCH n1", "PATCH n1", "PATCH n1/status", "PATCH n1"];
    assert_eq!(
        bench.written("n1"),
        ours.map(|write| format!("{write} -> 200"))
    );
    let first = json!({ "metadata": {
            "uid": uid, "labels": { ROLE: "", "tier": "db" }, "annotations": { "x.example/id": "7" },
        } });
    assert_eq!(bench.writes("n1")[0].body, first);
}

#[scenario]
async fn a_label_of_a_pair_overrides_what_the_cloud_says_otherwise() {
    let bench = TestCluster::with(&[&frequency()]).await;
    let zone = "topology.kubernetes.io/zone";
    let wanted = marks(&[(zone, "own")], &[], &[]);
    bench.cloud().say("n1", marked(wanted));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    let writes = bench.written("n1").len();
    rounds(&bench, 2).await;
    let all = labels(&bench.node("n1"));
    assert_eq!(all[zone], "own");
    assert_eq!(all["failure-domain.beta.kubernetes.io/zone"], "own");
    assert_eq!(all["topology.kubernetes.io/region"], "r1");
    assert_eq!(bench.written("n1").len(), writes);
}

#[scenario]
async fn what_was_added_is_put_back_but_not_taints_and_costs_nothing_while_it_is_there() {
    let bench = TestCluster::with(&[&frequency()]).await;
    let wanted = marks(&[(ROLE, "")], &[("x.example/id", "7")], &["z1"]);
    bench.cloud().say("n1", marked(wanted));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    let writes = bench.written("n1").len();
    rounds(&bench, 2).await;
    assert_eq!(bench.written("n1").len(), writes);
    let before = labels(&bench.node("n1"));
    bench
        .change("n1", |node| {
            node["metadata"]["labels"]
                .as_object_mut()
                .unwrap()
                .remove(ROLE);
            node["metadata"]["annotations"]["x.example/id"] = "by-hand".into();
            node["spec"]["taints"] = json!([]);
        })
        .await;
    let begun = bench.world.clock.now();
    bench
        .until("the label is back", |it| labels(&it.node("n1")) == before)
        .await;
    assert!(bench.since(begun) <= period() + bench.slack());
    rounds(&bench, 1).await;
    assert_eq!(annotations(&bench.node("n1"))["x.example/id"], "7");
    assert!(!taints(&bench.node("n1")).contains(&RACK.to_owned()));
    assert_eq!(bench.written("n1").len(), writes + 1);
    // What is not wanted any more stays.
    bench.cloud().say("n1", marked(marks(&[], &[], &[])));
    rounds(&bench, 2).await;
    assert_eq!(labels(&bench.node("n1")), before);
    assert_eq!(bench.written("n1").len(), writes + 1);
}

#[scenario]
async fn what_is_owned_goes_when_it_is_no_longer_named_and_others_keep_theirs() {
    let bench = TestCluster::with(&[&frequency()]).await;
    let first = owned(
        &[(ROLE, ""), ("tier", "db"), ("theirs", "ours")],
        &[("x.example/id", "7")],
        &["z1"],
    );
    bench.cloud().say("n1", marked(first));
    let mut node = fresh("n1");
    node["metadata"]["labels"]["kept"] = "1".into();
    node["metadata"]["annotations"] = json!({ "kept": "1" });
    bench.create(node).await;
    bench.until_initialized("n1").await;
    rounds(&bench, 2).await;
    let node = bench.node("n1");
    assert_eq!(labels(&node)["tier"], "db");
    assert_eq!(annotations(&node)[TAINTS_ANNOTATION], "rack:NoExecute");
    assert!(taints(&node).contains(&RACK.to_owned()));
    assert_eq!(applies(&bench).len(), 1);
    let writes = bench.written("n1").len();

    // A value that somebody else changes is put right, taints included.
    bench
        .change("n1", |node| {
            node["metadata"]["labels"]["tier"] = "by-hand".into();
            let list = node["spec"]["taints"].as_array_mut().unwrap();
            list.retain(|taint| taint["key"] != "rack");
        })
        .await;
    bench
        .until("all is put right", |it| {
            let node = it.node("n1");
            labels(&node)["tier"] == "db" && taints(&node).contains(&RACK.to_owned())
        })
        .await;
    rounds(&bench, 1).await;
    assert_eq!(bench.written("n1").len(), writes + 2);

    bench
        .cloud()
        .say("n1", marked(owned(&[("tier", "web")], &[], &[])));
    bench
        .until("the rest has gone", |it| {
            let node = it.node("n1");
            !taints(&node).contains(&RACK.to_owned())
                && !annotations(&node).contains_key(TAINTS_ANNOTATION)
        })
        .await;
    let node = bench.node("n1");
    let all = labels(&node);
    assert_eq!((&*all["tier"], &*all["kept"]), ("web", "1"));
    assert!(!all.contains_key(ROLE) && !all.contains_key("theirs"));
    assert_eq!(annotations(&node)["kept"], "1");
    assert!(!annotations(&node).contains_key("x.example/id"));
    let writes = bench.written("n1").len();
    rounds(&bench, 2).await;
    assert_eq!(bench.written("n1").len(), writes);
}

#[scenario]
async fn a_manager_that_starts_takes_back_what_is_no_longer_named() {
    let mut bench = TestCluster::with(&[&frequency()]).await;
    let first = owned(&[("tier", "db"), ("old", "1")], &[], &[]);
    bench.cloud().say("n1", marked(first));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    bench.stop().await;
    bench
        .cloud()
        .say("n1", marked(owned(&[("tier", "db")], &[], &[])));
    bench.start();
    bench
        .until("the old label has gone", |it| {
            !labels(&it.node("n1")).contains_key("old")
        })
        .await;
    rounds(&bench, 2).await;
    assert_eq!(labels(&bench.node("n1"))["tier"], "db");
    // One of each manager: nothing more is needed as long as nothing differs.
    assert_eq!(applies(&bench).len(), 2);
}

#[scenario]
async fn a_node_keeps_its_taint_as_long_as_its_marks_cannot_be_written() {
    for keeping in [MetadataPolicy::Add, MetadataPolicy::Own] {
        let bench = TestCluster::new().await;
        let wrong = NodeMetadata {
            keeping,
            ..marks(&[("tier", "no value!")], &[], &["z1"])
        };
        bench.cloud().say("n1", marked(wrong));
        bench.create(fresh("n1")).await;
        bench.until_event("n1", "NodeInitializationFailed").await;
        let node = bench.node("n1");
        assert!(!bench.is_initialized("n1"));
        assert_eq!(node["spec"]["providerID"], Value::Null);
        assert!(bench.events("n1")[0].contains("no value!"));
        let refused = |write: &String| write == "PATCH n1 -> 422";
        assert!(bench.written("n1").iter().all(refused));
        let right = NodeMetadata {
            keeping,
            ..marks(&[("tier", "db")], &[], &["z1"])
        };
        bench.cloud().say("n1", marked(right));
        bench.until_initialized("n1").await;
        assert!(taints(&bench.node("n1")).contains(&RACK.to_owned()));
    }
}

#[scenario]
async fn taints_that_meet_a_conflict_are_written_on_what_the_node_is_by_then() {
    let bench = TestCluster::new().await;
    bench.fault(refuse(409, "PATCH", "/api/v1/nodes/n1").times(2));
    bench.cloud().say("n1", marked(marks(&[], &[], &["z1"])));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    assert!(taints(&bench.node("n1")).contains(&RACK.to_owned()));
    assert_eq!(bench.event_count("n1", "NodeInitializationFailed"), 0);
}

#[scenario]
async fn marks_that_cannot_be_refreshed_hold_up_nothing_else() {
    let mut bench = TestCluster::idle(&[&frequency()]).await;
    bench.put(settled()).await;
    bench
        .put(known("n2", "demo://m-2", "True", &["InternalIP:10.0.0.6"]))
        .await;
    let moved = Instance {
        marks: marks(&[("tier", "no value!")], &[], &[]),
        ..machine("demo://m-1", &["InternalIP:10.0.0.7"])
    };
    bench.cloud().say("n1", Script::Machine(moved));
    let other = Instance {
        marks: marks(&[("tier", "db")], &[], &[]),
        ..machine("demo://m-2", &["InternalIP:10.0.0.6"])
    };
    bench.cloud().say("n2", Script::Machine(other));
    bench.start();
    bench
        .until("the other node has its label", |it| {
            labels(&it.node("n2")).contains_key("tier")
        })
        .await;
    rounds(&bench, 2).await;
    assert_eq!(addresses(&bench.node("n1"))[0], "InternalIP:10.0.0.7");
    assert!(!labels(&bench.node("n1")).contains_key("tier"));
    assert!(bench.is_running());
}

#[scenario]
async fn marks_make_no_node_anew_that_is_gone() {
    for keeping in [MetadataPolicy::Add, MetadataPolicy::Own] {
        let bench = TestCluster::new().await;
        let wanted = NodeMetadata {
            keeping,
            ..marks(&[("tier", "db")], &[], &[])
        };
        bench.cloud().take(Duration::from_secs(2));
        bench.cloud().say("n1", marked(wanted));
        bench.create(fresh("n1")).await;
        bench
            .until("the cloud is asked", |it| it.cloud().calls() > 0)
            .await;
        bench.delete("n1").await;
        bench.long(120).await;
        assert!(bench.find("n1").is_none());
    }
}

#[scenario]
async fn an_observer_writes_no_marks() {
    for keeping in [MetadataPolicy::Add, MetadataPolicy::Own] {
        let mut bench = TestCluster::idle(&[&frequency(), "--mode=observe"]).await;
        let wanted = NodeMetadata {
            keeping,
            ..marks(&[("tier", "db")], &[("x.example/id", "7")], &["z1"])
        };
        for node in ["n1", "n2"] {
            bench.cloud().say(node, marked(wanted.clone()));
        }
        bench.put(settled()).await;
        bench.create(fresh("n2")).await;
        bench.start();
        rounds(&bench, 2).await;
        assert_eq!(bench.written("n1"), [""; 0]);
        assert_eq!(bench.written("n2"), [""; 0]);
    }
}
