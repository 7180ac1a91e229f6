//! Section D of the cases: machines that are off, machines that are gone, and how nodes are
//! written or deleted then.

use std::time::Duration;

use serde_json::{Value, json};

use bowline_scenarios::cloud::{Script, machine, stopped};
use bowline_scenarios::objects::{SHUTDOWN, known, taint_list, taints};
use bowline_scenarios::{TestCluster, is_real, refuse, scenario, slow};

const INTERNAL: &str = "InternalIP:10.0.0.5";
const DELETING: &str = "Normal DeletingNode cloud-node-lifecycle-controller: Deleting node n1 \
                        because it does not exist in the cloud provider (1)";

/// A running manager and the initialised node n1, one hour old, in that state; the cloud says
/// `script`.
async fn settled(ready: &str, script: Script) -> TestCluster {
    around(known("n1", "demo://m-1", ready, &[INTERNAL]), script).await
}

/// The same with this node n1.
async fn around(node: Value, script: Script) -> TestCluster {
    let mut bench = TestCluster::idle(&[]).await;
    bench.cloud().say("n1", script);
    bench.put(node).await;
    bench.start();
    bench
}

/// The same with a stopped machine and these taints.
async fn stopped_with(list: &[&str]) -> TestCluster {
    let mut node = known("n1", "demo://m-1", "False", &[INTERNAL]);
    node["spec"]["taints"] = taint_list(list);
    around(node, Script::Machine(stopped("demo://m-1"))).await
}

fn shutdown() -> String {
    format!("{SHUTDOWN}:NoSchedule")
}

async fn tainted(bench: &TestCluster, list: &[&str]) {
    bench
        .change("n1", |node| node["spec"]["taints"] = taint_list(list))
        .await;
}

#[scenario]
async fn framework_case_043_a_gone_machine_costs_its_node_ten_seconds_after_the_first_look() {
    let bench = settled("False", Script::Gone).await;
    let before = bench.node("n1");
    bench.until_deleted("n1").await;
    let looks = bench.cloud().asked_about("n1");
    // The first look in the lifecycle loop is one of the first two questions (the other is the
    // address round's); the deletion follows the first look that is ten seconds later.
    let took = bench.since(looks[0]);
    let allowed = Duration::from_secs(10)..Duration::from_secs(16) + bench.slack();
    assert!(allowed.contains(&took), "{took:?}");
    let deletions = bench.deletions("n1");
    assert_eq!(deletions.len(), 1);
    assert_eq!(
        deletions[0].body["preconditions"],
        json!({
            "uid": before["metadata"]["uid"],
            "resourceVersion": before["metadata"]["resourceVersion"],
        })
    );
    assert!(bench.cloud().canaries() >= 1);
    bench.seconds(60).await;
    assert_eq!(bench.events("n1"), [DELETING]);
    assert_eq!(bench.deletions("n1").len(), 1);
}

#[scenario]
async fn framework_case_044_unknown_and_missing_readiness_count_like_not_ready() {
    for missing in [false, true] {
        let bench = settled("Unknown", Script::Gone).await;
        if missing {
            bench
                .change("n1", |node| node["status"]["conditions"] = json!([]))
                .await;
        }
        let begun = bench.world.clock.now();
        bench.until_deleted("n1").await;
        assert!(bench.since(begun) >= Duration::from_secs(10));
        bench
            .until("it is reported", |it| it.events("n1") == [DELETING])
            .await;
    }
}

#[scenario]
async fn framework_case_045_a_ready_node_is_not_looked_at() {
    let bench = TestCluster::new().await;
    bench.seconds(1).await;
    bench.cloud().say("n1", Script::Gone);
    bench
        .put(known("n1", "demo://m-1", "True", &[INTERNAL]))
        .await;
    bench.long(240).await;
    assert_eq!(bench.cloud().calls(), 0);
    // The address round asks, and concludes nothing.
    bench.long(3600).await;
    assert_eq!(bench.all_calls(), [""; 0]);
    assert_eq!(bench.cloud().canaries(), 0);
}

#[scenario]
async fn framework_case_046_an_error_decides_nothing_and_is_tried_each_round() {
    let bench = settled("False", Script::Error("boom")).await;
    let begun = bench.world.clock.now();
    let asked = |it: &TestCluster| it.cloud().asked_about("n1").len();
    bench.until("twelve rounds", |it| asked(it) >= 12).await;
    assert!(bench.since(begun) <= Duration::from_secs(60) + bench.slack());
    assert_eq!(bench.all_calls(), [""; 0]);
    // A look that says gone, an error, and again: nothing adds up.
    bench.cloud().say_in_turn(
        "n1",
        (0..40).flat_map(|_| [Script::Gone, Script::Error("boom")]),
    );
    bench.long(180).await;
    assert_eq!(bench.calls("n1"), []);
}

#[scenario]
async fn framework_case_047_a_stopped_machine_taints_its_node_once() {
    let bench = stopped_with(&["dedicated=db:NoSchedule"]).await;
    let begun = bench.world.clock.now();
    bench
        .until("it is tainted", |it| it.written("n1").len() == 1)
        .await;
    assert!(bench.since(begun) <= Duration::from_secs(6) + bench.slack());
    let wanted = ["dedicated=db:NoSchedule", &shutdown()];
    assert_eq!(taints(&bench.node("n1")), wanted);
    bench.seconds(60).await;
    assert_eq!(bench.written("n1"), ["PATCH n1 -> 200"]);
}

#[scenario]
async fn framework_case_048_a_shutdown_taint_of_another_value_is_replaced_where_it_stands() {
    let valued = format!("{SHUTDOWN}=x:NoSchedule");
    let bench = stopped_with(&["a:NoSchedule", &valued, "b:NoSchedule"]).await;
    bench
        .until("it is replaced", |it| it.written("n1").len() == 1)
        .await;
    assert_eq!(
        taints(&bench.node("n1")),
        ["a:NoSchedule", &shutdown(), "b:NoSchedule"]
    );

    let other = format!("{SHUTDOWN}:NoExecute");
    let bench = stopped_with(&[&other]).await;
    bench
        .until("it is added", |it| it.written("n1").len() == 1)
        .await;
    assert_eq!(taints(&bench.node("n1")), [other, shutdown()]);
}

#[scenario]
async fn framework_case_049_a_ready_node_loses_the_shutdown_taint_without_a_question() {
    let bench = stopped_with(&["dedicated=db:NoSchedule"]).await;
    bench
        .until("it is tainted", |it| it.written("n1").len() == 1)
        .await;
    bench.set_ready("n1", "True").await;
    bench.seconds(1).await;
    let asked = bench.cloud().calls();
    bench
        .until("the taint is gone", |it| it.written("n1").len() == 2)
        .await;
    assert_eq!(taints(&bench.node("n1")), ["dedicated=db:NoSchedule"]);
    bench.seconds(60).await;
    assert_eq!(bench.cloud().calls(), asked);
    assert_eq!(bench.written("n1").len(), 2);
}

#[scenario]
async fn framework_case_050_a_started_machine_keeps_the_taint_until_its_node_is_ready() {
    let bench = settled("False", Script::Machine(stopped("demo://m-1"))).await;
    bench
        .until("it is tainted", |it| it.written("n1").len() == 1)
        .await;
    bench
        .cloud()
        .say("n1", Script::Machine(machine("demo://m-1", &[INTERNAL])));
    bench.long(120).await;
    assert_eq!(taints(&bench.node("n1")), [shutdown()]);
    assert_eq!(bench.written("n1").len(), 1);
}

#[scenario]
async fn framework_case_051_a_refused_deletion_is_told_each_time_and_tried_each_round() {
    let bench = settled("False", Script::Gone).await;
    bench.fault(refuse(403, "DELETE", "/api/v1/nodes/n1").times(10));
    bench.until_deleted("n1").await;
    bench.seconds(1).await;
    // Ten refusals have not eaten the budget of three.
    let tries = bench.deletions("n1");
    assert_eq!(tries.len(), 11);
    for pair in tries.windows(2) {
        let pause = pair[1].arrived.duration_since(pair[0].arrived).as_secs();
        let late = i64::try_from(bench.slack().as_secs()).unwrap();
        assert!((5 - late.min(1)..=5 + late).contains(&pause), "{pause} s");
    }
    let events = bench.events("n1");
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[0], DELETING);
    let failed = "Warning DeletingNodeFailed cloud-node-lifecycle-controller: Failed deleting \
                  node n1: ";
    assert!(events[1].starts_with(failed), "{events:?}");
    assert_eq!(bench.event_count("n1", "DeletingNodeFailed"), 10);
    assert_eq!(bench.event_count("n1", "DeletingNode"), 1);
}

#[scenario]
async fn framework_case_052_a_conflict_over_taints_keeps_both_changes() {
    let bench = settled("False", Script::Machine(stopped("demo://m-1"))).await;
    let slow = bench.fault(slow("PATCH", "/api/v1/nodes/n1").times(1));
    slow.struck(1).await;
    tainted(&bench, &["other:NoExecute"]).await;
    bench
        .until("it is tainted", |it| it.written("n1").len() == 2)
        .await;
    assert_eq!(taints(&bench.node("n1")), ["other:NoExecute", &shutdown()]);
    let calls: Vec<(String, u16)> = bench
        .calls("n1")
        .into_iter()
        .map(|it| (it.method, it.status))
        .collect();
    let wanted = [("PATCH", 409), ("GET", 200), ("PATCH", 200)];
    assert_eq!(
        calls,
        wanted.map(|(method, status)| (method.to_owned(), status))
    );
}

#[scenario]
async fn framework_case_053_two_hundred_silent_nodes_are_one_question_a_round() {
    let mut bench = TestCluster::idle(&[]).await;
    bench.cloud().take(Duration::from_millis(100));
    for number in 0..200 {
        let name = format!("n{number}");
        let id = format!("demo://m-{number}");
        bench
            .cloud()
            .say(&name, Script::Machine(machine(&id, &[INTERNAL])));
        bench.put(known(&name, &id, "Unknown", &[INTERNAL])).await;
    }
    bench.cloud().say("n7", Script::Gone);
    bench.start();
    let begun = bench.world.clock.now();
    bench.until_deleted("n7").await;
    assert!(bench.since(begun) < Duration::from_secs(17) + bench.slack());
    // One address round and four rounds of the lifecycle at most, and more if it is late.
    let late = usize::try_from(bench.slack().as_secs() / 5).unwrap();
    assert!(
        bench.cloud().calls() <= 5 + late,
        "{} calls",
        bench.cloud().calls()
    );
    bench.long(3600).await;
    let others = (0..200)
        .filter(|number| *number != 7)
        .map(|number| format!("n{number}"));
    assert!(others.into_iter().all(|name| bench.find(&name).is_some()));
}

#[scenario]
async fn framework_case_054_a_new_node_survives_a_cloud_that_lists_it_late() {
    let bench = TestCluster::new().await;
    bench.seconds(1).await;
    bench.cloud().say("n1", Script::Gone);
    let mut node = bowline_scenarios::objects::fresh("n1");
    node["spec"]["providerID"] = "demo://m-1".into();
    node["status"]["conditions"] = json!([bowline_scenarios::objects::ready("False")]);
    bench.create(node).await;
    bench.seconds(33).await;
    assert!(bench.cloud().asked_about("n1").len() >= if is_real() { 2 } else { 6 });
    bench
        .cloud()
        .say("n1", Script::Machine(machine("demo://m-1", &[INTERNAL])));
    bench.until_initialized("n1").await;
    bench.long(600).await;
    assert_eq!(bench.deletions("n1"), []);
    // Why it was kept is reported once.
    let held = "Warning NodeDeletionHeld cloud-node-lifecycle-controller: Machine seems to be \
                gone from demo, but the node is kept: the node is too young (for another ";
    let reported = bench.events("n1")[0].clone();
    let rest = reported
        .strip_prefix(held)
        .unwrap_or_else(|| panic!("{reported}"));
    let seconds: u64 = rest.strip_suffix(" s) (1)").unwrap().parse().unwrap();
    // At the first look, some five seconds after it was made.
    assert!((296 - bench.slack().as_secs()..=if is_real() { 300 } else { 296 }).contains(&seconds));
}

#[scenario]
async fn framework_case_055_an_hour_without_the_cloud_deletes_and_taints_nothing() {
    let bench = settled("Unknown", Script::Gone).await;
    bench
        .put(known("n2", "demo://m-2", "False", &[INTERNAL]))
        .await;
    // One look has said gone; then the cloud is down.
    bench
        .until("a first look", |it| it.cloud().canaries() > 0)
        .await;
    bench.cloud().fail_with(1.0);
    bench.long(3600).await;
    assert_eq!(bench.all_calls(), [""; 0]);
    assert!(bench.find("n1").is_some() && bench.find("n2").is_some());
    bench.cloud().fail_with(0.0);
    let back = bench.world.clock.now();
    bench.until_deleted("n1").await;
    assert!(bench.since(back) >= Duration::from_secs(10));
    assert!(bench.find("n2").is_some());
}

#[scenario]
async fn framework_case_056_a_silent_node_of_another_cloud_is_not_looked_at() {
    let bench = settled("Unknown", Script::Gone).await;
    bench.delete("n1").await;
    bench
        .put(known("n1", "other://m-1", "Unknown", &[INTERNAL]))
        .await;
    // Nor one without any provider id that this cloud does not recognise.
    bench.cloud().say("n2", Script::None);
    let mut nameless = known("n2", "", "Unknown", &[INTERNAL]);
    nameless["spec"] = json!({});
    bench.put(nameless).await;
    bench.seconds(1).await;
    let asked = bench.cloud().calls();
    bench.long(3600).await;
    assert_eq!(bench.cloud().calls(), asked);
    assert_eq!(bench.all_calls(), [""; 0]);
}

/// The answer about n1 is on its way to be deleted; then somebody else is faster.
async fn while_deleting(bench: &TestCluster, meanwhile: impl AsyncFnOnce(&TestCluster)) {
    let slow = bench.fault(slow("DELETE", "/api/v1/nodes/n1").times(1));
    bench
        .until("it is announced", |it| {
            it.event_count("n1", "DeletingNode") == 1
        })
        .await;
    slow.struck(1).await;
    meanwhile(bench).await;
    bench
        .until("it was tried", |it| it.deletions("n1").len() == 1)
        .await;
}

#[scenario]
async fn framework_case_057_a_new_node_of_the_same_name_survives() {
    let bench = settled("Unknown", Script::Gone).await;
    let old = bench.node("n1");
    while_deleting(&bench, async |bench| {
        bench.delete("n1").await;
        bench
            .put(known("n1", "demo://m-9", "True", &[INTERNAL]))
            .await;
    })
    .await;
    let try_ = &bench.deletions("n1")[0];
    assert_eq!(try_.status, 409);
    assert_eq!(try_.body["preconditions"]["uid"], old["metadata"]["uid"]);
    bench.long(600).await;
    assert_ne!(bench.node("n1")["metadata"]["uid"], old["metadata"]["uid"]);
    assert_eq!(bench.deletions("n1").len(), 1);
    assert_eq!(bench.event_count("n1", "DeletingNodeFailed"), 0);
}

#[scenario]
async fn a_node_that_becomes_ready_while_it_is_deleted_survives() {
    let bench = settled("Unknown", Script::Gone).await;
    while_deleting(&bench, async |bench| bench.set_ready("n1", "True").await).await;
    assert_eq!(bench.deletions("n1")[0].status, 409);
    bench.long(600).await;
    assert!(bench.find("n1").is_some());
    assert_eq!(bench.deletions("n1").len(), 1);
}

#[scenario]
async fn a_change_while_it_is_deleted_only_delays_and_is_announced_once() {
    let bench = settled("Unknown", Script::Gone).await;
    while_deleting(&bench, async |bench| bench.heartbeat("n1").await).await;
    bench.until_deleted("n1").await;
    bench.seconds(1).await;
    assert_eq!(bench.deletions("n1").len(), 2);
    assert_eq!(bench.events("n1"), [DELETING]);
}

#[scenario]
async fn framework_case_137_a_node_that_vanished_by_itself_is_no_failure() {
    let bench = settled("Unknown", Script::Gone).await;
    while_deleting(&bench, async |bench| bench.delete("n1").await).await;
    bench.long(120).await;
    let statuses: Vec<u16> = bench.deletions("n1").iter().map(|it| it.status).collect();
    assert_eq!(statuses, [404]);
    assert_eq!(bench.events("n1"), [DELETING]);
}

#[scenario]
async fn framework_case_141_taints_are_written_whole_and_guarded_by_the_version() {
    let mut node = known("n1", "demo://m-1", "False", &[INTERNAL]);
    node["spec"]["taints"] = json!([{ "key": "k", "effect": "NoExecute",
                                          "timeAdded": "2026-10-26T00:00:00Z" }]);
    let bench = around(node, Script::Machine(stopped("demo://m-1"))).await;
    let body = |version: Value, taints: Value| json!({ "metadata": { "resourceVersion": version }, "spec": { "taints": taints } });
    let first = bench.node("n1")["metadata"]["resourceVersion"].clone();
    bench
        .until("it is tainted", |it| it.written("n1").len() == 1)
        .await;
    let both = json!([{ "key": "k", "effect": "NoExecute", "timeAdded": "2026-10-26T00:00:00Z" },
                      { "key": SHUTDOWN, "effect": "NoSchedule" }]);
    // Ours: the watch has shown the version, so nothing is read before the write.
    assert_eq!(bench.calls("n1").len(), 1);
    assert_eq!(bench.writes("n1")[0].body, body(first, both));
    tainted(&bench, &[&shutdown()]).await;
    bench.set_ready("n1", "True").await;
    bench
        .until("the taint is gone", |it| it.written("n1").len() == 2)
        .await;
    let is_ready = |it: &&Value| it["status"]["conditions"][0]["status"] == "True";
    let versions = bench.versions("n1");
    let second = versions.iter().find(is_ready).unwrap();
    let second = second["metadata"]["resourceVersion"].clone();
    assert_eq!(bench.writes("n1")[1].body, body(second, Value::Null));
    assert_eq!(bench.node("n1")["spec"].get("taints"), None);
}

#[scenario]
async fn a_slow_cloud_does_not_hold_up_ready_nodes() {
    let bench = settled("True", Script::None).await;
    bench
        .put(known("n2", "demo://m-2", "Unknown", &[INTERNAL]))
        .await;
    bench.cloud().take(Duration::from_secs(100));
    bench.seconds(10).await;
    tainted(&bench, &[&shutdown()]).await;
    let begun = bench.world.clock.now();
    bench
        .until("the taint is gone", |it| taints(&it.node("n1")).is_empty())
        .await;
    assert!(bench.since(begun) <= Duration::from_secs(6) + bench.slack());
}

#[scenario]
async fn a_node_that_becomes_ready_meanwhile_is_not_tainted() {
    let bench = settled("False", Script::Machine(stopped("demo://m-1"))).await;
    let slow = bench.fault(slow("PATCH", "/api/v1/nodes/n1").times(1));
    slow.struck(1).await;
    bench.set_ready("n1", "True").await;
    bench.seconds(60).await;
    assert_eq!(bench.written("n1"), ["PATCH n1 -> 409"]);
    assert_eq!(taints(&bench.node("n1")), [""; 0]);
}
