//! The check at the start.

use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_xenorchestra::{DEFAULT_TOKEN, Quirks, User};
use bowline_xenorchestra::Config;

use crate::harness::{AUTHORITY, Harness, cannot_tell, found, status, w1, wait};

fn config() -> Config {
    let file = format!("url: http://xo.sim\ntoken: {DEFAULT_TOKEN}\nevents: no\n");
    Config::of_file(&file).unwrap()
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_19_a_server_that_shows_nothing_is_a_server() {
    let test = Harness::raw(&config(), Quirks::default(), AUTHORITY);
    test.sim.set_user("svc", User::with("x", &[]));
    test.sim.set_token(DEFAULT_TOKEN, "svc");
    test.settle().await;
    assert_eq!(test.cloud.ready(), Ok(()));
    let calls = test.world.journal.entries();
    assert_eq!(calls[0].path, "/rest/v0/vms");
    assert_eq!(calls[0].status, 200);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_84_a_server_without_a_licence_is_told_of_and_nothing_is_gone() {
    let test = Harness::raw(&config(), Quirks::default(), AUTHORITY);
    test.fault("/rest/v0/*", status(403, "feature Unauthorized"));
    let event = test.cloud.next_event().await;
    assert_eq!(event.reason, "FailedToCheckClient");
    let unlicensed = "feature Unauthorized";
    assert!(event.message.contains(unlicensed), "{}", event.message);
    let unready = test.cloud.ready().unwrap_err();
    assert!(unready.contains(unlicensed), "{unready}");
    cannot_tell(test.presence(&w1()).await);
    test.cloud.next_event().await;
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_20_a_server_that_is_down_is_told_of_and_checked_again() {
    let test = Harness::raw(&config(), Quirks::default(), AUTHORITY);
    let rule = |action| Rule::new(action).named("fault").on("*", "/rest/v0/*");
    test.world.faults.add(rule(Action::Reset)).unwrap();
    let first = test.cloud.next_event().await;
    assert_eq!(first.series.as_ref().unwrap().action, "CheckClient");
    assert_eq!(first.reason, "FailedToCheckClient");
    let start = "Failed to check Xen Orchestra client: xenorchestra: GET vms ";
    assert!(first.message.starts_with(start), "{}", first.message);
    let second = test.cloud.next_event().await;
    assert_eq!(second.series, first.series);
    cannot_tell(test.presence(&w1()).await);
    test.world.faults.clear();
    test.settle().await;
    found(test.presence(&w1()).await);
    let next = test.cloud.next_event();
    assert!(
        tokio::time::timeout(Duration::from_secs(3600), next)
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn checks_become_patient() {
    let test = Harness::raw(&config(), Quirks::default(), AUTHORITY);
    test.fault("/rest/v0/*", status(401, "invalid credentials"));
    wait(Duration::from_secs(3600)).await;
    let checks = test.calls().len();
    assert!((40..100).contains(&checks), "{checks} in an hour");
}
