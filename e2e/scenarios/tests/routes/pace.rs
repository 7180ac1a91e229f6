//! When routes are compared with nodes.

use bowline_core::CloudErrorKind;
use bowline_scenarios::cloud::route;
use bowline_scenarios::{Setup, TestCluster, scenario};
use serde_json::json;

use crate::routes::harness::{DOWN, RANGE, UP, node, rounds, routes_of, until, with_two};

/// A cluster of two nodes, with the default period, in which nothing is left to do.
async fn settled() -> TestCluster {
    let flags = ["--controllers=route", RANGE];
    let mut bench = TestCluster::set_up(Setup {
        flags: &flags,
        ..Setup::default()
    })
    .await;
    bench.cloud().offer_routes();
    bench.create(node("a", &["10.120.0.0/24"])).await;
    bench.create(node("b", &[])).await;
    routes_of(&bench).have([route("10.120.0.0/24 a")]);
    bench.start();
    until(&bench, &["a"], UP).await;
    // The first round is long over, and what was seen of its own writes too.
    bench.seconds(15).await;
    bench
}

#[scenario]
async fn framework_case_103_only_what_matters_to_routes_is_a_cause() {
    let bench = settled().await;
    let before = rounds(&bench);
    bench
        .change("a", |node| {
            node["status"]["images"] = json!([{ "names": ["large"], "sizeBytes": 7 }]);
        })
        .await;
    bench.heartbeat("a").await;
    bench.seconds(15).await;
    assert!((rounds(&bench) - before).abs() < 0.1, "no cause, no round");
    for change in 0..2 {
        bench
            .change("b", |node| {
                if change == 0 {
                    node["spec"]["podCIDR"] = "10.120.1.0/24".into();
                    node["spec"]["podCIDRs"] = json!(["10.120.1.0/24"]);
                } else {
                    node["status"]["addresses"][0]["address"] = "10.0.1.9".into();
                }
            })
            .await;
        bench.seconds(15).await;
        let since = rounds(&bench) - before;
        assert!(
            (since - f64::from(change + 1)).abs() < 0.1,
            "{since} rounds"
        );
    }
    until(&bench, &["b"], UP).await;
}

#[scenario]
async fn framework_case_103_thirty_changes_in_five_seconds_are_two_rounds_at_most() {
    let bench = settled().await;
    let before = rounds(&bench);
    for change in 0..30 {
        bench
            .change("b", |node| {
                let address = format!("10.0.1.{}", 10 + change);
                node["status"]["addresses"][0]["address"] = address.into();
            })
            .await;
        bench.pass(std::time::Duration::from_millis(160)).await;
    }
    bench.seconds(20).await;
    let since = rounds(&bench) - before;
    assert!((0.9..2.1).contains(&since), "{since} rounds");
}

#[scenario]
async fn framework_case_103_what_fails_is_tried_again_although_nothing_happens() {
    let mut bench = with_two([route("10.120.1.0/24 b"), route("10.120.2.0/24 gone")]).await;
    let down = CloudErrorKind::Unavailable;
    routes_of(&bench).fail("10.120.0.0/24", down, "no answer", 3);
    routes_of(&bench).fail("10.120.2.0/24", down, "no answer", 3);
    bench.start();
    until(&bench, &["a"], DOWN).await;
    until(&bench, &["a", "b"], UP).await;
    bench
        .until("the stray is gone", |bench: &TestCluster| {
            routes_of(bench).all().len() == 2
        })
        .await;
    for verb in ["create 10.120.0.0/24", "delete 10.120.2.0/24"] {
        let moments = routes_of(&bench).moments(verb);
        assert_eq!(moments.len(), 4, "{verb}");
        if !bowline_scenarios::is_real() {
            bench.assert_apart(&moments, &[10, 20, 40]);
        }
    }
}

#[scenario(only_in_memory = "it takes minutes")]
async fn what_somebody_else_removed_comes_back_after_a_while() {
    let bench = settled().await;
    let before = rounds(&bench);
    routes_of(&bench).have([]);
    bench
        .until("it is there again", |bench: &TestCluster| {
            routes_of(bench).all() == ["10.120.0.0/24 a"]
        })
        .await;
    let since = rounds(&bench) - before;
    assert!((since - 1.0).abs() < 0.1, "{since} rounds");
    bench.long(3600).await;
    let since = rounds(&bench) - before;
    assert!((11.0..14.0).contains(&since), "{since} rounds in an hour");
}

#[scenario(only_in_memory = "it takes minutes")]
async fn one_that_fails_for_long_keeps_nobody_else_waiting() {
    let mut bench = with_two([]).await;
    let denied = CloudErrorKind::Denied;
    routes_of(&bench).fail("10.120.0.0/24", denied, "quota", 1000);
    bench.start();
    until(&bench, &["b"], UP).await;
    bench.long(3600).await;
    let tries = routes_of(&bench).moments("create 10.120.0.0/24").len();
    assert!((12..=18).contains(&tries), "{tries} tries in an hour");
    let from = bench.world.clock.now();
    bench.create(node("c", &["10.120.3.0/24"])).await;
    until(&bench, &["c"], UP).await;
    let took = bench.since(from).as_secs();
    assert!(took < 15, "{took} s");
}
