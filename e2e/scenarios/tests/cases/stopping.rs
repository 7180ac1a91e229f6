//! The signal to stop: what is under way is finished, within limits, and the lease is given back.

use std::time::Duration;

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{Bench, LEASE, scenario, slow};
use bowline_simulator::faults::{Action, Rule};

const COMPETING: &[&str] = &[];
const ALONE: &[&str] = &["--leader-elect=false"];
const STATUS: &str = "/api/v1/nodes/n1/status";

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Everything but a manager, and the node n1 that the cloud knows.
async fn bench() -> Bench {
    let bench = Bench::idle(&[]).await;
    let found = machine("demo://m-1", &["InternalIP:10.0.0.1"]);
    bench.cloud().say("n1", Script::Machine(found));
    bench.put(fresh("n1")).await;
    bench
}

fn hang(method: &str, path: &str) -> Rule {
    Rule::new(Action::Hang).on(method, path)
}

#[test]
fn a_write_that_is_under_way_is_finished() {
    scenario!(async || {
        for flags in [COMPETING, ALONE] {
            let bench = bench().await;
            let slow = bench.fault(slow("PATCH", "/api/v1/nodes/n1"));
            let manager = bench.replica("a", flags).await;
            slow.struck(1).await;
            let (ended, took) = manager.stop().await;
            ended.unwrap();
            bench.cluster.catch_up().await;
            assert!(
                bench.is_initialized("n1"),
                "the write arrived and was waited for"
            );
            assert!(took <= seconds(6) + bench.slack(), "{took:?}");
            assert_eq!(bench.told("n1", "Synced"), 1, "and its event was written");
            assert_eq!(bench.holder(), "");
            let calls = bench.entries();
            let last = |method: &str| calls.iter().rposition(|call| call.method == method);
            if flags == COMPETING {
                let is_later = last("PATCH").unwrap() < last("PUT").unwrap();
                assert!(is_later, "the lease is released after the work");
            }
        }
    });
}

#[test]
fn a_look_up_that_hangs_is_abandoned_and_the_lease_is_given_back() {
    scenario!(async || {
        for flags in [COMPETING, ALONE] {
            let bench = bench().await;
            bench.cloud().take(seconds(3600));
            let manager = bench.replica("a", flags).await;
            bench
                .until("the look-up", |it| it.cloud().calls() > 0)
                .await;
            let (ended, took) = manager.stop().await;
            ended.unwrap();
            assert!(took <= seconds(10) + bench.slack(), "{took:?}");
            bench.cluster.catch_up().await;
            assert_eq!(bench.holder(), "");
        }
    });
}

#[test]
fn a_write_that_hangs_is_abandoned_after_the_grace_period() {
    scenario!(async || {
        for flags in [COMPETING, ALONE] {
            let bench = bench().await;
            let hang = bench.fault(hang("PATCH", STATUS));
            let manager = bench.replica("a", flags).await;
            hang.struck(1).await;
            let (ended, took) = manager.stop().await;
            ended.unwrap();
            let range = seconds(9)..=seconds(14) + bench.slack();
            assert!(range.contains(&took), "{took:?}");
            bench.cluster.catch_up().await;
            assert_eq!(bench.holder(), "");
        }
    });
}

#[test]
fn a_manager_that_has_not_seen_the_nodes_yet_stops_at_once() {
    scenario!(async || {
        for flags in [COMPETING, ALONE] {
            let bench = bench().await;
            let hang = bench.fault(hang("GET", "/api/v1/nodes"));
            let manager = bench.replica("a", flags).await;
            hang.struck(1).await;
            bench.seconds(3).await;
            let (ended, took) = manager.stop().await;
            ended.unwrap();
            assert!(took <= seconds(1) + bench.slack(), "{took:?}");
            bench.cluster.catch_up().await;
            assert_eq!(bench.holder(), "");
        }
    });
}

#[test]
fn a_standby_stops_at_once_and_writes_nothing() {
    scenario!(async || {
        let bench = bench().await;
        bench.give_lease("another").await;
        let manager = bench.replica("a", COMPETING).await;
        bench.seconds(5).await;
        let (ended, took) = manager.stop().await;
        ended.unwrap();
        assert!(
            took <= Duration::from_millis(100) + bench.slack(),
            "{took:?}"
        );
        let calls = bench.entries().into_iter();
        let mut calls = calls.filter(|call| call.caller == "a");
        assert!(calls.all(|call| !call.is_mutating()));
        assert_eq!(bench.holder(), "another");
    });
}

#[test]
fn an_api_server_that_is_away_does_not_hold_up_the_end() {
    scenario!(async || {
        let bench = bench().await;
        let manager = bench.replica("a", COMPETING).await;
        bench.until_held("").await;
        bench.seconds(5).await;
        bench.fault(hang("*", "*"));
        let (ended, took) = manager.stop().await;
        ended.unwrap();
        assert!(took <= seconds(10) + bench.slack(), "{took:?}");
    });
}

#[test]
fn both_leases_are_given_back_even_when_work_under_the_second_one_hangs() {
    scenario!(async || {
        let bench = bench().await;
        let second = bench.cluster.names().own("second");
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "apiVersion: controllermanager.config.k8s.io/v1\n\
             kind: LeaderMigrationConfiguration\nleaderName: {second}\n\
             controllerLeaders: [{{name: cloud-node-controller, component: '*'}}]\n"
        );
        std::fs::write(file.path(), text).unwrap();
        let path = format!("--leader-migration-config={}", file.path().display());
        let hang = bench.fault(hang("PATCH", STATUS));
        let flags = ["--enable-leader-migration", &path];
        let manager = bench.replica("a", &flags).await;
        hang.struck(1).await;
        let (ended, took) = manager.stop().await;
        ended.unwrap();
        assert!(took <= seconds(14) + bench.slack(), "{took:?}");
        bench.cluster.catch_up().await;
        for lease in [LEASE, "second"] {
            let lease = bench.cluster.lease(lease).unwrap();
            assert_eq!(lease["spec"]["holderIdentity"], "");
        }
    });
}
