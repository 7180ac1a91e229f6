//! Several replicas and one lease.

use std::time::Duration;

use bowline_controllers::manager::ManagerError;
use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{Bench, LEASE, Setup, is_real, refuse, scenario};
use bowline_simulator::journal::Entry;
use serde_json::{Value, json};
use tokio::time::Instant;

const MASTER: &str = "leader_election_master_status{name=\"cloud-controller-manager\"}";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases*";

async fn bench(seed: u64) -> Bench {
    let setup = Setup {
        seed,
        ..Setup::default()
    };
    let bench = Bench::set_up(setup).await;
    bench.cloud().say("n1", found("demo://m-1"));
    bench
}

fn found(id: &str) -> Script {
    Script::Machine(machine(id, &["InternalIP:10.0.0.1"]))
}

/// Jitter depends on the seed; on a real server it is as it is.
fn seeds() -> std::ops::Range<u64> {
    0..if is_real() { 1 } else { 5 }
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn calls_of(bench: &Bench, name: &str) -> Vec<Entry> {
    let entries = bench.entries().into_iter();
    entries.filter(|call| call.caller == name).collect()
}

fn lease_calls(bench: &Bench) -> Vec<Entry> {
    let entries = bench.entries().into_iter();
    entries
        .filter(|call| call.path.contains("/namespaces/kube-system/leases"))
        .collect()
}

fn node_calls(bench: &Bench) -> usize {
    let entries = bench.entries();
    let about = |call: &&Entry| call.path.starts_with("/api/v1/nodes");
    entries.iter().filter(about).count()
}

#[test]
fn framework_case_118_a_killed_leader_is_replaced_after_13_to_24_seconds() {
    scenario!(async || {
        for seed in seeds() {
            let bench = bench(seed).await;
            let leader = bench.replica("a", &[]).await;
            let first = bench.until_held("").await;
            let standby = bench.replica("b", &[]).await;
            bench.seconds(if is_real() { 10 } else { 61 + seed }).await;
            let before = bench.lease()["leaseTransitions"].as_u64().unwrap();
            leader.kill().await;
            let killed = Instant::now();
            bench.until_held(&first).await;
            let waited = killed.elapsed();
            let range = seconds(13)..=seconds(24) + bench.slack();
            assert!(range.contains(&waited), "seed {seed}: {waited:?}");
            let spec = bench.lease();
            assert_eq!(spec["leaseTransitions"], before + 1);
            assert_eq!(spec["leaseDurationSeconds"], 15);
            // And it works: a node that joins now is initialised by the new leader.
            bench.put(fresh("n1")).await;
            bench.until_initialized("n1").await;
            assert_eq!(standby.metric(MASTER), Some(1.0));
            standby.stop().await.0.unwrap();
        }
    });
}

#[test]
fn framework_case_118_a_leader_that_is_asked_to_stop_is_replaced_within_five_seconds() {
    scenario!(async || {
        let bench = bench(1).await;
        let leader = bench.replica("a", &[]).await;
        let first = bench.until_held("").await;
        let standby = bench.replica("b", &[]).await;
        bench.seconds(if is_real() { 10 } else { 30 }).await;
        let asked = Instant::now();
        let (ended, _) = leader.stop().await;
        ended.unwrap();
        let release = lease_calls(&bench).into_iter();
        let mut release = release.filter(|call| call.method == "PUT" && call.caller == "a");
        let released = release.next_back().unwrap().body["spec"].clone();
        assert_eq!(
            (
                &released["holderIdentity"],
                &released["leaseDurationSeconds"]
            ),
            (&json!(""), &json!(1))
        );
        bench.until_held(&first).await;
        let waited = asked.elapsed();
        assert!(waited <= seconds(5) + bench.slack(), "{waited:?}");
        assert_eq!(bench.lease()["leaseTransitions"], 1);
        standby.stop().await.0.unwrap();
        bench.seconds(1).await;

        let told = |message: &str| {
            let events = bench.cluster.events(LEASE);
            let found = |event: &&Value| event["message"] == message;
            let event = events.iter().find(found).cloned();
            event.unwrap_or_else(|| panic!("{message}: {events:?}"))
        };
        for message in ["became leader", "stopped leading"] {
            let event = told(&format!("{first} {message}"));
            assert_eq!(event["reason"], "LeaderElection");
            assert_eq!(event["metadata"]["namespace"], "kube-system");
            assert_eq!(event["source"]["component"], "cloud-controller-manager");
            assert_eq!(event["type"], "Normal");
            assert_eq!(event["involvedObject"]["kind"], "Lease");
            assert_eq!(event["involvedObject"]["name"], LEASE);
        }
    });
}

#[test]
fn framework_case_117_of_several_replicas_one_works_and_the_others_only_look() {
    scenario!(async || {
        let bench = bench(2).await;
        let leader = bench.replica("a", &[]).await;
        bench.until_held("").await;
        let standbys = [bench.replica("b", &[]).await, bench.replica("c", &[]).await];
        bench.put(fresh("n1")).await;
        bench.until_initialized("n1").await;
        bench.long(120).await;
        for standby in &standbys {
            let calls = calls_of(&bench, &standby.name);
            assert!(calls.len() > 10, "it looks again and again");
            for call in calls {
                assert_eq!(
                    (call.method.as_str(), call.path.contains("/leases/")),
                    ("GET", true)
                );
            }
            assert_eq!(standby.metric(MASTER), Some(0.0));
        }
        for replica in standbys.into_iter().chain([leader]) {
            replica.stop().await.0.unwrap();
        }
        bench.seconds(1).await;
        assert_eq!(bench.holder(), "");
    });
}

#[test]
fn framework_case_119_an_api_server_that_stays_sick_ends_the_start_after_ten_seconds() {
    scenario!(async || {
        for flags in [&["--leader-elect=false"][..], &[]] {
            let bench = bench(3).await;
            bench.fault(refuse(500, "GET", "/healthz"));
            let from = Instant::now();
            let manager = bench.replica("a", flags).await;
            let ended = manager.ended().await;
            assert!(
                matches!(ended, Err(ManagerError::Unhealthy(_))),
                "{ended:?}"
            );
            let waited = from.elapsed();
            let range = seconds(10)..seconds(13) + bench.slack();
            assert!(range.contains(&waited), "{waited:?}");
            bench.seconds(1).await;
            assert_eq!(bench.holder(), "", "the lease is given back");
            assert_eq!(node_calls(&bench), 0);
        }
    });
}

#[test]
fn framework_case_119_an_api_server_that_recovers_in_time_is_waited_for() {
    scenario!(async || {
        let bench = bench(4).await;
        bench.fault(refuse(500, "GET", "/healthz").times(6));
        bench.put(fresh("n1")).await;
        let manager = bench.replica("a", &["--leader-elect=false"]).await;
        bench.until_initialized("n1").await;
        manager.stop().await.0.unwrap();
        assert_eq!(lease_calls(&bench), [], "no election");
    });
}

#[test]
fn framework_case_120_the_lease_of_an_original_of_the_same_name_is_respected() {
    scenario!(async || {
        let bench = bench(5).await;
        bench.put(fresh("n1")).await;
        bench.give_lease("original_1").await;
        let manager = bench.replica("a", &[]).await;
        for _ in 0..if is_real() { 20 } else { 100 } {
            bench.give_lease("original_1").await;
            bench.seconds(2).await;
        }
        let calls = calls_of(&bench, "a");
        assert!(!calls.is_empty() && calls.iter().all(|call| call.method == "GET"));
        assert_eq!(bench.cloud().calls(), 0);
        // The original goes away without releasing; then it is ours, and the count goes on.
        bench.until_held("original_1").await;
        assert_eq!(bench.lease()["leaseTransitions"], 4);
        bench.until_initialized("n1").await;
        manager.stop().await.0.unwrap();
    });
}

#[test]
fn framework_case_136_a_new_process_waits_a_whole_lease_from_its_own_start() {
    scenario!(async || {
        for seed in seeds() {
            let bench = bench(seed).await;
            let old = bench.replica("old", &[]).await;
            let first = bench.until_held("").await;
            bench.seconds(20).await;
            old.kill().await;
            bench.seconds(25).await;
            let started = Instant::now();
            let new = bench.replica("new", &[]).await;
            bench.until_held(&first).await;
            let waited = started.elapsed();
            let range = seconds(15)..=seconds(20) + bench.slack();
            assert!(range.contains(&waited), "seed {seed}: {waited:?}");
            new.stop().await.0.unwrap();
        }
    });
}

#[test]
fn framework_case_136_an_empty_holder_is_replaced_at_the_first_try() {
    scenario!(async || {
        let bench = bench(6).await;
        bench.give_lease("").await;
        let started = Instant::now();
        let manager = bench.replica("a", &[]).await;
        bench.until_held("").await;
        let waited = started.elapsed();
        assert!(
            waited < Duration::from_millis(100) + bench.slack(),
            "{waited:?}"
        );
        assert_eq!(bench.lease()["leaseTransitions"], 4);
        let calls = lease_calls(&bench);
        let methods: Vec<&str> = calls.iter().map(|call| call.method.as_str()).collect();
        assert_eq!(methods[..2], ["GET", "PUT"], "at the first try");
        manager.stop().await.0.unwrap();
    });
}

#[test]
fn the_lease_is_created_once_replaced_with_put_and_never_patched() {
    scenario!(async || {
        let bench = bench(7).await;
        let manager = bench.replica("a", &[]).await;
        bench.until_held("").await;
        bench.seconds(61).await;
        manager.stop().await.0.unwrap();
        let calls = lease_calls(&bench);
        let count = |method: &str| calls.iter().filter(|call| call.method == method).count();
        assert_eq!(count("GET"), 1, "one look before it is made");
        assert_eq!(count("POST"), 1);
        let least = if is_real() { 20 } else { 30 };
        assert!((least..=32).contains(&count("PUT")), "{}", count("PUT"));
        assert_eq!(calls.len(), count("GET") + count("POST") + count("PUT"));
        let renewal = &calls[5].body;
        assert!(renewal["metadata"]["resourceVersion"].is_string());
        let identity = renewal["spec"]["holderIdentity"].as_str().unwrap();
        let (host, random) = identity.rsplit_once('_').unwrap();
        assert!(!host.is_empty() && random.len() == 36, "{identity}");
    });
}

#[test]
fn a_leader_whose_lease_is_taken_ends_with_an_error_and_does_no_more_work() {
    scenario!(async || {
        let bench = bench(8).await;
        bench.put(fresh("n1")).await;
        let leader = bench.replica("a", &[]).await;
        bench.until_initialized("n1").await;
        bench.seconds(if is_real() { 10 } else { 60 }).await;
        bench.give_lease("thief").await;
        let from = Instant::now();
        let ended = leader.ended().await;
        assert!(matches!(ended, Err(ManagerError::Lost(_))), "{ended:?}");
        assert_eq!(ended.unwrap_err().to_string(), "leaderelection lost");
        assert!(from.elapsed() <= seconds(3) + bench.slack());
        let (mark, asked) = (bench.entries().len(), bench.cloud().calls());
        bench.cloud().say("n2", found("demo://m-2"));
        bench.put(fresh("n2")).await;
        bench.long(600).await;
        assert_eq!(bench.entries()[mark..], [], "nothing is left running");
        assert_eq!(bench.cloud().calls(), asked);
        assert_eq!(bench.holder(), "thief");
    });
}

#[test]
fn a_leader_that_cannot_renew_gives_up_after_the_renew_deadline() {
    scenario!(async || {
        let bench = bench(9).await;
        bench.put(fresh("n1")).await;
        let leader = bench.replica("a", &[]).await;
        bench.until_initialized("n1").await;
        bench.seconds(if is_real() { 5 } else { 31 }).await;
        bench.fault(refuse(500, "*", LEASES));
        let from = Instant::now();
        let ended = leader.ended().await;
        assert!(matches!(ended, Err(ManagerError::Lost(_))), "{ended:?}");
        let waited = from.elapsed();
        let range = seconds(8)..=seconds(10) + bench.slack();
        assert!(range.contains(&waited), "{waited:?}");
    });
}
