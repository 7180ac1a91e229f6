//! What becomes of routes and conditions.

use bowline_core::CloudErrorKind;
use bowline_scenarios::cloud::{route, route_by};
use bowline_scenarios::{TestCluster, scenario};
use serde_json::json;

use crate::routes::harness::{
    DOWN, RANGE, UP, condition, idle, network, node, routes_of, until, with_two,
};

#[scenario]
async fn framework_case_095_each_node_gets_its_route_and_its_network_is_there() {
    let mut bench = with_two([]).await;
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    let uid = |name: &str| {
        let node = bench.node(name);
        node["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let mut writes = routes_of(&bench).writes();
    writes.sort();
    let expected = [
        format!("create 10.120.0.0/24 a {}", uid("a")),
        format!("create 10.120.1.0/24 b {}", uid("b")),
    ];
    assert_eq!(writes, expected);
    let condition = condition(&bench.node("a")).unwrap();
    assert_eq!(condition["message"], "RouteController created a route");
    assert_eq!(
        condition["lastTransitionTime"],
        condition["lastHeartbeatTime"]
    );
    // The kubelet's own conditions are as they were, and there is nothing left to do.
    let conditions = bench.node("a")["status"]["conditions"].clone();
    assert_eq!(conditions.as_array().unwrap().len(), 2, "{conditions}");
    bench.settle().await;
    assert_eq!(bench.written("a"), ["PATCH a/status -> 200"]);
    assert_eq!(routes_of(&bench).writes().len(), 2);
}

/// Lets a manager meet these routes; what it has written in the end, and what is left.
async fn met(routes: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut bench = with_two(routes.iter().map(|text| route(text))).await;
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    bench.settle().await;
    let mut writes = routes_of(&bench).writes();
    for name in ["a", "b"] {
        let uid = bench.node(name)["metadata"]["uid"].clone();
        let uid = format!(" {}", uid.as_str().unwrap());
        for write in &mut writes {
            *write = write.replace(&uid, "");
        }
    }
    (writes, routes_of(&bench).all())
}

const A: &str = "10.120.0.0/24 a";
const B: &str = "10.120.1.0/24 b";

#[scenario]
async fn framework_case_096_a_route_whose_node_is_gone_goes() {
    let (writes, left) = met(&[A, B, "10.120.2.0/24 c"]).await;
    assert_eq!(writes, ["delete 10.120.2.0/24 c"]);
    assert_eq!(left, [A, B]);
}

#[scenario]
async fn framework_case_097_routes_to_each_other_s_nodes_are_made_anew() {
    let (writes, left) = met(&["10.120.0.0/24 b", "10.120.1.0/24 a"]).await;
    assert_eq!(writes.len(), 4, "{writes:?}");
    let at = |text: &str| writes.iter().position(|it| it == text).unwrap();
    assert!(at("delete 10.120.0.0/24 b") < at("create 10.120.0.0/24 a"));
    assert!(at("delete 10.120.1.0/24 a") < at("create 10.120.1.0/24 b"));
    assert_eq!(left, [A, B]);
}

#[scenario]
async fn framework_case_098_a_blackhole_goes_if_it_is_the_cluster_s() {
    let (writes, left) = met(&[A, B, "10.120.2.0/24 !", "10.1.2.0/24 !"]).await;
    assert_eq!(writes, ["delete 10.120.2.0/24 !"]);
    assert_eq!(left, ["10.1.2.0/24 !", A, B]);
}

#[scenario]
async fn framework_case_145_a_blackhole_in_a_node_s_place_is_replaced_in_one_round() {
    let (writes, left) = met(&["10.120.0.0/24 a!", B]).await;
    let expected = ["delete 10.120.0.0/24 a!", "create 10.120.0.0/24 a"];
    assert_eq!(writes, expected);
    assert_eq!(left, [A, B]);
}

#[scenario]
async fn framework_case_145_the_good_one_comes_in_the_same_round() {
    let mut bench = with_two([route("10.120.0.0/24 a!"), route(B)]).await;
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    let calls = routes_of(&bench).calls();
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert_eq!(calls[0], "list");
}

#[scenario]
async fn framework_case_099_a_route_by_an_address_that_the_node_has_not_is_replaced() {
    let routes = [route_by(A, "10.0.1.2"), route_by(B, "10.0.1.1")];
    let mut bench = with_two(routes).await;
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    let writes = routes_of(&bench).writes();
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert_eq!(writes[0], "delete 10.120.0.0/24 a");
    assert!(
        writes[1].starts_with("create 10.120.0.0/24 a "),
        "{writes:?}"
    );
}

#[scenario]
async fn framework_case_100_a_node_without_ranges_only_loses_routes() {
    let mut bench = idle(&[RANGE]).await;
    bench.create(node("plain", &[])).await;
    bench.create(node("routed", &[])).await;
    routes_of(&bench).have([route("10.120.0.0/24 routed")]);
    bench.start();
    until(&bench, &["routed"], DOWN).await;
    assert_eq!(routes_of(&bench).writes(), ["delete 10.120.0.0/24 routed"]);
    bench.settle().await;
    assert_eq!(network(&bench, "plain"), "");
    assert_eq!(bench.writes("plain").len(), 0);
}

#[scenario]
async fn framework_case_101_a_route_that_cannot_be_made_is_told_and_tried_again() {
    let mut bench = with_two([route(B)]).await;
    let quota = CloudErrorKind::Denied;
    routes_of(&bench).fail("10.120.0.0/24", quota, "quota", 2);
    bench.start();
    until(&bench, &["a"], DOWN).await;
    bench.until_event("a", "FailedToCreateRoute").await;
    let condition = condition(&bench.node("a")).unwrap();
    let failed = "RouteController failed to create a route";
    assert_eq!(condition["message"], failed);
    let uid = bench.node("a")["metadata"]["uid"].clone();
    let event = &bench.events("a")[0];
    let start = format!(
        "Warning FailedToCreateRoute route_controller: Could not create route {} \
             10.120.0.0/24 for node a after ",
        uid.as_str().unwrap()
    );
    assert!(event.starts_with(&start), "{event}");
    assert!(event.ends_with(": quota (1)"), "{event}");
    let event = &bench.events_of("FailedToCreateRoute")[0];
    assert_eq!(event["involvedObject"]["resourceVersion"], json!(null));
    // Nothing happens, and it is tried again: after one period, and after two more.
    until(&bench, &["a"], UP).await;
    assert_eq!(network(&bench, "b"), UP);
    let moments = routes_of(&bench).moments("create 10.120.0.0/24 a");
    assert_eq!(moments.len(), 3);
    if !bowline_scenarios::is_real() {
        bench.assert_apart(&moments, &[10, 20]);
    }
}

#[scenario]
async fn framework_case_101_what_somebody_else_said_is_said_again() {
    let mut bench = idle(&[RANGE]).await;
    let mut calico = node("a", &["10.120.0.0/24"]);
    let condition = json!({ "type": "NetworkUnavailable", "status": "False",
            "reason": "CalicoIsUp", "message": "Calico is running on this node",
            "lastHeartbeatTime": "2026-10-26T00:00:00Z",
            "lastTransitionTime": "2026-10-26T00:00:00Z" });
    let conditions = calico["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(condition);
    bench.create(calico).await;
    routes_of(&bench).have([route(A)]);
    bench.start();
    until(&bench, &["a"], UP).await;
    assert_eq!(routes_of(&bench).writes(), [""; 0]);
}

#[scenario]
async fn framework_case_102_only_what_begins_or_ends_in_the_cluster_s_range_is_ours() {
    let mut bench = idle(&["--cluster-cidr=10.244.0.0/14"]).await;
    bench.create(node("a", &["10.244.0.0/24"])).await;
    let strays = ["10.247.255.0/24 !", "10.248.0.0/24 !", "10.243.255.0/24 !"];
    routes_of(&bench).have(strays.map(route));
    bench.start();
    until(&bench, &["a"], UP).await;
    let left = ["10.243.255.0/24 !", "10.244.0.0/24 a", "10.248.0.0/24 !"];
    bench
        .until("one goes", |bench: &TestCluster| {
            routes_of(bench).all() == left
        })
        .await;
}
