//! Several Services on one load balancer, and load balancers whose Service is gone.

use bowline_core::{Condition, Goal, NamespaceRule, StepOutcome};
use bowline_test_kit::PlanRun;

use super::harness::{Harness, L1, OTHER, UID, named, open, port, set};

/// Two Services that share L1: `external` or by its id alone.
async fn two(external: bool) -> Harness {
    let mut test = Harness::new().await;
    test.place("shared", &[(&format!("{OTHER}-443"), 443)]);
    let mut other = named("other", OTHER);
    other.ports = vec![port("TCP", 443, 30443)];
    set(&mut other, "id", L1);
    test.others = vec![other];
    test.set("id", L1);
    if external {
        test.set("external", "true");
    } else {
        // Made for this one, whatever its name.
        let labels = [("bowline-service-uid", UID)];
        test.sim.label_balancer(L1, &labels).unwrap();
        test.set("name", "shared");
    }
    test
}

#[tokio::test(start_paused = true)]
async fn a_port_of_another_service_is_refused_and_the_others_are_served() {
    for external in [true, false] {
        let mut test = two(external).await;
        test.service.ports = vec![port("TCP", 443, 30999), port("TCP", 80, 30080)];
        let outcome = test.ensure().await;
        assert_eq!(outcome.error, None);
        let problem = outcome.problem();
        assert!(
            problem.contains("443/tcp") && problem.contains("default/other"),
            "{problem}"
        );
        let listeners = test.listeners();
        assert_eq!(listeners[0], format!("{OTHER}-443 443/tcp→30443 tcp:30443"));
        assert_eq!(listeners[1], format!("{UID}-80 80/tcp→30080 tcp:30080"));
        assert_eq!(test.address(), "203.0.113.80");
        // Neither overwrites the other, however often they try.
        assert!(test.ensure().await.plan.is_empty());
        test.delete().await.good();
        assert_eq!(test.listener().name, format!("{OTHER}-443"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_of_a_service_that_is_gone_is_nobodys() {
    let mut test = two(true).await;
    test.others.clear();
    test.service.ports = vec![port("TCP", 443, 30999)];
    test.ensure().await.good();
    assert_eq!(
        test.listeners(),
        [format!("{UID}-443 443/tcp→30999 tcp:30999")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_managed_load_balancer_keeps_services_of_others_and_says_so() {
    let mut test = two(false).await;
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerShared"]);
    assert_eq!(test.listeners().len(), 2);
    let outcome = test.delete().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerShared"]);
    assert_eq!(test.listener().name, format!("{OTHER}-443"));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_another_remembers_is_that_ones_and_annotations_say_nothing() {
    let mut test = Harness::new().await;
    test.place("shared", &[("x", 80), ("y", 443)]);
    let ids: Vec<String> = test
        .balancer()
        .services
        .into_iter()
        .map(|it| it.id)
        .collect();
    let mut other = named("other", OTHER);
    other.conditions.push(Condition {
        kind: bowline_exoscale::RECORD.into(),
        status: "True".into(),
        reason: "Remembered".into(),
        message: format!("owned NLB services: {}", ids[0]),
    });
    test.others = vec![other];
    test.set("id", L1).set("external", "true");
    test.set("bowline.dev/exoscale-nlb-service-ids", &ids.join(","));
    assert!(test.ensure().await.problem().contains("default/other"));
    assert_eq!(test.get("bowline.dev/exoscale-nlb-service-ids"), "");
    assert_eq!(test.writes(), [""; 0]);
    test.set("bowline.dev/exoscale-nlb-service-ids", &ids.join(","));
    test.delete().await.good();
    assert_eq!(test.listeners().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn proof_case_19_a_living_services_load_balancer_moves_only_by_its_owners_word() {
    let mut test = open().await;
    let id = test.get("id").to_owned();
    let owner = test.service.clone();
    for namespace in ["default", "elsewhere"] {
        let mut thief = named("thief", OTHER);
        thief.key.namespace = namespace.into();
        thief.ports = vec![port("TCP", 443, 30443)];
        set(&mut thief, "bowline.dev/take-over", &id);
        (test.service, test.others) = (thief, vec![owner.clone()]);
        for rule in [NamespaceRule::Never, NamespaceRule::Any] {
            test.rules.adoption = rule;
            let outcome = test.ensure().await;
            assert_eq!(outcome.plan.problems[0].reason, "LoadBalancerNotOurs");
            assert!(!outcome.plan.problems[0].message.contains("default/web"));
            assert_eq!(test.writes(), [""; 0]);
        }
        test.rules.adoption = NamespaceRule::Never;
        test.delete().await.good();
        assert_eq!(test.writes(), [""; 0]);
    }
    // The owner says so.
    let heir = "elsewhere/thief";
    set(&mut test.others[0], "bowline.dev/hand-over", heir);
    let outcome = test.ensure().await;
    let reported = outcome.good().reasons();
    assert_eq!(reported, ["LoadBalancerTakenOver", "LoadBalancerShared"]);
    let moved = test.balancer();
    assert_eq!(
        (&*moved.id, &*moved.labels["bowline-service-uid"]),
        (&*id, OTHER)
    );
    assert_eq!(moved.name, format!("k8s-{OTHER}"));
    // The former owner gets a new one, and what it had there goes.
    let owner = test.others.remove(0);
    test.others = vec![std::mem::replace(&mut test.service, owner)];
    test.ensure().await.good();
    assert_ne!(test.get("id"), id);
    let all = test.all();
    assert_eq!(all.len(), 2);
    let of = |uid: &str| {
        let mut all = all.iter();
        all.find(|it| it.labels["bowline-service-uid"] == uid)
            .unwrap()
    };
    assert_eq!(of(UID).services[0].name, format!("{UID}-80"));
    let kept = of(OTHER).services.iter().map(|it| it.name.as_str());
    assert_eq!(kept.collect::<Vec<_>>(), [format!("{OTHER}-443")]);
}

#[tokio::test(start_paused = true)]
async fn proof_case_29_doubles_go_while_it_is_made_and_with_the_service() {
    let mut test = Harness::new().await;
    let double = |test: &Harness| {
        test.place("double", &[]);
        let labels = [("bowline-service-uid", UID), ("k8s-cluster-uid", "blue")];
        test.sim.label_balancer(L1, &labels).unwrap();
    };
    // Killed after the request, before anything was published; what it made shows up under an
    // earlier name.
    test.until_crash(Goal::Present, 1).await;
    double(&test);
    test.restart().await;
    test.ensure().await.good();
    assert_eq!(test.all().len(), 1, "{:?}", test.all());
    assert_eq!(test.get("id"), test.balancer().id);
    // One that shows up later goes with the Service.
    if test.balancer().id == L1 {
        return;
    }
    double(&test);
    test.delete().await.good();
    assert_eq!(test.all().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_change_at_a_time_for_each_load_balancer_and_nobody_is_held() {
    let mut test = two(true).await;
    test.sim.set_quirks(|it| it.one_change_at_a_time = true);
    let draft = test.draft(Goal::Present).await.unwrap();
    let mut first = PlanRun::new(draft);
    let mine = test.service.clone();
    test.others.push(mine);
    test.service = test.others.remove(0);
    test.service.ports = vec![port("TCP", 443, 31111)];
    let draft = test.draft(Goal::Present).await.unwrap();
    let mut second = PlanRun::new(draft);
    let progress = first.carry_out(0).await.unwrap();
    assert!(matches!(progress, StepOutcome::Wait { .. }));
    let StepOutcome::Wait { what, .. } = second.carry_out(0).await.unwrap() else {
        panic!("it was let through");
    };
    assert!(what.contains("another change of load balancer"), "{what}");
    test.wait(2).await;
    assert_eq!(first.carry_out(0).await.unwrap(), StepOutcome::Done);
    let progress = second.carry_out(0).await.unwrap();
    assert!(matches!(progress, StepOutcome::Wait { .. }));
    test.wait(2).await;
    assert_eq!(second.carry_out(0).await.unwrap(), StepOutcome::Done);
    assert_eq!(test.listeners().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_without_its_service_is_found_by_its_labels() {
    let mut test = open().await;
    test.place("by-hand", &[]);
    let marked = test
        .balancers()
        .marked(bowline_core::ClusterMarks::default())
        .await
        .unwrap();
    let [one] = marked.as_slice() else {
        panic!("{marked:?}");
    };
    assert_eq!((&*one.service_uid, &*one.id), (UID, test.get("id")));
    // Something of somebody else is on it.
    let id = one.id.clone();
    let theirs = bowline_simulator_exoscale::ServiceSpec::new("theirs", "workers", 9000, 30900);
    test.sim.add_service(&id, &theirs).unwrap();
    let refused = test.balancers().remove_orphan(one).await.unwrap_err();
    assert!(
        refused.to_string().contains("services of others"),
        "{refused}"
    );
    test.sim.remove_service(&id, "theirs").unwrap();
    test.balancers().remove_orphan(one).await.unwrap();
    test.wait(2).await;
    assert_eq!(test.balancer().name, "by-hand");
    test.balancers().remove_orphan(one).await.unwrap();
    test.unset("id");
}

#[tokio::test(start_paused = true)]
async fn what_may_be_that_of_a_service_that_cannot_be_read_is_left_alone() {
    for external in [true, false] {
        let mut test = two(external).await;
        // It cannot be read, and is in the list of uids all the same.
        test.unreadable = test.others.drain(..).map(|it| it.uid).collect();
        test.all_known = false;
        test.service.ports = vec![port("TCP", 443, 30999), port("TCP", 80, 30080)];
        for rule in [NamespaceRule::Never, NamespaceRule::Any] {
            test.rules.adoption = rule;
            let outcome = test.ensure().await;
            assert!(outcome.problem().contains("443/tcp"));
            assert_eq!(test.listeners().len(), 2);
        }
        test.delete().await.good();
        assert_eq!(test.listener().name, format!("{OTHER}-443"));
    }
}
