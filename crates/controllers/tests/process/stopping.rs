//! The signal to stop: what is under way is finished, within limits, and the lease is given back.

use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;

use crate::cloud::Answer;
use crate::stage::{LEASE, Stage, UNINITIALIZED, has_taint, pass};

const PLAIN: &[&str] = &["--secure-port=0"];
const ALONE: &[&str] = &["--secure-port=0", "--leader-elect=false"];

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_under_way_is_finished() {
    for flags in [PLAIN, ALONE] {
        let stage = Stage::on_pipe(1);
        stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
        stage.join("n1");
        let slow = Action::Delay {
            least: seconds(4),
            most: seconds(4),
        };
        let slow = Rule::new(slow).on("PATCH", "/api/v1/nodes/n1");
        stage.world.faults.add(slow).unwrap();
        let manager = stage.start("a", flags);
        let addresses = Filter::any()
            .method("PATCH")
            .path("/api/v1/nodes/n1/status");
        stage.until_called("the addresses", &addresses).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (ended, took) = manager.stop().await;
        ended.unwrap();
        let node = stage.node("n1").unwrap();
        assert!(
            !has_taint(&node, UNINITIALIZED),
            "the write arrived and was waited for"
        );
        assert!(took >= seconds(3) && took <= seconds(6), "{took:?}");
        assert!(
            !stage.events("Synced").is_empty(),
            "and its event was written"
        );
        assert_eq!(stage.holder(LEASE), "");
        let calls = stage.world.journal.entries();
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

#[tokio::test(start_paused = true)]
async fn a_look_up_that_hangs_is_abandoned_and_the_lease_is_given_back() {
    for flags in [PLAIN, ALONE] {
        let stage = Stage::on_pipe(2);
        stage.cloud.say("n1", Answer::Hangs);
        stage.join("n1");
        let manager = stage.start("a", flags);
        stage
            .until("the watch", || {
                (!stage.cloud.calls().is_empty()).then_some(())
            })
            .await;
        let (ended, took) = manager.stop().await;
        ended.unwrap();
        assert!(took <= seconds(10), "{took:?}");
        assert_eq!(stage.holder(LEASE), "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_is_abandoned_after_the_grace_period() {
    for flags in [PLAIN, ALONE] {
        let stage = Stage::on_pipe(3);
        stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
        stage.join("n1");
        let hang = Rule::new(Action::Hang).on("PATCH", "/api/v1/nodes/n1/status");
        stage.world.faults.add(hang).unwrap();
        let manager = stage.start("a", flags);
        stage
            .until("the look-up", || {
                (!stage.cloud.calls().is_empty()).then_some(())
            })
            .await;
        pass(1).await;
        let (ended, took) = manager.stop().await;
        ended.unwrap();
        assert!(took >= seconds(9) && took <= seconds(14), "{took:?}");
        assert_eq!(stage.holder(LEASE), "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_has_not_seen_the_nodes_yet_stops_at_once() {
    for flags in [PLAIN, ALONE] {
        let stage = Stage::on_pipe(4);
        let hang = Rule::new(Action::Hang).on("GET", "/api/v1/nodes");
        stage.world.faults.add(hang).unwrap();
        let manager = stage.start("a", flags);
        let healthy = Filter::any().path("/healthz");
        stage
            .until_called("the look at the API server", &healthy)
            .await;
        pass(3).await;
        let (ended, took) = manager.stop().await;
        ended.unwrap();
        assert!(took <= seconds(1), "{took:?}");
        assert_eq!(stage.holder(LEASE), "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_stops_at_once_and_writes_nothing() {
    let stage = Stage::on_pipe(5);
    stage.give_lease(LEASE, "another");
    let manager = stage.start("a", PLAIN);
    pass(5).await;
    let (ended, took) = manager.stop().await;
    ended.unwrap();
    assert!(took <= Duration::from_millis(100), "{took:?}");
    assert!(
        stage
            .calls_of("a", 0)
            .iter()
            .all(|call| !call.is_mutating())
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_does_not_hold_up_the_end() {
    let stage = Stage::on_pipe(6);
    let manager = stage.start("a", PLAIN);
    stage.until_held(LEASE, "").await;
    pass(5).await;
    stage
        .world
        .faults
        .add(Rule::new(Action::Hang).on("*", "*"))
        .unwrap();
    let (ended, took) = manager.stop().await;
    ended.unwrap();
    assert!(took <= seconds(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn both_leases_are_given_back_even_when_work_under_the_second_one_hangs() {
    let stage = Stage::on_pipe(7);
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "apiVersion: controllermanager.config.k8s.io/v1\n\
                kind: LeaderMigrationConfiguration\nleaderName: second\n\
                controllerLeaders: [{name: cloud-node-controller, component: '*'}]\n";
    std::fs::write(file.path(), text).unwrap();
    let path = format!("--leader-migration-config={}", file.path().display());
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let hang = Rule::new(Action::Hang).on("PATCH", "/api/v1/nodes/n1/status");
    stage.world.faults.add(hang).unwrap();
    let manager = stage.start(
        "a",
        &["--secure-port=0", "--enable-leader-migration", &path],
    );
    stage.until_held("second", "").await;
    pass(5).await;
    let (ended, took) = manager.stop().await;
    ended.unwrap();
    assert!(took <= seconds(14), "{took:?}");
    assert_eq!(
        (stage.holder(LEASE), stage.holder("second")),
        (String::new(), String::new())
    );
}
