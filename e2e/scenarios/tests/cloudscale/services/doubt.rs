//! A cloud that cannot be read: nothing is made, nothing is removed, no Service is let go.

use bowline_scenarios::objects::finalizers;
use bowline_scenarios::{is_real, scenario, status};
use bowline_simulator::faults::{Action, Rule};
use futures::future::join_all;

use super::service_harness::{FINALIZER, ServiceHarness};

/// Long enough for several tries; on the real clock for one or two.
const A_WHILE: u64 = 60;

/// Every GET of the cloud goes wrong like that.
fn unreadable(action: Action) -> Rule {
    Rule::new(action).server("cloudscale").on("GET", "*")
}

fn ways() -> [Action; 7] {
    [
        status(503),
        status(401),
        status(403),
        status(429),
        Action::Reset,
        Action::Html { code: 404 },
        Action::Html { code: 200 },
    ]
}

async fn a_while(test: &ServiceHarness) {
    test.seconds(if is_real() { 12 } else { A_WHILE }).await;
}

#[scenario]
async fn cloudscale_case_62_a_service_stays_while_the_cloud_cannot_be_read() {
    let story = async |way: Action| {
        let test = ServiceHarness::new().await;
        test.serve().await;
        let before = test.balancer();
        let mark = test.mark();
        test.fault(unreadable(way.clone()).named("unreadable"));
        test.delete_service("web").await;
        test.message("web", "SyncLoadBalancerFailed").await;
        a_while(&test).await;
        assert_eq!(finalizers(&test.service("web")), [FINALIZER], "{way:?}");
        assert_eq!(test.changes_from(mark), [""; 0], "{way:?}");
        assert_eq!(test.balancer().uuid, before.uuid, "{way:?}");
        assert_eq!(test.event_count("web", "DeletedLoadBalancer"), 0, "{way:?}");
        test.world.faults.clear();
        test.until_service_gone("web").await;
        assert_eq!(test.cloud.balancers(), [], "{way:?}");
        assert_eq!(test.changes_from(mark), ["DELETE load-balancers"]);
        test.end().await;
    };
    join_all(ways().map(story)).await;
}

#[scenario]
async fn cloudscale_case_62_no_second_load_balancer_is_made_while_the_cloud_cannot_be_read() {
    let story = async |way: Action| {
        let test = ServiceHarness::new().await;
        let shown = test.serve().await;
        let before = test.balancer();
        let mark = test.mark();
        test.fault(unreadable(way.clone()));
        test.change_service("web", |it| it["spec"]["ports"][0]["port"] = 8080.into())
            .await;
        test.message("web", "SyncLoadBalancerFailed").await;
        // Nor are members removed because their servers cannot be read.
        test.change("worker-b", |node| {
            node["metadata"]["labels"]["colour"] = "blue".into();
        })
        .await;
        a_while(&test).await;
        assert_eq!(test.changes_from(mark), [""; 0], "{way:?}");
        assert_eq!(test.balancer(), before, "{way:?}");
        let kept = test.service("web");
        assert_eq!(
            kept["status"]["loadBalancer"],
            shown["status"]["loadBalancer"]
        );
        test.world.faults.clear();
        test.until_asked(mark, "POST listeners").await;
        assert_eq!(test.balancer().uuid, before.uuid, "{way:?}");
        assert_eq!(test.count_of("POST load-balancers"), 1, "{way:?}");
        test.end().await;
    };
    join_all(ways().map(story)).await;
}

#[scenario]
async fn a_token_that_may_only_look_removes_nothing_and_lets_no_service_go(test: ServiceHarness) {
    test.serve().await;
    let before = test.balancer();
    let denied = Rule::new(status(403)).server("cloudscale");
    for method in ["POST", "PATCH", "DELETE"] {
        test.fault(denied.clone().on(method, "*").named(method));
    }
    test.delete_service("web").await;
    let message = test.message("web", "SyncLoadBalancerFailed").await;
    assert!(message.contains("403"), "{message}");
    a_while(&test).await;
    assert_eq!(finalizers(&test.service("web")), [FINALIZER]);
    assert_eq!(test.balancer(), before);
    test.world.faults.clear();
    test.until_service_gone("web").await;
    assert_eq!(test.cloud.balancers(), []);
}
