//! A Service goes, and its load balancer before it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::{Bench, FIN, balancer, gaps, refuse};
use crate::cloud::{Fault, Look, SIZE};

#[tokio::test(start_paused = true)]
async fn framework_case_060_a_finalizer_that_was_left_over_is_cleaned_up_at_the_start() {
    let mut bench = Bench::new();
    bench.ensured("web").await;
    bench.stop().await;
    let change = json!({ "spec": { "type": "ClusterIP" } });
    bench.patch("web", change).await;
    assert_eq!(bench.finalizers("web"), json!([FIN]));
    bench
        .create_with("plain", |it| it["spec"]["type"] = "ClusterIP".into())
        .await;
    bench.start();
    bench.until_told("web", "DeletedLoadBalancer").await;
    bench.seconds(10).await;
    let reasons = bench.reasons("web");
    let last = &reasons[reasons.len() - 2..];
    assert_eq!(last, ["DeletingLoadBalancer", "DeletedLoadBalancer"]);
    assert_eq!(bench.finalizers("web"), Value::Null);
    assert_eq!(bench.ingress("web"), Value::Null);
    assert_eq!(
        bench.condition("web").unwrap(),
        "False Removed: There is no load balancer"
    );
    assert_eq!(bench.cloud().balancers(), []);
    assert_eq!(bench.cloud().count("plain"), 0);
}

#[tokio::test(start_paused = true)]
async fn framework_case_061_a_deleted_service_goes_after_its_load_balancer() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench.cloud().take(Duration::from_secs(1));
    bench.delete("web").await;
    bench
        .until("the removal", |it| {
            it.cloud().count("delete load balancer") > 0
        })
        .await;
    assert_eq!(bench.finalizers("web"), json!([FIN]));
    bench.until_gone("web").await;
    assert_eq!(bench.cloud().balancers(), []);
    bench.until_told("web", "DeletedLoadBalancer").await;
    bench.seconds(600).await;
    assert_eq!(bench.cloud().count("(absent)"), 1);
    assert_eq!(bench.told("web", "SyncLoadBalancerFailed"), 0);
}

#[tokio::test(start_paused = true)]
async fn framework_case_062_a_failing_deletion_is_told_and_tried_again_with_back_off() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench
        .cloud()
        .fault("delete load balancer", Fault::Error("in use"), 4);
    bench.delete("web").await;
    bench.until_told("web", "SyncLoadBalancerFailed").await;
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to delete \
                load balancer: in use";
    assert!(bench.events("web").contains(&text.to_owned()));
    bench.seconds(1).await;
    assert_eq!(bench.finalizers("web"), json!([FIN]));
    let condition = bench.condition("web").unwrap();
    let start = "False DeleteFailed: failed to delete load balancer: in use; next try at ";
    assert!(condition.starts_with(start), "{condition}");
    bench.until_gone("web").await;
    let tries = bench.cloud().times("delete load balancer");
    assert_eq!(gaps(&tries), [5, 10, 20, 40]);
    assert_eq!(bench.told("web", "DeletingLoadBalancer"), 1);
}

#[tokio::test(start_paused = true)]
async fn framework_case_063_what_does_not_exist_is_not_deleted() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench.cloud().tamper(std::collections::BTreeMap::clear);
    bench.delete("web").await;
    bench.until_gone("web").await;
    bench.until_told("web", "DeletedLoadBalancer").await;
    assert_eq!(bench.cloud().count("delete load balancer"), 0);
    assert_eq!(bench.told("web", "DeletingLoadBalancer"), 0);
}

#[tokio::test(start_paused = true)]
async fn framework_case_064_a_cloud_that_cannot_be_read_keeps_the_finalizer() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench.cloud().say([Look::Error("503"), Look::Error("503")]);
    bench.delete("web").await;
    bench.until_told("web", "SyncLoadBalancerFailed").await;
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to check if \
                load balancer exists before cleanup: 503";
    assert!(bench.events("web").contains(&text.to_owned()));
    bench.seconds(2).await;
    assert_eq!(bench.finalizers("web"), json!([FIN]));
    assert!(
        bench
            .condition("web")
            .unwrap()
            .starts_with("Unknown CloudNotReadable: ")
    );
    bench.until_gone("web").await;
    assert_eq!(bench.cloud().balancers(), []);
}

#[tokio::test(start_paused = true)]
async fn framework_case_065_another_type_and_back_is_another_load_balancer() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench
        .patch("web", json!({ "spec": { "type": "NodePort" } }))
        .await;
    bench.until_told("web", "DeletedLoadBalancer").await;
    bench.seconds(5).await;
    assert_eq!(bench.finalizers("web"), Value::Null);
    assert_eq!(bench.ingress("web"), Value::Null);
    assert_eq!(bench.cloud().balancers(), []);
    bench
        .patch("web", json!({ "spec": { "type": "LoadBalancer" } }))
        .await;
    bench
        .until("a new address", |it| {
            it.ingress("web") == json!([{ "ip": "192.0.2.2", "ipMode": "VIP" }])
        })
        .await;
    assert_eq!(bench.condition("web").unwrap(), "True Ready");
}

#[tokio::test(start_paused = true)]
async fn a_type_that_changes_back_before_the_end_is_served_on() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench
        .cloud()
        .fault("delete load balancer", Fault::Error("in use"), 1);
    bench
        .patch("web", json!({ "spec": { "type": "NodePort" } }))
        .await;
    bench.until_told("web", "SyncLoadBalancerFailed").await;
    bench
        .patch("web", json!({ "spec": { "type": "LoadBalancer" } }))
        .await;
    bench
        .until("the address is back", |it| it.ingress("web").is_array())
        .await;
    bench.seconds(60).await;
    assert_eq!(bench.cloud().balancers()[0].id, "lb-1");
    assert_eq!(bench.finalizers("web"), json!([FIN]));
}

#[tokio::test(start_paused = true)]
async fn framework_case_087_a_service_of_the_same_name_waits_until_the_old_one_is_cleaned_away() {
    let bench = Bench::new();
    bench.ensured("web").await;
    let old = bench.service("web").unwrap()["metadata"]["uid"].clone();
    bench.strip("web");
    bench.create("web").await;
    let new = bench.service("web").unwrap()["metadata"]["uid"].clone();
    assert_ne!(old, new);
    bench
        .until("the new one is served", |it| {
            it.ingress("web") == json!([{ "ip": "192.0.2.2", "ipMode": "VIP" }])
        })
        .await;
    let writes = bench.cloud().writes();
    let at = |text: &str| writes.iter().rposition(|it| it.starts_with(text)).unwrap();
    assert!(at("delete load balancer") < at("create load balancer"));
    assert_eq!(bench.cloud().balancers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn framework_case_088_a_service_that_vanished_is_cleaned_away_from_memory() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench
        .cloud()
        .fault("delete load balancer", Fault::Error("in use"), 2);
    bench.strip("web");
    bench.until_told("web", "DeletedLoadBalancer").await;
    assert_eq!(bench.cloud().balancers(), []);
    assert_eq!(bench.told("web", "DeletingLoadBalancer"), 1);
    assert_eq!(bench.told("web", "DeleteLoadBalancerFailed"), 2);
    assert_eq!(bench.told("web", "SyncLoadBalancerFailed"), 0);
    let writes = bench.writes().len();
    bench.seconds(600).await;
    assert_eq!(bench.writes().len(), writes, "there is nothing to write to");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_read_keeps_its_load_balancer() {
    let bench = Bench::with(&["--remove-orphaned-load-balancers", "--cluster-name=prod"]);
    bench.ensured("web").await;
    let right = bench.service("web").unwrap();
    let mut broken = right.clone();
    broken["spec"]["ports"] = "of a later Kubernetes".into();
    bench.put_service(broken);
    // Long enough for every comparison, and for orphans to be looked for.
    bench.seconds(7200).await;
    assert_eq!(bench.cloud().count("delete load balancer"), 0);
    assert_eq!(bench.cloud().balancers().len(), 1);
    // It can be read again, and is served as before.
    bench.put_service(right);
    bench.delete("web").await;
    bench.until_gone("web").await;
    assert_eq!(bench.cloud().balancers(), []);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_vanishes_while_it_cannot_be_read_is_cleaned_away() {
    let bench = Bench::new();
    bench.ensured("web").await;
    let mut broken = bench.service("web").unwrap();
    broken["spec"]["ports"] = "of a later Kubernetes".into();
    bench.put_service(broken);
    bench.seconds(60).await;
    assert_eq!(bench.cloud().balancers().len(), 1);
    bench.strip("web");
    bench.until_told("web", "DeletedLoadBalancer").await;
    assert_eq!(bench.cloud().balancers(), []);
}

#[tokio::test(start_paused = true)]
async fn framework_case_089_the_finalizer_of_a_foreign_class_stays() {
    let bench = Bench::new();
    let mut service = balancer("web");
    service["spec"]["loadBalancerClass"] = "vendor.test/lb".into();
    service["metadata"]["finalizers"] = json!([FIN]);
    bench.put_service(service);
    bench.seconds(5).await;
    bench.delete("web").await;
    bench.seconds(600).await;
    assert_eq!(bench.finalizers("web"), json!([FIN]));
    assert_eq!((bench.writes().len(), bench.events("web")), (0, vec![]));
    assert_eq!(bench.cloud().calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn framework_case_091_no_member_is_touched_after_a_deletion_began() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench.cloud().take(Duration::from_secs(3));
    bench.add_node("n4");
    bench
        .until("the members' look", |it| it.cloud().count("n4)") == 1)
        .await;
    bench.delete("web").await;
    bench.until_gone("web").await;
    bench.seconds(60).await;
    let calls = bench.cloud().calls();
    let began = calls.iter().position(|it| it.contains("(absent)")).unwrap();
    assert!(
        calls[began..].iter().all(|it| !it.contains("member")),
        "{calls:?}"
    );
    assert_eq!(bench.cloud().count("create member default/web n4"), 0);
}

#[tokio::test(start_paused = true)]
async fn framework_case_139_the_new_service_waits_while_the_old_one_cannot_be_deleted() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench
        .cloud()
        .fault("delete load balancer", Fault::Error("in use"), 3);
    bench.cloud().clear();
    // Both at once, as a list after a broken watch shows it.
    let mut service = balancer("web");
    service["metadata"]["uid"] = "another".into();
    bench.put_service(service);
    bench.until_told("web", "DeleteLoadBalancerFailed").await;
    let text = "Warning DeleteLoadBalancerFailed: Error deleting load balancer: in use";
    assert!(bench.events("web").contains(&text.to_owned()));
    bench
        .until("the new one is served", |it| {
            it.told("web", "EnsuredLoadBalancer") == 2
        })
        .await;
    assert_eq!(
        gaps(&bench.cloud().times("delete load balancer")),
        [5, 10, 20]
    );
    assert_eq!(bench.told("web", "SyncLoadBalancerFailed"), 0);
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

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_cannot_be_removed_is_tried_again_and_others_stay() {
    let bench = Bench::new();
    bench.ensured("web").await;
    let mine = "example.test/keep";
    bench
        .patch("web", json!({ "metadata": { "finalizers": [mine, FIN] } }))
        .await;
    let path = "/api/v1/namespaces/default/services/web/status";
    bench.fault(refuse(500, "PATCH", path).times(1));
    bench.delete("web").await;
    bench.until_told("web", "DeletedLoadBalancer").await;
    let text = "failed to remove load balancer cleanup finalizer";
    assert!(bench.events("web").iter().any(|it| it.contains(text)));
    bench.seconds(5).await;
    assert_eq!(bench.finalizers("web"), json!([mine]));
    assert_eq!(bench.cloud().count("delete load balancer"), 1);
    bench.seconds(600).await;
    assert_eq!(bench.cloud().count("(absent)"), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_removed_service_gives_back_is_offered_to_those_in_trouble_at_once() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench.ensured("fine").await;
    bench
        .create_with("poor", |it| {
            it["metadata"]["annotations"] = json!({ SIZE: "bad" });
        })
        .await;
    bench.seconds(1000).await;
    bench.cloud().clear();
    bench.delete("web").await;
    bench.until_gone("web").await;
    bench.seconds(1).await;
    assert_eq!(bench.cloud().count("look at default/poor"), 1);
    assert_eq!(bench.cloud().count("look at default/fine"), 0);
}
