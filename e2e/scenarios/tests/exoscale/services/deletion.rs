//! A Service goes, or wants no load balancer any more.

use bowline_scenarios::objects::{entrances, finalizers};
use bowline_scenarios::{refuse, scenario};
use bowline_simulator::journal::Filter;
use serde_json::{Value, json};

use super::service_harness::{ServiceHarness, annotation};

#[scenario]
async fn exoscale_case_69_service_and_load_balancer_go_then_the_finalizer(test: ServiceHarness) {
    test.serve().await;
    let mark = test.mark();
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(
        test.changes(mark),
        ["delete-load-balancer-service", "delete-load-balancer"]
    );
    assert_eq!(test.cloud.balancers(), []);
    test.message("web", "DeletingLoadBalancer").await;
    test.message("web", "DeletedLoadBalancer").await;
}

#[scenario]
async fn exoscale_case_72_what_is_gone_already_does_not_hold_a_service(test: ServiceHarness) {
    test.serve().await;
    test.cloud.remove_balancer(&test.balancer().id).unwrap();
    let mark = test.mark();
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(test.changes(mark), [""; 0]);
    assert_eq!(test.event_count("web", "DeletingLoadBalancer"), 0);
}

#[scenario]
async fn a_404_to_a_deletion_does_not_mean_that_a_load_balancer_is_gone(test: ServiceHarness) {
    test.serve().await;
    let refused = refuse(404, "DELETE", "/v2/load-balancer/*");
    test.fault(refused.server("exoscale").times(4));
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert!(test.cloud.balancers().is_empty());
    let answers = test.matching(&Filter::any().server("exoscale").method("DELETE"));
    let answers: Vec<u16> = answers.iter().map(|it| it.status).collect();
    assert!(
        answers.starts_with(&[404; 4]) && answers.ends_with(&[200]),
        "{answers:?}"
    );
}

#[scenario]
async fn what_a_list_shows_is_not_gone_whatever_is_answered_about_its_id(test: ServiceHarness) {
    test.serve().await;
    // Whoever may not see an item gets a 404 about it.
    let blind = refuse(404, "*", "/v2/load-balancer/*").named("blind");
    let blind = test.fault(blind.server("exoscale"));
    test.delete_service("web").await;
    blind.struck(3).await;
    test.settle().await;
    assert_eq!(test.cloud.balancers().len(), 1);
    assert_eq!(finalizers(&test.service("web")).len(), 1);
    test.world.faults.remove("blind");
    test.until_service_gone("web").await;
    assert!(test.cloud.balancers().is_empty());
}

#[scenario]
async fn exoscale_case_86_ports_that_changed_while_nobody_looked_leave_nothing_behind(
    mut test: ServiceHarness,
) {
    test.serve().await;
    test.stop().await;
    test.change_service("web", |it| it["spec"]["ports"][0]["port"] = json!(8080))
        .await;
    test.delete_service("web").await;
    test.start().await;
    test.until_service_gone("web").await;
    assert_eq!(test.cloud.balancers(), []);
}

#[scenario]
async fn exoscale_case_87_another_type_and_back_is_another_load_balancer(test: ServiceHarness) {
    let before = test.serve().await;
    let id = annotation(&before, "id").to_owned();
    test.patch_service("web", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    let bare = |it: &Value| finalizers(it).is_empty();
    let left = test.until_service("web", "it is let go", bare).await;
    assert_eq!(entrances(&left), [""; 0]);
    let forgotten = |it: &Value| annotation(it, "id").is_empty();
    test.until_service("web", "the id is gone", forgotten).await;
    assert_eq!(test.cloud.balancers(), []);
    test.patch_service("web", json!({"spec": {"type": "LoadBalancer"}}))
        .await;
    let shown = test.until_published("web").await;
    assert_ne!(annotation(&shown, "id"), id);
    assert_eq!(annotation(&shown, "id"), test.balancer().id);
}
