//! Writes whose answers are lost, that are refused, or that somebody else is faster with.

use bowline_scenarios::objects::fresh;
use bowline_scenarios::{TestCluster, refuse, scenario, slow};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_kubernetes::kinds::{self, Kind};
use serde_json::json;

use crate::ipam::harness::{idle, join, metric, ranges, running, until_given};

const RANGE: &str = "--cluster-cidr=10.244.0.0/16";
const NODE: &str = "/api/v1/nodes/n1";

fn lost(action: Action, method: &str) -> Rule {
    Rule::new(action).server("kubernetes").on(method, NODE)
}

/// Waits until so many blocks are used.
async fn until_used(bench: &TestCluster, blocks: f64) {
    let used = || metric(bench, "cidrset_usage_cidrs", "10.244.0.0/16");
    for _ in 0..120 {
        if used() == Some(blocks / 256.0) {
            return;
        }
        bench.seconds(1).await;
    }
    panic!("{:?} of the blocks are used", used().map(|it| it * 256.0));
}

#[scenario]
async fn framework_case_144_a_write_whose_answer_is_lost_is_found_to_be_made() {
    let bench = running(&[RANGE]).await;
    bench.seconds(1).await;
    bench.fault(lost(Action::LostAnswer, "PATCH").times(3));
    assert_eq!(join(&bench, "n1").await, ["10.244.0.0/24"]);
    assert_eq!(join(&bench, "n2").await, ["10.244.1.0/24"]);
    bench.settle().await;
    assert_eq!(bench.writes("n1").len(), 1, "there is nothing left to do");
    assert_eq!(bench.events("n1"), [""; 0]);
    until_used(&bench, 2.0).await;
}

#[scenario]
async fn framework_case_144_while_nobody_knows_a_block_stays_with_its_node() {
    let bench = running(&[RANGE]).await;
    bench.seconds(1).await;
    // All three writes of the turn are lost on the way, and so are the looks after them.
    bench.fault(lost(Action::Reset, "PATCH").times(3));
    bench.fault(lost(Action::Reset, "GET").times(3));
    bench.create(fresh("n1")).await;
    bench.until_event("n1", "CIDRAssignmentFailed").await;
    let event = "Normal CIDRAssignmentFailed cidrAllocator: \
                     Node n1 status is now: CIDRAssignmentFailed (1)";
    assert_eq!(bench.events("n1"), [event]);
    let other = join(&bench, "n2").await;
    assert_eq!(other, ["10.244.1.0/24"]);
    assert_eq!(
        until_given(&bench, "n1").await,
        ["10.244.0.0/24"],
        "the same again"
    );
    until_used(&bench, 2.0).await;
}

#[scenario]
async fn a_block_whose_writes_are_refused_is_free_again() {
    let bench = running(&[RANGE]).await;
    bench.seconds(1).await;
    bench.fault(refuse(403, "PATCH", NODE).times(3));
    bench.create(fresh("n1")).await;
    bench.until_event("n1", "CIDRAssignmentFailed").await;
    assert_eq!(until_given(&bench, "n1").await, ["10.244.1.0/24"]);
    until_used(&bench, 1.0).await;
}

#[scenario]
async fn somebody_who_is_faster_is_respected() {
    let bench = running(&[RANGE]).await;
    bench.seconds(1).await;
    let fault = bench.fault(slow("PATCH", NODE).times(1));
    bench.create(fresh("n1")).await;
    fault.struck(1).await;
    bench
        .change("n1", |node| {
            node["spec"]["podCIDR"] = "10.244.9.0/24".into();
            node["spec"]["podCIDRs"] = json!(["10.244.9.0/24"]);
        })
        .await;
    until_used(&bench, 1.0).await;
    bench.settle().await;
    assert_eq!(ranges(&bench, "n1"), ["10.244.9.0/24"]);
    let blocks: Vec<_> = (2..12).map(|number| format!("n{number}")).collect();
    let mut given = Vec::new();
    for name in &blocks {
        given.extend(join(&bench, name).await);
    }
    assert!(!given.contains(&"10.244.9.0/24".to_owned()), "{given:?}");
}

#[scenario]
async fn a_node_that_changes_while_it_is_written_is_written_once_more() {
    let bench = running(&[RANGE]).await;
    bench.seconds(1).await;
    let fault = bench.fault(slow("PATCH", NODE).times(1));
    bench.create(fresh("n1")).await;
    fault.struck(1).await;
    bench.heartbeat("n1").await;
    assert_eq!(until_given(&bench, "n1").await, ["10.244.0.0/24"]);
    let written = bench.written("n1");
    assert_eq!(written, ["PATCH n1 -> 409", "PATCH n1 -> 200"]);
}

#[scenario]
async fn another_node_of_the_same_name_gets_a_block_of_its_own() {
    let bench = running(&[RANGE]).await;
    bench.seconds(1).await;
    let fault = bench.fault(slow("PATCH", NODE).times(1));
    bench.create(fresh("n1")).await;
    fault.struck(1).await;
    bench.delete("n1").await;
    bench.create(fresh("n1")).await;
    assert_eq!(until_given(&bench, "n1").await.len(), 1);
    until_used(&bench, 1.0).await;
}

#[scenario]
async fn a_node_on_its_way_out_keeps_what_it_has_and_gets_nothing() {
    let bench = running(&["--cluster-cidr=10.244.0.0/24"]).await;
    let mut held = fresh("n1");
    held["metadata"]["finalizers"] = json!(["example.test/keep"]);
    bench.create(held).await;
    until_given(&bench, "n1").await;
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(bench.admin());
    let own = bench.cluster.names().own("n1");
    nodes
        .delete(&own, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    bench.create(fresh("n2")).await;
    bench.until_event("n2", "CIDRNotAvailable").await;
    let done = json!({ "metadata": { "finalizers": null } });
    let patch = kube::api::Patch::Merge(&done);
    let options = kube::api::PatchParams::default();
    nodes.patch(&own, &options, &patch).await.unwrap();
    assert_eq!(until_given(&bench, "n2").await, ["10.244.0.0/24"]);
}

fn nodes_kind() -> &'static Kind {
    kinds::by_kind("", "v1", "Node").unwrap()
}

/// Stores a node that our manager cannot read.
fn break_node(bench: &TestCluster, mut node: serde_json::Value) {
    node["spec"]["taints"] = "of a later Kubernetes".into();
    let cluster = bench.cluster.simulated().unwrap();
    cluster.api().put(nodes_kind(), node);
}

#[scenario(only_in_memory = "a real server cannot read such a Node itself")]
async fn what_a_node_has_that_cannot_be_read_is_never_given() {
    let mut bench = idle(&[RANGE]).await;
    // Never read: whatever it has, nobody knows, so that nobody gets anything.
    break_node(&bench, fresh("n0"));
    bench.start();
    bench.create(fresh("n1")).await;
    bench.seconds(60).await;
    assert!(ranges(&bench, "n1").is_empty());
    bench.delete("n0").await;
    assert_eq!(until_given(&bench, "n1").await, ["10.244.0.0/24"]);
    // Read before: it has what it had.
    let right = bench.node("n1");
    break_node(&bench, right.clone());
    assert_eq!(join(&bench, "n2").await, ["10.244.1.0/24"]);
    until_used(&bench, 2.0).await;
    // One that comes and was never read.
    break_node(&bench, fresh("n3"));
    bench.seconds(1).await;
    bench.create(fresh("n4")).await;
    bench.seconds(60).await;
    assert!(ranges(&bench, "n4").is_empty());
    bench.delete("n3").await;
    assert_eq!(until_given(&bench, "n4").await, ["10.244.2.0/24"]);
    bench
        .cluster
        .simulated()
        .unwrap()
        .api()
        .put(nodes_kind(), right);
    bench.delete("n1").await;
    until_used(&bench, 2.0).await;
}
