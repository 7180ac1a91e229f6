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
    let stage = Harness::raw(&config(), Quirks::default(), AUTHORITY);
    stage.sim.set_user("svc", User::with("x", &[]));
    stage.sim.set_token(DEFAULT_TOKEN, "svc");
    stage.settle().await;
    assert_eq!(stage.cloud.ready(), Ok(()));
    let calls = stage.world.journal.entries();
    assert_eq!(calls[0].path, "/rest/v0/vms");
    assert_eq!(calls[0].status, 200);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_84_a_server_without_a_licence_is_told_of_and_nothing_is_gone() {
    let stage = Harness::raw(&config(), Quirks::default(), AUTHORITY);
    stage.fault("/rest/v0/*", status(403, "feature Unauthorized"));
    let told = stage.cloud.next_event().await;
    assert_eq!(told.reason, "FailedToCheckClient");
    let unlicensed = "feature Unauthorized";
    assert!(told.message.contains(unlicensed), "{}", told.message);
    let unready = stage.cloud.ready().unwrap_err();
    assert!(unready.contains(unlicensed), "{unready}");
    cannot_tell(stage.presence(&w1()).await);
    stage.cloud.next_event().await;
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_20_a_server_that_is_down_is_told_of_and_checked_again() {
    let stage = Harness::raw(&config(), Quirks::default(), AUTHORITY);
    let rule = |action| Rule::new(action).named("fault").on("*", "/rest/v0/*");
    stage.world.faults.add(rule(Action::Reset)).unwrap();
    let first = stage.cloud.next_event().await;
    assert_eq!(first.series.as_ref().unwrap().action, "CheckClient");
    assert_eq!(first.reason, "FailedToCheckClient");
    let start = "Failed to check Xen Orchestra client: xenorchestra: GET vms ";
    assert!(first.message.starts_with(start), "{}", first.message);
    let second = stage.cloud.next_event().await;
    assert_eq!(second.series, first.series);
    cannot_tell(stage.presence(&w1()).await);
    stage.world.faults.clear();
    stage.settle().await;
    found(stage.presence(&w1()).await);
    let next = stage.cloud.next_event();
    assert!(
        tokio::time::timeout(Duration::from_secs(3600), next)
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn checks_become_patient() {
    let stage = Harness::raw(&config(), Quirks::default(), AUTHORITY);
    stage.fault("/rest/v0/*", status(401, "invalid credentials"));
    wait(Duration::from_secs(3600)).await;
    let checks = stage.calls().len();
    assert!((40..100).contains(&checks), "{checks} in an hour");
}
