//! From a new Service to its address, and what changes it.

use std::time::Duration;

use bowline_scenarios::objects::{entrances, finalizers, service};
use bowline_scenarios::scenario;
use serde_json::json;

use super::shop::{FINALIZER, Shop, annotation, key, uid};
use crate::stage::{I1, I2, I4, P1};

#[scenario]
async fn exoscale_case_39_a_new_service_gets_the_originals_load_balancer_and_its_address(
    shop: Shop,
) {
    let shown = shop.serve().await;
    let balancer = shop.balancer();
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
        shop.changes(0),
        ["create-load-balancer", "add-service-to-load-balancer"]
    );
}

#[scenario]
async fn exoscale_case_84_finalizer_pool_id_and_address_are_written_in_this_order(shop: Shop) {
    shop.serve().await;
    let written = shop.written(0);
    let kinds: Vec<&str> = written
        .iter()
        .flat_map(|it| it.split('+'))
        .filter(|it| !it.is_empty() && *it != "condition")
        .collect();
    assert_eq!(kinds, ["finalizer", "pool", "id", "address"], "{written:?}");
}

#[scenario]
async fn exoscale_case_58_a_second_look_and_a_restart_write_nothing(mut shop: Shop) {
    let before = shop.serve().await;
    let mark = shop.mark();
    shop.annotate("web", "example.org/note", Some("one")).await;
    shop.until_asked(mark, "get-load-balancer").await;
    shop.seconds(3).await;
    assert_eq!(shop.changes(mark), [""; 0]);
    assert_eq!(shop.written(mark), [""; 0]);
    let mark = shop.mark();
    shop.restart().await;
    shop.until_asked(mark, "get-load-balancer").await;
    shop.seconds(3).await;
    assert_eq!(shop.changes(mark), [""; 0]);
    assert_eq!(shop.written(mark), [""; 0]);
    assert_eq!(shop.service("web")["status"], before["status"]);
}

#[scenario]
async fn nodes_that_come_and_go_need_no_call(shop: Shop) {
    shop.serve().await;
    let mark = shop.mark();
    shop.add_node(I4).await;
    shop.delete("node-7d").await;
    shop.seconds(30).await;
    let asked = shop.asked(mark);
    assert!(
        !asked.iter().any(|it| it.contains("load-balancer")),
        "{asked:?}"
    );
}

#[scenario]
async fn exoscale_case_47_a_node_that_joins_settles_which_pool_it_is() {
    let mut shop = Shop::idle(&[I4]).await;
    shop.start().await;
    shop.create_service(service("web")).await;
    let message = shop.message("web", "InvalidLoadBalancerConfig").await;
    assert!(message.contains("couldn't infer any Instance Pool from cluster Nodes"));
    assert_eq!(shop.cloud.balancers(), []);
    shop.add_node(I1).await;
    let shown = shop.until_ensured("web").await;
    assert_eq!(annotation(&shown, "service-instancepool-id"), P1);
    shop.end().await;
}

#[scenario]
async fn exoscale_case_59_a_load_balancer_that_is_gone_is_made_anew_with_the_next_change(
    shop: Shop,
) {
    let before = shop.serve().await;
    let (id, mark) = (annotation(&before, "id").to_owned(), shop.mark());
    shop.cloud.remove_balancer(&id).unwrap();
    shop.annotate("web", "example.org/note", Some("one")).await;
    shop.until_asked(mark, "add-service-to-load-balancer").await;
    let address = entrances(&before);
    let other = |it: &serde_json::Value| !entrances(it).is_empty() && entrances(it) != address;
    let shown = shop.until_service("web", "another address", other).await;
    assert_ne!(annotation(&shown, "id"), id);
    assert_eq!(annotation(&shown, "id"), shop.balancer().id);
    shop.message("web", "LoadBalancerRecreated").await;
}

#[scenario]
async fn exoscale_case_89_an_address_is_shown_when_there_is_one_and_once(shop: Shop) {
    shop.cloud
        .set_timings(|it| it.address = Duration::from_secs(20));
    shop.create_service(service("web")).await;
    shop.seconds(10).await;
    assert_eq!(shop.entrances("web"), [""; 0]);
    shop.until_ensured("web").await;
    let addresses = shop.written(0).into_iter();
    assert_eq!(addresses.filter(|it| it.contains("address")).count(), 1);
    assert_eq!(shop.told("web", "SyncLoadBalancerFailed"), 0);
}

#[scenario]
async fn exoscale_case_51_a_bad_setting_is_told_and_nothing_is_changed(shop: Shop) {
    let mark = shop.mark();
    let mut web = service("web");
    web["metadata"]["annotations"] = json!({key("service-healthcheck-interval"): "abc"});
    shop.create_service(web).await;
    let message = shop.message("web", "InvalidLoadBalancerConfig").await;
    assert!(message.contains("\"abc\""), "{message}");
    assert_eq!(shop.changes(mark), [""; 0]);
    shop.annotate("web", &key("service-healthcheck-interval"), Some("15"))
        .await;
    shop.until_ensured("web").await;
    assert_eq!(shop.balancer().services[0].healthcheck.interval, 15);
}

#[scenario]
async fn exoscale_case_62_a_process_that_dies_anywhere_leaves_one_load_balancer() {
    for operation in [
        "create-load-balancer",
        "get-operation",
        "add-service-to-load-balancer",
    ] {
        let mut shop = Shop::idle(&[I1, I2]).await;
        shop.start().await;
        shop.create_service(service("web")).await;
        shop.until_asked(0, operation).await;
        shop.kill().await;
        shop.start().await;
        let shown = shop.until_published("web").await;
        let balancer = shop.balancer();
        assert_eq!(annotation(&shown, "id"), balancer.id, "{operation}");
        assert_eq!(balancer.services.len(), 1, "{operation}");
        shop.end().await;
    }
}
