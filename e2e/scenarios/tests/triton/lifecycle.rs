//! Nodes whose machines are off, gone, or not to be seen.

use std::time::Duration;

use bowline_scenarios::objects::{SHUTDOWN, has_taint};
use bowline_scenarios::{TestCluster, is_real, scenario, status};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_triton::State;

use crate::triton::harness::{A_WHILE, Harness, name};

/// Makes calls to the data center go wrong.
fn fail(test: &Harness, method: &str, path: &str, action: Action) {
    let rule = Rule::new(action).server("triton").on(method, path);
    test.fault(rule);
}

#[scenario]
async fn a_stopped_machine_taints_its_node_until_it_runs_and_is_ready_again() {
    let test = Harness::new(3).await;
    test.joined(1).await;
    test.cloud.stop("k8s-1").unwrap();
    test.shutdown_taint("k8s-1", true).await;
    test.cloud.start("k8s-1").unwrap();
    test.until_ready("k8s-1", "True").await;
    test.shutdown_taint("k8s-1", false).await;
    assert_eq!(test.event_count("k8s-1", "DeletingNode"), 0);
    test.end().await;
}

#[scenario]
async fn a_machine_that_only_cannot_be_reached_is_neither_off_nor_gone() {
    let test = Harness::new(3).await;
    test.put_known(1, "Unknown").await;
    for state in [State::Offline, State::Stopping, State::Unknown] {
        test.cloud.set_state("k8s-1", state).unwrap();
        test.until_listed(2).await;
        let node = test.node("k8s-1");
        assert!(!has_taint(&node, SHUTDOWN), "{state:?}");
    }
    test.end().await;
}

#[scenario]
async fn a_destroyed_machine_takes_its_node_with_it() {
    let test = Harness::new(3).await;
    test.joined(1).await;
    test.joined(2).await;
    test.cloud.destroy("k8s-1").unwrap();
    test.until_deleted("k8s-1").await;
    let message = test.message("k8s-1", "DeletingNode").await;
    let wanted = "Deleting node k8s-1 because it does not exist in the cloud provider";
    assert_eq!(message, wanted);
    assert!(test.find("k8s-2").is_some());
    test.end().await;
}

#[scenario]
async fn a_machine_that_is_not_found_is_gone_only_if_a_whole_list_says_so_too() {
    let test = Harness::new(3).await;
    test.put_known(1, "False").await;
    test.put_known(2, "True").await;
    test.put_known(3, "True").await;
    test.until_listed(1).await;
    fail(&test, "GET", "/acme/machines", status(403));
    test.cloud.forget("k8s-1").unwrap();
    test.until_listed(2).await;
    test.long(A_WHILE).await;
    assert!(test.find("k8s-1").is_some());
    assert_eq!(test.event_count("k8s-1", "DeletingNode"), 0);
    test.world.faults.clear();
    test.until_deleted("k8s-1").await;
    test.end().await;
}

#[scenario]
async fn a_machine_whose_image_is_lost_and_refusals_prove_nothing() {
    let lost = async {
        let test = Harness::new(3).await;
        test.cloud.lose_image("k8s-1", true).unwrap();
        test.put_known(1, "False").await;
        test.until_listed(2).await;
        test.long(A_WHILE).await;
        assert!(test.find("k8s-1").is_some());
        test.end().await;
    };
    let refused = async |code: u16| {
        let test = Harness::new(3).await;
        test.cloud.destroy("k8s-1").unwrap();
        fail(&test, "*", "*", status(code));
        test.put_known(1, "False").await;
        // That one is there and proves the account.
        test.put_known(2, "False").await;
        test.long(A_WHILE).await;
        assert!(test.find("k8s-1").is_some(), "{code}");
        test.world.faults.clear();
        test.until_deleted("k8s-1").await;
        test.end().await;
    };
    futures::join!(lost, refused(401), refused(500));
}

#[scenario]
async fn many_machines_that_vanish_at_once_are_not_believed_for_ten_minutes() {
    let test = Harness::new(5).await;
    for number in 1..=5 {
        test.put_known(number, "False").await;
    }
    test.until_listed(2).await;
    for number in 1..=5 {
        test.cloud.forget(&name(number)).unwrap();
    }
    let begun = test.world.clock.now();
    let left = |it: &TestCluster| {
        (1..=5)
            .filter(|number| it.find(&name(*number)).is_some())
            .count()
    };
    if is_real() {
        test.long(A_WHILE).await;
        assert_eq!(left(&test), 5);
        return test.end().await;
    }
    test.until("the first three go", |it| left(it) <= 2).await;
    assert!(test.since(begun) >= Duration::from_secs(600));
    assert_eq!(left(&test), 2, "no more than the budget allows");
    test.until("the others go", |it| left(it) == 0).await;
    assert!(test.since(begun) >= Duration::from_secs(1200));
    test.end().await;
}

#[scenario]
async fn without_a_change_feed_machines_are_asked_about_all_the_same() {
    let mut test = Harness::idle(3, "", &[]).await;
    test.cloud.set_quirks(|quirks| quirks.no_changefeed = true);
    test.start().await;
    test.joined(1).await;
    test.cloud.stop("k8s-1").unwrap();
    test.shutdown_taint("k8s-1", true).await;
    test.cloud.destroy("k8s-1").unwrap();
    test.until_deleted("k8s-1").await;
    test.end().await;
}
