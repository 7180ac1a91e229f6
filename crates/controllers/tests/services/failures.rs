//! What goes wrong is told, tried again with back-off, and leaves nothing twice.

use std::time::Duration;

use serde_json::json;

use crate::bench::{Bench, FIN, gaps, refuse};
use crate::cloud::{Fault, Look, SIZE};

#[tokio::test(start_paused = true)]
async fn framework_case_066_the_clouds_word_about_the_next_try_is_kept() {
    for look in [
        Look::Later("a subnet", Duration::from_secs(42)),
        Look::Throttled(Duration::from_secs(42)),
    ] {
        let bench = Bench::new();
        let failed = Look::Error("boom");
        bench.cloud().say([look, failed]);
        bench.create("web").await;
        bench.until_told("web", "EnsuredLoadBalancer").await;
        // The second look fails for the first time: five seconds, so the wait was not counted.
        assert_eq!(gaps(&bench.cloud().times("look at")), [42, 5]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_planned_wait_is_no_warning() {
    let bench = Bench::new();
    let later = || Look::Later("a subnet", Duration::from_secs(30));
    bench.cloud().say([later(), later(), later()]);
    bench.create("web").await;
    bench.seconds(5).await;
    assert_eq!(
        bench.condition("web").unwrap(),
        "False Waiting: waiting for a subnet"
    );
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(
        bench.events("web"),
        [
            "Normal EnsuringLoadBalancer: Ensuring load balancer",
            "Normal WaitingForLoadBalancer: Waiting for a subnet",
            "Normal EnsuredLoadBalancer: Ensured load balancer",
        ]
    );
    assert_eq!(bench.told("web", "WaitingForLoadBalancer"), 1);
    assert_eq!(bench.condition("web").unwrap(), "True Ready");
}

#[tokio::test(start_paused = true)]
async fn framework_case_067_failures_wait_from_5_to_300_seconds_and_an_edit_runs_at_once() {
    let bench = Bench::new();
    bench.cloud().say((0..8).map(|_| Look::Error("boom")));
    bench.create("web").await;
    bench.until_told("web", "EnsuredLoadBalancer").await;
    let times = bench.cloud().times("look at");
    assert_eq!(gaps(&times), [5, 10, 20, 40, 80, 160, 300, 300]);
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure \
                load balancer: boom";
    assert!(bench.events("web").contains(&text.to_owned()));
    assert_eq!(bench.told("web", "EnsuringLoadBalancer"), 1);
    bench.cloud().say((0..4).map(|_| Look::Error("boom")));
    bench.cloud().clear();
    bench
        .patch(
            "web",
            json!({ "metadata": { "annotations": { "a": "1" } } }),
        )
        .await;
    bench.seconds(16).await;
    // At 0, 5 and 15; an edit at 16 runs at once and leaves the count.
    bench
        .patch(
            "web",
            json!({ "metadata": { "annotations": { "a": "2" } } }),
        )
        .await;
    bench
        .until("a good look", |it| it.cloud().count("look at") == 5)
        .await;
    assert_eq!(gaps(&bench.cloud().times("look at")), [5, 10, 1, 40]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_step_is_told_with_how_far_it_came_and_nothing_is_made_twice() {
    let bench = Bench::new();
    bench.cloud().fault("create port", Fault::Error("quota"), 2);
    bench.create("web").await;
    bench.until_told("web", "SyncLoadBalancerFailed").await;
    bench.seconds(1).await;
    let events = bench.events("web");
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure \
                load balancer: 1 of 5 steps done: creating port default/web TCP/80: quota";
    assert!(events.contains(&text.to_owned()), "{events:?}");
    let condition = bench.condition("web").unwrap();
    assert!(
        condition.starts_with("False StepFailed: failed to ensure"),
        "{condition}"
    );
    assert!(condition.contains("; next try at 20"), "{condition}");
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.cloud().count("create load balancer"), 1);
    assert_eq!(bench.told("web", "SyncLoadBalancerFailed"), 2);
    let failed =
        "bowline_load_balancer_steps_total{cloud=\"demo\",result=\"failed\",verb=\"create\"}";
    assert_eq!(bench.metric(failed), Some(2.0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_lost_after_success_makes_nothing_twice() {
    let bench = Bench::new();
    bench.cloud().fault("create load balancer", Fault::Lost, 1);
    bench.create("web").await;
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.cloud().balancers().len(), 1);
    assert_eq!(bench.cloud().count("create load balancer"), 1);
    assert_eq!(bench.cloud().members(), ["n1", "n2", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_cannot_be_done_holds_up_no_other_and_is_told_once() {
    let bench = Bench::new();
    bench
        .cloud()
        .fault("member default/web n2", Fault::Skip("n2 has no server"), 4);
    bench.create("web").await;
    bench.until_told("web", "NodeSkipped").await;
    bench.seconds(2).await;
    assert_eq!(bench.cloud().members(), ["n1", "n3"]);
    assert!(bench.ingress("web").is_array(), "the rest is published");
    let condition = bench.condition("web").unwrap();
    assert!(condition.starts_with("False Incomplete: some steps could not be done: "));
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.cloud().members(), ["n1", "n2", "n3"]);
    assert_eq!(bench.told("web", "NodeSkipped"), 1);
    assert_eq!(bench.told("web", "SyncLoadBalancerFailed"), 0);
    let tries = bench.cloud().times("member default/web n2");
    assert_eq!(gaps(&tries), [5, 10, 20, 40]);
}

#[tokio::test(start_paused = true)]
async fn without_a_finalizer_no_cloud_is_called() {
    let bench = Bench::new();
    let path = "/api/v1/namespaces/default/services/web/status";
    bench.fault(refuse(500, "PATCH", path).times(1));
    bench.create("web").await;
    bench.until_told("web", "SyncLoadBalancerFailed").await;
    assert_eq!(bench.cloud().calls(), [""; 0]);
    let text = "failed to add load balancer cleanup finalizer";
    assert!(bench.events("web").iter().any(|it| it.contains(text)));
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.finalizers("web"), json!([FIN]));
}

#[tokio::test(start_paused = true)]
async fn a_new_service_with_a_bad_setting_has_no_load_balancer_and_no_address() {
    let bench = Bench::new();
    bench
        .create_with("web", |it| {
            it["metadata"]["annotations"] = json!({ SIZE: "bad" });
        })
        .await;
    bench.seconds(120).await;
    assert_eq!(bench.cloud().balancers(), []);
    assert_eq!(bench.told("web", "InvalidLoadBalancerConfig"), 1);
    assert_eq!(gaps(&bench.cloud().times("look at")), [5, 10, 20, 40]);
}
