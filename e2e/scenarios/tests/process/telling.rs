//! Events, written by the manager's own recorders.

use std::time::Duration;

use bowline_controllers::Fact;
use bowline_controllers::clients::Limits;
use bowline_controllers::events::{EventContext, Recorder};
use bowline_controllers::metrics::Metrics;
use bowline_scenarios::cloud::{Script, stopped};
use bowline_scenarios::objects::{SHUTDOWN, ready, taints};
use bowline_scenarios::{TestCluster, is_real, refuse, scenario};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};

use crate::process::{PLAIN, join, stop};

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn posts() -> Filter {
    Filter::any().method("POST").path(EVENTS)
}

/// Waits until a node is initialised, whoever is reported.
async fn until_initialized(bench: &TestCluster, name: &str) {
    bench
        .until("it is initialised", |it| it.is_initialized(name))
        .await;
}

#[scenario]
async fn framework_case_138_an_event_that_is_refused_is_dropped_and_not_tried_again() {
    let bench = TestCluster::for_replicas(1).await;
    bench.fault(refuse(403, "POST", EVENTS));
    join(&bench, "n1").await;
    let manager = bench.replica("a", PLAIN).await;
    until_initialized(&bench, "n1").await;
    bench.long(300).await;
    assert_eq!(bench.count(&posts()), 1);
    bench.world.faults.clear();
    // Later ones are written again.
    join(&bench, "n2").await;
    bench.until_initialized("n2").await;
    stop(&bench, manager).await;
    let events = bench.events_of("Synced");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["involvedObject"]["name"], "n2");
}

#[scenario]
async fn framework_case_138_an_event_waits_for_an_unreachable_server() {
    let bench = TestCluster::for_replicas(2).await;
    let away = Rule::new(Action::Reset).named("away");
    bench.fault(away.on("POST", EVENTS));
    join(&bench, "n1").await;
    let manager = bench.replica("a", PLAIN).await;
    until_initialized(&bench, "n1").await;
    bench.seconds(60).await;
    assert!(bench.count(&posts()) >= 5, "tried every ten seconds");
    assert!(bench.events_of("Synced").is_empty());
    bench.world.faults.clear();
    bench.until_initialized("n1").await;
    let event = bench.events_of("Synced").pop().unwrap();
    assert_eq!(event["message"], "Node synced successfully");
    assert_eq!(event["source"]["component"], "cloud-node-controller");
    assert_eq!(event["metadata"]["namespace"], "default");
    stop(&bench, manager).await;
}

#[scenario]
async fn framework_case_138_the_tenth_of_ten_similar_events_is_combined() {
    let bench = TestCluster::for_replicas(3).await;
    let config = bench.cluster.manager("a").await;
    let metrics = Metrics::new();
    let limits = Limits {
        qps: -1.0,
        burst: 0,
    };
    let clients = bench.clients(&config, limits, false, &metrics);
    let context = EventContext::new(
        bench.world.clock.clone(),
        bench.world.random.fork(),
        metrics,
    );
    let recorder = Recorder::new(
        clients.root("service-controller"),
        "service-controller",
        &context,
    );
    let service = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some(bench.cluster.names().own("web")),
        uid: Some("u-1".to_owned()),
        ..ObjectReference::default()
    };
    for number in 1..=10 {
        let message = format!("Error syncing load balancer: try {number}");
        let reason = "SyncLoadBalancerFailed";
        recorder.emit(Fact::warning(service.clone(), reason, message));
        // Minutes apart they are similar still.
        bench.seconds(if is_real() { 1 } else { 60 }).await;
    }
    assert!(recorder.flush(Duration::from_secs(5)).await);
    bench.catch_up().await;
    let mut messages: Vec<String> = bench
        .events_of("SyncLoadBalancerFailed")
        .iter()
        .map(|event| event["message"].as_str().unwrap().to_owned())
        .collect();
    messages.sort();
    let combined = "(combined from similar events): Error syncing load balancer: try 10";
    assert_eq!(messages.len(), 10, "{messages:?}");
    assert_eq!(messages[0], combined);
    assert!(
        messages[1..]
            .iter()
            .all(|text| text.starts_with("Error syncing"))
    );
}

#[scenario]
async fn framework_case_137_a_node_that_vanished_before_its_deletion_is_no_trouble() {
    let bench = TestCluster::for_replicas(4).await;
    join(&bench, "n1").await;
    let manager = bench.replica("a", PLAIN).await;
    bench.until_initialized("n1").await;
    bench.fault(refuse(404, "DELETE", "/api/v1/nodes/n1"));
    bench.cloud().say("n1", Script::Gone);
    bench.set_ready("n1", "Unknown").await;
    let deletes = Filter::any().method("DELETE").path("/api/v1/nodes/n1");
    bench.until_called("the deletion", &deletes).await;
    bench.delete("n1").await;
    bench.long(120).await;
    stop(&bench, manager).await;
    assert_eq!(bench.count(&deletes), 1, "not tried again");
    assert!(bench.events_of("DeletingNodeFailed").is_empty());
    assert_eq!(bench.events_of("DeletingNode").len(), 1);
}

#[scenario]
async fn framework_case_141_taints_are_written_whole_under_the_version_that_was_read() {
    let bench = TestCluster::for_replicas(5).await;
    join(&bench, "n1").await;
    let manager = bench.replica("a", PLAIN).await;
    bench.until_initialized("n1").await;
    let off = Script::Machine(stopped("demo://n1"));
    bench.cloud().say("n1", off);
    bench
        .change("n1", |node| {
            node["spec"]["taints"] = json!([{ "key": "own", "effect": "NoExecute" }]);
            node["status"]["conditions"] = json!([ready("Unknown")]);
        })
        .await;
    let version = bench.node("n1")["metadata"]["resourceVersion"].clone();
    let count = |bench: &TestCluster| taints(&bench.node("n1")).len();
    bench.until("the taint", |it| count(it) == 2).await;
    let patches = Filter::any().method("PATCH").path("/api/v1/nodes/n1");
    let body = bench.until_called("the taint's patch", &patches).await.body;
    assert_eq!(body["metadata"]["resourceVersion"], version);
    let taints = body["spec"]["taints"].as_array().unwrap();
    assert_eq!(taints.len(), 2, "{body}");
    // The last one goes: null, which removes the field.
    bench
        .change("n1", |node| {
            let taints = node["spec"]["taints"].as_array_mut().unwrap();
            taints.retain(|taint| taint["key"] == SHUTDOWN);
            node["status"]["conditions"] = json!([ready("True")]);
        })
        .await;
    bench
        .until("the taint's removal", |it| count(it) == 0)
        .await;
    stop(&bench, manager).await;
    let body = bench.matching(&patches).pop().unwrap().body;
    assert_eq!(body["spec"]["taints"], Value::Null);
    assert!(body["spec"].as_object().unwrap().contains_key("taints"));
}
