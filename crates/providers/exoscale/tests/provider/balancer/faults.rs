//! Cases on a cloud that fails, waits or allows little, and on crashes.

use std::time::Duration;

use bowline_core::{Goal, StepOutcome};
use bowline_simulator::faults::Action;
use bowline_simulator_exoscale::{BalancerSpec, Ending, ServiceSpec};
use bowline_test_kit::PlanRun;

use super::harness::{Harness, L1, NAME, UID, open, port, status, steps};
use crate::harness::{P1, P2};

#[tokio::test(start_paused = true)]
async fn exoscale_case_61_a_load_balancer_of_our_name_is_adopted() {
    let mut test = Harness::new().await;
    test.place(NAME, &[]);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerFound"]);
    assert!(!outcome.notices[0].warning);
    assert_eq!((test.get("id"), &*test.balancer().id), (L1, L1));
    assert_eq!(test.writes(), ["add-service-to-load-balancer"]);
}

#[tokio::test(start_paused = true)]
async fn one_with_our_labels_is_adopted_whatever_its_name() {
    let mut test = Harness::new().await;
    test.place("renamed", &[]);
    let labels = [("bowline-service-uid", UID), ("bowline-cluster", "blue")];
    test.sim.label_balancer(L1, &labels).unwrap();
    // Another cluster may have a Service of the same uid: it was copied.
    test.cluster_name = "green".into();
    test.set("name", "edge");
    test.ensure().await.good();
    assert_eq!(test.all().len(), 2);
    test.sim.remove_balancer("edge").unwrap();
    test.unset("id").cluster_name = "blue".into();
    test.ensure().await.good();
    assert_eq!((&*test.balancer().id, &*test.balancer().name), (L1, "edge"));
}

#[tokio::test(start_paused = true)]
async fn proof_case_16_what_somebody_else_made_is_untouched_by_name_id_and_take_over() {
    for pair in [
        ("name", "kube-api"),
        ("id", L1),
        ("bowline.dev/take-over", L1),
    ] {
        let mut test = Harness::new().await;
        test.place("kube-api", &[("api", 6443)]);
        test.service.ports = vec![port("TCP", 6443, 30111)];
        test.set(pair.0, pair.1);
        let before = test.balancer();
        let outcome = test.ensure().await;
        let answer: Vec<&str> = outcome.plan.problems.iter().map(|it| it.reason).collect();
        let reported = [answer, outcome.reasons()].concat();
        assert!(
            reported.contains(&"LoadBalancerNotOurs"),
            "{pair:?}: {reported:?}"
        );
        assert_eq!(test.writes(), [""; 0], "{pair:?}");
        // Nobody learns what he did not know.
        let texts = outcome.plan.problems.iter().map(|it| &it.message);
        for text in texts.chain(outcome.notices.iter().map(|it| &it.message)) {
            let knows = pair.1 == L1;
            assert!(knows || !text.contains(L1), "proof case 30: {text}");
            assert!(!text.contains("203.0.113"), "proof case 30: {text}");
        }
        test.delete().await.good();
        assert_eq!(test.balancer(), before, "{pair:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn proof_case_17_the_originals_with_a_name_of_its_own_is_marked_first_and_only_that() {
    for shown in [true, false] {
        let mut test = Harness::new().await;
        test.place("edge", &[(&format!("{UID}-80"), 80)]);
        test.sim.describe_balancer(L1, "by hand").unwrap();
        test.set("name", "edge").set("id", L1);
        test.set("service-instancepool-id", P1);
        let address = if shown {
            "203.0.113.80"
        } else {
            "198.51.100.1"
        };
        test.service.ingress = vec![bowline_core::Ingress {
            ip: Some(address.into()),
            ..bowline_core::Ingress::default()
        }];
        // Its type may have changed in the moment of the switch.
        let mut leaving = test.draft(Goal::Absent).await.unwrap().plan;
        assert_eq!(steps(&leaving).pop().unwrap(), "delete load balancer edge");
        leaving.steps.clear();
        let outcome = test.ensure().await;
        assert_eq!(outcome.good().reasons(), [""; 0]);
        let changes = test.changes();
        let [(operation, body)] = changes.as_slice() else {
            panic!("{changes:?}");
        };
        assert_eq!(operation, "update-load-balancer");
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        assert_eq!(body["labels"]["bowline-service-uid"], UID);
        assert_eq!(body["labels"]["k8s-cluster-uid"], "blue");
        assert_eq!(body["labels"]["k8s-service"], "default.web");
        assert_eq!(test.balancer().description.as_deref(), Some("by hand"));
        assert!(test.ensure().await.good().plan.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn proof_case_18_the_load_balancer_of_another_cluster_is_not_ours() {
    let mut test = Harness::new().await;
    // Same port and node port, to a pool without a node of this cluster.
    let foreign = ServiceSpec::new("web", P2, 80, 30080);
    let spec = BalancerSpec::named("edge").id(L1).service(foreign);
    test.sim.add_balancer(&spec).unwrap();
    test.set("name", "edge").set("service-name", "web");
    for id in [false, true] {
        if id {
            test.set("id", L1);
        }
        let outcome = test.ensure().await;
        let wanted = if id {
            "PortInUse"
        } else {
            "LoadBalancerNotOurs"
        };
        assert_eq!(outcome.plan.problems[0].reason, wanted);
    }
    assert_eq!(test.writes(), [""; 0]);
    test.delete().await.good();
    assert_eq!(test.listener().pool, P2);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_62_a_crash_anywhere_leaves_exactly_one() {
    for custom in [false, true] {
        for looks in 0..9 {
            let mut test = Harness::new().await;
            if custom {
                test.set("name", "edge").set("service-name", "x");
            }
            test.until_crash(Goal::Present, looks).await;
            // What was last written is lost with the process.
            if looks % 2 == 1 {
                test.unset("id").unset("service-instancepool-id");
            }
            test.restart().await;
            test.ensure().await.good();
            assert_eq!(test.get("id"), test.balancer().id, "after {looks} looks");
            assert_eq!(test.listener().port, 80);
            assert!(test.ensure().await.good().plan.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_id_is_known_before_the_operation_is_waited_for() {
    let test = Harness::new().await;
    let draft = test.draft(Goal::Present).await.unwrap();
    let mut run = PlanRun::new(draft);
    let progress = run.carry_out(0).await.unwrap();
    assert!(matches!(progress, StepOutcome::Wait { .. }), "{progress:?}");
    let id = run.publication().annotations[&super::harness::key("id")].clone();
    assert_eq!(id, test.balancer().id);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_79_a_cloud_that_is_not_there_for_a_moment_makes_one() {
    let mut test = Harness::new().await;
    test.fault("create-load-balancer", 2, status(503));
    test.ensure().await.good();
    assert_eq!(test.balancer().name, NAME);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_makes_one() {
    for action in [Action::LostAnswer, Action::Truncated] {
        for operation in ["create-load-balancer", "add-service-to-load-balancer"] {
            let mut test = Harness::new().await;
            test.set("name", "edge");
            test.fault(operation, 1, action.clone());
            test.ensure().await;
            test.ensure().await.good();
            assert_eq!((test.all().len(), test.listener().port), (1, 80));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_80_a_failed_operation_says_why() {
    let mut test = Harness::new().await;
    let failure = Ending::failure("conflict", "m");
    test.sim
        .plan("add-service-to-load-balancer", failure, Some(1));
    let error = test.ensure().await.error.unwrap();
    assert!(
        error.contains("reason conflict") && error.ends_with(": m"),
        "{error}"
    );
    test.ensure().await.good();
    assert_eq!(test.listener().port, 80);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_81_an_endless_operation_holds_nobody_and_ends_after_ten_minutes() {
    let mut test = Harness::new().await;
    test.sim
        .plan("create-load-balancer", Ending::never(), Some(1));
    let before = tokio::time::Instant::now();
    let error = test.ensure().await.error.unwrap();
    assert!(error.contains("is not done after 10 minutes"), "{error}");
    assert_eq!(before.elapsed().as_secs(), 600);
    // What it is about is not forgotten.
    assert_eq!(test.get("id"), test.balancer().id);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_88_a_failure_in_the_first_answer_is_one() {
    let mut test = Harness::new().await;
    let failure = Ending::failure("busy", "try later").after(Duration::ZERO);
    test.sim
        .plan("add-service-to-load-balancer", failure, Some(1));
    let error = test.ensure().await.error.unwrap();
    assert!(error.contains("reason busy"), "{error}");
    test.ensure().await.good();
    assert_eq!(test.listener().port, 80);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_89_no_address_is_shown_before_there_is_one() {
    let mut test = Harness::new().await;
    test.sim
        .set_timings(|it| it.address = Duration::from_secs(20));
    let before = tokio::time::Instant::now();
    test.ensure().await.good();
    assert!(before.elapsed() >= Duration::from_secs(20));
    assert_eq!(test.address(), test.balancer().ip.to_string());
    // There is an end to it.
    let mut test = Harness::new().await;
    test.sim
        .set_timings(|it| it.address = Duration::from_secs(200));
    let error = test.ensure().await.error.unwrap();
    assert!(error.contains("still waiting for an address"), "{error}");
    assert_eq!(test.address(), "");
    test.wait(200).await;
    test.ensure().await.good();
    assert_eq!(test.address(), test.balancer().ip.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_new_load_balancer_may_be_out_of_sight_for_a_while() {
    let mut test = Harness::new().await;
    test.sim
        .set_timings(|it| it.created_invisible = Duration::from_secs(10));
    test.ensure().await.good();
    assert_eq!(test.writes().len(), 2);
    // A crash in that time does not make a second one.
    let mut test = Harness::new().await;
    test.sim
        .set_timings(|it| it.created_invisible = Duration::from_secs(10));
    test.until_crash(Goal::Present, 1).await;
    test.restart().await;
    let error = test.ensure().await.error.unwrap();
    assert!(error.contains("already exists"), "{error}");
    test.wait(10).await;
    test.ensure().await.good();
    assert_eq!(test.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_101_a_role_for_the_original_is_enough() {
    let mut test = Harness::new().await;
    test.sim.deny(&[
        "list-instances",
        "list-instance-types",
        "list-load-balancers",
        "list-instance-pools",
        "reset-load-balancer-field",
        "reset-load-balancer-service-field",
    ]);
    test.set("description", "d");
    test.ensure().await.good();
    assert_eq!(
        (test.get("service-instancepool-id"), test.listener().port),
        (P1, 80)
    );
    // A description that cannot be emptied stays, and is reported.
    test.unset("description");
    let outcome = test.ensure().await;
    assert_eq!(outcome.incomplete().reasons(), ["DescriptionStays"]);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["DescriptionStays"]);
    assert!(outcome.plan.is_empty());
    test.delete().await.good();
    assert!(test.all().is_empty());
    assert!(test.delete().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_111_without_a_reference_it_is_found_by_its_name() {
    for name in [NAME, "edge"] {
        let mut test = Harness::new().await;
        test.set("name", name);
        let silent = Ending::success().without_reference();
        test.sim.plan("create-load-balancer", silent, Some(1));
        test.ensure().await.good();
        assert_eq!(test.get("id"), test.balancer().id);
        let posts = test.writes();
        assert_eq!(
            posts,
            ["create-load-balancer", "add-service-to-load-balancer"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_112_a_cloud_without_labels_makes_one_without() {
    let mut test = Harness::new().await;
    test.sim.set_quirks(|it| it.labels_refused = true);
    test.ensure().await.good();
    let changes = test.changes();
    let bodies: Vec<bool> = changes
        .iter()
        .map(|it| it.1.get("labels").is_some())
        .collect();
    assert_eq!(bodies, [true, false, false]);
    assert!(test.balancer().labels.is_empty());
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_read_is_an_error_and_nothing_is_deleted() {
    let mut test = open().await;
    let service = test.listener().id;
    let mut members = serde_json::Map::new();
    members.insert("port".into(), serde_json::json!("eighty"));
    test.sim.deform(&service, members);
    assert!(
        test.ensure()
            .await
            .error
            .unwrap()
            .contains("cannot be read")
    );
    assert!(
        test.delete()
            .await
            .error
            .unwrap()
            .contains("cannot be read")
    );
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_disabled_cloud_has_no_load_balancers() {
    let test = Harness::with("loadBalancer: {disabled: true}").await;
    assert!(test.cloud.balancers().is_none());
}
