//! One cloud is down, slow or denies everything: no Service of another is later than without that.

use std::time::Duration;

use bowline_scenarios::cloud::Look;
use bowline_scenarios::{Setup, TestCluster, assert_not_later, scenario};
use serde_json::json;

use crate::services::harness::{FIN, changed, node, set_up};

/// Longer than any call may take.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// How the cloud `demo` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demo {
    Well,
    Hangs,
    Denies,
}

async fn two_clouds() -> TestCluster {
    let bench = set_up(Setup {
        clouds: &[("demo", "demo"), ("west", "west")],
        ..Setup::default()
    })
    .await;
    bench.put(node("w1", "west://w1")).await;
    bench
}

async fn create(bench: &TestCluster, name: &str, class: &str) {
    let service = changed(name, |it| it["spec"]["loadBalancerClass"] = class.into());
    bench.create_service(service).await;
}

/// What happens to Services of the cloud west, and how long each of it takes. There is one worker for each cloud.
async fn story(demo: Demo) -> Vec<(&'static str, Duration)> {
    let mut bench = two_clouds().await;
    let troubled = bench.clouds[0].balancers();
    match demo {
        Demo::Well => {}
        Demo::Hangs => troubled.take(FOR_EVER),
        Demo::Denies => troubled.say(vec![Look::Error("denied"); 10_000]),
    }
    bench.start();
    for name in ["d1", "d2", "d3", "d4", "d5"] {
        create(&bench, name, "bowline.dev/demo").await;
    }
    bench.settle().await;
    let mut took = Vec::new();
    let mut begun = bench.world.clock.now();
    let mut note = |bench: &TestCluster, what| {
        took.push((what, bench.since(begun)));
        begun = bench.world.clock.now();
    };
    let west = bench.clouds[1].balancers();
    for name in ["a", "b"] {
        create(&bench, name, "bowline.dev/west").await;
    }
    for name in ["a", "b"] {
        bench.until_event(name, "EnsuredLoadBalancer").await;
    }
    note(&bench, "served");
    bench.put(node("w2", "west://w2")).await;
    let has_both = |bench: &TestCluster| {
        let all = bench.clouds[1].balancers().all();
        all.iter().all(|it| it.members.len() == 2)
    };
    bench.until("w2 is a member", has_both).await;
    note(&bench, "members");
    bench.delete_service("a").await;
    bench.until_service_gone("a").await;
    note(&bench, "deleted");
    assert_eq!(west.all().len(), 1);
    let made = if demo == Demo::Well { 5 } else { 0 };
    assert_eq!(bench.clouds[0].balancers().all().len(), made);
    bench.stop().await;
    took
}

#[scenario]
async fn services_of_one_cloud_are_not_later_because_another_hangs_or_denies() {
    let ordinary = story(Demo::Well).await;
    for demo in [Demo::Hangs, Demo::Denies] {
        assert_not_later(&ordinary, &story(demo).await, demo);
    }
}

#[scenario]
async fn a_service_that_leaves_a_cloud_that_hangs_keeps_no_worker_of_the_next() {
    let mut bench = two_clouds().await;
    bench.start();
    create(&bench, "web", "bowline.dev/west").await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    bench.clouds[1].balancers().take(FOR_EVER);
    let move_to_demo = async || {
        let plain = json!({ "spec": { "type": "ClusterIP" } });
        bench.patch_service("web", plain).await;
        let class = "bowline.dev/demo";
        let other = json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": class } });
        bench.patch_service("web", other).await;
    };
    bench.unseen(move_to_demo).await;
    bench.settle().await;
    let begun = bench.world.clock.now();
    create(&bench, "other", "bowline.dev/demo").await;
    bench.until_event("other", "EnsuredLoadBalancer").await;
    assert!(bench.since(begun) <= Duration::from_secs(1) + bench.slack());
    // It is served by the next cloud when the former one has let it go.
    assert_eq!(bench.event_count("web", "EnsuredLoadBalancer"), 1);
    bench.clouds[1].balancers().take(Duration::ZERO);
    bench
        .until("it is served anew", |it| {
            it.event_count("web", "EnsuredLoadBalancer") == 2
        })
        .await;
    assert_eq!(bench.clouds[1].balancers().all(), []);
    assert_eq!(bench.clouds[0].balancers().all().len(), 2);
}

#[scenario]
async fn what_one_cloud_made_goes_although_another_does_not_answer() {
    let mut bench = two_clouds().await;
    bench.start();
    create(&bench, "web", "bowline.dev/west").await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    bench.stop().await;
    // Nobody remembers which cloud served it, so that all are asked.
    let plain = json!({ "spec": { "type": "ClusterIP" } });
    bench.patch_service("web", plain).await;
    bench.clouds[0].balancers().take(FOR_EVER);
    bench.start();
    let begun = bench.world.clock.now();
    bench
        .until("it is removed", |it| {
            it.clouds[1].balancers().all().is_empty()
        })
        .await;
    assert!(bench.since(begun) <= Duration::from_secs(2) + bench.slack());
    bench.settle().await;
    assert_eq!(bench.finalizers("web"), [FIN], "the other may have one");
    bench.clouds[0].balancers().take(Duration::ZERO);
    bench.until_event("web", "DeletedLoadBalancer").await;
    assert_eq!(bench.finalizers("web"), [""; 0]);
}
