//! What is no proof: then nothing is withdrawn.

use bowline_scenarios::cloud::{Script, route};
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator_kubernetes::kinds;
use serde_json::Value;

use crate::routes::harness::{RANGE, UP, idle, network, node, routes_of, until, with_two};

const HELD: &str = "bowline_routes_held_back{cloud=\"demo\"}";

async fn until_held(bench: &TestCluster, routes: f64) {
    let held = |bench: &TestCluster| bench.metric(HELD) == Some(routes);
    bench.until("routes are held back", held).await;
}

#[scenario]
async fn a_cluster_without_any_node_loses_no_route() {
    let mut bench = idle(&[RANGE]).await;
    routes_of(&bench).have([route("10.120.0.0/24 a"), route("10.120.1.0/24 !")]);
    bench.start();
    bench
        .until("it looks", |bench: &TestCluster| {
            routes_of(bench).looks() > 0
        })
        .await;
    bench.settle().await;
    until_held(&bench, 2.0).await;
    assert_eq!(routes_of(&bench).writes(), [""; 0]);
}

#[scenario(only_in_memory = "it takes minutes")]
async fn routes_of_many_nodes_that_are_gone_at_once_go_slowly() {
    let strays = (10..20).map(|number| route(&format!("10.120.{number}.0/24 gone")));
    let mut bench = with_two(strays).await;
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    bench.seconds(60).await;
    // Three at once, and three more in each ten minutes.
    assert_eq!(routes_of(&bench).all().len(), 9);
    until_held(&bench, 7.0).await;
    bench.long(15 * 60).await;
    assert_eq!(routes_of(&bench).all().len(), 6);
    bench.long(3600).await;
    assert_eq!(routes_of(&bench).all().len(), 2);
    assert_eq!(bench.metric(HELD), Some(0.0));
}

/// Stores a node that our manager cannot read.
fn break_node(bench: &TestCluster, mut node: Value) {
    node["spec"]["taints"] = "of a later Kubernetes".into();
    let cluster = bench.cluster.simulated().unwrap();
    let kind = kinds::by_kind("", "v1", "Node").unwrap();
    cluster.api().put(kind, node);
}

#[scenario(only_in_memory = "a real server cannot read such a Node itself")]
async fn a_node_that_cannot_be_read_keeps_its_routes() {
    let mut bench = with_two([]).await;
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    bench.seconds(20).await;
    let right = bench.node("b");
    break_node(&bench, right.clone());
    bench.seconds(900).await;
    assert_eq!(
        routes_of(&bench).all(),
        ["10.120.0.0/24 a", "10.120.1.0/24 b"],
        "as it was last known"
    );
    // A manager that has never read it knows nothing of what it has.
    bench.stop().await;
    let strays = ["10.120.0.0/24 !", "10.120.1.0/24 !", "10.120.2.0/24 gone"];
    routes_of(&bench).have(strays.map(route));
    bench.start();
    until_held(&bench, 2.0).await;
    bench.seconds(900).await;
    let left = ["10.120.0.0/24 a", "10.120.1.0/24 !", "10.120.2.0/24 gone"];
    assert_eq!(routes_of(&bench).all(), left);
    let kind = kinds::by_kind("", "v1", "Node").unwrap();
    bench.cluster.simulated().unwrap().api().put(kind, right);
    let right = ["10.120.0.0/24 a", "10.120.1.0/24 b"];
    bench
        .until("all is right", |bench: &TestCluster| {
            routes_of(bench).all() == right
        })
        .await;
}

#[scenario]
async fn nodes_of_nobody_yet_and_of_other_clouds_are_left_alone() {
    let mut bench = idle(&[RANGE, "--controllers=route,cloud-node"]).await;
    let mut foreign = node("foreign", &["10.120.8.0/24"]);
    foreign["spec"]["providerID"] = "other://1".into();
    bench.create(foreign).await;
    let mut new = fresh("new");
    new["spec"]["podCIDR"] = "10.120.9.0/24".into();
    new["spec"]["podCIDRs"] = serde_json::json!(["10.120.9.0/24"]);
    bench.cloud().say("new", Script::Error("not yet"));
    bench.create(new).await;
    bench.create(node("a", &["10.120.0.0/24"])).await;
    let strays = ["10.120.8.0/24 foreign", "10.120.9.0/24 !"];
    routes_of(&bench).have(strays.map(route));
    bench.start();
    until(&bench, &["a"], UP).await;
    bench.settle().await;
    for name in ["foreign", "new"] {
        assert_eq!(network(&bench, name), "", "{name}");
    }
    assert_eq!(routes_of(&bench).writes().len(), 1, "that of a");
    // As soon as it is known to be ours it gets its route.
    let found = bowline_scenarios::cloud::runs("new", "10.0.0.5");
    bench.cloud().say("new", found);
    until(&bench, &["new"], UP).await;
    assert_eq!(
        routes_of(&bench).all(),
        [
            "10.120.0.0/24 a",
            "10.120.8.0/24 foreign",
            "10.120.9.0/24 new"
        ]
    );
}
