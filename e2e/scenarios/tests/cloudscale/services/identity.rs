//! Load balancers that are there already: the original's, and other Services'.

use bowline_scenarios::objects::{annotated, finalizers, service};
use bowline_scenarios::scenario;
use serde_json::{Map, Value, json};

use super::shop::{FINALIZER, Shop, UUID, annotation};

#[scenario]
async fn cloudscale_case_72_the_originals_load_balancer_is_taken_over_with_one_tag_and_nothing_else()
 {
    let mut shop = Shop::idle(&[], &[]).await;
    let id = shop.leave("web", &[11, 12]).await;
    let (before, mark) = (shop.service("web"), shop.mark());
    let uid = shop.uid();
    shop.start().await;
    shop.until_asked(mark, "PATCH load-balancers").await;
    shop.long(300).await;
    assert_eq!(shop.changes_from(mark), ["PATCH load-balancers"]);
    let patch = &shop.cloud_calls(&format!("/v1/load-balancers/{id}"));
    let patch = patch.iter().find(|it| it.method == "PATCH").unwrap();
    let tags = json!({ "k8s-service": "shop.web", "k8s-service-uid": uid });
    assert_eq!(patch.body, json!({ "tags": tags }));
    assert_eq!(shop.written_from(mark), []);
    assert_eq!(shop.service("web"), before);
    shop.end().await;
}

#[scenario]
async fn cloudscale_case_72_without_ownership_tags_nothing_at_all_is_written() {
    let mut shop = Shop::idle(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")], &[]).await;
    shop.leave("web", &[11, 12]).await;
    let (before, mark) = (shop.service("web"), shop.mark());
    shop.start().await;
    shop.until_looked(mark).await;
    shop.long(300).await;
    assert_eq!(shop.changes_from(mark), [""; 0]);
    assert_eq!(shop.written_from(mark), []);
    assert_eq!(shop.service("web"), before);
    shop.end().await;
}

const OTHER: &str = "0e9b9c7e-6a57-4c4b-8a9e-0d9a6d5f1c22";

fn tags(shop: &Shop, id: &str, tags: Value) {
    let attributes: Map<String, Value> = [("tags".to_owned(), tags)].into_iter().collect();
    shop.cloud.edit(id, &attributes).unwrap();
}

#[scenario]
async fn cloudscale_case_74_proof_case_30_another_services_load_balancer_is_left_alone_until_its_tag_is_gone()
 {
    let mut shop = Shop::idle(&[], &[]).await;
    let id = shop.leave("web", &[11, 12]).await;
    tags(&shop, &id, json!({ "k8s-service-uid": OTHER }));
    let mark = shop.mark();
    shop.start().await;
    let message = shop.message("web", "LoadBalancerNotOurs").await;
    assert!(message.contains("operator"), "{message}");
    assert!(!message.contains(OTHER), "{message}");
    shop.seconds(3).await;
    assert_eq!(shop.changes_from(mark), [""; 0]);
    tags(&shop, &id, json!({}));
    shop.annotate("web", "example.org/note", Some("go on"))
        .await;
    shop.until_asked(mark, "PATCH load-balancers").await;
    assert_eq!(shop.balancer().tags["k8s-service-uid"], shop.uid());
    shop.end().await;
}

#[scenario]
async fn cloudscale_case_74_a_service_that_goes_leaves_another_services_load_balancer() {
    let mut shop = Shop::idle(&[], &[]).await;
    let id = shop.leave("web", &[11, 12]).await;
    tags(&shop, &id, json!({ "k8s-service-uid": OTHER }));
    let (before, mark) = (shop.balancer(), shop.mark());
    shop.start().await;
    shop.message("web", "LoadBalancerNotOurs").await;
    let web = shop.service("web");
    assert_eq!(annotation(&web, UUID), id);
    assert_eq!(finalizers(&web), [FINALIZER]);
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    assert_eq!(shop.changes_from(mark), [""; 0]);
    assert_eq!(shop.balancer(), before);
    shop.end().await;
}

#[scenario]
async fn two_services_that_want_one_name_do_not_fight_and_the_second_goes_alone(shop: Shop) {
    let key = "k8s.cloudscale.ch/loadbalancer-name";
    shop.create_service(annotated("web", &[(key, "shared")]))
        .await;
    shop.until_ensured("web").await;
    let (before, mark) = (shop.balancer(), shop.mark());
    shop.create_service(annotated("other", &[(key, "shared")]))
        .await;
    shop.message("other", "LoadBalancerNotOurs").await;
    shop.delete_service("other").await;
    shop.until_service_gone("other").await;
    assert_eq!(shop.changes_from(mark), [""; 0]);
    assert_eq!(shop.balancer(), before);
}

#[scenario]
async fn an_observer_writes_neither_to_the_cloud_nor_to_services() {
    let mut shop = Shop::idle(&[], &["--mode=observe"]).await;
    shop.leave("web", &[11, 12]).await;
    shop.create_service(service("new")).await;
    let (web, new, mark) = (shop.service("web"), shop.service("new"), shop.mark());
    shop.start().await;
    shop.until_looked(mark).await;
    shop.delete_service("web").await;
    shop.long(600).await;
    assert_eq!(shop.changes_from(mark), [""; 0]);
    assert_eq!(shop.written_from(mark), []);
    assert_eq!(shop.service("new"), new);
    assert_eq!(finalizers(&shop.service("web")), finalizers(&web));
    assert_eq!(shop.cloud.balancers().len(), 1);
    assert_eq!(shop.events("web"), [""; 0]);
}
