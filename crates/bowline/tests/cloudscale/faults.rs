//! A cloud that misbehaves, and a token that changes.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::UNINITIALIZED_TAINT;
use bowline_simulator::cloudscale::{DEFAULT_TOKEN, MachineSpec};
use bowline_simulator::faults::Action;
use serde_json::{Map, Value, json};

use crate::stage::{A, B, NOBODY, Stage, addresses, has_taint, status};

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

#[tokio::test(start_paused = true)]
async fn cloudscale_case_83_no_failure_deletes_a_node_and_a_plain_404_does() {
    for fault in faults() {
        let stage = Stage::new();
        stage.silent_node("x", Some(&format!("cloudscale://{NOBODY}")));
        stage.fault("/v1/servers/*", fault.clone());
        let before = stage.content("x");
        stage.pass(Duration::from_secs(240)).await;
        assert_eq!(stage.content("x"), before, "{fault:?}");
        assert!(!stage.cloud_calls("/v1/servers/*").is_empty());
        assert_eq!(stage.writes("/api/v1/nodes*").len(), 0, "{fault:?}");
        stage.world.faults.clear();
        stage.gone("x").await;
        stage.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_join_during_a_failure_are_initialised_when_it_ends() {
    for fault in faults() {
        let stage = Stage::new();
        stage.fault("*", fault.clone());
        stage.join("worker-a", A);
        stage.join("worker-b", B);
        stage.event("worker-a", "NodeInitializationFailed").await;
        stage.pass(Duration::from_secs(120)).await;
        for name in ["worker-a", "worker-b"] {
            let node = stage.node(name).unwrap();
            assert!(has_taint(&node, UNINITIALIZED_TAINT), "{fault:?}");
        }
        assert_eq!(stage.writes("/api/v1/nodes*").len(), 0);
        stage.world.faults.clear();
        let healed = tokio::time::Instant::now();
        stage.initialized("worker-a").await;
        stage.initialized("worker-b").await;
        let took = healed.elapsed();
        assert!(took < Duration::from_secs(90), "{fault:?}: {took:?}");
        stage.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_few_failures_delay_a_node_by_seconds_and_nobody_is_warned() {
    let stage = Stage::new();
    let rule = bowline_simulator::faults::Rule::new(status(503))
        .server("cloudscale")
        .times(2);
    stage.world.faults.add(rule).unwrap();
    let begun = tokio::time::Instant::now();
    stage.join("worker-a", A);
    stage.initialized("worker-a").await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(
        stage.events("worker-a", "NodeInitializationFailed"),
        [""; 0]
    );
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_broken_server_in_the_list_concerns_that_server_only() {
    for (member, value) in [
        ("interfaces", json!(7)),
        ("uuid", json!(null)),
        ("name", json!(["worker-b"])),
        ("zone", json!("rma1")),
        ("status", json!({})),
    ] {
        let stage = Stage::new();
        let members: Map<String, Value> = [(member.to_owned(), value)].into_iter().collect();
        stage.cloud.deform(B, members).unwrap();
        let mut fleet = MachineSpec::named("fleet");
        fleet.count = Some(5);
        for (uuid, number) in stage.cloud.add_servers(&fleet).unwrap().iter().zip(1..) {
            stage.join(&format!("fleet-{number}"), uuid);
        }
        stage.join("worker-a", A);
        stage.join("worker-b", B);
        stage.initialized("worker-a").await;
        for number in 1..=5 {
            stage.initialized(&format!("fleet-{number}")).await;
        }
        stage.pass(Duration::from_secs(60)).await;
        stage.cloud.deform(B, Map::new()).unwrap();
        let healed = stage.initialized("worker-b").await;
        assert_eq!(addresses(&healed).len(), 4, "{member}");
        stage.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_becomes_unreadable_does_not_take_its_node_with_it() {
    let stage = Stage::new();
    stage.silent_node("worker-b", Some(&format!("cloudscale://{B}")));
    let members = [
        ("uuid".to_owned(), json!(7)),
        ("status".to_owned(), json!([])),
    ];
    stage
        .cloud
        .deform(B, members.into_iter().collect())
        .unwrap();
    let before = stage.content("worker-b");
    stage.pass(Duration::from_secs(600)).await;
    assert_eq!(stage.content("worker-b"), before);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_rotated_token_lets_waiting_nodes_join_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "expired-token\n").unwrap();
    let stage = Stage::with(
        &[("CLOUDSCALE_ACCESS_TOKEN_FILE", path.to_str().unwrap())],
        &[],
    );
    stage.join("worker-a", A);
    let message = stage.event("worker-a", "NodeInitializationFailed").await;
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
    stage.pass(Duration::from_secs(60)).await;
    let late = stage.cloud.add_server(&MachineSpec::named("late")).unwrap();
    stage.join("late", &late);
    stage.initialized("late").await;
    stage.end().await;
}
