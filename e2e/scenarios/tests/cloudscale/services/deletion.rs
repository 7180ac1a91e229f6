//! A Service goes.

use std::time::Duration;

use bowline_scenarios::objects::{annotated, finalizers};
use bowline_scenarios::{scenario, status};
use bowline_simulator::faults::Rule;
use bowline_simulator_cloudscale::BalancerTimings;

use super::service_harness::{FINALIZER, ServiceHarness, UUID};

#[scenario]
async fn cloudscale_case_63_a_load_balancer_that_is_changing_is_deleted_afterwards(
    test: ServiceHarness,
) {
    test.serve().await;
    let id = test.balancer().uuid;
    test.cloud.freeze_balancer(&id).unwrap();
    test.delete_service("web").await;
    test.message("web", "DeletingLoadBalancer").await;
    test.seconds(10).await;
    assert_eq!(test.count_of("DELETE load-balancers"), 0);
    assert_eq!(finalizers(&test.service("web")), [FINALIZER]);
    // The first deletion is refused, which is no answer to whether it is gone.
    let refused = Rule::new(status(400)).server("cloudscale");
    test.fault(refused.on("DELETE", "/v1/load-balancers/*").times(1));
    test.cloud.thaw_balancer(&id).unwrap();
    test.until_service_gone("web").await;
    let deletions = test.changes().into_iter();
    let deletions: Vec<String> = deletions.filter(|it| it.starts_with("DELETE")).collect();
    assert_eq!(
        deletions,
        ["DELETE load-balancers -> 400", "DELETE load-balancers"]
    );
    assert_eq!(test.cloud.balancers(), []);
}

#[scenario]
async fn cloudscale_case_63_a_load_balancer_that_vanishes_meanwhile_is_deleted_well(
    test: ServiceHarness,
) {
    test.serve().await;
    let id = test.balancer().uuid;
    let slow = BalancerTimings {
        call: Duration::from_secs(2),
        ..BalancerTimings::INSTANT
    };
    test.cloud.set_balancer_timings(slow);
    let wait = bowline_simulator::faults::Action::Delay {
        least: Duration::from_secs(2),
        most: Duration::from_secs(2),
    };
    let late = Rule::new(wait).server("cloudscale");
    let late = test.fault(late.on("DELETE", "/v1/load-balancers/*"));
    test.delete_service("web").await;
    late.struck(1).await;
    test.cloud.remove(&id).unwrap();
    test.until_service_gone("web").await;
    assert_eq!(test.count_of("DELETE load-balancers -> 404"), 1);
    test.message("web", "DeletedLoadBalancer").await;
    assert_eq!(test.event_count("web", "SyncLoadBalancerFailed"), 0);
}

#[scenario]
async fn what_a_list_shows_is_not_gone_whatever_is_answered_about_its_id(test: ServiceHarness) {
    test.serve().await;
    // Whoever may not see an item gets a 404 about it.
    let id = test.balancer().uuid;
    let blind = Rule::new(status(404)).server("cloudscale").named("blind");
    let blind = test.fault(blind.on("*", &format!("/v1/load-balancers/{id}")));
    test.delete_service("web").await;
    blind.struck(3).await;
    test.settle().await;
    assert_eq!(test.cloud.balancers().len(), 1);
    assert_eq!(finalizers(&test.service("web")), [FINALIZER]);
    test.world.faults.remove("blind");
    test.until_service_gone("web").await;
    assert_eq!(test.cloud.balancers(), []);
}

#[scenario]
async fn cloudscale_case_81_what_is_gone_already_is_not_deleted(test: ServiceHarness) {
    test.serve().await;
    let mark = test.mark();
    test.cloud.remove(&test.balancer().uuid).unwrap();
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    test.message("web", "DeletedLoadBalancer").await;
    assert_eq!(test.event_count("web", "DeletingLoadBalancer"), 0);
    assert_eq!(test.changes_from(mark), [""; 0]);
}

/// As from a backup: the same name in the cloud, and the annotation with the id of what is gone.
#[scenario]
async fn a_service_restored_right_after_its_deletion_is_not_told_that_another_owns_its_load_balancer(
    test: ServiceHarness,
) {
    let named = |more: &[(&str, &str)]| {
        let name = [("k8s.cloudscale.ch/loadbalancer-name", "shop")];
        annotated("web", &[&name, more].concat())
    };
    test.create_service(named(&[])).await;
    test.until_ensured("web").await;
    let first = test.balancer().uuid;
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    test.create_service(named(&[(UUID, &first)])).await;
    test.until_published("web").await;
    assert_ne!(test.balancer().uuid, first);
    test.settle().await;
    let news = test.news("web");
    assert!(!news.iter().any(|it| it.starts_with("Warning")), "{news:?}");
}
