//! Nodes whose machines are off, gone, or not to be seen.

use std::time::Duration;

use bowline_scenarios::objects::{SHUTDOWN, has_taint};
use bowline_scenarios::{TestCluster, is_real, scenario, status};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_triton::State;

use crate::stage::{A_WHILE, Stage, name};

/// Makes calls to the data center go wrong.
fn fail(stage: &Stage, method: &str, path: &str, action: Action) {
    let rule = Rule::new(action).server("triton").on(method, path);
    stage.fault(rule);
}

#[scenario]
async fn a_stopped_machine_taints_its_node_until_it_runs_and_is_ready_again() {
    let stage = Stage::new(3).await;
    stage.joined(1).await;
    stage.cloud.stop("k8s-1").unwrap();
    stage.shutdown_taint("k8s-1", true).await;
    stage.cloud.start("k8s-1").unwrap();
    stage.until_ready("k8s-1", "True").await;
    stage.shutdown_taint("k8s-1", false).await;
    assert_eq!(stage.told("k8s-1", "DeletingNode"), 0);
    stage.end().await;
}

#[scenario]
async fn a_machine_that_only_cannot_be_reached_is_neither_off_nor_gone() {
    let stage = Stage::new(3).await;
    stage.put_known(1, "Unknown").await;
    for state in [State::Offline, State::Stopping, State::Unknown] {
        stage.cloud.set_state("k8s-1", state).unwrap();
        stage.until_listed(2).await;
        let node = stage.node("k8s-1");
        assert!(!has_taint(&node, SHUTDOWN), "{state:?}");
    }
    stage.end().await;
}

#[scenario]
async fn a_destroyed_machine_takes_its_node_with_it() {
    let stage = Stage::new(3).await;
    stage.joined(1).await;
    stage.joined(2).await;
    stage.cloud.destroy("k8s-1").unwrap();
    stage.until_deleted("k8s-1").await;
    let message = stage.message("k8s-1", "DeletingNode").await;
    let wanted = "Deleting node k8s-1 because it does not exist in the cloud provider";
    assert_eq!(message, wanted);
    assert!(stage.find("k8s-2").is_some());
    stage.end().await;
}

#[scenario]
async fn a_machine_that_is_not_found_is_gone_only_if_a_whole_list_says_so_too() {
    let stage = Stage::new(3).await;
    stage.put_known(1, "False").await;
    stage.put_known(2, "True").await;
    stage.put_known(3, "True").await;
    stage.until_listed(1).await;
    fail(&stage, "GET", "/acme/machines", status(403));
    stage.cloud.forget("k8s-1").unwrap();
    stage.until_listed(2).await;
    stage.long(A_WHILE).await;
    assert!(stage.find("k8s-1").is_some());
    assert_eq!(stage.told("k8s-1", "DeletingNode"), 0);
    stage.world.faults.clear();
    stage.until_deleted("k8s-1").await;
    stage.end().await;
}

#[scenario]
async fn a_machine_whose_image_is_lost_and_refusals_prove_nothing() {
    let lost = async {
        let stage = Stage::new(3).await;
        stage.cloud.lose_image("k8s-1", true).unwrap();
        stage.put_known(1, "False").await;
        stage.until_listed(2).await;
        stage.long(A_WHILE).await;
        assert!(stage.find("k8s-1").is_some());
        stage.end().await;
    };
    let refused = async |code: u16| {
        let stage = Stage::new(3).await;
        stage.cloud.destroy("k8s-1").unwrap();
        fail(&stage, "*", "*", status(code));
        stage.put_known(1, "False").await;
        // That one is there and proves the account.
        stage.put_known(2, "False").await;
        stage.long(A_WHILE).await;
        assert!(stage.find("k8s-1").is_some(), "{code}");
        stage.world.faults.clear();
        stage.until_deleted("k8s-1").await;
        stage.end().await;
    };
    futures::join!(lost, refused(401), refused(500));
}

#[scenario]
async fn many_machines_that_vanish_at_once_are_not_believed_for_ten_minutes() {
    let stage = Stage::new(5).await;
    for number in 1..=5 {
        stage.put_known(number, "False").await;
    }
    stage.until_listed(2).await;
    for number in 1..=5 {
        stage.cloud.forget(&name(number)).unwrap();
    }
    let begun = stage.world.clock.now();
    let left = |it: &TestCluster| {
        (1..=5)
            .filter(|number| it.find(&name(*number)).is_some())
            .count()
    };
    if is_real() {
        stage.long(A_WHILE).await;
        assert_eq!(left(&stage), 5);
        return stage.end().await;
    }
    stage.until("the first three go", |it| left(it) <= 2).await;
    assert!(stage.since(begun) >= Duration::from_secs(600));
    assert_eq!(left(&stage), 2, "no more than the budget allows");
    stage.until("the others go", |it| left(it) == 0).await;
    assert!(stage.since(begun) >= Duration::from_secs(1200));
    stage.end().await;
}

#[scenario]
async fn without_a_change_feed_machines_are_asked_about_all_the_same() {
    let mut stage = Stage::idle(3, "", &[]).await;
    stage.cloud.set_quirks(|quirks| quirks.no_changefeed = true);
    stage.start().await;
    stage.joined(1).await;
    stage.cloud.stop("k8s-1").unwrap();
    stage.shutdown_taint("k8s-1", true).await;
    stage.cloud.destroy("k8s-1").unwrap();
    stage.until_deleted("k8s-1").await;
    stage.end().await;
}
