//! Cases on removing load balancers.

use bowline_core::{CLEANUP_FINALIZER, Goal, Impact};
use bowline_test_kit::PlanRun;

use bowline_simulator_exoscale::{BalancerSpec, ServiceSpec};

use super::harness::{Harness, L1, NAME, UID, key, open, port};
use crate::harness::P1;

#[tokio::test(start_paused = true)]
async fn exoscale_case_69_the_service_goes_then_the_load_balancer() {
    let mut test = open().await;
    let outcome = test.delete().await;
    assert_eq!(outcome.good().plan.impact(), Impact::Destroys);
    assert_eq!(
        test.writes(),
        ["delete-load-balancer-service", "delete-load-balancer"]
    );
    assert!(test.all().is_empty());
    assert!(test.delete().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_70_a_load_balancer_with_foreign_services_stays() {
    let mut test = Harness::new().await;
    test.place(NAME, &[(&format!("{UID}-80"), 80), ("theirs", 9000)]);
    test.set("id", L1).set("service-instancepool-id", P1);
    let outcome = test.delete().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerShared"]);
    assert_eq!(test.writes(), ["delete-load-balancer-service"]);
    assert_eq!(test.listener().name, "theirs");
}

/// What serves this Service's node port is its own; exoscale case 71 has less to go than before, by
/// proof case 28.
#[tokio::test(start_paused = true)]
async fn exoscale_case_71_and_proof_case_28_an_external_load_balancer_stays() {
    for (target, writes) in [(30080, 1), (30999, 0)] {
        let mut test = Harness::new().await;
        let old = ServiceSpec::new("old", P1, 80, target);
        let api = ServiceSpec::new("api", P1, 6443, 30443);
        let spec = BalancerSpec::named("shared").id(L1).service(old);
        test.sim.add_balancer(&spec.service(api)).unwrap();
        test.set("id", L1).set("external", "true");
        let outcome = test.ensure().await;
        assert_eq!(outcome.plan.problems.len(), 1 - writes);
        test.calls();
        let outcome = test.delete().await;
        outcome.good();
        assert_eq!(test.writes(), vec!["delete-load-balancer-service"; writes]);
        assert_eq!(test.balancer().services.len(), 2 - writes);
        assert_eq!(outcome.withdrawn, ["bowline.dev/exoscale-nlb-service-ids"]);
    }
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_72_what_is_gone_already_needs_nothing() {
    let mut test = open().await;
    test.sim.remove_balancer(test.get("id")).unwrap();
    assert!(test.delete().await.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
    // Between plan and deed as well.
    let mut test = open().await;
    let draft = test.draft(Goal::Absent).await.unwrap();
    test.sim.remove_balancer(test.get("id")).unwrap();
    let mut run = PlanRun::new(draft);
    while let Some(step) = run.next_step() {
        let progress = run.carry_out(step).await.unwrap();
        assert_eq!(progress, bowline_core::StepOutcome::Done);
    }
    assert!(test.delete().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_73_without_its_id_it_is_found_by_its_name() {
    let mut test = open().await;
    test.unset("id");
    test.delete().await.good();
    assert!(test.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_is_never_gone() {
    let mut test = open().await;
    test.fault("get-load-balancer", 99, super::harness::status(500));
    assert!(test.delete().await.error.is_some());
    test.world.faults.clear();
    test.unset("id");
    test.fault("list-load-balancers", 99, super::harness::status(500));
    assert!(test.delete().await.error.is_some());
    assert_eq!(test.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_86_ports_that_were_never_synced_do_not_keep_it_alive() {
    let mut test = open().await;
    test.service.ports = vec![port("TCP", 8080, 30080)];
    test.service.deleting = true;
    test.restart().await;
    test.delete().await.good();
    assert_eq!(
        test.writes(),
        ["delete-load-balancer-service", "delete-load-balancer"]
    );
    assert!(test.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_87_a_service_of_another_type_loses_all_but_itself() {
    let mut test = open().await;
    test.service.is_load_balancer = false;
    let outcome = test.delete().await;
    outcome.good();
    assert!(test.all().is_empty());
    let mut withdrawn = outcome.withdrawn;
    withdrawn.sort();
    assert_eq!(
        withdrawn,
        ["bowline.dev/exoscale-nlb-service-ids".to_owned(), key("id")]
    );
    test.unset("id");
    test.service.is_load_balancer = true;
    test.service.finalizers = vec![CLEANUP_FINALIZER.to_owned()];
    test.ensure().await.good();
    assert_eq!(test.balancer().name, NAME);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_was_interrupted_anywhere_is_finished() {
    for looks in 0..8 {
        let mut test = open().await;
        test.until_crash(Goal::Absent, looks).await;
        test.restart().await;
        test.delete().await.good();
        assert!(test.all().is_empty(), "after {looks} looks");
    }
}

#[tokio::test(start_paused = true)]
async fn services_with_our_name_are_found_wherever_they_are() {
    let mut test = Harness::new().await;
    test.place("theirs", &[(&format!("{UID}-80"), 80), ("api", 6443)]);
    test.delete().await.good();
    assert_eq!(test.listener().name, "api");
}
