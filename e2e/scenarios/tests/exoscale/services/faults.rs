//! A cloud that fails, or never ends what it began.

use std::time::Duration;

use bowline_scenarios::objects::service;
use bowline_scenarios::scenario;
use bowline_simulator_exoscale::Ending;

use super::shop::Shop;

#[scenario]
async fn exoscale_case_80_a_failed_operation_is_told_and_tried_again(shop: Shop) {
    let failure = Ending::failure("conflict", "the message of the cloud");
    shop.cloud
        .plan("add-service-to-load-balancer", failure, Some(1));
    shop.create_service(service("web")).await;
    let message = shop.message("web", "SyncLoadBalancerFailed").await;
    let wanted = "Error syncing load balancer: failed to ensure load balancer: ";
    assert!(message.starts_with(wanted), "{message}");
    assert!(message.contains("reason conflict"), "{message}");
    assert!(message.contains("the message of the cloud"), "{message}");
    shop.until_ensured("web").await;
    assert_eq!(shop.balancer().services.len(), 1);
}

#[scenario]
async fn exoscale_case_88_a_failure_in_the_first_answer_is_told_and_tried_again(shop: Shop) {
    let busy = Ending::failure("busy", "later").after(Duration::ZERO);
    shop.cloud
        .plan("add-service-to-load-balancer", busy, Some(1));
    shop.create_service(service("web")).await;
    let message = shop.message("web", "SyncLoadBalancerFailed").await;
    assert!(message.contains("reason busy"), "{message}");
    shop.until_ensured("web").await;
    assert_eq!(shop.balancer().services.len(), 1);
}

#[scenario]
async fn exoscale_case_81_an_endless_operation_of_one_service_delays_no_other(shop: Shop) {
    shop.cloud
        .plan("create-load-balancer", Ending::never(), Some(1));
    shop.create_service(service("slow")).await;
    shop.until_asked(0, "get-operation").await;
    shop.create_service(service("web")).await;
    shop.until_ensured("web").await;
    assert_eq!(shop.entrances("slow"), [""; 0]);
    shop.cloud.end_operations();
    shop.until_ensured("slow").await;
    assert_eq!(shop.cloud.balancers().len(), 2);
}
