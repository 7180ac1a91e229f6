//! What goes wrong is reported, tried again with back-off, and leaves nothing twice.

use std::time::Duration;

use bowline_scenarios::cloud::{Look, SIZE, Trouble};
use bowline_scenarios::objects::{annotated, service};
use bowline_scenarios::{is_real, refuse, scenario};
use bowline_simulator::journal::Entry;
use futures::future::join_all;
use serde_json::json;

use crate::services::harness::{self, FIN, STATUS};

#[scenario]
async fn framework_case_066_the_clouds_word_about_the_next_try_is_kept() {
    let story = async |look: Look| {
        let bench = harness::new().await;
        bench.balancers().say([look, Look::Error("boom")]);
        bench.create_service(service("web")).await;
        bench.until_event("web", "EnsuredLoadBalancer").await;
        // The second look fails for the first time: five seconds, so the wait was not counted.
        bench.assert_apart(&bench.balancers().times("look at"), &[42, 5]);
    };
    let wait = Duration::from_secs(42);
    let looks = [Look::Later("a subnet", wait), Look::Throttled(wait)];
    join_all(looks.map(story)).await;
}

#[scenario]
async fn a_planned_wait_is_no_warning() {
    let bench = harness::new().await;
    let later = || Look::Later("a subnet", Duration::from_secs(10));
    bench.balancers().say([later(), later(), later()]);
    bench.create_service(service("web")).await;
    let waiting = "False Waiting: waiting for a subnet";
    bench
        .until("the wait is shown", |it| it.condition("web") == waiting)
        .await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(
        bench.news("web"),
        [
            "Normal EnsuringLoadBalancer: Ensuring load balancer",
            "Normal WaitingForLoadBalancer: Waiting for a subnet",
            "Normal EnsuredLoadBalancer: Ensured load balancer",
        ]
    );
    assert_eq!(bench.event_count("web", "WaitingForLoadBalancer"), 1);
    assert_eq!(bench.condition("web"), "True Ready");
}

#[scenario]
async fn framework_case_067_failures_wait_from_5_to_300_seconds_and_an_edit_runs_at_once() {
    let bench = harness::new().await;
    let pauses = [5, 10, 20, 40, 80, 160, 300, 300];
    // The real clock has no time for the longer ones.
    let pauses = &pauses[..if is_real() { 4 } else { 8 }];
    bench
        .balancers()
        .say(pauses.iter().map(|_| Look::Error("boom")));
    bench.create_service(service("web")).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    bench.assert_apart(&bench.balancers().times("look at"), pauses);
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure \
                    load balancer: boom";
    assert!(bench.news("web").contains(&text.to_owned()));
    assert_eq!(bench.event_count("web", "EnsuringLoadBalancer"), 1);
    bench.balancers().say((0..4).map(|_| Look::Error("boom")));
    bench.balancers().clear();
    let edit = async |value: &str| {
        let edit = json!({ "metadata": { "annotations": { "a": value } } });
        bench.patch_service("web", edit).await;
    };
    edit("1").await;
    bench
        .until("the third try", |it| it.balancers().count("look at") == 3)
        .await;
    bench.seconds(1).await;
    // After those at 0, 5 and 15; an edit at 16 runs at once and leaves the count.
    let edited = bench.world.clock.now();
    edit("2").await;
    bench
        .until("a good look", |it| it.balancers().count("look at") == 5)
        .await;
    let looks = bench.balancers().times("look at");
    bench.assert_apart(&looks[..3], &[5, 10]);
    let at_once = looks[3].duration_since(edited);
    assert!(at_once.as_secs() < 15, "{at_once}");
    bench.assert_apart(&looks[3..], &[40]);
}

#[scenario]
async fn the_back_off_starts_anew_after_progress_and_doubles_without() {
    let bench = harness::new().await;
    let quota = || Trouble::Error("quota");
    for (step, times) in [
        ("create port", 1),
        ("create member shop/web n1", 1),
        ("create member shop/web n2", 1),
        ("create member shop/web n3", 3),
    ] {
        bench.balancers().fail(step, quota(), times);
    }
    bench.create_service(service("web")).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    // Each of the first four tries comes one step further, the others do not.
    let looks = bench.balancers().times("look at");
    bench.assert_apart(&looks, &[5, 5, 5, 5, 10, 20]);
    assert_eq!(bench.event_count("web", "SyncLoadBalancerFailed"), 6);
}

#[scenario]
async fn a_failed_step_is_told_with_how_far_it_came_and_nothing_is_made_twice() {
    let bench = harness::new().await;
    bench
        .balancers()
        .fail("create port", Trouble::Error("quota"), 2);
    bench.create_service(service("web")).await;
    bench.until_event("web", "SyncLoadBalancerFailed").await;
    bench
        .until("the trouble is shown", |it| {
            it.condition("web").contains("; next try at 20")
        })
        .await;
    let events = bench.news("web");
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure \
                    load balancer: 1 of 5 steps done: creating port shop/web TCP/80: quota";
    assert!(events.contains(&text.to_owned()), "{events:?}");
    let condition = bench.condition("web");
    assert!(
        condition.starts_with("False StepFailed: failed to ensure"),
        "{condition}"
    );
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.balancers().count("create load balancer"), 1);
    assert_eq!(bench.event_count("web", "SyncLoadBalancerFailed"), 2);
    let failed =
        "bowline_load_balancer_steps_total{cloud=\"demo\",result=\"failed\",verb=\"create\"}";
    assert_eq!(bench.metric(failed), Some(2.0));
}

#[scenario]
async fn an_answer_lost_after_success_makes_nothing_twice() {
    let bench = harness::new().await;
    bench
        .balancers()
        .fail("create load balancer", Trouble::Lost, 1);
    bench.create_service(service("web")).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.balancers().all().len(), 1);
    assert_eq!(bench.balancers().count("create load balancer"), 1);
    assert_eq!(bench.balancers().members(), ["n1", "n2", "n3"]);
}

#[scenario]
async fn a_step_that_cannot_be_done_holds_up_no_other_and_is_told_once() {
    let bench = harness::new().await;
    bench
        .balancers()
        .fail("member shop/web n2", Trouble::Skip("n2 has no server"), 4);
    bench.create_service(service("web")).await;
    bench.until_event("web", "NodeSkipped").await;
    let start = "False Incomplete: some steps could not be done: ";
    bench
        .until("that is shown", |it| it.condition("web").starts_with(start))
        .await;
    assert_eq!(bench.balancers().members(), ["n1", "n3"]);
    assert!(!bench.entrances("web").is_empty(), "the rest is published");
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.balancers().members(), ["n1", "n2", "n3"]);
    assert_eq!(bench.event_count("web", "NodeSkipped"), 1);
    assert_eq!(bench.event_count("web", "SyncLoadBalancerFailed"), 0);
    let tries = bench.balancers().times("member shop/web n2");
    bench.assert_apart(&tries, &[5, 10, 20, 40]);
}

#[scenario]
async fn without_a_finalizer_no_cloud_is_called() {
    let bench = harness::new().await;
    bench.fault(refuse(500, "PATCH", STATUS).times(1));
    bench.create_service(service("web")).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    let text = "failed to add load balancer cleanup finalizer";
    assert!(bench.news("web").iter().any(|it| it.contains(text)));
    let writes = bench.all_service_writes();
    assert_eq!(writes[0].status, 500);
    let held = |it: &&Entry| it.status == 200 && it.body.to_string().contains(FIN);
    let held = writes.iter().find(held).unwrap();
    let first = bench.balancers().times("")[0];
    assert!(first >= held.arrived, "called before");
    assert_eq!(bench.finalizers("web"), [FIN]);
}

#[scenario]
async fn a_new_service_with_a_bad_setting_has_no_load_balancer_and_no_address() {
    let bench = harness::new().await;
    bench
        .create_service(annotated("web", &[(SIZE, "bad")]))
        .await;
    bench
        .until("five tries", |it| it.balancers().count("look at") == 5)
        .await;
    assert_eq!(bench.balancers().all(), []);
    assert_eq!(bench.event_count("web", "InvalidLoadBalancerConfig"), 1);
    let looks = bench.balancers().times("look at");
    bench.assert_apart(&looks, &[5, 10, 20, 40]);
}
