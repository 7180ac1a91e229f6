//! Several replicas and one lease.

use std::time::Duration;

use bowline_controllers::manager::ManagerError;
use bowline_scenarios::cloud::runs;
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{LEASE, TestCluster, is_real, refuse, scenario};
use bowline_simulator::journal::Filter;
use tokio::time::Instant;

use crate::process::{ALONE, PLAIN, check, join, seeds, stop};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases*";

#[scenario]
async fn framework_case_118_a_killed_leader_is_replaced_after_13_to_24_seconds() {
    for seed in seeds(5) {
        let bench = TestCluster::for_replicas(seed).await;
        let leader = bench.replica("a", PLAIN).await;
        let first = bench.until_held(LEASE, "").await;
        let standby = bench.replica("b", PLAIN).await;
        bench.seconds(61 + seed).await;
        let before = bench.lease(LEASE)["leaseTransitions"].as_u64().unwrap();
        leader.kill().await;
        let killed = Instant::now();
        bench.until_held(LEASE, &first).await;
        let waited = killed.elapsed();
        check(&bench, waited, 13..=24);
        let spec = bench.lease(LEASE);
        assert_eq!(spec["leaseTransitions"], before + 1);
        assert_eq!(spec["leaseDurationSeconds"], 15);
        // And it works: a node that joins now is initialised by the new leader.
        join(&bench, "n1").await;
        bench.until_initialized("n1").await;
        assert!(standby.leads());
        stop(&bench, standby).await;
    }
}

#[scenario]
async fn framework_case_118_a_leader_that_is_asked_to_stop_is_replaced_within_five_seconds() {
    let bench = TestCluster::for_replicas(1).await;
    let leader = bench.replica("a", PLAIN).await;
    let first = bench.until_held(LEASE, "").await;
    let standby = bench.replica("b", PLAIN).await;
    bench.seconds(30).await;
    let asked = Instant::now();
    stop(&bench, leader).await;
    bench.until_held(LEASE, &first).await;
    check(&bench, asked.elapsed(), 0..=5);
    let lease = Filter::any().path(LEASES);
    let released = bench.matching(&lease.caller("a")).pop().unwrap().body;
    assert_eq!(released["spec"]["holderIdentity"], "");
    assert_eq!(released["spec"]["leaseDurationSeconds"], 1);
    assert_eq!(bench.lease(LEASE)["leaseTransitions"], 1);
    stop(&bench, standby).await;

    let reported = |message: &str| {
        let events = bench.events_of("LeaderElection");
        let found = |event: &&serde_json::Value| event["message"] == message;
        events
            .iter()
            .find(found)
            .cloned()
            .unwrap_or_else(|| panic!("{message}: {events:?}"))
    };
    for message in ["became leader", "stopped leading"] {
        let event = reported(&format!("{first} {message}"));
        assert_eq!(event["metadata"]["namespace"], "kube-system");
        assert_eq!(event["source"]["component"], "cloud-controller-manager");
        assert_eq!(event["type"], "Normal");
        assert_eq!(event["involvedObject"]["kind"], "Lease");
        assert_eq!(event["involvedObject"]["name"], LEASE);
    }
}

#[scenario]
async fn framework_case_117_of_several_replicas_one_works_and_the_others_only_look() {
    let bench = TestCluster::for_replicas(2).await;
    let leader = bench.replica("a", PLAIN).await;
    bench.until_held(LEASE, "").await;
    let standbys = [
        bench.replica("b", PLAIN).await,
        bench.replica("c", PLAIN).await,
    ];
    join(&bench, "n1").await;
    bench.until_initialized("n1").await;
    bench.long(120).await;
    for standby in &standbys {
        let calls = bench.calls_of(&standby.name, 0);
        assert!(calls.len() > 10, "it looks again and again");
        for call in calls {
            assert_eq!(
                (call.method.as_str(), call.path.contains("/leases/")),
                ("GET", true)
            );
        }
        assert!(!standby.leads());
    }
    for replica in standbys.into_iter().chain([leader]) {
        stop(&bench, replica).await;
    }
    assert_eq!(bench.holder(LEASE), "");
}

#[scenario]
async fn framework_case_119_an_api_server_that_stays_sick_ends_the_start_after_ten_seconds() {
    for flags in [ALONE, PLAIN] {
        let bench = TestCluster::for_replicas(3).await;
        bench.fault(refuse(500, "GET", "/healthz"));
        let from = Instant::now();
        let manager = bench.replica("a", flags).await;
        let ended = manager.ended().await;
        assert!(
            matches!(ended, Err(ManagerError::Unhealthy(_))),
            "{ended:?}"
        );
        check(&bench, from.elapsed(), 10..=12);
        bench.catch_up().await;
        assert_eq!(bench.holder(LEASE), "", "the lease is given back");
        let nodes = Filter::any().path("/api/v1/nodes*");
        assert_eq!(bench.count(&nodes), 0);
    }
}

#[scenario]
async fn framework_case_119_an_api_server_that_recovers_in_time_is_waited_for() {
    let bench = TestCluster::for_replicas(4).await;
    bench.fault(refuse(500, "GET", "/healthz").times(6));
    join(&bench, "n1").await;
    let manager = bench.replica("a", ALONE).await;
    bench.until_initialized("n1").await;
    stop(&bench, manager).await;
    let elections = bench.count(&Filter::any().path(LEASES));
    assert_eq!(elections, 0);
}

#[scenario]
async fn framework_case_120_the_lease_of_an_original_of_the_same_name_is_respected() {
    let bench = TestCluster::for_replicas(5).await;
    join(&bench, "n1").await;
    bench.give_lease(LEASE, "original_1").await;
    let manager = bench.replica("a", PLAIN).await;
    // Minutes of an original at work; on the real clock longer than a lease lasts.
    for _ in 0..if is_real() { 15 } else { 100 } {
        bench.give_lease(LEASE, "original_1").await;
        bench.seconds(2).await;
    }
    let calls = bench.calls_of("a", 0);
    assert!(!calls.is_empty() && calls.iter().all(|call| call.method == "GET"));
    assert_eq!(bench.cloud().calls(), 0);
    // The original goes away without releasing; then it is ours, and the count goes on.
    bench.until_held(LEASE, "original_1").await;
    assert_eq!(bench.lease(LEASE)["leaseTransitions"], 4);
    bench.until_initialized("n1").await;
    stop(&bench, manager).await;
}

#[scenario]
async fn framework_case_136_a_new_process_waits_a_whole_lease_from_its_own_start() {
    for seed in seeds(5) {
        let bench = TestCluster::for_replicas(seed).await;
        let old = bench.replica("old", PLAIN).await;
        let first = bench.until_held(LEASE, "").await;
        bench.seconds(20).await;
        old.kill().await;
        bench.seconds(25).await;
        let started = Instant::now();
        let new = bench.replica("new", PLAIN).await;
        bench.until_held(LEASE, &first).await;
        let waited = started.elapsed();
        check(&bench, waited, 15..=20);
        stop(&bench, new).await;
    }
}

#[scenario]
async fn framework_case_136_an_empty_holder_is_replaced_at_the_first_try() {
    let bench = TestCluster::for_replicas(6).await;
    bench.give_lease(LEASE, "").await;
    let started = Instant::now();
    let manager = bench.replica("a", PLAIN).await;
    bench.until_held(LEASE, "").await;
    // A second try would come after two seconds.
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(bench.lease(LEASE)["leaseTransitions"], 4);
    stop(&bench, manager).await;
}

#[scenario]
async fn the_lease_is_created_once_replaced_with_put_and_never_patched() {
    let bench = TestCluster::for_replicas(7).await;
    let manager = bench.replica("a", PLAIN).await;
    bench.until_held(LEASE, "").await;
    bench.seconds(61).await;
    stop(&bench, manager).await;
    let calls = bench.matching(&Filter::any().path(LEASES));
    let count = |method: &str| calls.iter().filter(|call| call.method == method).count();
    assert_eq!(count("GET"), 1, "one look before it is made");
    assert_eq!(count("POST"), 1);
    let renewals = if is_real() { 20..=32 } else { 30..=32 };
    assert!(renewals.contains(&count("PUT")), "{}", count("PUT"));
    assert_eq!(calls.len(), count("GET") + count("POST") + count("PUT"));
    let renewal = &calls[5].body;
    assert!(renewal["metadata"]["resourceVersion"].is_string());
    let identity = renewal["spec"]["holderIdentity"].as_str().unwrap();
    let (host, random) = identity.rsplit_once('_').unwrap();
    assert!(!host.is_empty() && random.len() == 36, "{identity}");
}

#[scenario]
async fn a_leader_whose_lease_is_taken_ends_with_an_error_and_does_no_more_work() {
    let bench = TestCluster::for_replicas(8).await;
    join(&bench, "n1").await;
    let leader = bench.replica("a", PLAIN).await;
    bench.until_initialized("n1").await;
    bench.seconds(10).await;
    bench.give_lease(LEASE, "thief").await;
    let from = Instant::now();
    let ended = leader.ended().await;
    assert!(matches!(ended, Err(ManagerError::Lost(_))), "{ended:?}");
    assert_eq!(ended.unwrap_err().to_string(), "leaderelection lost");
    check(&bench, from.elapsed(), 0..=3);
    let (mark, calls) = (bench.mark(), bench.cloud().calls());
    bench.put(fresh("n2")).await;
    bench.cloud().say("n2", runs("n2", "10.0.0.2"));
    bench.long(600).await;
    assert_eq!(bench.transcript_from(mark), "", "nothing is left running");
    assert_eq!(bench.cloud().calls(), calls);
    assert_eq!(bench.holder(LEASE), "thief");
}

#[scenario]
async fn a_leader_that_cannot_renew_gives_up_after_the_renew_deadline() {
    let bench = TestCluster::for_replicas(9).await;
    join(&bench, "n1").await;
    let leader = bench.replica("a", PLAIN).await;
    bench.until_initialized("n1").await;
    bench.seconds(31).await;
    bench.fault(refuse(500, "*", LEASES));
    let from = Instant::now();
    let ended = leader.ended().await;
    assert!(matches!(ended, Err(ManagerError::Lost(_))), "{ended:?}");
    check(&bench, from.elapsed(), 8..=10);
}
