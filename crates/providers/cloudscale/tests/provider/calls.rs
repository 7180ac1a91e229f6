//! How many calls the answers cost, and what is believed of them.

use bowline_test_kit::says;
use std::time::Duration;

use crate::harness::{A, B, Harness, NOBODY, cannot_tell, found, gone, node};
use bowline_cloudscale::{CONFIRMATIONS, FEW, LIST_AGE, register_metrics};
use bowline_core::{AddressKind, Lookup, Node, NodeAddress};
use bowline_simulator::faults::{Action, Rule};
use bowline_test_kit::{all_found, answer, delay, same_transcript};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn up_to_three_nodes_are_read_one_by_one_and_more_from_one_list() {
    let test = Harness::new();
    let fleet = test.fleet("w", 100);
    assert!(all_found(&test.ask(&fleet[..FEW]).await));
    let calls = test.calls();
    assert_eq!(calls.len(), FEW);
    assert!(calls.iter().all(|c| c.starts_with("GET /v1/servers/")));
    assert!(all_found(&test.ask(&fleet).await));
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
}

#[tokio::test(start_paused = true)]
async fn single_reads_go_out_together() {
    let test = Harness::new();
    let fleet = test.fleet("w", 3);
    let second = Duration::from_secs(1);
    test.fault("*", delay(second));
    let before = tokio::time::Instant::now();
    assert!(all_found(&test.ask(&fleet).await));
    assert_eq!(before.elapsed(), second);
}

#[tokio::test(start_paused = true)]
async fn two_thousand_new_nodes_cost_one_list() {
    let test = Harness::new();
    let mut fleet = test.fleet("w", 2000);
    for node in &mut fleet {
        node.provider_id = None;
    }
    assert!(all_found(&test.ask(&fleet).await));
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_answers_for_five_seconds_and_no_longer() {
    let test = Harness::new();
    let fleet = test.fleet("w", 10);
    test.ask(&fleet).await;
    test.wait(LIST_AGE).await;
    assert!(all_found(&test.ask(&fleet).await));
    assert!(all_found(&test.ask(&fleet[..1]).await));
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
    test.wait(Duration::from_millis(1)).await;
    test.ask(&fleet).await;
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
}

#[tokio::test(start_paused = true)]
async fn unknown_names_make_a_kept_list_be_asked_for_anew_once() {
    let test = Harness::new();
    let old = test.fleet("w", 10);
    test.ask(&old).await;
    test.wait(Duration::from_secs(1)).await;
    let mut new = test.fleet("v", 10);
    for node in &mut new {
        node.provider_id = None;
    }
    test.calls();
    assert!(all_found(&test.ask(&new).await));
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
    test.wait(Duration::from_secs(1)).await;
    let strangers: Vec<Node> = (0..10).map(|n| node(&format!("s-{n}"), None)).collect();
    let answers = test.ask(&strangers).await;
    assert!(answers.iter().all(|a| matches!(a, Lookup::NotMine)));
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_missing_from_a_kept_list_is_read_by_itself() {
    let test = Harness::new();
    let fleet = test.fleet("w", 10);
    test.ask(&fleet).await;
    test.wait(Duration::from_secs(1)).await;
    let late = test.fleet("v", 1);
    test.calls();
    assert!(all_found(&test.ask(&late).await));
    let nodes = [&fleet[..], &late[..]].concat();
    assert!(all_found(&test.ask(&nodes).await));
    let calls = test.calls();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|c| c.starts_with("GET /v1/servers/")));
}

#[tokio::test(start_paused = true)]
async fn missing_from_the_list_is_gone_only_when_the_cloud_says_so_by_id() {
    let test = Harness::new();
    let fleet = test.fleet("w", 10);
    test.wait(Duration::from_secs(60)).await;
    test.fault(
        "/v1/servers",
        Action::StaleList {
            age: Duration::from_secs(30),
        },
    );
    // Prime the simulator's memory of lists before anything changes.
    assert!(all_found(&test.ask(&fleet).await));
    test.wait(Duration::from_secs(10)).await;
    let late = test.fleet("v", 1);
    test.calls();
    let nodes = [&fleet[..], &late[..], &[node("x", Some(NOBODY))][..]].concat();
    let mut answers = test.ask(&nodes).await;
    let evidence = gone(answers.pop().unwrap());
    assert_eq!(
        evidence.text,
        format!("GET v1/servers does not list it; GET v1/servers/{NOBODY} answered 404")
    );
    assert!(all_found(&answers), "{answers:?}");
    assert_eq!(
        test.calls().len(),
        3,
        "the list, and both that it does not show"
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_alone_makes_nobody_gone() {
    let test = Harness::new();
    let fleet = test.fleet("w", 50);
    test.fault("/v1/servers", answer(200, json!([])));
    assert!(all_found(&test.ask(&fleet).await), "each was read by id");
    assert_eq!(test.calls().len(), 51);
}

#[tokio::test(start_paused = true)]
async fn of_two_thousand_gone_at_once_the_same_few_are_confirmed_each_time() {
    let test = Harness::new();
    let fleet = test.fleet("w", 2000);
    for node in &fleet {
        test.sim.destroy(&node.name).unwrap();
    }
    let confirmed = async || test.confirmed(&fleet, "too many servers are missing").await;
    let first = confirmed().await;
    assert_eq!(first.len(), CONFIRMATIONS);
    assert_eq!(test.calls().len(), 1 + CONFIRMATIONS);
    test.wait(Duration::from_secs(10)).await;
    assert_eq!(confirmed().await, first);
}

#[tokio::test(start_paused = true)]
async fn a_broken_server_concerns_its_own_node_only() {
    let test = Harness::new();
    let fleet = test.fleet("w", 6);
    let deform = |machine: &str, members: serde_json::Value| {
        let members = members.as_object().cloned().unwrap();
        test.sim.deform(machine, members).unwrap();
    };
    deform("w-2", json!({"interfaces": "none"}));
    deform(B, json!({"uuid": null, "name": 7}));
    let mut unnamed = fleet.clone();
    for node in &mut unnamed {
        node.provider_id = None;
    }
    for nodes in [&fleet, &unnamed] {
        let mut answers = test.ask(nodes).await;
        let text = cannot_tell(answers.remove(1));
        says(&text, "cannot be read");
        assert!(all_found(&answers), "{answers:?}");
    }
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
    test.wait(LIST_AGE * 2).await;
    let text = cannot_tell(test.ask_one(&fleet[1]).await);
    says(&text, "cannot be read");
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_another_server_is_an_error() {
    let test = Harness::new();
    let other = [("uuid".to_owned(), json!(B))];
    test.sim.deform(A, other.into_iter().collect()).unwrap();
    let text = cannot_tell(test.ask_one(&node("worker-a", Some(A))).await);
    says(&text, &format!("answered with server {B}"));
}

#[tokio::test(start_paused = true)]
async fn nodes_are_recognised_by_address_only_if_the_operator_wants_it() {
    let mut other_name = node("k8s-worker", None);
    let address = NodeAddress::new(AddressKind::InternalIp, "10.20.0.11");
    other_name.addresses.push(address);
    let without = Harness::new();
    let answer = without.ask_one(&other_name).await;
    assert!(matches!(answer, Lookup::NotMine), "{answer:?}");
    let with = Harness::with(&[("CLOUDSCALE_MATCH_BY_ADDRESS", "true")]);
    let instance = found(with.ask_one(&other_name).await);
    assert_eq!(instance.provider_id.unwrap().rest(), A);
    assert_eq!(instance.addresses[0].to_string(), "Hostname:k8s-worker");
}

#[tokio::test(start_paused = true)]
async fn look_ups_at_the_same_time_share_one_list() {
    let test = Harness::new();
    let fleet = test.fleet("w", 10);
    let second = Duration::from_secs(1);
    test.fault("/v1/servers", delay(second));
    let (first, second) = tokio::join!(test.ask(&fleet), test.ask(&fleet));
    assert!(all_found(&first) && all_found(&second));
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_as_long_as_the_cloud_asks_for() {
    let test = Harness::new();
    let maintenance = Rule::new(Action::Status {
        code: 503,
        headers: [("retry-after".to_owned(), "7".to_owned())].into(),
        body: None,
    });
    test.world.faults.add(maintenance.times(1)).unwrap();
    let before = tokio::time::Instant::now();
    found(test.ask_one(&node("worker-a", Some(A))).await);
    let taken = before.elapsed().as_secs();
    assert!((7..11).contains(&taken), "{taken} s");
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_by_method_template_and_status() {
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = register_metrics(&mut registry);
    let test = Harness::measured(&[], Some(metrics));
    test.ask(&[node("a", Some(A)), node("x", Some(NOBODY))])
        .await;
    test.canary().await.unwrap();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"cloudscale_requests_total{method="GET",endpoint="v1/servers",status="200"} 1"#,
        r#"cloudscale_requests_total{method="GET",endpoint="v1/servers/:id",status="200"} 1"#,
        r#"cloudscale_requests_total{method="GET",endpoint="v1/servers/:id",status="404"} 1"#,
        "cloudscale_in_flight_requests 0",
    ] {
        assert!(text.lines().any(|got| got == line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn the_same_answers_come_over_a_real_socket() {
    let test = Harness::on_a_socket().await;
    let fleet = test.fleet("w", 100);
    test.canary().await.unwrap();
    assert!(all_found(&test.ask(&fleet).await));
    gone(test.ask_one(&node("x", Some(NOBODY))).await);
    let calls = test.calls();
    assert_eq!(calls.first().unwrap(), "GET /v1/servers 200");
    assert_eq!(
        calls.last().unwrap(),
        &format!("GET /v1/servers/{NOBODY} 404")
    );
    // Two, unless the machine was so slow that the canary's list had grown old.
    assert!((2..=3).contains(&calls.len()), "{calls:?}");
}

async fn run() -> String {
    let test = Harness::new();
    let fleet = test.fleet("w", 40);
    let destroy = |node: &Node| test.sim.destroy(&node.name).unwrap();
    test.shrink(&fleet, destroy).await
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    same_transcript(run);
}

#[tokio::test(start_paused = true)]
async fn the_cloud_says_who_it_is() {
    let test = Harness::new();
    let names = (test.cloud.name().as_str(), test.cloud.provider());
    assert_eq!(names, ("cloudscale", "cloudscale"));
    let untagged = "--allow-untagged-cloud is taken and not needed";
    assert!(test.cloud.has_cluster_id(), "{untagged}");
}
