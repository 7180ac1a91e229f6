//! Events, written by the manager's own recorders.

use std::time::Duration;

use bowline_controllers::clients::{Clients, Connection, Limits};
use bowline_controllers::events::{EventContext, EventType, Recorder};
use bowline_controllers::metrics::Metrics;
use bowline_http::Connector;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::cloud::Answer;
use crate::stage::{Stage, agent, pass};

const PLAIN: &[&str] = &["--secure-port=0"];

fn posts() -> Filter {
    Filter::any()
        .method("POST")
        .path("/api/v1/namespaces/default/events")
}

#[tokio::test(start_paused = true)]
async fn framework_case_138_an_event_that_is_refused_is_dropped_and_not_tried_again() {
    let stage = Stage::on_pipe(1);
    let refuse = Action::Status {
        code: 403,
        headers: [].into(),
        body: None,
    };
    let refuse = Rule::new(refuse).on("POST", "/api/v1/namespaces/default/events");
    stage.world.faults.add(refuse).unwrap();
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let manager = stage.start("a", PLAIN);
    stage.until_initialized("n1").await;
    pass(300).await;
    assert_eq!(stage.world.journal.count(&posts()), 1);
    stage.world.faults.clear();
    // Later ones are written again.
    stage.cloud.say("n2", Answer::Runs("10.0.0.2"));
    stage.join("n2");
    stage.until_initialized("n2").await;
    manager.stop().await.0.unwrap();
    let events = stage.events("Synced");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["involvedObject"]["name"], "n2");
}

#[tokio::test(start_paused = true)]
async fn framework_case_138_an_event_waits_for_an_unreachable_server() {
    let stage = Stage::on_pipe(2);
    let away = Rule::new(Action::Reset).named("away");
    stage
        .world
        .faults
        .add(away.on("POST", "/api/v1/namespaces/default/events"))
        .unwrap();
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let manager = stage.start("a", PLAIN);
    stage.until_initialized("n1").await;
    pass(60).await;
    assert!(
        stage.world.journal.count(&posts()) >= 5,
        "tried every ten seconds"
    );
    assert!(stage.events("Synced").is_empty());
    stage.world.faults.clear();
    stage
        .until("the event", || stage.events("Synced").pop())
        .await;
    let event = stage.events("Synced").pop().unwrap();
    assert_eq!(event["message"], "Node synced successfully");
    assert_eq!(event["source"]["component"], "cloud-node-controller");
    assert_eq!(event["metadata"]["namespace"], "default");
    manager.stop().await.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn framework_case_138_the_tenth_of_ten_similar_events_is_combined() {
    let stage = Stage::on_pipe(3);
    let config = stage.administrator("a");
    let connector = Connector::simulated(stage.world.pipes.clone());
    let metrics = Metrics::new();
    let limits = Limits {
        qps: -1.0,
        burst: 0,
    };
    let connection = Connection::over(&config, connector).unwrap();
    let clock = stage.world.clock.clone();
    let clients = Clients::new(
        connection,
        agent(),
        limits,
        clock.clone(),
        metrics.clone(),
        false,
    );
    let context = EventContext::new(clock, stage.world.random.fork(), metrics);
    let recorder = Recorder::new(
        clients.root("service-controller"),
        "service-controller",
        &context,
    );
    let service = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some("web".to_owned()),
        uid: Some("u-1".to_owned()),
        ..ObjectReference::default()
    };
    for number in 1..=10 {
        let message = format!("Error syncing load balancer: try {number}");
        recorder.event(
            &service,
            EventType::Warning,
            "SyncLoadBalancerFailed",
            message,
        );
        pass(60).await;
    }
    assert!(recorder.flush(Duration::from_secs(5)).await);
    let mut messages: Vec<String> = stage
        .events("SyncLoadBalancerFailed")
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

#[tokio::test(start_paused = true)]
async fn framework_case_137_a_node_that_vanished_before_its_deletion_is_no_trouble() {
    let stage = Stage::on_pipe(4);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let manager = stage.start("a", PLAIN);
    stage.until_initialized("n1").await;
    let vanished = Action::Status {
        code: 404,
        headers: [].into(),
        body: None,
    };
    stage
        .world
        .faults
        .add(Rule::new(vanished).on("DELETE", "/api/v1/nodes/n1"))
        .unwrap();
    stage.cloud.say("n1", Answer::Gone);
    stage.change_node("n1", |node| crate::stage::set_ready(node, "Unknown"));
    let deletes = Filter::any().method("DELETE").path("/api/v1/nodes/n1");
    stage.until_called("the deletion", &deletes).await;
    stage
        .cluster
        .api()
        .delete(crate::stage::kind("Node"), "", "n1");
    pass(120).await;
    manager.stop().await.0.unwrap();
    assert_eq!(stage.world.journal.count(&deletes), 1, "not tried again");
    assert!(stage.events("DeletingNodeFailed").is_empty());
    assert_eq!(stage.events("DeletingNode").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn framework_case_141_taints_are_written_whole_under_the_version_that_was_read() {
    let stage = Stage::on_pipe(5);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let manager = stage.start("a", PLAIN);
    stage.until_initialized("n1").await;
    let shutdown = "node.cloudprovider.kubernetes.io/shutdown";
    let tainted = |wanted: bool| {
        let node = stage.node("n1").unwrap();
        (crate::stage::has_taint(&node, shutdown) == wanted).then_some(())
    };
    stage.cloud.say("n1", Answer::IsOff("10.0.0.1"));
    stage.change_node("n1", |node| {
        node["spec"]["taints"] = serde_json::json!([{ "key": "own", "effect": "NoExecute" }]);
        crate::stage::set_ready(node, "Unknown");
    });
    let version = stage.node("n1").unwrap()["metadata"]["resourceVersion"].clone();
    stage.until("the taint", || tainted(true)).await;
    let patches = Filter::any().method("PATCH").path("/api/v1/nodes/n1");
    let body = stage.until_called("the taint's patch", &patches).await.body;
    assert_eq!(body["metadata"]["resourceVersion"], version);
    let taints = body["spec"]["taints"].as_array().unwrap();
    assert_eq!(taints.len(), 2, "{body}");
    // The last one goes: null, which removes the field.
    stage.change_node("n1", |node| {
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.retain(|taint| taint["key"] == shutdown);
        crate::stage::set_ready(node, "True");
    });
    stage.until("the taint's removal", || tainted(false)).await;
    manager.stop().await.0.unwrap();
    let body = stage.world.journal.matching(&patches).pop().unwrap().body;
    assert_eq!(body["spec"]["taints"], serde_json::Value::Null);
    assert!(body["spec"].as_object().unwrap().contains_key("taints"));
}
