//! A cloud that fails, or never ends what it began.

use std::time::Duration;

use bowline_scenarios::objects::service;
use bowline_scenarios::scenario;
use bowline_simulator_exoscale::Ending;

use super::service_harness::ServiceHarness;

#[scenario]
async fn exoscale_case_80_a_failed_operation_is_told_and_tried_again(test: ServiceHarness) {
    let failure = Ending::failure("conflict", "the message of the cloud");
    test.cloud
        .plan("add-service-to-load-balancer", failure, Some(1));
    test.create_service(service("web")).await;
    let message = test.message("web", "SyncLoadBalancerFailed").await;
    let wanted = "Error syncing load balancer: failed to ensure load balancer: ";
    assert!(message.starts_with(wanted), "{message}");
    assert!(message.contains("reason conflict"), "{message}");
    assert!(message.contains("the message of the cloud"), "{message}");
    test.until_ensured("web").await;
    assert_eq!(test.balancer().services.len(), 1);
}

#[scenario]
async fn exoscale_case_88_a_failure_in_the_first_answer_is_told_and_tried_again(
    test: ServiceHarness,
) {
    let busy = Ending::failure("busy", "later").after(Duration::ZERO);
    test.cloud
        .plan("add-service-to-load-balancer", busy, Some(1));
    test.create_service(service("web")).await;
    let message = test.message("web", "SyncLoadBalancerFailed").await;
    assert!(message.contains("reason busy"), "{message}");
    test.until_ensured("web").await;
    assert_eq!(test.balancer().services.len(), 1);
}

#[scenario]
async fn exoscale_case_81_an_endless_operation_of_one_service_delays_no_other(
    test: ServiceHarness,
) {
    test.cloud
        .plan("create-load-balancer", Ending::never(), Some(1));
    test.create_service(service("slow")).await;
    test.until_asked(0, "get-operation").await;
    test.create_service(service("web")).await;
    test.until_ensured("web").await;
    assert_eq!(test.entrances("slow"), [""; 0]);
    test.cloud.end_operations();
    test.until_ensured("slow").await;
    assert_eq!(test.cloud.balancers().len(), 2);
}
