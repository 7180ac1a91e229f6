//! Several replicas and one lease, on a paused clock.

use std::time::Duration;

use bowline_controllers::manager::ManagerError;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use serde_json::json;
use tokio::time::Instant;

use crate::cloud::Answer;
use crate::stage::{LEASE, Stage, pass};

const PLAIN: &[&str] = &["--secure-port=0"];
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases*";

#[tokio::test(start_paused = true)]
async fn framework_case_118_a_killed_leader_is_replaced_after_13_to_24_seconds() {
    for seed in 0..5 {
        let stage = Stage::on_pipe(seed);
        let leader = stage.start("a", PLAIN);
        let first = stage.until_held(LEASE, "").await;
        let standby = stage.start("b", PLAIN);
        pass(61 + seed).await;
        let before = stage.lease(LEASE)["leaseTransitions"].as_u64().unwrap();
        leader.kill().await;
        let killed = Instant::now();
        stage.until_held(LEASE, &first).await;
        let waited = killed.elapsed();
        let range = Duration::from_secs(13)..=Duration::from_secs(24);
        assert!(range.contains(&waited), "seed {seed}: {waited:?}");
        let spec = stage.lease(LEASE);
        assert_eq!(spec["leaseTransitions"], before + 1);
        assert_eq!(spec["leaseDurationSeconds"], 15);
        // And it works: a node that joins now is initialised by the new leader.
        stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
        stage.join("n1");
        stage.until_initialized("n1").await;
        assert_eq!(
            standby
                .metric("leader_election_master_status{name=\"cloud-controller-manager\"}")
                .as_deref(),
            Some("1")
        );
        standby.stop().await.0.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_118_a_leader_that_is_asked_to_stop_is_replaced_within_five_seconds() {
    let stage = Stage::on_pipe(1);
    let leader = stage.start("a", PLAIN);
    let first = stage.until_held(LEASE, "").await;
    let standby = stage.start("b", PLAIN);
    pass(30).await;
    let asked = Instant::now();
    let (ended, _) = leader.stop().await;
    ended.unwrap();
    let released = stage.lease(LEASE);
    assert_eq!(
        (
            &released["holderIdentity"],
            &released["leaseDurationSeconds"]
        ),
        (&json!(""), &json!(1))
    );
    stage.until_held(LEASE, &first).await;
    assert!(
        asked.elapsed() <= Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(stage.lease(LEASE)["leaseTransitions"], 1);
    standby.stop().await.0.unwrap();

    let told = |message: &str| {
        let events = stage.events("LeaderElection");
        let found = |event: &&serde_json::Value| event["message"] == message;
        events
            .iter()
            .find(found)
            .cloned()
            .unwrap_or_else(|| panic!("{message}: {events:?}"))
    };
    for message in ["became leader", "stopped leading"] {
        let event = told(&format!("{first} {message}"));
        assert_eq!(event["metadata"]["namespace"], "kube-system");
        assert_eq!(event["source"]["component"], "cloud-controller-manager");
        assert_eq!(event["type"], "Normal");
        assert_eq!(event["involvedObject"]["kind"], "Lease");
        assert_eq!(event["involvedObject"]["name"], LEASE);
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_117_of_several_replicas_one_works_and_the_others_only_look() {
    let stage = Stage::on_pipe(2);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    let leader = stage.start("a", PLAIN);
    stage.until_held(LEASE, "").await;
    let standbys = [stage.start("b", PLAIN), stage.start("c", PLAIN)];
    stage.join("n1");
    stage.until_initialized("n1").await;
    pass(120).await;
    for standby in &standbys {
        let calls = stage.calls_of(&standby.user, 0);
        assert!(calls.len() > 10, "it looks again and again");
        for call in calls {
            assert_eq!(
                (call.method.as_str(), call.path.contains("/leases/")),
                ("GET", true)
            );
        }
        let status =
            standby.metric("leader_election_master_status{name=\"cloud-controller-manager\"}");
        assert_eq!(status.as_deref(), Some("0"));
    }
    for replica in standbys.into_iter().chain([leader]) {
        replica.stop().await.0.unwrap();
    }
    assert_eq!(stage.holder(LEASE), "");
}

#[tokio::test(start_paused = true)]
async fn framework_case_119_an_api_server_that_stays_sick_ends_the_start_after_ten_seconds() {
    for flags in [&["--secure-port=0", "--leader-elect=false"][..], PLAIN] {
        let stage = Stage::on_pipe(3);
        let sick = Action::Status {
            code: 500,
            headers: [].into(),
            body: None,
        };
        stage
            .world
            .faults
            .add(Rule::new(sick).on("GET", "/healthz"))
            .unwrap();
        let from = Instant::now();
        let manager = stage.start("a", flags);
        let ended = manager.ended().await;
        assert!(
            matches!(ended, Err(ManagerError::Unhealthy(_))),
            "{ended:?}"
        );
        let waited = from.elapsed();
        let range = Duration::from_secs(10)..Duration::from_secs(13);
        assert!(range.contains(&waited), "{waited:?}");
        assert_eq!(stage.holder(LEASE), "", "the lease is given back");
        let nodes = Filter::any().path("/api/v1/nodes*");
        assert_eq!(stage.world.journal.count(&nodes), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_119_an_api_server_that_recovers_in_time_is_waited_for() {
    let stage = Stage::on_pipe(4);
    let sick = Action::Status {
        code: 500,
        headers: [].into(),
        body: None,
    };
    stage
        .world
        .faults
        .add(Rule::new(sick).on("GET", "/healthz").times(6))
        .unwrap();
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let manager = stage.start("a", &["--secure-port=0", "--leader-elect=false"]);
    stage.until_initialized("n1").await;
    manager.stop().await.0.unwrap();
    assert_eq!(
        stage.world.journal.count(&Filter::any().path(LEASES)),
        0,
        "no election"
    );
}

#[tokio::test(start_paused = true)]
async fn framework_case_120_the_lease_of_an_original_of_the_same_name_is_respected() {
    let stage = Stage::on_pipe(5);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let manager = stage.start("a", PLAIN);
    for _ in 0..100 {
        stage.give_lease(LEASE, "original_1");
        pass(2).await;
    }
    let calls = stage.calls_of("a", 0);
    assert!(!calls.is_empty() && calls.iter().all(|call| call.method == "GET"));
    assert!(stage.cloud.calls().is_empty());
    // The original goes away without releasing; then it is ours, and the count goes on.
    stage.until_held(LEASE, "original_1").await;
    assert_eq!(stage.lease(LEASE)["leaseTransitions"], 4);
    stage.until_initialized("n1").await;
    manager.stop().await.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn framework_case_136_a_new_process_waits_a_whole_lease_from_its_own_start() {
    for seed in 0..5 {
        let stage = Stage::on_pipe(seed);
        let old = stage.start("old", PLAIN);
        let first = stage.until_held(LEASE, "").await;
        pass(20).await;
        old.kill().await;
        pass(25).await;
        let started = Instant::now();
        let new = stage.start("new", PLAIN);
        stage.until_held(LEASE, &first).await;
        let waited = started.elapsed();
        let range = Duration::from_secs(15)..=Duration::from_secs(20);
        assert!(range.contains(&waited), "seed {seed}: {waited:?}");
        new.stop().await.0.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_136_an_empty_holder_is_replaced_at_the_first_try() {
    let stage = Stage::on_pipe(6);
    stage.give_lease(LEASE, "");
    let started = Instant::now();
    let manager = stage.start("a", PLAIN);
    stage.until_held(LEASE, "").await;
    assert!(
        started.elapsed() < Duration::from_millis(100),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(stage.lease(LEASE)["leaseTransitions"], 4);
    manager.stop().await.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_created_once_replaced_with_put_and_never_patched() {
    let stage = Stage::on_pipe(7);
    let manager = stage.start("a", PLAIN);
    stage.until_held(LEASE, "").await;
    pass(61).await;
    manager.stop().await.0.unwrap();
    let calls = stage.world.journal.matching(&Filter::any().path(LEASES));
    let count = |method: &str| calls.iter().filter(|call| call.method == method).count();
    assert_eq!(count("GET"), 1, "one look before it is made");
    assert_eq!(count("POST"), 1);
    assert!((30..=32).contains(&count("PUT")), "{}", count("PUT"));
    assert_eq!(calls.len(), count("GET") + count("POST") + count("PUT"));
    let renewal = &calls[5].body;
    assert!(renewal["metadata"]["resourceVersion"].is_string());
    let identity = renewal["spec"]["holderIdentity"].as_str().unwrap();
    let (host, random) = identity.rsplit_once('_').unwrap();
    assert!(!host.is_empty() && random.len() == 36, "{identity}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_is_taken_ends_with_an_error_and_does_no_more_work() {
    let stage = Stage::on_pipe(8);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let leader = stage.start("a", PLAIN);
    stage.until_initialized("n1").await;
    pass(60).await;
    stage.give_lease(LEASE, "thief");
    let from = Instant::now();
    let ended = leader.ended().await;
    assert!(matches!(ended, Err(ManagerError::Lost(_))), "{ended:?}");
    assert_eq!(ended.unwrap_err().to_string(), "leaderelection lost");
    assert!(from.elapsed() <= Duration::from_secs(3));
    let (mark, calls) = (stage.mark(), stage.cloud.calls().len());
    stage.join("n2");
    stage.cloud.say("n2", Answer::Runs("10.0.0.2"));
    pass(600).await;
    assert_eq!(stage.transcript_from(mark), "", "nothing is left running");
    assert_eq!(stage.cloud.calls().len(), calls);
    assert_eq!(stage.holder(LEASE), "thief");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_gives_up_after_the_renew_deadline() {
    let stage = Stage::on_pipe(9);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let leader = stage.start("a", PLAIN);
    stage.until_initialized("n1").await;
    pass(31).await;
    let failing = Action::Status {
        code: 500,
        headers: [].into(),
        body: None,
    };
    stage
        .world
        .faults
        .add(Rule::new(failing).on("*", LEASES))
        .unwrap();
    let from = Instant::now();
    let ended = leader.ended().await;
    assert!(matches!(ended, Err(ManagerError::Lost(_))), "{ended:?}");
    let waited = from.elapsed();
    let range = Duration::from_secs(8)..=Duration::from_secs(10);
    assert!(range.contains(&waited), "{waited:?}");
}
