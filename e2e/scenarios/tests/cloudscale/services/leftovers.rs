//! What is left when a Service goes without a word, and what others lack until one goes.

use bowline_scenarios::objects::{finalizers, service};
use bowline_scenarios::{LEASE, refuse, scenario};
use bowline_simulator_cloudscale::Quirks;

use super::service_harness::{FINALIZER, ServiceHarness};

const PERIOD: (&str, &str) = ("CLOUDSCALE_DRIFT_CHECK_PERIOD", "10s");

/// Takes the finalizer away, as people do who are impatient, and deletes the Service.
async fn tear_away(test: &ServiceHarness, name: &str) {
    test.change_service(name, |it| {
        it["metadata"]["finalizers"] = serde_json::json!([]);
    })
    .await;
    test.delete_service(name).await;
}

#[scenario]
async fn a_finalizer_that_was_taken_away_comes_back(test: ServiceHarness) {
    test.serve().await;
    let mark = test.mark();
    test.change_service("web", |it| {
        it["metadata"]["finalizers"] = serde_json::json!([]);
    })
    .await;
    test.until_service("web", "it is held again", |it| {
        finalizers(it) == [FINALIZER]
    })
    .await;
    assert_eq!(test.changes_from(mark), [""; 0]);
}

#[scenario]
async fn a_service_that_is_no_load_balancer_any_more_says_so_whatever_fails_on_the_way() {
    for passing in [0, 1] {
        let test = ServiceHarness::new().await;
        test.serve().await;
        let mut rule = refuse(500, "PATCH", "*/services/web/status").times(1);
        rule.after = passing;
        test.fault(rule);
        test.change_service("web", |it| it["spec"]["type"] = "ClusterIP".into())
            .await;
        test.until_service("web", "nothing is left", |it| {
            let status = &it["status"];
            let shown = &status["loadBalancer"]["ingress"];
            let reported = status["conditions"][0]["reason"] == "Removed";
            finalizers(it).is_empty() && shown.is_null() && reported
        })
        .await;
        assert_eq!(test.cloud.balancers(), []);
        test.end().await;
    }
}

#[scenario]
async fn a_service_that_vanishes_while_nobody_looks_is_told_as_an_orphan_and_left() {
    let mut test = ServiceHarness::with(&[PERIOD], &[]).await;
    test.serve().await;
    let before = test.balancer();
    test.stop().await;
    tear_away(&test, "web").await;
    let mark = test.mark();
    test.start().await;
    let message = test.message(LEASE, "OrphanedLoadBalancer").await;
    assert!(message.contains(&before.uuid), "{message}");
    test.seconds(30).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.balancer(), before);
    test.end().await;
}

#[scenario]
async fn an_orphan_of_this_cluster_is_removed_if_the_operator_said_so_and_others_stay() {
    let flags = [
        "--cluster-name=prod-1",
        "--cluster-uid=one",
        "--remove-orphaned-load-balancers",
    ];
    let mut test = ServiceHarness::with(&[PERIOD], &flags).await;
    test.serve().await;
    let ours = test.balancer();
    assert_eq!(ours.tags["k8s-cluster-name"], "prod-1");
    let mut other = bowline_simulator_cloudscale::BalancerSpec::named("theirs");
    for (key, value) in [("k8s-cluster-name", "prod-2"), ("k8s-service-uid", "gone")] {
        other = other.tag(key, value);
    }
    let other = test.cloud.add_balancer(&other).unwrap();
    test.stop().await;
    tear_away(&test, "web").await;
    let mark = test.mark();
    test.start().await;
    test.message(LEASE, "RemovedOrphan").await;
    assert_eq!(test.changes_from(mark), ["DELETE load-balancers"]);
    assert_eq!(test.balancer().uuid, other);
    test.end().await;
}

#[scenario]
async fn proof_case_22_an_orphan_that_only_names_the_cluster_is_told_and_stays() {
    let flags = ["--remove-orphaned-load-balancers"];
    let mut test = ServiceHarness::idle(&[PERIOD], &flags).await;
    test.change("worker-a", |node| {
        node["metadata"]["annotations"]["cluster.x-k8s.io/cluster-name"] = "prod-1".into();
    })
    .await;
    test.start().await;
    test.serve().await;
    let ours = test.balancer();
    assert_eq!(ours.tags["k8s-cluster-name"], "prod-1");
    let mut other = bowline_simulator_cloudscale::BalancerSpec::named("theirs");
    for (key, value) in [("k8s-cluster-name", "prod-2"), ("k8s-service-uid", "gone")] {
        other = other.tag(key, value);
    }
    let other = test.cloud.add_balancer(&other).unwrap();
    test.stop().await;
    tear_away(&test, "web").await;
    test.start().await;
    let message = test.message(LEASE, "OrphanedLoadBalancer").await;
    assert!(message.contains(&ours.uuid), "{message}");
    assert!(message.contains("not its uid"), "{message}");
    let mark = test.mark();
    test.long(300).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert!(test.cloud.balancers().iter().any(|it| it.uuid == other));
    test.end().await;
}

#[scenario]
async fn a_service_that_lacks_a_quota_is_served_when_another_one_goes(test: ServiceHarness) {
    test.cloud.set_quirks(Quirks {
        most_load_balancers: Some(1),
        ..Quirks::default()
    });
    test.serve().await;
    test.create_service(service("other")).await;
    let message = test.message("other", "SyncLoadBalancerFailed").await;
    assert!(message.contains("400"), "{message}");
    // By now the pauses between tries are as long as they get.
    test.long(3600).await;
    assert_eq!(test.cloud.balancers().len(), 1);
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    let freed = tokio::time::Instant::now();
    test.until_published("other").await;
    let took = freed.elapsed();
    assert!(took.as_secs() < 10 + test.slack().as_secs(), "{took:?}");
}
