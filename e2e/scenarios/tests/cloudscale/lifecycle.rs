//! Nodes whose machines are off, gone, or somebody else's.

use bowline_core::SHUTDOWN_TAINT;
use bowline_http::{BaseUrl, Bearer, Connector, HttpClient, Route};
use bowline_scenarios::objects::{has_taint, silent, text};
use bowline_scenarios::{is_real, scenario, status};
use bowline_simulator::KubeletSpec;
use bowline_simulator::faults::Action;
use bowline_simulator_cloudscale::DEFAULT_TOKEN;
use serde_json::Value;

use crate::cloudscale::harness::{A, B, Harness, NOBODY};

/// Longer than any proof, budget or back-off of the guard takes.
const A_WHILE: u64 = 900;

/// When something in the journal happened, in seconds since another thing.
fn seconds_between(first: &str, second: &str) -> i64 {
    let time = |text: &str| -> jiff::Timestamp { text.parse().unwrap() };
    time(second).duration_since(time(first)).as_secs()
}

#[scenario]
async fn cloudscale_case_04_a_node_whose_server_is_gone_is_deleted_after_the_guards_proof(
    test: Harness,
) {
    test.witness().await;
    let gone = format!("cloudscale://{NOBODY}");
    test.put_aged(silent("x", Some(&gone)), 0).await;
    let node = test.node("x");
    test.until_deleted("x").await;
    let deletions = test.writes_to("/api/v1/nodes/x");
    assert_eq!(deletions.len(), 1);
    let deletion = &deletions[0];
    assert_eq!(deletion.method, "DELETE");
    assert_eq!(
        deletion.body["preconditions"]["uid"],
        node["metadata"]["uid"]
    );
    let at = deletion.time.to_string();
    let age = seconds_between(text(&node["metadata"]["creationTimestamp"]), &at);
    let most = 80 + i64::try_from(test.slack().as_secs()).unwrap();
    assert!((60..most).contains(&age), "deleted at the age of {age} s");
    let looks = test.cloud_calls(&format!("/v1/servers/{NOBODY}"));
    assert!(looks.iter().all(|look| look.status == 404));
    let proof = seconds_between(&looks[0].time.to_string(), &at);
    assert!(proof >= 10, "{proof} s after the first look");
    let checks = test.cloud_calls("/v1/servers");
    let between = |time| looks[0].time <= time && time <= deletion.time;
    assert!(
        checks.iter().any(|check| between(check.time)),
        "a check read between"
    );
    let message = test.message("x", "DeletingNode").await;
    assert_eq!(
        message,
        "Deleting node x because it does not exist in the cloud provider"
    );
}

#[scenario]
async fn cloudscale_case_04_a_destroyed_server_takes_its_node_with_it_and_no_other(test: Harness) {
    test.join("worker-a", A);
    test.join("worker-b", B);
    test.until_ready("worker-a", "True").await;
    test.until_ready("worker-b", "True").await;
    let other = test.content("worker-b");
    test.cloud.destroy(A).unwrap();
    test.until_deleted("worker-a").await;
    test.long(A_WHILE).await;
    assert_eq!(test.content("worker-b"), other);
}

#[scenario]
async fn cloudscale_case_05_while_the_api_fails_or_hangs_nothing_is_deleted() {
    let story = async |fault| {
        let test = Harness::new().await;
        test.witness().await;
        test.fail("*", fault);
        let gone = format!("cloudscale://{NOBODY}");
        test.silent_node("x", Some(&gone)).await;
        let before = test.content("x");
        test.long(A_WHILE).await;
        assert_eq!(test.content("x"), before);
        // Again and again; on the real clock there is not much time for calls that hang.
        let least = if is_real() { 1 } else { 10 };
        assert!(test.cloud_calls("*").len() > least);
        test.world.faults.clear();
        test.until_deleted("x").await;
        test.end().await;
    };
    futures::join!(story(status(500)), story(Action::Hang));
}

#[scenario]
async fn cloudscale_case_06_a_silent_node_without_id_and_server_is_kept(test: Harness) {
    test.silent_node("nameless", None).await;
    let before = test.content("nameless");
    test.long(A_WHILE).await;
    assert_eq!(test.content("nameless"), before);
    assert_eq!(test.writes_to("/api/v1/nodes*").len(), 0);
}

#[scenario]
async fn cloudscale_case_08_the_shutdown_taint_follows_the_power_of_the_server(test: Harness) {
    test.join("worker-a", A);
    test.until_ready("worker-a", "True").await;
    test.cloud.stop(A).unwrap();
    test.shutdown_taint("worker-a", true).await;
    let node = test.node("worker-a");
    let taints: &Vec<Value> = node["spec"]["taints"].as_array().unwrap();
    let taint = taints
        .iter()
        .find(|taint| taint["key"] == SHUTDOWN_TAINT)
        .unwrap();
    assert_eq!(taint["effect"], "NoSchedule");
    assert_eq!(text(&taint["value"]), "");
    test.cloud.start(A).unwrap();
    test.shutdown_taint("worker-a", false).await;
    test.until_ready("worker-a", "True").await;
}

#[scenario]
async fn cloudscale_case_08_a_server_that_is_changing_or_running_is_not_tainted(test: Harness) {
    // The kubelets are silent, whatever their machines do.
    for (name, uuid) in [("worker-a", A), ("worker-b", B)] {
        let id = format!("cloudscale://{uuid}");
        test.silent_node(name, Some(&id)).await;
    }
    let base = BaseUrl::parse("http://cloudscale.sim:80").unwrap();
    let pipes = Connector::simulated(test.world.pipes.clone());
    let user = HttpClient::builder("user", base, pipes)
        .auth(Bearer(bowline_core::Secret::new(DEFAULT_TOKEN)))
        .build();
    let members = [("status".to_owned(), "changing".into())];
    test.cloud.deform(A, members.into_iter().collect()).unwrap();
    test.long(60).await;
    for name in ["worker-a", "worker-b"] {
        assert!(!has_taint(&test.node(name), SHUTDOWN_TAINT), "{name}");
    }
    let looks = test.cloud_calls("/v1/servers/*").len();
    assert!(looks > 10, "both were looked at");
    test.cloud.deform(A, serde_json::Map::new()).unwrap();
    let stop = Route::new("v1/servers/:id/stop").with("id", A);
    user.post(stop).send().await.unwrap();
    test.shutdown_taint("worker-a", true).await;
    assert!(!has_taint(&test.node("worker-b"), SHUTDOWN_TAINT));
}

#[scenario]
async fn cloudscale_case_09_a_foreign_node_costs_no_call_and_is_never_touched(test: Harness) {
    let foreign = "bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e";
    test.silent_node("silent", Some(foreign)).await;
    test.world
        .machines
        .set(foreign, bowline_simulator::machines::Power::Running);
    test.join_as(KubeletSpec {
        node_name: "waiting".into(),
        machine_id: foreign.into(),
        provider_id: Some(foreign.into()),
        ..KubeletSpec::default()
    });
    test.until("the foreign node registers", |it| {
        it.find("waiting").is_some()
    })
    .await;
    let before = (test.content("silent"), test.content("waiting"));
    test.long(A_WHILE).await;
    assert_eq!((test.content("silent"), test.content("waiting")), before);
    // The other call there is looks for load balancers.
    assert_eq!(test.cloud_calls("/v1/servers*").len(), 0);
    assert_eq!(test.writes_to("/api/v1/nodes*").len(), 0);
}
