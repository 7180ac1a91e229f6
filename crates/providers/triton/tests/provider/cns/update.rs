//! Cases on Services that change.

use super::harness::{Harness, id, outside, port};

#[tokio::test(start_paused = true)]
async fn triton_case_40_a_label_goes_when_the_new_name_is_shown() {
    let mut test = Harness::new();
    test.add("web");
    test.annotate("web", "cns_service", "shop");
    test.ensure("web").await.good();
    assert_eq!(test.status("web"), [outside("shop")]);
    test.annotate("web", "cns_service", "store");
    let outcome = test.once("web").await;
    outcome.good();
    assert_eq!(test.tags(), ["shop:30080,store:30080"; 3]);
    assert_eq!(test.status("web"), [outside("store")]);
    assert!(outcome.again.is_some());
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["store:30080"; 3]);
    assert_eq!(test.machine(1).tag("bowline.cns"), Some("store"));
}

#[tokio::test(start_paused = true)]
async fn triton_case_72_what_cannot_be_understood_freezes_what_may_be_its_own() {
    let mut test = Harness::new();
    test.add("a").ports = vec![port("TCP", 80, 30001)];
    test.add("b").ports = vec![port("TCP", 80, 30002)];
    test.ensure("a").await.good();
    test.ensure("b").await.good();
    test.annotate("a", "cns_port_mode", "bogus");
    test.restart();
    test.changes();
    let outcome = test.ensure("a").await;
    assert_eq!(outcome.problems(), ["InvalidAnnotation"]);
    assert!(outcome.plan.unread && outcome.plan.is_empty());
    assert_eq!(test.changes(), [""; 0]);
    test.service("b").ports = vec![port("TCP", 80, 30003)];
    test.ensure("b").await.good();
    assert_eq!(test.tags(), ["a.prod:30001,b.prod:30003"; 3]);
    test.delete("b").await.good();
    assert_eq!(test.tags(), ["a.prod:30001"; 3]);
    assert_eq!(test.machine(1).tag("bowline.cns"), Some("a.prod"));
}

#[tokio::test(start_paused = true)]
async fn a_label_that_nobody_wants_goes_with_the_next_plan_of_any_service() {
    let mut test = Harness::new();
    test.add("web");
    test.add("api");
    test.ensure("web").await.good();
    test.ensure("api").await.good();
    // As if its object had been removed by force while nobody looked.
    test.services.remove("api");
    test.restart();
    let outcome = test.ensure("web").await;
    outcome.good();
    let reason = outcome.plan.steps[0].reason.as_deref();
    assert_eq!(reason, Some("DNS service api.prod is taken away"));
    assert_eq!(test.tags(), ["web.prod:30080"; 3]);
}

#[tokio::test(start_paused = true)]
async fn services_that_share_a_label_have_the_ports_of_both() {
    let mut test = Harness::new();
    test.add("one").ports = vec![port("TCP", 80, 30001)];
    test.add("two").ports = vec![port("UDP", 53, 30002)];
    test.annotate("one", "cns_service", "shop");
    test.annotate("two", "cns_service", "shop");
    test.ensure("one").await.good();
    assert_eq!(test.tags(), ["shop:30001,shop:30002"; 3]);
    assert!(test.ensure("two").await.good().plan.is_empty());
    test.delete("one").await.good();
    assert_eq!(test.tags(), ["shop:30002"; 3]);
    test.delete("two").await.good();
    assert_eq!(test.tags(), [""; 3]);
}

#[tokio::test(start_paused = true)]
async fn other_ports_are_changed_where_they_are() {
    let mut test = Harness::new();
    test.add("web");
    test.ensure("web").await.good();
    test.changes();
    test.service("web").ports = vec![port("TCP", 80, 30081), port("TCP", 443, 30443)];
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:30081,web.prod:30443"; 3]);
    let changes = test.changes();
    assert_eq!(changes.len(), 3, "{changes:?}");
    let mut changes = changes.iter();
    assert!(changes.all(|it| it.starts_with("POST /acme/machines")));
    let status = test.annotation("web", "status");
    assert!(status.ends_with("80/TCP→30081, 443/TCP→30443"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_misspelled_annotation_is_reported_with_what_was_meant() {
    let mut test = Harness::new();
    test.add("web");
    test.annotate("web", "cns_servcie", "shop");
    let outcome = test.ensure("web").await;
    let notice = &outcome.good().notices[0];
    assert_eq!(notice.reason, "UnknownAnnotation");
    let (message, words) = (
        &notice.message,
        "did you mean cloud.tritoncompute/cns_service?",
    );
    assert!(message.ends_with(words), "{message}");
}

#[tokio::test(start_paused = true)]
async fn somebody_who_replaces_tags_is_made_good() {
    let mut test = Harness::new();
    test.add("web");
    test.ensure("web").await.good();
    let theirs = serde_json::json!({"role": "node"});
    let theirs = theirs.as_object().unwrap().clone();
    test.sim.replace_tags(&id(2), theirs).unwrap();
    test.wait(60).await;
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:30080"; 3]);
    assert_eq!(test.machine(2).tag("role"), Some("node"));
    let repairs = test.metric("triton_tag_repairs_total");
    assert_eq!(repairs.as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_too_new_to_be_known_loses_nothing() {
    let mut test = Harness::new();
    test.add("web");
    test.ensure("web").await.good();
    // Made, and served, after the controller last looked at all Services.
    test.add("api");
    test.ensure("api").await.good();
    let api = test.services.remove("api").unwrap();
    assert!(test.ensure("web").await.good().plan.is_empty());
    assert_eq!(test.tags(), ["api.prod:30080,web.prod:30080"; 3]);
    test.services.insert("api".to_owned(), api);
    test.delete("api").await.good();
    assert_eq!(test.tags(), ["web.prod:30080"; 3]);
}
