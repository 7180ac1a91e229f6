//! How decisions are written: once, whatever goes wrong, by the leader alone, and not by an observer.

use bowline_scenarios::cloud::{Script, runs};
use bowline_scenarios::{TestCluster, is_real, refuse, scenario};
use bowline_simulator::faults::{Action, Rule};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::certificates::harness::{self, ALONE, APPROVED, right, until_looked_at};

const APPROVAL: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval";

fn statuses(bench: &TestCluster) -> Vec<u16> {
    bench.decisions("c").iter().map(|it| it.status).collect()
}

#[scenario]
async fn a_conflict_is_decided_anew() {
    let bench = harness::new().await;
    bench.fault(refuse(409, "PUT", APPROVAL).times(2));
    bench.put_request(&right("c")).await;
    assert_eq!(bench.until_decided("c").await, [APPROVED]);
    assert_eq!(statuses(&bench), [409, 409, 200]);
}

#[scenario]
async fn an_answer_that_is_lost_does_not_lead_to_a_second_approval() {
    let bench = harness::new().await;
    let lost = Rule::new(Action::LostAnswer)
        .server("kubernetes")
        .on("PUT", APPROVAL);
    bench.fault(lost.times(1));
    bench.put_request(&right("c")).await;
    assert_eq!(bench.until_decided("c").await, [APPROVED]);
    bench.settle().await;
    assert_eq!(bench.decided("c"), [APPROVED]);
    let done = bench
        .decisions("c")
        .iter()
        .filter(|it| it.status == 200)
        .count();
    assert!(done <= 1, "{:?}", statuses(&bench));
}

#[scenario]
async fn what_somebody_else_denies_meanwhile_stays_denied() {
    let bench = harness::new().await;
    bench.cloud().say("n1", Script::Error("down"));
    bench.put_request(&right("c")).await;
    let asked = |bench: &TestCluster| !bench.cloud().asked_for_certificates().is_empty();
    bench.until("the cloud is asked", asked).await;
    let name = bench.cluster.names().own("c");
    let api: Api<CertificateSigningRequest> = Api::all(bench.admin());
    let mut request = api.get(&name).await.unwrap();
    let denied =
        json!({ "conditions": [{ "type": "Denied", "status": "True", "reason": "Person" }] });
    request.status = serde_json::from_value(denied).unwrap();
    api.replace_subresource("approval", &name, &PostParams::default(), &request)
        .await
        .unwrap();
    bench.cloud().say("n1", runs("n1", "10.0.0.5"));
    until_looked_at(&bench).await;
    assert_eq!(bench.decided("c"), ["Denied Person: "]);
}

#[scenario]
async fn a_silent_cloud_is_asked_again_until_it_answers() {
    let bench = harness::new().await;
    bench.cloud().say("n1", Script::Error("down"));
    bench.put_request(&right("c")).await;
    let asked = |bench: &TestCluster| bench.cloud().asked_for_certificates().len() >= 4;
    bench.until("the cloud is asked four times", asked).await;
    assert_eq!(bench.decided("c"), [""; 0]);
    bench.cloud().say("n1", runs("n1", "10.0.0.5"));
    assert_eq!(bench.until_decided("c").await, [APPROVED]);
}

#[scenario]
async fn requests_from_before_the_start_and_from_while_the_watch_was_broken_are_found() {
    let mut bench = harness::idle(&[ALONE]).await;
    bench.put_request(&right("before")).await;
    bench.start();
    assert_eq!(bench.until_decided("before").await, [APPROVED]);
    bench.stop().await;
    bench.put_request(&right("between")).await;
    bench.start();
    assert_eq!(bench.until_decided("between").await, [APPROVED]);
    bench.world.faults.cut_streams("kubernetes");
    bench.put_request(&right("after")).await;
    assert_eq!(bench.until_decided("after").await, [APPROVED]);
    assert_eq!(bench.decisions("before").len(), 1);
}

#[scenario]
async fn an_observer_writes_nothing() {
    let mut bench = harness::idle(&[ALONE, "--mode=observe"]).await;
    bench.put_request(&right("c")).await;
    bench
        .put_request(&right("wrong").with(|it| it.usages = vec!["client auth"]))
        .await;
    bench.start();
    let asked = |bench: &TestCluster| !bench.cloud().asked_for_certificates().is_empty();
    bench.until("it looked", asked).await;
    bench.settle().await;
    assert_eq!(bench.request_writes(), [""; 0]);
    assert_eq!(bench.decided("c"), [""; 0]);
    assert!(bench.cluster.events("c").is_empty() && bench.cluster.events("wrong").is_empty());
}

#[scenario]
async fn of_two_managers_the_leader_alone_approves() {
    let bench = harness::idle(&[]).await;
    let flags = [ALONE, "--leader-elect=true"];
    let first = bench.replica("first", &flags).await;
    bench.until("the first one leads", |_| first.leads()).await;
    let second = bench.replica("second", &flags).await;
    bench.put_request(&right("c")).await;
    assert_eq!(bench.until_decided("c").await, [APPROVED]);
    let callers: Vec<String> = bench
        .decisions("c")
        .into_iter()
        .map(|it| it.caller)
        .collect();
    assert_eq!(callers.len(), 1);
    assert!(is_real() || callers == ["first"], "{callers:?}");
    first.stop().await.0.unwrap();
    bench
        .until("the second one leads", |_| second.leads())
        .await;
    bench.put_request(&right("d")).await;
    assert_eq!(bench.until_decided("d").await, [APPROVED]);
    assert_eq!(bench.decisions("d").len(), 1);
    second.stop().await.0.unwrap();
}
