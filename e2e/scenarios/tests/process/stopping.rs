//! The signal to stop: what is under way is finished, within limits, and the lease is given back unless
//! something was left under way.

use std::time::Duration;

use bowline_scenarios::cloud::Script;
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{LEASE, TestCluster, scenario};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;

use crate::process::{ALONE, PLAIN, check, join, stop};

#[scenario]
async fn a_write_that_is_under_way_is_finished() {
    for flags in [PLAIN, ALONE] {
        let bench = TestCluster::for_replicas(1).await;
        join(&bench, "n1").await;
        let (least, most) = (Duration::from_secs(4), Duration::from_secs(4));
        let slow = Rule::new(Action::Delay { least, most });
        bench.fault(slow.on("PATCH", "/api/v1/nodes/n1"));
        let manager = bench.replica("a", flags).await;
        let addresses = Filter::any()
            .method("PATCH")
            .path("/api/v1/nodes/n1/status");
        bench.until_called("the addresses", &addresses).await;
        bench.pass(Duration::from_millis(500)).await;
        let took = stop(&bench, manager).await;
        assert!(bench.is_initialized("n1"), "it was waited for");
        check(&bench, took, 3..=6);
        assert!(
            !bench.events_of("Synced").is_empty(),
            "and its event was written"
        );
        assert_eq!(bench.holder(LEASE), "");
        let calls = bench.entries();
        if flags == PLAIN {
            let release = calls.iter().rposition(|call| call.method == "PUT").unwrap();
            let write = calls
                .iter()
                .rposition(|call| call.method == "PATCH")
                .unwrap();
            assert!(write < release, "the lease is released after the work");
        }
    }
}

#[scenario]
async fn a_look_up_that_hangs_is_abandoned_and_the_lease_is_given_back() {
    for flags in [PLAIN, ALONE] {
        let bench = TestCluster::for_replicas(2).await;
        bench.cloud().say("n1", Script::Hang);
        bench.put(fresh("n1")).await;
        let manager = bench.replica("a", flags).await;
        bench
            .until("the look-up", |it| it.cloud().calls() > 0)
            .await;
        let took = stop(&bench, manager).await;
        check(&bench, took, 0..=10);
        assert_eq!(bench.holder(LEASE), "");
    }
}

#[scenario]
async fn a_write_that_hangs_is_abandoned_after_the_grace_period_and_the_lease_runs_out() {
    for flags in [PLAIN, ALONE] {
        let bench = TestCluster::for_replicas(3).await;
        join(&bench, "n1").await;
        let hang = Rule::new(Action::Hang).on("PATCH", "/api/v1/nodes/n1/status");
        bench.fault(hang);
        let manager = bench.replica("a", flags).await;
        bench
            .until("the look-up", |it| it.cloud().calls() > 0)
            .await;
        bench.seconds(1).await;
        let took = stop(&bench, manager).await;
        check(&bench, took, 9..=14);
        // It may yet take effect, so that nobody is to lead before the lease has run out.
        let is_kept = !bench.holder(LEASE).is_empty();
        assert_eq!(is_kept, flags == PLAIN);
    }
}

#[scenario]
async fn a_manager_that_has_not_seen_the_nodes_yet_stops_at_once() {
    for flags in [PLAIN, ALONE] {
        let bench = TestCluster::for_replicas(4).await;
        let hang = Rule::new(Action::Hang).on("GET", "/api/v1/nodes");
        bench.fault(hang);
        let manager = bench.replica("a", flags).await;
        let healthy = Filter::any().path("/healthz");
        bench
            .until_called("the look at the API server", &healthy)
            .await;
        bench.seconds(3).await;
        let took = stop(&bench, manager).await;
        check(&bench, took, 0..=1);
        assert_eq!(bench.holder(LEASE), "");
    }
}

#[scenario]
async fn a_standby_stops_at_once_and_writes_nothing() {
    let bench = TestCluster::for_replicas(5).await;
    bench.give_lease(LEASE, "another").await;
    let manager = bench.replica("a", PLAIN).await;
    bench.seconds(5).await;
    let took = stop(&bench, manager).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let calls = bench.calls_of("a", 0);
    assert!(calls.iter().all(|call| !call.is_mutating()));
}

#[scenario]
async fn an_api_server_that_is_away_does_not_hold_up_the_end() {
    let bench = TestCluster::for_replicas(6).await;
    let manager = bench.replica("a", PLAIN).await;
    bench.until_held(LEASE, "").await;
    bench.seconds(5).await;
    bench.fault(Rule::new(Action::Hang).on("*", "*"));
    let took = stop(&bench, manager).await;
    check(&bench, took, 0..=10);
}

#[scenario]
async fn when_work_under_the_second_lease_hangs_only_the_first_one_is_given_back() {
    let bench = TestCluster::for_replicas(7).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let second = bench.cluster.names().own("second");
    let text = format!(
        "apiVersion: controllermanager.config.k8s.io/v1\n\
             kind: LeaderMigrationConfiguration\nleaderName: {second}\n\
             controllerLeaders: [{{name: cloud-node-controller, component: '*'}}]\n"
    );
    std::fs::write(file.path(), text).unwrap();
    let path = format!("--leader-migration-config={}", file.path().display());
    join(&bench, "n1").await;
    let hang = Rule::new(Action::Hang).on("PATCH", "/api/v1/nodes/n1/status");
    bench.fault(hang);
    let flags = ["--enable-leader-migration", &path];
    let manager = bench.replica("a", &flags).await;
    bench.until_held("second", "").await;
    bench.seconds(5).await;
    let took = stop(&bench, manager).await;
    check(&bench, took, 0..=14);
    assert_eq!(bench.holder(LEASE), "");
    assert_ne!(bench.holder("second"), "");
}
