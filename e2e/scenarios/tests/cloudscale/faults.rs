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

use crate::cloudscale::harness::{A, B, Harness, NOBODY};

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
        let test = Harness::new().await;
        test.fail("/v1/servers/*", fault.clone());
        let gone = format!("cloudscale://{NOBODY}");
        test.silent_node("x", Some(&gone)).await;
        // That one is there and proves the account.
        let there = format!("cloudscale://{A}");
        test.silent_node("there", Some(&there)).await;
        let before = test.content("x");
        test.long(240).await;
        assert_eq!(test.content("x"), before, "{fault:?}");
        assert!(!test.cloud_calls("/v1/servers/*").is_empty());
        assert_eq!(test.writes_to("/api/v1/nodes*").len(), 0, "{fault:?}");
        test.world.faults.clear();
        test.until_deleted("x").await;
        test.end().await;
    };
    join_all(faults().map(story)).await;
}

#[scenario]
async fn no_node_waits_for_another_whose_server_cannot_be_read(test: Harness) {
    let (gone, there) = (
        format!("cloudscale://{NOBODY}"),
        format!("cloudscale://{A}"),
    );
    test.silent_node("x", Some(&gone)).await;
    test.silent_node("there", Some(&there)).await;
    test.fail(&format!("/v1/servers/{NOBODY}"), status(500));
    test.seconds(30).await;
    let stopped = tokio::time::Instant::now();
    test.cloud.stop(A).unwrap();
    test.shutdown_taint("there", true).await;
    // A round every five seconds, as if all were well, and a second for the server to stop.
    let took = stopped.elapsed();
    assert!(took < Duration::from_secs(7) + test.slack(), "{took:?}");
}

#[scenario]
async fn nodes_that_join_during_a_failure_are_initialised_when_it_ends() {
    let story = async |fault: Action| {
        let test = Harness::new().await;
        test.fail("*", fault.clone());
        test.join("worker-a", A);
        test.join("worker-b", B);
        test.message("worker-a", "NodeInitializationFailed").await;
        // The longer it lasts, the longer are the pauses afterwards.
        test.seconds(if is_real() { 20 } else { 120 }).await;
        for name in ["worker-a", "worker-b"] {
            let node = test.node(name);
            assert!(has_taint(&node, UNINITIALIZED_TAINT), "{fault:?}");
        }
        assert_eq!(test.writes_to("/api/v1/nodes*").len(), 0);
        test.world.faults.clear();
        let healed = tokio::time::Instant::now();
        test.initialized("worker-a").await;
        test.initialized("worker-b").await;
        let took = healed.elapsed();
        assert!(took < Duration::from_secs(90), "{fault:?}: {took:?}");
        test.end().await;
    };
    join_all(faults().map(story)).await;
}

#[scenario]
async fn a_few_failures_delay_a_node_by_seconds_and_nobody_is_warned(test: Harness) {
    let rule = Rule::new(status(503)).server("cloudscale");
    test.fault(rule.times(2));
    let begun = tokio::time::Instant::now();
    test.join("worker-a", A);
    test.initialized("worker-a").await;
    assert!(begun.elapsed() < Duration::from_secs(10) + test.slack());
    assert_eq!(
        test.messages("worker-a", "NodeInitializationFailed"),
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
        let test = Harness::new().await;
        let members: Map<String, Value> = [(member.to_owned(), value)].into_iter().collect();
        test.cloud.deform(B, members).unwrap();
        test.join_fleet(5);
        test.join("worker-a", A);
        test.join("worker-b", B);
        test.initialized("worker-a").await;
        for number in 1..=5 {
            test.initialized(&format!("fleet-{number}")).await;
        }
        test.long(60).await;
        test.cloud.deform(B, Map::new()).unwrap();
        let healed = test.initialized("worker-b").await;
        assert_eq!(addresses(&healed).len(), 4, "{member}");
        test.end().await;
    };
    join_all(broken.map(story)).await;
}

#[scenario]
async fn a_server_that_becomes_unreadable_does_not_take_its_node_with_it(test: Harness) {
    let members = [
        ("uuid".to_owned(), json!(7)),
        ("status".to_owned(), json!([])),
    ];
    test.cloud.deform(B, members.into_iter().collect()).unwrap();
    let id = format!("cloudscale://{B}");
    test.silent_node("worker-b", Some(&id)).await;
    let before = test.content("worker-b");
    test.long(600).await;
    assert_eq!(test.content("worker-b"), before);
}

#[scenario]
async fn a_rotated_token_lets_waiting_nodes_join_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "expired-token\n").unwrap();
    let variable = ("CLOUDSCALE_ACCESS_TOKEN_FILE", path.to_str().unwrap());
    let test = Harness::with(&[variable], &[]).await;
    test.join("worker-a", A);
    let message = test.message("worker-a", "NodeInitializationFailed").await;
    assert!(message.contains("401"), "{message}");
    assert!(!message.contains("expired-token"), "{message}");
    test.join("worker-b", B);
    std::fs::write(&path, format!("{DEFAULT_TOKEN}\n")).unwrap();
    let rotated = tokio::time::Instant::now();
    test.initialized("worker-a").await;
    test.initialized("worker-b").await;
    assert!(rotated.elapsed() < Duration::from_secs(90));
    // A file that is emptied by mistake changes nothing.
    std::fs::write(&path, "").unwrap();
    test.long(60).await;
    let late = test.add_server(&MachineSpec::named("late"));
    test.join("late", &late);
    test.initialized("late").await;
    test.end().await;
}
