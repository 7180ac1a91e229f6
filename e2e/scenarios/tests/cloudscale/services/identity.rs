//! Load balancers that are there already: the original's, and other Services'.

use bowline_scenarios::objects::{finalizers, service};
use bowline_scenarios::scenario;
use bowline_simulator::cloudscale::BalancerSpec;
use serde_json::{Map, Value, json};

use super::shop::{FINALIZER, Shop, UUID, annotation, annotations_of_the_original, pool};

/// What the original leaves behind: its load balancer, and the Service as it wrote it.
async fn left_by_the_original(shop: &Shop) -> String {
    let mut web = service("web");
    web["metadata"]["finalizers"] = json!([FINALIZER]);
    shop.create_service(web).await;
    let port = u16::try_from(shop.node_port()).unwrap();
    let name = format!("k8s-service-{}", shop.uid());
    let spec = BalancerSpec::named(&name).pool(pool(port));
    let id = shop.cloud.add_balancer(&spec).unwrap();
    let addresses = shop.balancer().vip_addresses.into_iter();
    let ingress: Vec<Value> = addresses
        .map(|it| json!({ "ip": it.to_string(), "ipMode": "Proxy" }))
        .collect();
    shop.change_service("web", |it| {
        it["metadata"]["annotations"] = annotations_of_the_original(&id);
        it["status"]["loadBalancer"]["ingress"] = ingress.clone().into();
    })
    .await;
    id
}

#[test]
fn cloudscale_case_72_the_originals_load_balancer_is_taken_over_with_one_tag_and_nothing_else() {
    scenario!(async || {
        let mut shop = Shop::idle(&[], &[]).await;
        let id = left_by_the_original(&shop).await;
        let (before, mark) = (shop.service("web"), shop.mark());
        let uid = shop.uid();
        shop.start();
        shop.until_asked(mark, "PATCH load-balancers").await;
        shop.long(300).await;
        assert_eq!(shop.changes_from(mark), ["PATCH load-balancers"]);
        let patch = &shop.cloud_calls(&format!("/v1/load-balancers/{id}"));
        let patch = patch.iter().find(|it| it.method == "PATCH").unwrap();
        assert_eq!(patch.body, json!({ "tags": { "k8s-service-uid": uid } }));
        assert_eq!(shop.written_from(mark), []);
        assert_eq!(shop.service("web"), before);
        shop.close().await;
    });
}

#[test]
fn cloudscale_case_72_without_ownership_tags_nothing_at_all_is_written() {
    scenario!(async || {
        let mut shop = Shop::idle(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")], &[]).await;
        left_by_the_original(&shop).await;
        let (before, mark) = (shop.service("web"), shop.mark());
        shop.start();
        shop.until_looked(mark).await;
        shop.long(300).await;
        assert_eq!(shop.changes_from(mark), [""; 0]);
        assert_eq!(shop.written_from(mark), []);
        assert_eq!(shop.service("web"), before);
        shop.close().await;
    });
}

const OTHER: &str = "0e9b9c7e-6a57-4c4b-8a9e-0d9a6d5f1c22";

fn tags(shop: &Shop, id: &str, tags: Value) {
    let attributes: Map<String, Value> = [("tags".to_owned(), tags)].into_iter().collect();
    shop.cloud.edit(id, &attributes).unwrap();
}

#[test]
fn cloudscale_case_74_another_services_load_balancer_is_left_alone_until_its_tag_is_gone() {
    scenario!(async || {
        let mut shop = Shop::idle(&[], &[]).await;
        let id = left_by_the_original(&shop).await;
        tags(&shop, &id, json!({ "k8s-service-uid": OTHER }));
        let mark = shop.mark();
        shop.start();
        let message = shop.message("web", "LoadBalancerOwnedByOther").await;
        assert!(message.contains("bowline.dev/take-over"), "{message}");
        shop.seconds(3).await;
        assert_eq!(shop.changes_from(mark), [""; 0]);
        tags(&shop, &id, json!({}));
        shop.annotate("web", "example.org/note", Some("go on"))
            .await;
        shop.until_asked(mark, "PATCH load-balancers").await;
        assert_eq!(shop.balancer().tags["k8s-service-uid"], shop.uid());
        shop.close().await;
    });
}

#[test]
fn cloudscale_case_74_a_service_that_goes_leaves_another_services_load_balancer() {
    scenario!(async || {
        let mut shop = Shop::idle(&[], &[]).await;
        let id = left_by_the_original(&shop).await;
        tags(&shop, &id, json!({ "k8s-service-uid": OTHER }));
        let (before, mark) = (shop.balancer(), shop.mark());
        shop.start();
        shop.message("web", "LoadBalancerOwnedByOther").await;
        let web = shop.service("web");
        assert_eq!(annotation(&web, UUID), id);
        assert_eq!(finalizers(&web), [FINALIZER]);
        shop.delete_service("web").await;
        shop.until_service_gone("web").await;
        assert_eq!(shop.changes_from(mark), [""; 0]);
        assert_eq!(shop.balancer(), before);
        shop.close().await;
    });
}
