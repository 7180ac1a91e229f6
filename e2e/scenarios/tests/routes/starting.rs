//! Whether the controller starts.

use bowline_core::CloudErrorKind;
use bowline_scenarios::cloud::runs;
use bowline_scenarios::log::Log;
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{Setup, TestCluster, only_in_memory, scenario};

use crate::routes::harness::{RANGE, UP, idle, network, node, routes_of, until, with_two};

const RUNNING: &str =
    "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"route\"}";

async fn cluster(flags: &[&str]) -> TestCluster {
    let bench = TestCluster::set_up(Setup {
        flags,
        ..Setup::default()
    })
    .await;
    bench.create(node("a", &["10.120.0.0/24"])).await;
    bench.cloud().say("n1", runs("n1", "10.0.0.5"));
    bench.create(fresh("n1")).await;
    bench
}

/// The other controllers do their work, and there are no routes.
async fn assert_others_work(bench: &mut TestCluster) {
    bench.start();
    bench.until_initialized("n1").await;
    bench.seconds(3).await;
    assert_eq!(bench.metric(RUNNING), None);
    assert_eq!(routes_of(bench).calls(), [""; 0]);
    assert_eq!(network(bench, "a"), "");
    assert!(bench.is_running());
}

#[scenario]
async fn framework_case_104_without_the_pods_range_routes_do_not_start() {
    for flags in [
        &[][..],
        &["--cluster-cidr=pods"],
        &["--cluster-cidr=10.0.0.0/16,10.1.0.0/16"],
        &["--cluster-cidr=10.0.0.0/16,fd00::/48,fd01::/48"],
    ] {
        let mut bench = cluster(flags).await;
        bench.cloud().offer_routes();
        // Ours: only this controller.
        assert_others_work(&mut bench).await;
    }
}

#[scenario]
async fn routes_that_nobody_asked_for_are_not_missed() {
    let (log, _guard) = Log::keep();
    for (flags, warned) in [(&[][..], false), (&["--configure-cloud-routes=true"], true)] {
        assert_others_work(&mut cluster(flags).await).await;
        assert_eq!(log.text().contains("configure-cloud-routes"), warned);
    }
}

#[scenario]
async fn framework_case_104_a_cloud_without_routes_needs_none() {
    for flags in [&[][..], &[RANGE]] {
        assert_others_work(&mut cluster(flags).await).await;
    }
}

#[scenario]
async fn framework_case_104_routes_can_be_switched_off() {
    let mut bench = cluster(&[RANGE, "--configure-cloud-routes=false"]).await;
    bench.cloud().offer_routes();
    assert_others_work(&mut bench).await;
    let mut bench = cluster(&[RANGE]).await;
    bench.cloud().offer_routes();
    bench.start();
    until(&bench, &["a"], UP).await;
    assert_eq!(bench.metric(RUNNING), Some(1.0));
}

#[scenario(only_in_memory = "the log of one thread is kept")]
async fn framework_case_104_what_keeps_it_from_starting_is_told() {
    let (log, _kept) = Log::keep();
    let mut bench = idle(&[]).await;
    bench.start();
    bench.seconds(5).await;
    let reported = "node-route-controller not started: --cluster-cidr is empty";
    assert!(log.text().contains(reported), "{}", log.text());
}

#[scenario]
async fn an_observer_tells_what_it_would_make_and_makes_nothing() {
    let (log, _kept) = Log::keep();
    let mut bench = with_two([bowline_scenarios::cloud::route("10.120.7.0/24 c")]).await;
    bench.use_flags(&["--controllers=route", RANGE, "--mode=observe"]);
    bench.start();
    bench
        .until("it looks", |bench: &TestCluster| {
            routes_of(bench).looks() > 0
        })
        .await;
    bench.settle().await;
    assert_eq!(routes_of(&bench).writes(), [""; 0]);
    assert_eq!(routes_of(&bench).all(), ["10.120.7.0/24 c"]);
    assert_eq!(bench.node_writes(), [""; 0]);
    assert_eq!(bench.events("a"), [""; 0]);
    if only_in_memory("the log of one thread is kept") {
        for reported in [
            "observing: not made: create route 10.120.0.0/24 to node a",
            "observing: not made: delete route 10.120.7.0/24 to node c",
        ] {
            assert_eq!(log.text().matches(reported).count(), 1, "{}", log.text());
        }
    }
}

#[scenario(only_in_memory = "it takes minutes")]
async fn a_cloud_that_cannot_have_routes_is_left_in_peace() {
    let mut bench = with_two([]).await;
    let off = (CloudErrorKind::Invalid, "routes are off here");
    routes_of(&bench).hide(Some(off));
    bench.start();
    bench.seconds(100).await;
    bench.create(node("c", &["10.120.3.0/24"])).await;
    bench.seconds(100).await;
    assert_eq!(routes_of(&bench).calls(), ["list"]);
    assert_eq!(network(&bench, "a"), "");
    routes_of(&bench).hide(None);
    until(&bench, &["a", "b", "c"], UP).await;
}

#[scenario]
async fn a_cloud_that_cannot_be_asked_is_asked_again() {
    let mut bench = with_two([]).await;
    let down = (CloudErrorKind::Unavailable, "no answer");
    routes_of(&bench).hide(Some(down));
    bench.start();
    bench
        .until("it is asked again", |bench: &TestCluster| {
            routes_of(bench).looks() == 3
        })
        .await;
    assert_eq!(network(&bench, "a"), "");
    routes_of(&bench).hide(None);
    until(&bench, &["a", "b"], UP).await;
    let cloud = "bowline_route_rounds_total{cause=\"start\",cloud=\"demo\",result=\"failed\"}";
    assert_eq!(bench.metric(cloud), Some(1.0));
}
