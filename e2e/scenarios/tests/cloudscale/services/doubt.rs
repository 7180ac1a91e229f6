//! A cloud that cannot be read: nothing is made, nothing is removed, no Service is let go.

use bowline_scenarios::objects::finalizers;
use bowline_scenarios::{is_real, scenario, status};
use bowline_simulator::faults::{Action, Rule};
use futures::future::join_all;

use super::shop::{FINALIZER, Shop};

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

async fn a_while(shop: &Shop) {
    shop.seconds(if is_real() { 12 } else { A_WHILE }).await;
}

#[scenario]
async fn cloudscale_case_62_a_service_stays_while_the_cloud_cannot_be_read() {
    let story = async |way: Action| {
        let shop = Shop::new().await;
        shop.serve().await;
        let before = shop.balancer();
        let mark = shop.mark();
        shop.fault(unreadable(way.clone()).named("unreadable"));
        shop.delete_service("web").await;
        shop.message("web", "SyncLoadBalancerFailed").await;
        a_while(&shop).await;
        assert_eq!(finalizers(&shop.service("web")), [FINALIZER], "{way:?}");
        assert_eq!(shop.changes_from(mark), [""; 0], "{way:?}");
        assert_eq!(shop.balancer().uuid, before.uuid, "{way:?}");
        assert_eq!(shop.told("web", "DeletedLoadBalancer"), 0, "{way:?}");
        shop.world.faults.clear();
        shop.until_service_gone("web").await;
        assert_eq!(shop.cloud.balancers(), [], "{way:?}");
        assert_eq!(shop.changes_from(mark), ["DELETE load-balancers"]);
        shop.end().await;
    };
    join_all(ways().map(story)).await;
}

#[scenario]
async fn cloudscale_case_62_no_second_load_balancer_is_made_while_the_cloud_cannot_be_read() {
    let story = async |way: Action| {
        let shop = Shop::new().await;
        let shown = shop.serve().await;
        let before = shop.balancer();
        let mark = shop.mark();
        shop.fault(unreadable(way.clone()));
        shop.change_service("web", |it| it["spec"]["ports"][0]["port"] = 8080.into())
            .await;
        shop.message("web", "SyncLoadBalancerFailed").await;
        // Nor are members removed because their servers cannot be read.
        shop.change("worker-b", |node| {
            node["metadata"]["labels"]["colour"] = "blue".into();
        })
        .await;
        a_while(&shop).await;
        assert_eq!(shop.changes_from(mark), [""; 0], "{way:?}");
        assert_eq!(shop.balancer(), before, "{way:?}");
        let kept = shop.service("web");
        assert_eq!(
            kept["status"]["loadBalancer"],
            shown["status"]["loadBalancer"]
        );
        shop.world.faults.clear();
        shop.until_asked(mark, "POST listeners").await;
        assert_eq!(shop.balancer().uuid, before.uuid, "{way:?}");
        assert_eq!(shop.count_of("POST load-balancers"), 1, "{way:?}");
        shop.end().await;
    };
    join_all(ways().map(story)).await;
}

#[scenario]
async fn a_token_that_may_only_look_removes_nothing_and_lets_no_service_go(shop: Shop) {
    shop.serve().await;
    let before = shop.balancer();
    let denied = Rule::new(status(403)).server("cloudscale");
    for method in ["POST", "PATCH", "DELETE"] {
        shop.fault(denied.clone().on(method, "*").named(method));
    }
    shop.delete_service("web").await;
    let message = shop.message("web", "SyncLoadBalancerFailed").await;
    assert!(message.contains("403"), "{message}");
    a_while(&shop).await;
    assert_eq!(finalizers(&shop.service("web")), [FINALIZER]);
    assert_eq!(shop.balancer(), before);
    shop.world.faults.clear();
    shop.until_service_gone("web").await;
    assert_eq!(shop.cloud.balancers(), []);
}
