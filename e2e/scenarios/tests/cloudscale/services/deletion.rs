//! A Service goes.

use std::time::Duration;

use bowline_scenarios::objects::{annotated, finalizers};
use bowline_scenarios::{scenario, status};
use bowline_simulator::faults::Rule;
use bowline_simulator_cloudscale::BalancerTimings;

use super::shop::{FINALIZER, Shop, UUID};

#[scenario]
async fn cloudscale_case_63_a_load_balancer_that_is_changing_is_deleted_afterwards(shop: Shop) {
    shop.serve().await;
    let id = shop.balancer().uuid;
    shop.cloud.freeze_balancer(&id).unwrap();
    shop.delete_service("web").await;
    shop.message("web", "DeletingLoadBalancer").await;
    shop.seconds(10).await;
    assert_eq!(shop.count_of("DELETE load-balancers"), 0);
    assert_eq!(finalizers(&shop.service("web")), [FINALIZER]);
    // The first deletion is refused, which is no answer to whether it is gone.
    let refused = Rule::new(status(400)).server("cloudscale");
    shop.fault(refused.on("DELETE", "/v1/load-balancers/*").times(1));
    shop.cloud.thaw_balancer(&id).unwrap();
    shop.until_service_gone("web").await;
    let deletions = shop.changes().into_iter();
    let deletions: Vec<String> = deletions.filter(|it| it.starts_with("DELETE")).collect();
    assert_eq!(
        deletions,
        ["DELETE load-balancers -> 400", "DELETE load-balancers"]
    );
    assert_eq!(shop.cloud.balancers(), []);
}

#[scenario]
async fn cloudscale_case_63_a_load_balancer_that_vanishes_meanwhile_is_deleted_well(shop: Shop) {
    shop.serve().await;
    let id = shop.balancer().uuid;
    let slow = BalancerTimings {
        call: Duration::from_secs(2),
        ..BalancerTimings::INSTANT
    };
    shop.cloud.set_balancer_timings(slow);
    let wait = bowline_simulator::faults::Action::Delay {
        least: Duration::from_secs(2),
        most: Duration::from_secs(2),
    };
    let late = Rule::new(wait).server("cloudscale");
    let late = shop.fault(late.on("DELETE", "/v1/load-balancers/*"));
    shop.delete_service("web").await;
    late.struck(1).await;
    shop.cloud.remove(&id).unwrap();
    shop.until_service_gone("web").await;
    assert_eq!(shop.count_of("DELETE load-balancers -> 404"), 1);
    shop.message("web", "DeletedLoadBalancer").await;
    assert_eq!(shop.told("web", "SyncLoadBalancerFailed"), 0);
}

#[scenario]
async fn cloudscale_case_81_what_is_gone_already_is_not_deleted(shop: Shop) {
    shop.serve().await;
    let mark = shop.mark();
    shop.cloud.remove(&shop.balancer().uuid).unwrap();
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    shop.message("web", "DeletedLoadBalancer").await;
    assert_eq!(shop.told("web", "DeletingLoadBalancer"), 0);
    assert_eq!(shop.changes_from(mark), [""; 0]);
}

/// As from a backup: the same name in the cloud, and the annotation with the id of what is gone.
#[scenario]
async fn a_service_restored_right_after_its_deletion_is_not_told_that_another_owns_its_load_balancer(
    shop: Shop,
) {
    let named = |more: &[(&str, &str)]| {
        let name = [("k8s.cloudscale.ch/loadbalancer-name", "shop")];
        annotated("web", &[&name, more].concat())
    };
    shop.create_service(named(&[])).await;
    shop.until_ensured("web").await;
    let first = shop.balancer().uuid;
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    shop.create_service(named(&[(UUID, &first)])).await;
    shop.until_published("web").await;
    assert_ne!(shop.balancer().uuid, first);
    shop.settle().await;
    let news = shop.news("web");
    assert!(!news.iter().any(|it| it.starts_with("Warning")), "{news:?}");
}
