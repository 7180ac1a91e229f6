//! Section C of the cases: the older labels of a pair are copied to the newer ones.

use std::time::Duration;

use serde_json::{Value, json};

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::{fresh, known, labels};
use bowline_scenarios::{TestCluster, refuse, scenario};

const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const ZONE: &str = "topology.kubernetes.io/zone";
const INTERNAL: &str = "InternalIP:10.0.0.5";

/// The initialised, Ready node n1 with these labels.
fn labelled(all: Value) -> Value {
    let mut node = known("n1", "demo://m-1", "True", &[INTERNAL]);
    node["metadata"]["labels"] = all;
    node
}

async fn bench() -> TestCluster {
    let bench = TestCluster::new().await;
    bench
        .cloud()
        .say("n1", Script::Machine(machine("demo://m-1", &[INTERNAL])));
    bench
}

#[scenario]
async fn framework_case_040_the_three_newer_labels_are_added() {
    let bench = bench().await;
    bench
        .put(labelled(json!({
            BETA_ZONE: "foo",
            "failure-domain.beta.kubernetes.io/region": "bar",
            "beta.kubernetes.io/instance-type": "t",
        })))
        .await;
    let uid = bench.node("n1")["metadata"]["uid"].clone();
    bench
        .until("the labels are written", |it| it.written("n1").len() == 1)
        .await;
    bench.seconds(60).await;
    let added = json!({
        ZONE: "foo",
        "topology.kubernetes.io/region": "bar",
        "node.kubernetes.io/instance-type": "t",
    });
    let writes = bench.writes("n1");
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body,
        json!({ "metadata": { "uid": uid, "labels": added } })
    );
    assert_eq!(labels(&bench.node("n1")).len(), 6);
    assert_eq!(
        labels(&bench.node("n1"))["node.kubernetes.io/instance-type"],
        "t"
    );
}

#[scenario]
async fn framework_case_041_a_differing_newer_label_is_overwritten_and_equal_ones_cost_nothing() {
    let bench = bench().await;
    bench
        .put(labelled(json!({ BETA_ZONE: "foo", ZONE: "foo" })))
        .await;
    bench.seconds(60).await;
    assert_eq!(bench.all_calls(), [""; 0]);
    bench
        .change("n1", |node| {
            node["metadata"]["labels"][ZONE] = "wrong".into();
        })
        .await;
    bench
        .until("it is put right", |it| {
            labels(&it.node("n1"))[ZONE] == "foo"
        })
        .await;
    bench.seconds(60).await;
    assert_eq!(bench.all_calls(), ["PATCH /api/v1/nodes/n1"]);
}

#[scenario]
async fn framework_case_042_nothing_is_copied_back_and_fresh_nodes_are_left_alone() {
    let bench = bench().await;
    bench
        .put(labelled(
            json!({ ZONE: "z", "node.kubernetes.io/instance-type": "t" }),
        ))
        .await;
    let mut node = fresh("n2");
    node["metadata"]["labels"] = json!({ BETA_ZONE: "foo", ZONE: "wrong" });
    bench.create(node).await;
    bench.seconds(60).await;
    assert_eq!(bench.all_calls(), [""; 0]);
}

#[scenario]
async fn a_conflict_and_an_error_are_tried_again() {
    for code in [409, 500] {
        let bench = bench().await;
        bench.fault(refuse(code, "PATCH", "/api/v1/nodes/n1").times(2));
        bench.put(labelled(json!({ BETA_ZONE: "foo" }))).await;
        let begun = bench.world.clock.now();
        bench
            .until("it is put right", |it| {
                labels(&it.node("n1")).contains_key(ZONE)
            })
            .await;
        assert!(
            bench.since(begun) < Duration::from_secs(1) + bench.slack(),
            "after {code}"
        );
        assert_eq!(bench.written("n1").len(), 3);
    }
}

#[scenario]
async fn labels_of_foreign_nodes_are_left_alone() {
    let bench = bench().await;
    let mut node = labelled(json!({ BETA_ZONE: "foo", ZONE: "wrong" }));
    node["spec"]["providerID"] = "other://m-1".into();
    bench.put(node).await;
    bench.seconds(60).await;
    assert_eq!(bench.all_calls(), [""; 0]);
}
