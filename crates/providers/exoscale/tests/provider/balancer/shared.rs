//! Several Services on one load balancer, and load balancers whose Service is gone.

use bowline_core::{Goal, Progress};

use super::shop::{L1, OTHER, Shop, UID, named, open, port, set};

/// Two Services that share L1: `external` or by its id alone.
async fn two(external: bool) -> Shop {
    let mut shop = Shop::new().await;
    shop.place("shared", &[(&format!("{OTHER}-443"), 443)]);
    let mut other = named("other", OTHER);
    other.ports = vec![port("TCP", 443, 30443)];
    set(&mut other, "id", L1);
    shop.others = vec![other];
    shop.set("id", L1);
    if external {
        shop.set("external", "true");
    } else {
        shop.set("bowline.dev/take-over", L1);
    }
    shop
}

#[tokio::test(start_paused = true)]
async fn a_port_of_another_service_is_refused_and_the_others_are_served() {
    for external in [true, false] {
        let mut shop = two(external).await;
        shop.service.ports = vec![port("TCP", 443, 30999), port("TCP", 80, 30080)];
        let outcome = shop.ensure().await;
        assert_eq!(outcome.error, None);
        let problem = outcome.problem();
        assert!(
            problem.contains("443/tcp") && problem.contains("default/other"),
            "{problem}"
        );
        let listeners = shop.listeners();
        assert_eq!(listeners[0], format!("{OTHER}-443 443/tcp→30443 tcp:30443"));
        assert_eq!(listeners[1], format!("{UID}-80 80/tcp→30080 tcp:30080"));
        assert_eq!(shop.address(), "203.0.113.80");
        // Neither overwrites the other, however often they try.
        assert!(shop.ensure().await.plan.is_empty());
        shop.delete().await.good();
        assert_eq!(shop.listener().name, format!("{OTHER}-443"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_of_a_service_that_is_gone_is_nobodys() {
    let mut shop = two(true).await;
    shop.others.clear();
    shop.service.ports = vec![port("TCP", 443, 30999)];
    shop.ensure().await.good();
    assert_eq!(
        shop.listeners(),
        [format!("{UID}-443 443/tcp→30999 tcp:30999")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_managed_load_balancer_keeps_services_of_others_and_says_so() {
    let mut shop = two(false).await;
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerShared"]);
    assert_eq!(shop.listeners().len(), 2);
    let outcome = shop.delete().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerShared"]);
    assert_eq!(shop.listener().name, format!("{OTHER}-443"));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_another_remembers_is_that_ones() {
    let mut shop = Shop::new().await;
    shop.place("shared", &[("x", 80)]);
    let id = shop.listener().id;
    let mut other = named("other", OTHER);
    set(&mut other, "bowline.dev/exoscale-nlb-service-ids", &id);
    shop.others = vec![other];
    shop.set("id", L1).set("external", "true");
    assert!(shop.ensure().await.problem().contains("default/other"));
    // Both do, since somebody copied the Service: the older one has it.
    shop.set("bowline.dev/exoscale-nlb-service-ids", &id);
    shop.others[0].created = "2026-01-01T00:00:00Z".parse().unwrap();
    assert!(shop.ensure().await.problem().contains("default/other"));
    assert_eq!(shop.get("bowline.dev/exoscale-nlb-service-ids"), "");
    shop.set("bowline.dev/exoscale-nlb-service-ids", &id);
    shop.others[0].created = "2026-03-01T00:00:00Z".parse().unwrap();
    shop.ensure().await.good();
    assert_eq!(shop.listener().name, format!("{UID}-80"));
}

#[tokio::test(start_paused = true)]
async fn one_change_at_a_time_for_each_load_balancer_and_nobody_is_held() {
    let mut shop = two(true).await;
    shop.stage
        .sim
        .set_quirks(|it| it.one_change_at_a_time = true);
    let draft = shop.draft(Goal::Present).await.unwrap();
    let mut first = draft.executor;
    let mine = shop.service.clone();
    shop.others.push(mine);
    shop.service = shop.others.remove(0);
    shop.service.ports = vec![port("TCP", 443, 31111)];
    let draft = shop.draft(Goal::Present).await.unwrap();
    let mut second = draft.executor;
    let progress = first.carry_out(0).await.unwrap();
    assert!(matches!(progress, Progress::Wait { .. }));
    let Progress::Wait { what, .. } = second.carry_out(0).await.unwrap() else {
        panic!("it was let through");
    };
    assert!(what.contains("another change of load balancer"), "{what}");
    shop.wait(2).await;
    assert_eq!(first.carry_out(0).await.unwrap(), Progress::Done);
    let progress = second.carry_out(0).await.unwrap();
    assert!(matches!(progress, Progress::Wait { .. }));
    shop.wait(2).await;
    assert_eq!(second.carry_out(0).await.unwrap(), Progress::Done);
    assert_eq!(shop.listeners().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_without_its_service_is_found_by_its_labels() {
    let mut shop = open().await;
    shop.place("by-hand", &[]);
    let marked = shop
        .balancers()
        .marked(bowline_core::ClusterMarks::default())
        .await
        .unwrap();
    let [one] = marked.as_slice() else {
        panic!("{marked:?}");
    };
    assert_eq!((&*one.service_uid, &*one.id), (UID, shop.get("id")));
    // Something of somebody else is on it.
    let id = one.id.clone();
    let theirs = bowline_simulator::exoscale::ServiceSpec::new("theirs", "workers", 9000, 30900);
    shop.stage.sim.add_service(&id, &theirs).unwrap();
    let refused = shop.balancers().remove_orphan(one).await.unwrap_err();
    assert!(
        refused.to_string().contains("services of others"),
        "{refused}"
    );
    shop.stage.sim.remove_service(&id, "theirs").unwrap();
    shop.balancers().remove_orphan(one).await.unwrap();
    shop.wait(2).await;
    assert_eq!(shop.balancer().name, "by-hand");
    shop.balancers().remove_orphan(one).await.unwrap();
    shop.unset("id");
}

#[tokio::test(start_paused = true)]
async fn what_may_be_that_of_a_service_that_cannot_be_read_is_left_alone() {
    for external in [true, false] {
        let mut shop = two(external).await;
        shop.others.clear();
        shop.all_known = false;
        shop.service.ports = vec![port("TCP", 443, 30999), port("TCP", 80, 30080)];
        let outcome = shop.ensure().await;
        assert!(outcome.problem().contains("cannot be read"));
        assert_eq!(shop.listeners().len(), 2);
        let error = shop.delete().await.error.unwrap();
        assert!(error.contains("cannot be read"), "{error}");
        assert_eq!(shop.listeners().len(), 2);
        // What is at other ports stays, whosever it is.
        shop.service.ports.remove(0);
        shop.delete().await.good();
        assert_eq!(shop.listener().name, format!("{OTHER}-443"));
    }
}
