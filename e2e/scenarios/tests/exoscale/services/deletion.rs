//! A Service goes, or wants no load balancer any more.

use bowline_scenarios::objects::{entrances, finalizers};
use bowline_scenarios::scenario;
use serde_json::{Value, json};

use super::shop::{Shop, annotation};

#[scenario]
async fn exoscale_case_69_service_and_load_balancer_go_then_the_finalizer(shop: Shop) {
    shop.serve().await;
    let mark = shop.mark();
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    assert_eq!(
        shop.changes(mark),
        ["delete-load-balancer-service", "delete-load-balancer"]
    );
    assert_eq!(shop.cloud.balancers(), []);
    shop.message("web", "DeletingLoadBalancer").await;
    shop.message("web", "DeletedLoadBalancer").await;
}

#[scenario]
async fn exoscale_case_72_what_is_gone_already_does_not_hold_a_service(shop: Shop) {
    shop.serve().await;
    shop.cloud.remove_balancer(&shop.balancer().id).unwrap();
    let mark = shop.mark();
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    assert_eq!(shop.changes(mark), [""; 0]);
    assert_eq!(shop.told("web", "DeletingLoadBalancer"), 0);
}

#[scenario]
async fn exoscale_case_86_ports_that_changed_while_nobody_looked_leave_nothing_behind(
    mut shop: Shop,
) {
    shop.serve().await;
    shop.stop().await;
    shop.change_service("web", |it| it["spec"]["ports"][0]["port"] = json!(8080))
        .await;
    shop.delete_service("web").await;
    shop.start().await;
    shop.until_service_gone("web").await;
    assert_eq!(shop.cloud.balancers(), []);
}

#[scenario]
async fn exoscale_case_87_another_type_and_back_is_another_load_balancer(shop: Shop) {
    let before = shop.serve().await;
    let id = annotation(&before, "id").to_owned();
    shop.patch_service("web", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    let bare = |it: &Value| finalizers(it).is_empty();
    let left = shop.until_service("web", "it is let go", bare).await;
    assert_eq!(entrances(&left), [""; 0]);
    let forgotten = |it: &Value| annotation(it, "id").is_empty();
    shop.until_service("web", "the id is gone", forgotten).await;
    assert_eq!(shop.cloud.balancers(), []);
    shop.patch_service("web", json!({"spec": {"type": "LoadBalancer"}}))
        .await;
    let shown = shop.until_published("web").await;
    assert_ne!(annotation(&shown, "id"), id);
    assert_eq!(annotation(&shown, "id"), shop.balancer().id);
}
