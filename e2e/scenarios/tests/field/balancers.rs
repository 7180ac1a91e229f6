//! Load balancers that cannot be deleted.

use bowline_core::CLEANUP_FINALIZER;
use bowline_scenarios::objects::annotated;
use bowline_scenarios::triton::section;
use bowline_scenarios::{scenario, status};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use bowline_simulator_triton::Triton;
use serde_json::json;

use super::harness::{BALANCING, Field, on};
use crate::many::harness::{EAST, EXOSCALE};
use crate::triton::service_harness::{PREFIX, ServiceHarness};

/// An hour of refusals.
const AN_HOUR: u64 = 3600;
/// Deletions that are tried in an hour, of each load balancer: at first after seconds, and every five minutes at last, each
/// with a few repetitions.
const TRIES: usize = 60;
/// Calls of all kinds to a cloud in that hour: some reads with each try, and the audit.
const CALLS: usize = 1000;

/// hetznercloud/hcloud-cloud-controller-manager#85: a load balancer that is protected from deletion kept its Service from
/// going for ever, with a call every few seconds. Now the Service says why it stays and what to do, the finalizer stays,
/// calls become rare, and once the protection is gone so is the load balancer.
#[scenario]
async fn a_protected_load_balancer_is_reported_and_goes_when_it_may() {
    let field = Field::serving(2).await;
    for (cloud, path) in [
        (EAST, "/v1/load-balancers/*"),
        (EXOSCALE, "/v2/load-balancer/*"),
    ] {
        let locked = Action::Status {
            code: 423,
            headers: [].into(),
            body: Some(
                json!({ "detail": "deletion is protected", "message": "deletion is protected" }),
            ),
        };
        let rule = Rule::new(locked).server(cloud);
        field.fault(rule.on("DELETE", path));
    }
    let mark = field.mark();
    for cloud in BALANCING {
        field.delete_service(&on(cloud)).await;
    }
    for cloud in BALANCING {
        let message = field.message(&on(cloud), "SyncLoadBalancerFailed").await;
        for words in [
            "failed to delete load balancer",
            "423",
            "deletion is protected",
            "remove what protects the load balancer",
        ] {
            assert!(message.contains(words), "{cloud}: {message}");
        }
    }
    field.long(AN_HOUR).await;
    for cloud in BALANCING {
        let name = on(cloud);
        assert_eq!(field.finalizers(&name), [CLEANUP_FINALIZER], "{cloud}");
        let condition = field.condition(&name);
        assert!(
            condition.contains("deletion is protected"),
            "{cloud}: {condition}"
        );
        let asked = field.asked(cloud, mark);
        let deletions = Filter::any().method("DELETE").status(423);
        let tried = asked.iter().filter(|it| deletions.matches(it)).count();
        println!(
            "{cloud}: {tried} deletions and {} calls in an hour",
            asked.len()
        );
        assert!((2..=TRIES).contains(&tried), "{cloud}: {tried} deletions");
        assert!(asked.len() <= CALLS, "{cloud}: {} calls", asked.len());
    }
    assert_eq!(field.balancer_counts(), [1, 0, 1]);
    field.world.faults.clear();
    for cloud in BALANCING {
        field.until_service_gone(&on(cloud)).await;
    }
    assert_eq!(field.balancer_counts(), [0, 0, 0]);
}

/// oracle/oci-cloud-controller-manager#434 again: the permission to delete is missing, which is answered with 404. Now the
/// load balancer has to be gone when it is read, too. `a_404_to_a_deletion_…` shows it at Exoscale.
#[scenario]
async fn a_deletion_that_may_not_be_is_not_taken_for_done() {
    let field = Field::serving(2).await;
    let hidden = Rule::new(status(404)).server(EAST);
    let refused = field.fault(hidden.on("DELETE", "/v1/load-balancers/*").times(4));
    field.delete_service(&on(EAST)).await;
    refused.struck(4).await;
    assert_eq!(field.finalizers(&on(EAST)), [CLEANUP_FINALIZER]);
    field.until_service_gone(&on(EAST)).await;
    assert_eq!(field.balancer_counts(), [0, 0, 1]);
}

/// hetznercloud/hcloud-cloud-controller-manager#85 at Triton, where a load balancer is a machine that people protect.
#[scenario]
async fn a_protected_load_balancer_machine_is_reported_and_goes_when_it_may() {
    let lines = [("clb-package", "lb1.small")];
    let test = ServiceHarness::configured(&section("LoadBalancer", &lines)).await;
    let mode = format!("{PREFIX}mode");
    test.serve_as(annotated("web", &[(&*mode, "clb")])).await;
    let machine = appliances(&test.cloud).remove(0);
    test.cloud.protect(&machine, true).unwrap();
    let mark = test.mark();
    test.delete_service("web").await;
    let message = test.message("web", "DeletionProtected").await;
    assert!(message.contains("takes the protection away"), "{message}");
    test.long(AN_HOUR).await;
    assert_eq!(test.finalizers("web"), [CLEANUP_FINALIZER]);
    assert_eq!(appliances(&test.cloud), std::slice::from_ref(&machine));
    let asked = test.entries().into_iter().skip(mark);
    let asked = asked.filter(|it| it.server == "triton").count();
    println!("triton: {asked} calls in an hour");
    assert!(asked <= CALLS, "{asked} calls");
    test.cloud.protect(&machine, false).unwrap();
    test.until_service_gone("web").await;
    assert_eq!(appliances(&test.cloud), [""; 0]);
    test.end().await;
}

/// The machines that were made for Services.
pub(crate) fn appliances(cloud: &Triton) -> Vec<String> {
    let all = cloud.machines().into_iter();
    let ours = all.filter(|it| it.tag("bowline.uid").is_some());
    ours.map(|it| it.id).collect()
}
