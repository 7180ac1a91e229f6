//! How routes are written: many at once, whole tables, conflicts, leaders.

use std::time::Duration;

use bowline_core::CloudErrorKind;
use bowline_scenarios::cloud::route;
use bowline_scenarios::{TestCluster, refuse, scenario};

use crate::routes::harness::{DOWN, RANGE, UP, idle, network, node, routes_of, until, with_two};

#[scenario(only_in_memory = "it needs many nodes")]
async fn at_most_two_hundred_calls_are_under_way() {
    let mut bench = idle(&[RANGE]).await;
    for number in 0..250 {
        let range = format!("10.120.{number}.0/24");
        let name = format!("n{number:03}");
        bench.create(node(&name, &[&range])).await;
    }
    routes_of(&bench).take(Duration::from_secs(1));
    bench.start();
    bench
        .until("all are there", |bench: &TestCluster| {
            routes_of(bench).all().len() == 250
        })
        .await;
    assert_eq!(routes_of(&bench).most_at_once(), 200);
    assert_eq!(routes_of(&bench).looks(), 1);
}

#[scenario]
async fn a_conflict_is_no_failure_until_the_fifth() {
    let mut bench = with_two([route("10.120.1.0/24 b")]).await;
    let conflict = CloudErrorKind::Conflict;
    routes_of(&bench).fail("10.120.0.0/24", conflict, "being changed", 4);
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    assert_eq!(routes_of(&bench).writes().len(), 5);
    assert_eq!(bench.events("a"), [""; 0]);

    let mut bench = with_two([route("10.120.1.0/24 b")]).await;
    routes_of(&bench).fail("10.120.0.0/24", conflict, "being changed", 5);
    bench.start();
    until(&bench, &["a"], DOWN).await;
    until(&bench, &["a"], UP).await;
    assert_eq!(bench.event_count("a", "FailedToCreateRoute"), 1);
}

#[scenario]
async fn beside_a_wrong_route_that_stays_no_right_one_is_made() {
    let mut bench = with_two([route("10.120.0.0/24 gone"), route("10.120.1.0/24 b")]).await;
    let denied = CloudErrorKind::Denied;
    routes_of(&bench).fail("10.120.0.0/24", denied, "no", 1);
    bench.start();
    until(&bench, &["a"], DOWN).await;
    assert_eq!(routes_of(&bench).writes(), ["delete 10.120.0.0/24 gone"]);
    until(&bench, &["a"], UP).await;
    assert_eq!(routes_of(&bench).writes().len(), 3);
}

#[scenario]
async fn a_table_is_written_once_for_all_its_routes() {
    let mut bench = with_two([route("10.120.7.0/24 gone")]).await;
    let routes = routes_of(&bench);
    routes.write_tables();
    routes.place("a", "10.120.0.0/24", &["", "second"]);
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    let mut writes = routes_of(&bench).writes();
    writes.sort();
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert!(writes[0].starts_with("create 10.120.0.0/24 a in second "));
    assert!(writes[1].starts_with("delete 10.120.7.0/24 gone; create 10.120.0.0/24 a "));
    assert!(
        writes[1].contains("; create 10.120.1.0/24 b "),
        "{writes:?}"
    );
    // One that fails fails alone.
    let denied = CloudErrorKind::Denied;
    routes_of(&bench).fail("10.120.3.0/24", denied, "no", 1);
    bench.create(node("c", &["10.120.3.0/24"])).await;
    bench.create(node("d", &["10.120.4.0/24"])).await;
    until(&bench, &["c", "d"], UP).await;
    assert_eq!(bench.event_count("c", "FailedToCreateRoute"), 1);
    assert_eq!(bench.event_count("d", "FailedToCreateRoute"), 0);
}

#[scenario]
async fn what_a_cloud_refuses_is_told_once_and_the_network_is_not_there() {
    let mut bench = with_two([route("10.120.1.0/24 b")]).await;
    routes_of(&bench).refuse("a", "10.120.0.0/24", "NoCard");
    bench.start();
    until(&bench, &["a"], DOWN).await;
    bench.create(node("c", &["10.120.3.0/24"])).await;
    until(&bench, &["c"], UP).await;
    bench.settle().await;
    let event = "Warning NoCard route_controller: there is no place for 10.120.0.0/24 (1)";
    assert_eq!(bench.events("a"), [event]);
    assert_eq!(network(&bench, "a"), DOWN);
}

#[scenario]
async fn what_people_should_know_is_told_once_on_the_manager_s_own_pod() {
    let mut bench = with_two([]).await;
    let pod = Some(("kube-system", "bowline-0"));
    routes_of(&bench).advise(pod, "MindTheGap", "mind it");
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    let reported = |bench: &TestCluster| !bench.events_of("MindTheGap").is_empty();
    bench.until("it is reported", reported).await;
    bench.settle().await;
    let events = bench.events_of("MindTheGap");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["involvedObject"]["name"], "bowline-0");
    assert_eq!(events[0]["metadata"]["namespace"], "kube-system");
    assert_eq!(events[0]["count"], 1);
}

#[scenario]
async fn a_condition_that_was_not_written_is_written_soon() {
    let mut bench = with_two([]).await;
    bench.fault(refuse(500, "PATCH", "/api/v1/nodes/a/status").times(1));
    bench.start();
    until(&bench, &["a", "b"], UP).await;
    assert_eq!(routes_of(&bench).writes().len(), 2);
}

#[scenario(only_in_memory = "a jump of the paused clock is what a frozen process sees")]
async fn a_leader_that_was_frozen_makes_no_routes_when_it_wakes() {
    let bench = TestCluster::for_replicas(3).await;
    bench.cloud().offer_routes();
    routes_of(&bench).take(Duration::from_secs(4));
    bench.create(node("a", &["10.120.0.0/24"])).await;
    let flags = ["--controllers=route", RANGE];
    let leader = bench.replica("one", &flags).await;
    bench
        .until("it looks", |bench: &TestCluster| {
            routes_of(bench).looks() == 1
        })
        .await;
    // The answer is there when it wakes, and so is another leader.
    tokio::time::advance(Duration::from_secs(30)).await;
    bench.seconds(60).await;
    assert!(!leader.is_running());
    assert_eq!(routes_of(&bench).writes(), [""; 0]);
    assert_eq!(network(&bench, "a"), "");
}

#[scenario(only_in_memory = "the moment of the stop has to be exact")]
async fn a_manager_that_stops_finishes_what_is_under_way_and_begins_nothing() {
    let mut bench = with_two([route("10.120.0.0/24 gone"), route("10.120.1.0/24 b")]).await;
    routes_of(&bench).take(Duration::from_secs(2));
    bench.start();
    bench
        .until("a route goes", |bench: &TestCluster| {
            routes_of(bench).writes().len() == 1
        })
        .await;
    bench.stop().await;
    assert_eq!(routes_of(&bench).all(), ["10.120.1.0/24 b"]);
    assert_eq!(routes_of(&bench).writes(), ["delete 10.120.0.0/24 gone"]);
    assert_eq!(network(&bench, "a"), "");
    bench.start();
    until(&bench, &["a", "b"], UP).await;
}
