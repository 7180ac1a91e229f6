//! A Service goes, and its load balancer before it.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_scenarios::cloud::{Look, SIZE, Trouble};
use bowline_scenarios::objects::{annotated, service};
use bowline_scenarios::{TestCluster, refuse, scenario};
use serde_json::json;

use crate::services::harness::{self, FIN, STATUS, changed, join, settled, strip, vanish};

#[scenario]
async fn framework_case_060_a_finalizer_that_was_left_over_is_cleaned_up_at_the_start() {
    let mut bench = settled().await;
    bench.stop().await;
    let change = json!({ "spec": { "type": "ClusterIP" } });
    bench.patch_service("web", change).await;
    assert_eq!(bench.finalizers("web"), [FIN]);
    bench
        .create_service(changed("plain", |it| {
            it["spec"]["type"] = "ClusterIP".into();
        }))
        .await;
    bench.start();
    bench.until_event("web", "DeletedLoadBalancer").await;
    bench
        .until_service("web", "its end is shown", |it| {
            it["status"]["conditions"][0]["reason"] == "Removed"
        })
        .await;
    let reasons = bench.reasons("web");
    let last = &reasons[reasons.len() - 2..];
    assert_eq!(last, ["DeletingLoadBalancer", "DeletedLoadBalancer"]);
    assert_eq!(bench.finalizers("web"), [""; 0]);
    assert_eq!(bench.entrances("web"), [""; 0]);
    assert_eq!(
        bench.condition("web"),
        "False Removed: There is no load balancer"
    );
    assert_eq!(bench.balancers().all(), []);
    assert_eq!(bench.balancers().count("plain"), 0);
}

#[scenario]
async fn framework_case_061_a_deleted_service_goes_after_its_load_balancer() {
    let bench = settled().await;
    bench.balancers().take(Duration::from_secs(1));
    bench.delete_service("web").await;
    bench
        .until("the removal", |it| {
            it.balancers().count("delete load balancer") > 0
        })
        .await;
    assert_eq!(bench.finalizers("web"), [FIN]);
    bench.until_service_gone("web").await;
    assert_eq!(bench.balancers().all(), []);
    bench.until_event("web", "DeletedLoadBalancer").await;
    bench.settle().await;
    assert_eq!(bench.balancers().count("(absent)"), 1);
    assert_eq!(bench.event_count("web", "SyncLoadBalancerFailed"), 0);
}

#[scenario]
async fn framework_case_062_a_failing_deletion_is_told_and_tried_again_with_back_off() {
    let bench = settled().await;
    bench
        .balancers()
        .fail("delete load balancer", Trouble::Error("in use"), 4);
    bench.delete_service("web").await;
    bench.until_event("web", "SyncLoadBalancerFailed").await;
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to delete \
                    load balancer: in use";
    assert!(bench.news("web").contains(&text.to_owned()));
    let start = "False DeleteFailed: failed to delete load balancer: in use; next try at ";
    bench
        .until("the trouble is shown", |it| {
            it.condition("web").starts_with(start)
        })
        .await;
    assert_eq!(bench.finalizers("web"), [FIN]);
    bench.until_service_gone("web").await;
    let tries = bench.balancers().times("delete load balancer");
    bench.assert_apart(&tries, &[5, 10, 20, 40]);
    assert_eq!(bench.event_count("web", "DeletingLoadBalancer"), 1);
}

#[scenario]
async fn framework_case_063_what_does_not_exist_is_not_deleted() {
    let bench = settled().await;
    bench.balancers().tamper(BTreeMap::clear);
    bench.delete_service("web").await;
    bench.until_service_gone("web").await;
    bench.until_event("web", "DeletedLoadBalancer").await;
    assert_eq!(bench.balancers().count("delete load balancer"), 0);
    assert_eq!(bench.event_count("web", "DeletingLoadBalancer"), 0);
}

#[scenario]
async fn framework_case_064_a_cloud_that_cannot_be_read_keeps_the_finalizer() {
    let bench = settled().await;
    bench
        .balancers()
        .say([Look::Error("503"), Look::Error("503")]);
    bench.delete_service("web").await;
    bench.until_event("web", "SyncLoadBalancerFailed").await;
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to check if \
                    load balancer exists before cleanup: 503";
    assert!(bench.news("web").contains(&text.to_owned()));
    let start = "Unknown CloudNotReadable: ";
    bench
        .until("the trouble is shown", |it| {
            it.condition("web").starts_with(start)
        })
        .await;
    assert_eq!(bench.finalizers("web"), [FIN]);
    bench.until_service_gone("web").await;
    assert_eq!(bench.balancers().all(), []);
}

#[scenario]
async fn framework_case_065_another_type_and_back_is_another_load_balancer() {
    let bench = settled().await;
    bench
        .patch_service("web", json!({ "spec": { "type": "NodePort" } }))
        .await;
    bench.until_event("web", "DeletedLoadBalancer").await;
    bench
        .until("the address is gone", |it| it.entrances("web").is_empty())
        .await;
    assert_eq!(bench.finalizers("web"), [""; 0]);
    assert_eq!(bench.balancers().all(), []);
    bench
        .patch_service("web", json!({ "spec": { "type": "LoadBalancer" } }))
        .await;
    bench
        .until("a new address", |it| {
            it.entrances("web") == ["192.0.2.2 VIP"] && it.condition("web") == "True Ready"
        })
        .await;
}

#[scenario]
async fn a_type_that_changes_back_before_the_end_is_served_on() {
    let bench = settled().await;
    bench
        .balancers()
        .fail("delete load balancer", Trouble::Error("in use"), 1);
    bench
        .patch_service("web", json!({ "spec": { "type": "NodePort" } }))
        .await;
    bench.until_event("web", "SyncLoadBalancerFailed").await;
    bench
        .patch_service("web", json!({ "spec": { "type": "LoadBalancer" } }))
        .await;
    bench
        .until("the address is back", |it| !it.entrances("web").is_empty())
        .await;
    bench.settle().await;
    assert_eq!(bench.balancers().all()[0].id, "lb-1");
    assert_eq!(bench.finalizers("web"), [FIN]);
}

#[scenario]
async fn framework_case_087_a_service_of_the_same_name_waits_until_the_old_one_is_cleaned_away() {
    let bench = settled().await;
    let old = bench.service("web")["metadata"]["uid"].clone();
    bench
        .unseen(async || {
            vanish(&bench, "web").await;
            bench.create_service(service("web")).await;
        })
        .await;
    let new = bench.service("web")["metadata"]["uid"].clone();
    assert_ne!(old, new);
    bench
        .until("the new one is served", |it| {
            it.entrances("web") == ["192.0.2.2 VIP"]
        })
        .await;
    let writes = bench.balancers().writes();
    let at = |text: &str| writes.iter().rposition(|it| it.starts_with(text)).unwrap();
    assert!(at("delete load balancer") < at("create load balancer"));
    assert_eq!(bench.balancers().all().len(), 1);
}

#[scenario]
async fn framework_case_088_a_service_that_vanished_is_cleaned_away_from_memory() {
    let bench = settled().await;
    bench
        .balancers()
        .fail("delete load balancer", Trouble::Error("in use"), 2);
    strip(&bench, "web").await;
    bench.until_event("web", "DeletedLoadBalancer").await;
    assert_eq!(bench.balancers().all(), []);
    assert_eq!(bench.event_count("web", "DeletingLoadBalancer"), 1);
    assert_eq!(bench.event_count("web", "DeleteLoadBalancerFailed"), 2);
    assert_eq!(bench.event_count("web", "SyncLoadBalancerFailed"), 0);
    let writes = bench.all_service_writes().len();
    bench.settle().await;
    assert_eq!(
        bench.all_service_writes().len(),
        writes,
        "there is nothing to write to"
    );
}

#[scenario]
async fn framework_case_089_the_finalizer_of_a_foreign_class_stays() {
    let bench = harness::new().await;
    let foreign = changed("web", |it| {
        it["spec"]["loadBalancerClass"] = "vendor.test/lb".into();
        it["metadata"]["finalizers"] = json!([FIN]);
    });
    bench.create_service(foreign).await;
    bench.settle().await;
    bench.delete_service("web").await;
    bench.settle().await;
    assert_eq!(bench.finalizers("web"), [FIN]);
    assert_eq!(bench.all_service_writes(), []);
    assert_eq!(bench.news("web"), [""; 0]);
    assert_eq!(bench.balancers().calls(), [""; 0]);
}

#[scenario]
async fn framework_case_091_no_member_is_touched_after_a_deletion_began() {
    let bench = settled().await;
    bench.balancers().take(Duration::from_secs(6));
    join(&bench, "n4").await;
    bench
        .until("the members' look", |it| it.balancers().count("n4)") == 1)
        .await;
    bench.delete_service("web").await;
    bench.until_service_gone("web").await;
    bench.settle().await;
    let calls = bench.balancers().calls();
    let began = calls.iter().position(|it| it.contains("(absent)")).unwrap();
    assert!(
        calls[began..].iter().all(|it| !it.contains("member")),
        "{calls:?}"
    );
    assert_eq!(bench.balancers().count("create member shop/web n4"), 0);
}

#[scenario]
async fn framework_case_139_the_new_service_waits_while_the_old_one_cannot_be_deleted() {
    let bench = settled().await;
    bench
        .balancers()
        .fail("delete load balancer", Trouble::Error("in use"), 3);
    bench.balancers().clear();
    // Both at once, as a list after a broken watch shows it.
    bench
        .unseen(async || {
            vanish(&bench, "web").await;
            bench.create_service(service("web")).await;
        })
        .await;
    bench.until_event("web", "DeleteLoadBalancerFailed").await;
    let text = "Warning DeleteLoadBalancerFailed: Error deleting load balancer: in use";
    assert!(bench.news("web").contains(&text.to_owned()));
    bench
        .until("the new one is served", |it| {
            it.event_count("web", "EnsuredLoadBalancer") == 2
        })
        .await;
    let tries = bench.balancers().times("delete load balancer");
    bench.assert_apart(&tries, &[5, 10, 20]);
    assert_eq!(bench.event_count("web", "SyncLoadBalancerFailed"), 0);
    let reasons = bench.reasons("web");
    let last = &reasons[reasons.len() - 3..];
    assert_eq!(
        last,
        [
            "DeletedLoadBalancer",
            "EnsuringLoadBalancer",
            "EnsuredLoadBalancer"
        ]
    );
}

#[scenario]
async fn a_finalizer_that_cannot_be_removed_is_tried_again_and_others_stay() {
    let bench = settled().await;
    let mine = "example.test/keep";
    bench
        .patch_service("web", json!({ "metadata": { "finalizers": [mine, FIN] } }))
        .await;
    bench.fault(refuse(500, "PATCH", STATUS).times(1));
    bench.delete_service("web").await;
    bench.until_event("web", "DeletedLoadBalancer").await;
    let text = "failed to remove load balancer cleanup finalizer";
    assert!(bench.news("web").iter().any(|it| it.contains(text)));
    assert_eq!(bench.finalizers("web"), [mine]);
    assert_eq!(bench.balancers().count("delete load balancer"), 1);
    bench.settle().await;
    assert_eq!(bench.balancers().count("(absent)"), 2);
}

#[scenario]
async fn what_a_removed_service_gives_back_is_offered_to_those_in_trouble_at_once() {
    let bench = settled().await;
    bench.ensured("fine").await;
    bench
        .create_service(annotated("poor", &[(SIZE, "bad")]))
        .await;
    // At 0, 5, 15 and 35; the next try by itself is at 75.
    let looks = |it: &TestCluster| it.balancers().times("look at shop/poor");
    bench.until("some tries", |it| looks(it).len() == 4).await;
    let last = looks(&bench)[3];
    bench.balancers().clear();
    bench.delete_service("web").await;
    bench.until_service_gone("web").await;
    bench.until("one more", |it| looks(it).len() == 1).await;
    let apart = looks(&bench)[0].duration_since(last);
    assert!(apart.as_secs() < 40, "{apart}");
    assert_eq!(bench.balancers().count("look at shop/fine"), 0);
}
