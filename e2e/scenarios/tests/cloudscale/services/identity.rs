//! Load balancers that are there already: the original's, and other Services'.

use bowline_scenarios::objects::{annotated, finalizers, service};
use bowline_scenarios::scenario;
use serde_json::{Map, Value, json};

use super::service_harness::{FINALIZER, ServiceHarness, UUID, annotation};

#[scenario]
async fn cloudscale_case_72_the_originals_load_balancer_is_taken_over_with_one_tag_and_nothing_else()
 {
    let mut test = ServiceHarness::idle(&[], &[]).await;
    let id = test.leave("web", &[11, 12]).await;
    let (before, mark) = (test.service("web"), test.mark());
    let uid = test.uid();
    test.start().await;
    test.until_asked(mark, "PATCH load-balancers").await;
    test.long(300).await;
    assert_eq!(test.changes_from(mark), ["PATCH load-balancers"]);
    let patch = &test.cloud_calls(&format!("/v1/load-balancers/{id}"));
    let patch = patch.iter().find(|it| it.method == "PATCH").unwrap();
    let tags = json!({ "k8s-service": "shop.web", "k8s-service-uid": uid });
    assert_eq!(patch.body, json!({ "tags": tags }));
    assert_eq!(test.written_from(mark), []);
    assert_eq!(test.service("web"), before);
    test.end().await;
}

#[scenario]
async fn cloudscale_case_72_without_ownership_tags_nothing_at_all_is_written() {
    let mut test = ServiceHarness::idle(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")], &[]).await;
    test.leave("web", &[11, 12]).await;
    let (before, mark) = (test.service("web"), test.mark());
    test.start().await;
    test.until_looked(mark).await;
    test.long(300).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.written_from(mark), []);
    assert_eq!(test.service("web"), before);
    test.end().await;
}

const OTHER: &str = "0e9b9c7e-6a57-4c4b-8a9e-0d9a6d5f1c22";

fn tags(test: &ServiceHarness, id: &str, tags: Value) {
    let attributes: Map<String, Value> = [("tags".to_owned(), tags)].into_iter().collect();
    test.cloud.edit(id, &attributes).unwrap();
}

#[scenario]
async fn cloudscale_case_74_proof_case_30_another_services_load_balancer_is_left_alone_until_its_tag_is_gone()
 {
    let mut test = ServiceHarness::idle(&[], &[]).await;
    let id = test.leave("web", &[11, 12]).await;
    tags(&test, &id, json!({ "k8s-service-uid": OTHER }));
    let mark = test.mark();
    test.start().await;
    let message = test.message("web", "LoadBalancerNotOurs").await;
    assert!(message.contains("operator"), "{message}");
    assert!(!message.contains(OTHER), "{message}");
    test.seconds(3).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    tags(&test, &id, json!({}));
    test.annotate("web", "example.org/note", Some("go on"))
        .await;
    test.until_asked(mark, "PATCH load-balancers").await;
    assert_eq!(test.balancer().tags["k8s-service-uid"], test.uid());
    test.end().await;
}

#[scenario]
async fn cloudscale_case_74_a_service_that_goes_leaves_another_services_load_balancer() {
    let mut test = ServiceHarness::idle(&[], &[]).await;
    let id = test.leave("web", &[11, 12]).await;
    tags(&test, &id, json!({ "k8s-service-uid": OTHER }));
    let (before, mark) = (test.balancer(), test.mark());
    test.start().await;
    test.message("web", "LoadBalancerNotOurs").await;
    let web = test.service("web");
    assert_eq!(annotation(&web, UUID), id);
    assert_eq!(finalizers(&web), [FINALIZER]);
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.balancer(), before);
    test.end().await;
}

#[scenario]
async fn two_services_that_want_one_name_do_not_fight_and_the_second_goes_alone(
    test: ServiceHarness,
) {
    let key = "k8s.cloudscale.ch/loadbalancer-name";
    test.create_service(annotated("web", &[(key, "shared")]))
        .await;
    test.until_ensured("web").await;
    let (before, mark) = (test.balancer(), test.mark());
    test.create_service(annotated("other", &[(key, "shared")]))
        .await;
    test.message("other", "LoadBalancerNotOurs").await;
    test.delete_service("other").await;
    test.until_service_gone("other").await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.balancer(), before);
}

#[scenario]
async fn an_observer_writes_neither_to_the_cloud_nor_to_services() {
    let mut test = ServiceHarness::idle(&[], &["--mode=observe"]).await;
    test.leave("web", &[11, 12]).await;
    test.create_service(service("new")).await;
    let (web, new, mark) = (test.service("web"), test.service("new"), test.mark());
    test.start().await;
    test.until_looked(mark).await;
    test.delete_service("web").await;
    test.long(600).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.written_from(mark), []);
    assert_eq!(test.service("new"), new);
    assert_eq!(finalizers(&test.service("web")), finalizers(&web));
    assert_eq!(test.cloud.balancers().len(), 1);
    assert_eq!(test.events("web"), [""; 0]);
}
