//! From a new Service to its address, and what changes it.

use std::time::Duration;

use bowline_scenarios::objects::{entrances, finalizers, service};
use bowline_scenarios::scenario;
use serde_json::json;

use super::service_harness::{FINALIZER, ServiceHarness, annotation, key, uid};
use crate::exoscale::harness::{I1, I2, I4, P1};

#[scenario]
async fn exoscale_case_39_a_new_service_gets_the_originals_load_balancer_and_its_address(
    test: ServiceHarness,
) {
    let shown = test.serve().await;
    let balancer = test.balancer();
    let uid = uid(&shown);
    assert_eq!(balancer.name, format!("k8s-{uid}"));
    assert_eq!(balancer.labels["bowline-service-uid"], uid);
    let [listener] = balancer.services.as_slice() else {
        panic!("{:?}", balancer.services);
    };
    assert_eq!(listener.name, format!("{uid}-80"));
    let port = shown["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert_eq!(u64::from(listener.target_port), port);
    assert_eq!((&*listener.strategy, &*listener.pool), ("round-robin", P1));
    assert_eq!(annotation(&shown, "id"), balancer.id);
    assert_eq!(annotation(&shown, "service-instancepool-id"), P1);
    assert_eq!(finalizers(&shown), [FINALIZER]);
    assert_eq!(entrances(&shown), [format!("{} VIP", balancer.ip)]);
    assert_eq!(
        test.changes(0),
        ["create-load-balancer", "add-service-to-load-balancer"]
    );
}

#[scenario]
async fn exoscale_case_84_finalizer_pool_id_and_address_are_written_in_this_order(
    test: ServiceHarness,
) {
    test.serve().await;
    let written = test.written(0);
    let kinds: Vec<&str> = written
        .iter()
        .flat_map(|it| it.split('+'))
        .filter(|it| !it.is_empty() && *it != "condition")
        .collect();
    assert_eq!(kinds, ["finalizer", "pool", "id", "address"], "{written:?}");
}

#[scenario]
async fn exoscale_case_58_a_second_look_and_a_restart_write_nothing(mut test: ServiceHarness) {
    let before = test.serve().await;
    let mark = test.mark();
    test.annotate("web", "example.org/note", Some("one")).await;
    test.until_asked(mark, "get-load-balancer").await;
    test.seconds(3).await;
    assert_eq!(test.changes(mark), [""; 0]);
    assert_eq!(test.written(mark), [""; 0]);
    let mark = test.mark();
    test.restart().await;
    test.until_asked(mark, "get-load-balancer").await;
    test.seconds(3).await;
    assert_eq!(test.changes(mark), [""; 0]);
    assert_eq!(test.written(mark), [""; 0]);
    assert_eq!(test.service("web")["status"], before["status"]);
}

#[scenario]
async fn nodes_that_come_and_go_need_no_call(test: ServiceHarness) {
    test.serve().await;
    let mark = test.mark();
    test.add_node(I4).await;
    test.delete("node-7d").await;
    test.seconds(30).await;
    let asked = test.asked(mark);
    assert!(
        !asked.iter().any(|it| it.contains("load-balancer")),
        "{asked:?}"
    );
}

#[scenario]
async fn exoscale_case_47_a_node_that_joins_settles_which_pool_it_is() {
    let mut test = ServiceHarness::idle(&[I4]).await;
    test.start().await;
    test.create_service(service("web")).await;
    let message = test.message("web", "InvalidLoadBalancerConfig").await;
    assert!(message.contains("couldn't infer any Instance Pool from cluster Nodes"));
    assert_eq!(test.cloud.balancers(), []);
    test.add_node(I1).await;
    let shown = test.until_ensured("web").await;
    assert_eq!(annotation(&shown, "service-instancepool-id"), P1);
    test.end().await;
}

#[scenario]
async fn exoscale_case_59_a_load_balancer_that_is_gone_is_made_anew_with_the_next_change(
    test: ServiceHarness,
) {
    let before = test.serve().await;
    let (id, mark) = (annotation(&before, "id").to_owned(), test.mark());
    test.cloud.remove_balancer(&id).unwrap();
    test.annotate("web", "example.org/note", Some("one")).await;
    test.until_asked(mark, "add-service-to-load-balancer").await;
    let address = entrances(&before);
    let other = |it: &serde_json::Value| !entrances(it).is_empty() && entrances(it) != address;
    let shown = test.until_service("web", "another address", other).await;
    assert_ne!(annotation(&shown, "id"), id);
    assert_eq!(annotation(&shown, "id"), test.balancer().id);
    test.message("web", "LoadBalancerRecreated").await;
}

#[scenario]
async fn exoscale_case_89_an_address_is_shown_when_there_is_one_and_once(test: ServiceHarness) {
    test.cloud
        .set_timings(|it| it.address = Duration::from_secs(20));
    test.create_service(service("web")).await;
    test.seconds(10).await;
    assert_eq!(test.entrances("web"), [""; 0]);
    test.until_ensured("web").await;
    let addresses = test.written(0).into_iter();
    assert_eq!(addresses.filter(|it| it.contains("address")).count(), 1);
    assert_eq!(test.event_count("web", "SyncLoadBalancerFailed"), 0);
}

#[scenario]
async fn exoscale_case_51_a_bad_setting_is_told_and_nothing_is_changed(test: ServiceHarness) {
    let mark = test.mark();
    let mut web = service("web");
    web["metadata"]["annotations"] = json!({key("service-healthcheck-interval"): "abc"});
    test.create_service(web).await;
    let message = test.message("web", "InvalidLoadBalancerConfig").await;
    assert!(message.contains("\"abc\""), "{message}");
    assert_eq!(test.changes(mark), [""; 0]);
    test.annotate("web", &key("service-healthcheck-interval"), Some("15"))
        .await;
    test.until_ensured("web").await;
    assert_eq!(test.balancer().services[0].healthcheck.interval, 15);
}

#[scenario]
async fn exoscale_case_62_a_process_that_dies_anywhere_leaves_one_load_balancer() {
    for operation in [
        "create-load-balancer",
        "get-operation",
        "add-service-to-load-balancer",
    ] {
        let mut test = ServiceHarness::idle(&[I1, I2]).await;
        test.start().await;
        test.create_service(service("web")).await;
        test.until_asked(0, operation).await;
        test.kill().await;
        test.start().await;
        let shown = test.until_published("web").await;
        let balancer = test.balancer();
        assert_eq!(annotation(&shown, "id"), balancer.id, "{operation}");
        assert_eq!(balancer.services.len(), 1, "{operation}");
        test.end().await;
    }
}
