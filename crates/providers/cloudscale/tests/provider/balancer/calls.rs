//! How many calls plans cost, how long they take, and what is believed of answers.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_cloudscale::SNAPSHOT_AGE;
use bowline_core::Goal;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_cloudscale::BalancerTimings;
use bowline_test_kit::{PlanRun, answer, delay, status};
use futures::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use super::harness::{Harness, named, open, port};

/// A uid of its own for each number.
fn uid(number: u32) -> String {
    format!("b0000000-0000-4000-8000-{number:012}")
}

#[tokio::test(start_paused = true)]
async fn a_run_without_changes_costs_few_reads() {
    let mut test = Harness::new();
    test.service.ports.push(port("https", "TCP", 443, 31443));
    test.set("floating-ips", r#"["203.0.113.77"]"#)
        .ensure()
        .await
        .good();
    test.settle().await;
    test.calls();
    assert!(test.ensure().await.good().plan.is_empty());
    let calls = test.calls();
    let paths: Vec<&str> = calls.iter().map(|call| call.path.as_str()).collect();
    assert!(calls.len() <= 7 + 2, "{paths:?}");
    assert_eq!(calls.len(), 8, "{paths:?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_service_is_ready_in_under_three_seconds_on_an_instant_cloud() {
    let mut test = Harness::new();
    test.sim.set_balancer_timings(BalancerTimings::INSTANT);
    let start = Instant::now();
    test.ensure().await.good();
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_service_is_ready_in_under_four_seconds_on_a_quick_cloud() {
    let mut test = Harness::new();
    let second = Duration::from_secs(1);
    test.sim.set_balancer_timings(BalancerTimings {
        create: second,
        change: second,
        call: Duration::ZERO,
        removal: second,
        check: second,
    });
    let tenth = Duration::from_millis(100);
    test.world.faults.add(Rule::new(delay(tenth))).unwrap();
    let start = Instant::now();
    test.ensure().await.good();
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    assert!(test.calls().len() <= 15);
}

#[tokio::test(start_paused = true)]
async fn many_services_share_one_look_at_the_cloud() {
    let mut test = Harness::new();
    let mut services = Vec::new();
    for number in 1..=20 {
        test.service = named(&format!("s-{number}"), &uid(number));
        test.ensure().await.good();
        services.push(test.service.clone());
    }
    test.settle().await;
    test.calls();
    let mut wishes = Vec::new();
    for service in services {
        test.service = service;
        wishes.push(test.request(Goal::Present));
    }
    let drafts = join_all(wishes.iter().map(|request| test.balancers().draft(request))).await;
    assert!(
        drafts
            .iter()
            .all(|draft| draft.as_ref().unwrap().plan.is_empty())
    );
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for call in test.calls() {
        let of_pool = call.path.ends_with("/members");
        let path = if of_pool { "members" } else { &*call.path };
        *counts.entry(path.to_owned()).or_default() += 1;
    }
    assert_eq!(counts.remove("members"), Some(20));
    assert_eq!(counts.len(), 5, "{counts:?}");
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_look_is_never_older_than_the_services_own_last_write() {
    let mut test = Harness::new();
    test.sim.set_balancer_timings(BalancerTimings::INSTANT);
    test.ensure().await.good();
    test.calls();
    assert!(test.ensure().await.good().plan.is_empty());
    assert!(!test.calls().is_empty(), "it wrote, so it looks again");
    test.ensure().await.good();
    let lists = |test: &Harness| {
        let calls = test.calls();
        let lists = calls.iter().filter(|call| !call.path.ends_with("/members"));
        lists.count()
    };
    assert_eq!(lists(&test), 0, "nothing was written since");
    let ours = std::mem::replace(&mut test.service, named("other", &uid(1)));
    test.ensure().await.good();
    test.calls();
    test.service = ours;
    test.ensure().await.good();
    assert_eq!(lists(&test), 0, "another Service's writes are not ours");
    test.harness
        .wait(SNAPSHOT_AGE + Duration::from_millis(1))
        .await;
    test.ensure().await.good();
    assert_eq!(lists(&test), 5, "too old");
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_makes_the_next_look_a_new_one() {
    let mut test = Harness::new();
    test.ensure().await.good();
    test.settle().await;
    test.set("name", "other");
    test.fault("PATCH", "*", 1, Action::Html { code: 502 });
    assert!(test.ensure().await.error.is_some());
    test.calls();
    test.ensure().await.good();
    assert_eq!(test.calls()[0].path, "/v1/load-balancers");
    assert_eq!(test.balancer().name, "other");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_83_a_failed_read_of_load_balancers_is_never_absence() {
    let paths = [
        "/v1/load-balancers",
        "/v1/load-balancers/pools",
        "/v1/load-balancers/listeners",
        "/v1/load-balancers/health-monitors",
        "/v1/load-balancers/pools/*/members",
        "/v1/servers",
        "/v1/floating-ips",
    ];
    for path in paths {
        for action in [
            status(401),
            status(403),
            status(429),
            status(500),
            status(404),
            Action::Reset,
            Action::Html { code: 404 },
            Action::Html { code: 200 },
        ] {
            let mut test = Harness::new();
            test.place_originals();
            test.set("floating-ips", r#"["203.0.113.77"]"#);
            let rule = Rule::new(action.clone()).on("GET", path);
            test.world.faults.add(rule).unwrap();
            let outcome = test.ensure().await;
            assert!(outcome.error.is_some(), "{path} {action:?}");
            assert_eq!(test.writes(), [""; 0], "{path} {action:?}");
        }
    }
    // The same for one load balancer that the list has lost.
    for (action, found) in [
        (status(503), false),
        (Action::Html { code: 404 }, false),
        (Action::Html { code: 200 }, false),
        (status(404), true),
    ] {
        let mut test = Harness::new();
        let uuid = test.place_originals();
        test.ensure().await.good();
        test.settle().await;
        test.calls();
        test.fault("GET", "/v1/load-balancers", 1, answer(200, json!([])));
        let rule = Rule::new(action).on("GET", &format!("/v1/load-balancers/{uuid}"));
        test.world.faults.add(rule).unwrap();
        for goal in [Goal::Absent, Goal::Present] {
            let draft = test.draft(goal).await;
            assert_eq!(draft.is_ok(), found, "{goal:?}");
        }
        assert_eq!(test.writes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn something_unreadable_stops_only_whom_it_may_concern() {
    let mut test = Harness::new();
    test.ensure().await.good();
    test.settle().await;
    let ours = test.balancer().uuid;
    let theirs = uid(9);
    for (load_balancer, fine) in [
        (json!({"uuid": ours}), false),
        (json!({"uuid": theirs}), true),
        (json!(null), false),
    ] {
        let bad = json!([{"uuid": "x", "name": "tcp/x", "load_balancer": load_balancer}]);
        test.settle().await;
        test.fault(
            "GET",
            "/v1/load-balancers/health-monitors",
            1,
            answer(200, bad),
        );
        assert_eq!(
            test.draft(Goal::Present).await.is_ok(),
            fine,
            "{load_balancer}"
        );
    }
    for (name, fine) in [
        ("somebody's", true),
        ("k8s-service-5a4f2b10-0c67-4a3f-8f6e-3b9d2a7c1e55", false),
    ] {
        test.settle().await;
        let bad = json!([{"uuid": "x", "name": name}]);
        test.fault("GET", "/v1/load-balancers", 1, answer(200, bad));
        assert_eq!(test.draft(Goal::Present).await.is_ok(), fine, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_to_one_load_balancer_never_meet() {
    let mut test = open().await;
    test.set("name", "one");
    let one = test.draft(Goal::Present).await.unwrap();
    test.set("name", "two");
    let two = test.draft(Goal::Present).await.unwrap();
    let (mut one, mut two) = (PlanRun::new(one), PlanRun::new(two));
    let (first, second) = futures::join!(one.carry_out(0), two.carry_out(0));
    first.unwrap();
    second.unwrap();
    let calls = test.calls();
    let writes: Vec<_> = calls.iter().filter(|call| call.is_mutating()).collect();
    assert_eq!(writes.len(), 2);
    assert!(writes.iter().all(|call| call.concurrent == 1));
}
