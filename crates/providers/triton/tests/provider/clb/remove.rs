//! Cases on taking load balancer machines away.

use bowline_core::{ClusterMatch, Goal};
use bowline_simulator_triton::MachineSpec;
use bowline_test_kit::PlanRun;

use crate::common;

use super::harness::{CLUSTER, Harness, NAME, UID, named, open, steps};

const OTHER: &str = "dddddddd-0000-4000-8000-00000000000d";

#[tokio::test(start_paused = true)]
async fn triton_case_55_a_machine_that_its_user_protects_stays_until_they_do_not() {
    let mut test = open().await;
    test.sim.protect(NAME, true).unwrap();
    test.wait(10).await;
    let outcome = test.delete().await;
    assert_eq!(outcome.problems(), ["DeletionProtected"]);
    assert_eq!(test.names(), [NAME]);
    test.sim.protect(NAME, false).unwrap();
    test.wait(10).await;
    test.delete().await.good();
    assert_eq!(test.machines(), []);
    assert_eq!(test.rules().len(), 0);
    for number in 1..=3 {
        let node = test.sim.machine(&format!("k8s-{number}")).unwrap();
        assert_eq!(node.tag("triton.cns.services"), None);
    }
    test.wait(10).await;
    assert!(test.delete().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn protection_that_was_asked_for_is_put_up_and_taken_away() {
    let mut test = open().await;
    test.set("deletion_protection", "true");
    test.ensure().await.good();
    assert!(test.machine().deletion_protection);
    test.delete().await.good();
    assert_eq!(test.machines(), []);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_say_that_it_is_ours_is_never_deleted() {
    for (tag, value) in [
        ("bowline.uid", Some("another".into())),
        ("bowline.clb", Some(OTHER.into())),
        ("bowline.clb", None),
    ] {
        let mut test = open().await;
        let draft = test.draft(Goal::Absent).await.unwrap();
        // Between the plan and its step.
        test.sim.set_tag(NAME, tag, value).unwrap();
        let mut steps = draft.plan.steps.iter();
        let delete = steps.position(|it| it.object.name == NAME).unwrap();
        let mut run = PlanRun::new(draft);
        let error = run.carry_out(delete).await.unwrap_err();
        assert!(error.to_string().contains("stays"), "{error}");
        assert!(!test.writes().contains(&"deletemachine".to_owned()));
        test.wait(10).await;
        test.delete().await.good();
        assert!(test.sim.machine(NAME).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn the_label_of_the_nodes_stays_while_another_service_needs_it() {
    let mut test = open().await;
    let uid = "11111111-7d11-4c55-9a0e-5b2f6f1f0a01";
    test.others = vec![named("api", uid, &[(80, 30081)])];
    test.delete().await.good();
    let node = test.sim.machine("k8s-1").unwrap();
    assert_eq!(node.tag("triton.cns.services"), Some("k8s-nodes-cccccccc"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_survives_a_crash_at_every_look() {
    for looks in 1..6 {
        let mut test = open().await;
        test.until_crash(Goal::Absent, looks).await;
        test.restart();
        test.wait(10).await;
        test.delete().await.good();
        let left = (test.machines().len(), test.rules().len());
        assert_eq!(left, (0, 0), "{looks}");
    }
}

#[tokio::test(start_paused = true)]
async fn orphans_are_ours_by_the_uid_of_the_cluster_and_go_only_unprotected() {
    let test = open().await;
    let foreign = MachineSpec::named("other-clb-0")
        .tag("bowline.clb", OTHER)
        .tag("bowline.uid", "u");
    test.sim.add_machine(&foreign).unwrap();
    let marked = common::marked(&test.cloud).await;
    let of = |name: &str| marked.iter().find(|it| it.name == name).unwrap();
    assert_eq!(of(NAME).service_uid, UID);
    assert_eq!(of(NAME).cluster, ClusterMatch::Ours);
    assert_eq!(of("other-clb-0").cluster, ClusterMatch::Foreign);
    let refused = test.balancers().remove_orphan(of("other-clb-0")).await;
    assert!(refused.unwrap_err().to_string().contains("another mark"));
    test.sim.protect(NAME, true).unwrap();
    let refused = test.balancers().remove_orphan(of(NAME)).await;
    assert!(refused.unwrap_err().to_string().contains("protected"));
    test.sim.protect(NAME, false).unwrap();
    test.balancers().remove_orphan(of(NAME)).await.unwrap();
    test.wait(2).await;
    assert_eq!(test.names(), ["other-clb-0"]);
    let fresh = Harness::new();
    fresh.sim.add_machine(&foreign).unwrap();
    let whose = &common::marked(&fresh.cloud).await[0].cluster;
    let is_unclear = matches!(whose, ClusterMatch::Unclear(_));
    assert!(is_unclear, "no uid is known yet");
}

#[tokio::test(start_paused = true)]
async fn machines_of_the_former_controller_are_taken_over_if_that_is_configured() {
    for (lines, adopted) in [("", false), ("adopt-legacy = true", true)] {
        let mut test = Harness::with(lines);
        let mut legacy = MachineSpec::named("web")
            .package("lb1.small")
            .tag("managed-by", "triton-loadbalancer-controller")
            .tag("loadbalancer", true);
        legacy.image = Some("cloud-load-balancer".to_owned());
        legacy.firewall_enabled = true;
        test.sim.add_machine(&legacy).unwrap();
        let outcome = test.ensure().await;
        outcome.good();
        let machine = test.machine();
        assert_eq!(machine.name == "web", adopted, "{:?}", steps(&outcome.plan));
        assert_eq!(machine.tag("bowline.clb"), Some(CLUSTER));
        assert_eq!(machine.tag("bowline.uid"), Some(UID));
        if adopted {
            let former = machine.tag("managed-by");
            assert_eq!(former, Some("triton-loadbalancer-controller"));
            test.wait(10).await;
            assert!(test.ensure().await.good().plan.is_empty());
        }
    }
}
