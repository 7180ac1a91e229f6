//! Nodes whose machines are off, gone, or somebody else's.

use std::time::Duration;

use bowline_core::SHUTDOWN_TAINT;
use bowline_http::{BaseUrl, Bearer, Connector, HttpClient, Route};
use bowline_simulator::cloudscale::DEFAULT_TOKEN;
use bowline_simulator::faults::Action;
use bowline_simulator::fleet::Kubelet;
use serde_json::Value;

use crate::stage::{A, B, NOBODY, Stage, has_taint, status, text};

/// Longer than any proof, budget or back-off of the guard takes.
const A_WHILE: Duration = Duration::from_secs(900);

/// When something in the journal happened, in seconds since another thing.
fn seconds_between(first: &str, second: &str) -> i64 {
    let time = |text: &str| -> jiff::Timestamp { text.parse().unwrap() };
    time(second).duration_since(time(first)).as_secs()
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_04_a_node_whose_server_is_gone_is_deleted_after_the_guards_proof() {
    let stage = Stage::new();
    stage.silent_node("x", Some(&format!("cloudscale://{NOBODY}")));
    let node = stage.node("x").unwrap();
    stage.gone("x").await;
    let deletions = stage.writes("/api/v1/nodes/x");
    assert_eq!(deletions.len(), 1);
    let deletion = &deletions[0];
    assert_eq!(deletion.method, "DELETE");
    assert_eq!(
        deletion.body["preconditions"]["uid"],
        node["metadata"]["uid"]
    );
    let at = deletion.time.to_string();
    let age = seconds_between(text(&node["metadata"]["creationTimestamp"]), &at);
    assert!((60..80).contains(&age), "deleted at the age of {age} s");
    let looks = stage.cloud_calls(&format!("/v1/servers/{NOBODY}"));
    assert!(looks.iter().all(|look| look.status == 404));
    let proof = seconds_between(&looks[0].time.to_string(), &at);
    assert!(proof >= 10, "{proof} s after the first look");
    let checks = stage.cloud_calls("/v1/servers");
    let between = |time| looks[0].time <= time && time <= deletion.time;
    assert!(
        checks.iter().any(|check| between(check.time)),
        "a check read between"
    );
    let message = stage.event("x", "DeletingNode").await;
    assert_eq!(
        message,
        "Deleting node x because it does not exist in the cloud provider"
    );
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_04_a_destroyed_server_takes_its_node_with_it_and_no_other() {
    let stage = Stage::new();
    stage.join("worker-a", A);
    stage.join("worker-b", B);
    stage.ready("worker-a", "True").await;
    stage.ready("worker-b", "True").await;
    let other = stage.content("worker-b");
    stage.cloud.destroy(A).unwrap();
    stage.gone("worker-a").await;
    stage.pass(A_WHILE).await;
    assert_eq!(stage.content("worker-b"), other);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_05_while_the_api_fails_or_hangs_nothing_is_deleted() {
    for fault in [status(500), Action::Hang] {
        let stage = Stage::new();
        stage.silent_node("x", Some(&format!("cloudscale://{NOBODY}")));
        stage.fault("*", fault);
        let before = stage.content("x");
        stage.pass(A_WHILE).await;
        assert_eq!(stage.content("x"), before);
        assert!(
            stage.cloud_calls("*").len() > 10,
            "it was asked again and again"
        );
        stage.world.faults.clear();
        stage.gone("x").await;
        stage.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_06_a_silent_node_without_id_and_server_is_kept() {
    let stage = Stage::new();
    stage.silent_node("nameless", None);
    let before = stage.content("nameless");
    stage.pass(A_WHILE).await;
    assert_eq!(stage.content("nameless"), before);
    assert_eq!(stage.writes("/api/v1/nodes*").len(), 0);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_08_the_shutdown_taint_follows_the_power_of_the_server() {
    let stage = Stage::new();
    stage.join("worker-a", A);
    stage.ready("worker-a", "True").await;
    stage.cloud.stop(A).unwrap();
    stage.shutdown_taint("worker-a", true).await;
    let node = stage.node("worker-a").unwrap();
    let taints: &Vec<Value> = node["spec"]["taints"].as_array().unwrap();
    let taint = taints
        .iter()
        .find(|taint| taint["key"] == SHUTDOWN_TAINT)
        .unwrap();
    assert_eq!(taint["effect"], "NoSchedule");
    assert_eq!(text(&taint["value"]), "");
    stage.cloud.start(A).unwrap();
    stage.shutdown_taint("worker-a", false).await;
    stage.ready("worker-a", "True").await;
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_08_a_server_that_is_changing_or_running_is_not_tainted() {
    let stage = Stage::new();
    // The kubelets are silent, whatever their machines do.
    stage.silent_node("worker-a", Some(&format!("cloudscale://{A}")));
    stage.silent_node("worker-b", Some(&format!("cloudscale://{B}")));
    let base = BaseUrl::parse("http://cloudscale.sim:80").unwrap();
    let pipes = Connector::simulated(stage.world.pipes.clone());
    let user = HttpClient::builder("user", base, pipes)
        .auth(Bearer(bowline_core::Secret::new(DEFAULT_TOKEN)))
        .build();
    let members = [("status".to_owned(), "changing".into())];
    stage
        .cloud
        .deform(A, members.into_iter().collect())
        .unwrap();
    stage.pass(Duration::from_secs(60)).await;
    for name in ["worker-a", "worker-b"] {
        assert!(
            !has_taint(&stage.node(name).unwrap(), SHUTDOWN_TAINT),
            "{name}"
        );
    }
    assert!(
        stage.cloud_calls("/v1/servers/*").len() > 10,
        "both were looked at"
    );
    stage.cloud.deform(A, serde_json::Map::new()).unwrap();
    let stop = Route::new("v1/servers/:id/stop").with("id", A);
    user.post(stop).send().await.unwrap();
    stage.shutdown_taint("worker-a", true).await;
    assert!(!has_taint(&stage.node("worker-b").unwrap(), SHUTDOWN_TAINT));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_09_a_foreign_node_costs_no_call_and_is_never_touched() {
    let stage = Stage::new();
    let foreign = "bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e";
    stage.silent_node("silent", Some(foreign));
    stage
        .world
        .machines
        .set(foreign, bowline_simulator::machines::Power::Running);
    stage.join_as(Kubelet {
        node_name: "waiting".into(),
        machine_id: foreign.into(),
        provider_id: Some(foreign.into()),
        ..Kubelet::default()
    });
    stage
        .until("the foreign node registers", |stage| stage.node("waiting"))
        .await;
    let before = (stage.content("silent"), stage.content("waiting"));
    stage.pass(A_WHILE).await;
    assert_eq!((stage.content("silent"), stage.content("waiting")), before);
    assert_eq!(stage.cloud_calls("*").len(), 0);
    assert_eq!(stage.writes("/api/v1/nodes*").len(), 0);
    stage.end().await;
}
