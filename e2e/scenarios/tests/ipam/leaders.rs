//! Leaders that come and go: no block is given twice because nobody knows what the one before did.

use bowline_scenarios::objects::fresh;
use bowline_scenarios::{LEASE, TestCluster, refuse, scenario};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use crate::ipam::harness::{ALLOCATE, join, ranges, until_given};

const FLAGS: [&str; 3] = [ALLOCATE[0], ALLOCATE[1], "--cluster-cidr=10.244.0.0/16"];
const TOUCHED: &str = "bowline.dev/touched";
const NODE: &str = "/api/v1/nodes/n1";

fn annotation(bench: &TestCluster, name: &str) -> Value {
    bench.node(name)["metadata"]["annotations"][TOUCHED].clone()
}

#[scenario]
async fn a_write_of_a_lost_leader_that_arrives_late_is_refused() {
    let bench = TestCluster::for_replicas(3).await;
    let leader = bench.replica("a", &FLAGS).await;
    let first = bench.until_held(LEASE, "").await;
    // Its write is on the way when it is lost.
    let stuck = Rule::new(Action::Hang)
        .server("kubernetes")
        .on("PATCH", NODE);
    let fault = bench.fault(stuck.named("stuck"));
    bench.create(fresh("n1")).await;
    fault.struck(1).await;
    let version = bench.node("n1")["metadata"]["resourceVersion"].clone();
    leader.kill().await;
    bench.world.faults.remove("stuck");
    // The next one gives that block to somebody else, and cannot write the node yet.
    bench.create(fresh("a0")).await;
    bench.fault(refuse(403, "PATCH", NODE).after(1).named("refusal"));
    let standby = bench.replica("b", &FLAGS).await;
    bench.until_held(LEASE, &first).await;
    assert_eq!(until_given(&bench, "a0").await, ["10.244.0.0/24"]);
    assert!(ranges(&bench, "n1").is_empty());
    assert_ne!(annotation(&bench, "n1"), Value::Null);
    // Now it arrives.
    bench.world.faults.remove("refusal");
    let late = serde_json::json!({
        "metadata": { "resourceVersion": version },
        "spec": { "podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"] },
    });
    let nodes: Api<Node> = Api::all(bench.admin());
    let own = bench.cluster.names().own("n1");
    let patch = Patch::Strategic(&late);
    let written = nodes.patch(&own, &PatchParams::default(), &patch).await;
    assert!(matches!(written, Err(kube::Error::Api(status)) if status.code == 409));
    let given = until_given(&bench, "n1").await;
    assert_ne!(given, ["10.244.0.0/24"]);
    assert_eq!(
        annotation(&bench, "n1"),
        Value::Null,
        "nothing is left behind"
    );
    standby.stop().await.0.unwrap();
}

#[scenario]
async fn a_leader_that_gave_its_lease_back_left_nothing_under_way() {
    let bench = TestCluster::for_replicas(4).await;
    let leader = bench.replica("a", &FLAGS).await;
    let first = bench.until_held(LEASE, "").await;
    join(&bench, "n0").await;
    leader.stop().await.0.unwrap();
    bench.create(fresh("n1")).await;
    let next = bench.replica("b", &FLAGS).await;
    bench.until_held(LEASE, &first).await;
    assert_eq!(until_given(&bench, "n1").await, ["10.244.1.0/24"]);
    bench.settle().await;
    let writes = Filter::any().method("PATCH").path(NODE);
    assert_eq!(bench.count(&writes), 1, "the node is not touched");
    next.stop().await.0.unwrap();
}

#[scenario]
async fn a_leader_that_starts_takes_over_what_was_given() {
    let bench = TestCluster::for_replicas(5).await;
    let mut holder = String::new();
    let mut given = Vec::new();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        let leader = bench.replica(name, &FLAGS).await;
        holder = bench.until_held(LEASE, &holder).await;
        for node in 0..2 {
            given.extend(join(&bench, &format!("n{number}{node}")).await);
        }
        leader.kill().await;
    }
    let expected: Vec<String> = (0..6).map(|it| format!("10.244.{it}.0/24")).collect();
    assert_eq!(given, expected);
}
