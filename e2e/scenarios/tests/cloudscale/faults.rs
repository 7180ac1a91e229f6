//! A cloud that misbehaves, and a token that changes.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::UNINITIALIZED_TAINT;
use bowline_scenarios::objects::{addresses, has_taint};
use bowline_scenarios::{is_real, scenario, status};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_cloudscale::{DEFAULT_TOKEN, MachineSpec};
use futures::future::join_all;
use serde_json::{Map, Value, json};

use crate::stage::{A, B, NOBODY, Stage};

/// What a cloud, or something in between, may answer instead of an answer.
fn faults() -> [Action; 8] {
    let throttled = Action::Status {
        code: 429,
        headers: BTreeMap::from([("Retry-After".to_owned(), "3".to_owned())]),
        body: None,
    };
    [
        status(401),
        status(403),
        throttled,
        status(503),
        Action::Reset,
        Action::Html { code: 404 },
        Action::Html { code: 200 },
        Action::Html { code: 502 },
    ]
}

#[scenario]
async fn cloudscale_case_83_no_failure_deletes_a_node_and_a_plain_404_does() {
    let story = async |fault: Action| {
        let stage = Stage::new().await;
        stage.fail("/v1/servers/*", fault.clone());
        let gone = format!("cloudscale://{NOBODY}");
        stage.silent_node("x", Some(&gone)).await;
        // That one is there and proves the account.
        let there = format!("cloudscale://{A}");
        stage.silent_node("there", Some(&there)).await;
        let before = stage.content("x");
        stage.long(240).await;
        assert_eq!(stage.content("x"), before, "{fault:?}");
        assert!(!stage.cloud_calls("/v1/servers/*").is_empty());
        assert_eq!(stage.writes_to("/api/v1/nodes*").len(), 0, "{fault:?}");
        stage.world.faults.clear();
        stage.until_deleted("x").await;
        stage.end().await;
    };
    join_all(faults().map(story)).await;
}

#[scenario]
async fn no_node_waits_for_another_whose_server_cannot_be_read(stage: Stage) {
    let (gone, there) = (
        format!("cloudscale://{NOBODY}"),
        format!("cloudscale://{A}"),
    );
    stage.silent_node("x", Some(&gone)).await;
    stage.silent_node("there", Some(&there)).await;
    stage.fail(&format!("/v1/servers/{NOBODY}"), status(500));
    stage.seconds(30).await;
    let stopped = tokio::time::Instant::now();
    stage.cloud.stop(A).unwrap();
    stage.shutdown_taint("there", true).await;
    // A round every five seconds, as if all were well, and a second for the server to stop.
    let took = stopped.elapsed();
    assert!(took < Duration::from_secs(7) + stage.slack(), "{took:?}");
}

#[scenario]
async fn nodes_that_join_during_a_failure_are_initialised_when_it_ends() {
    let story = async |fault: Action| {
        let stage = Stage::new().await;
        stage.fail("*", fault.clone());
        stage.join("worker-a", A);
        stage.join("worker-b", B);
        stage.message("worker-a", "NodeInitializationFailed").await;
        // The longer it lasts, the longer are the pauses afterwards.
        stage.seconds(if is_real() { 20 } else { 120 }).await;
        for name in ["worker-a", "worker-b"] {
            let node = stage.node(name);
            assert!(has_taint(&node, UNINITIALIZED_TAINT), "{fault:?}");
        }
        assert_eq!(stage.writes_to("/api/v1/nodes*").len(), 0);
        stage.world.faults.clear();
        let healed = tokio::time::Instant::now();
        stage.initialized("worker-a").await;
        stage.initialized("worker-b").await;
        let took = healed.elapsed();
        assert!(took < Duration::from_secs(90), "{fault:?}: {took:?}");
        stage.end().await;
    };
    join_all(faults().map(story)).await;
}

#[scenario]
async fn a_few_failures_delay_a_node_by_seconds_and_nobody_is_warned(stage: Stage) {
    let rule = Rule::new(status(503)).server("cloudscale");
    stage.fault(rule.times(2));
    let begun = tokio::time::Instant::now();
    stage.join("worker-a", A);
    stage.initialized("worker-a").await;
    assert!(begun.elapsed() < Duration::from_secs(10) + stage.slack());
    assert_eq!(
        stage.messages("worker-a", "NodeInitializationFailed"),
        [""; 0]
    );
}

#[scenario]
async fn one_broken_server_in_the_list_concerns_that_server_only() {
    let broken = [
        ("interfaces", json!(7)),
        ("uuid", json!(null)),
        ("name", json!(["worker-b"])),
        ("zone", json!("rma1")),
        ("status", json!({})),
    ];
    let story = async |(member, value): (&str, Value)| {
        let stage = Stage::new().await;
        let members: Map<String, Value> = [(member.to_owned(), value)].into_iter().collect();
        stage.cloud.deform(B, members).unwrap();
        stage.join_fleet(5);
        stage.join("worker-a", A);
        stage.join("worker-b", B);
        stage.initialized("worker-a").await;
        for number in 1..=5 {
            stage.initialized(&format!("fleet-{number}")).await;
        }
        stage.long(60).await;
        stage.cloud.deform(B, Map::new()).unwrap();
        let healed = stage.initialized("worker-b").await;
        assert_eq!(addresses(&healed).len(), 4, "{member}");
        stage.end().await;
    };
    join_all(broken.map(story)).await;
}

#[scenario]
async fn a_server_that_becomes_unreadable_does_not_take_its_node_with_it(stage: Stage) {
    let members = [
        ("uuid".to_owned(), json!(7)),
        ("status".to_owned(), json!([])),
    ];
    stage
        .cloud
        .deform(B, members.into_iter().collect())
        .unwrap();
    let id = format!("cloudscale://{B}");
    stage.silent_node("worker-b", Some(&id)).await;
    let before = stage.content("worker-b");
    stage.long(600).await;
    assert_eq!(stage.content("worker-b"), before);
}

#[scenario]
async fn a_rotated_token_lets_waiting_nodes_join_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "expired-token\n").unwrap();
    let variable = ("CLOUDSCALE_ACCESS_TOKEN_FILE", path.to_str().unwrap());
    let stage = Stage::with(&[variable], &[]).await;
    stage.join("worker-a", A);
    let message = stage.message("worker-a", "NodeInitializationFailed").await;
    assert!(message.contains("401"), "{message}");
    assert!(!message.contains("expired-token"), "{message}");
    stage.join("worker-b", B);
    std::fs::write(&path, format!("{DEFAULT_TOKEN}\n")).unwrap();
    let rotated = tokio::time::Instant::now();
    stage.initialized("worker-a").await;
    stage.initialized("worker-b").await;
    assert!(rotated.elapsed() < Duration::from_secs(90));
    // A file that is emptied by mistake changes nothing.
    std::fs::write(&path, "").unwrap();
    stage.long(60).await;
    let late = stage.add_server(&MachineSpec::named("late"));
    stage.join("late", &late);
    stage.initialized("late").await;
    stage.end().await;
}
