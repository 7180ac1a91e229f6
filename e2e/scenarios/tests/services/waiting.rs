//! A slow cloud holds no worker, and what waits is gone on with or dropped.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_scenarios::cloud::ID;
use bowline_scenarios::objects::service;
use bowline_scenarios::{TestCluster, is_real, scenario};
use serde_json::{Value, json};

use crate::services::harness::{self, join, settled};

/// How long a slow load balancer takes.
const SLOW: Duration = Duration::from_secs(30);

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// The cloud builds slowly, and `web` waits for that.
async fn waiting() -> TestCluster {
    let bench = harness::new().await;
    bench.balancers().build_for(SLOW);
    bench.create_service(service("web")).await;
    bench
        .until("it waits", |it| {
            it.balancers().count("create load balancer") > 1
        })
        .await;
    bench
}

fn port(number: u16) -> Value {
    json!({ "spec": { "ports": [{ "name": "http", "port": number }] } })
}

#[scenario]
async fn a_load_balancer_that_takes_its_time_holds_no_worker() {
    let bench = waiting().await;
    bench.balancers().build_for(Duration::ZERO);
    let begun = bench.world.clock.now();
    bench.ensured("quick").await;
    assert!(bench.since(begun) < seconds(1) + bench.slack());
    assert_eq!(bench.event_count("web", "EnsuredLoadBalancer"), 0);
    bench.until_event("web", "EnsuredLoadBalancer").await;
    // One plan, looked at every two seconds, and no child before it is ready.
    assert_eq!(bench.balancers().count("look at shop/web"), 1);
    let tries = bench.balancers().times("create load balancer shop/web");
    assert!(is_real() || tries.len() == 16, "{}", tries.len());
    bench.assert_apart(&tries, &vec![2; tries.len() - 1]);
    let port = bench.balancers().times("create port shop/web")[0];
    assert!(port.duration_since(tries[0]).as_secs() >= 30);
}

#[scenario]
async fn a_long_wait_is_told_once_as_an_event_and_shown_as_a_condition() {
    let bench = waiting().await;
    bench.until_event("web", "WaitingForLoadBalancer").await;
    let shown = "False Waiting: 0 of 5 steps done: waiting for load balancer lb-1 to be ready";
    bench
        .until("the wait is shown", |it| it.condition("web") == shown)
        .await;
    let writes = bench.all_service_writes().len();
    bench.seconds(10).await;
    let later = bench.all_service_writes().len();
    assert_eq!(later, writes, "nothing new is said");
    let id = &bench.service("web")["metadata"]["annotations"];
    assert_eq!(id[ID], "lb-1", "known as soon as it is made");
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.event_count("web", "WaitingForLoadBalancer"), 1);
    assert_eq!(bench.condition("web"), "True Ready");
    let events = bench.news("web");
    let is_normal = |it: &String| it.starts_with("Normal");
    assert!(events.iter().all(is_normal), "{events:?}");
}

#[scenario]
async fn a_short_wait_is_not_worth_a_word() {
    let bench = harness::new().await;
    bench.balancers().build_for(seconds(1));
    bench.ensured("web").await;
    assert_eq!(
        bench.reasons("web"),
        ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]
    );
    assert_eq!(bench.all_service_writes().len(), 3);
}

#[scenario(only_in_memory = "it takes more than eleven minutes of the clock")]
async fn after_eleven_minutes_a_wait_is_a_failure() {
    let bench = harness::new().await;
    bench.balancers().build_for(seconds(690));
    bench.create_service(service("web")).await;
    bench.until_event("web", "SyncLoadBalancerFailed").await;
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure \
                    load balancer: still waiting for load balancer lb-1 to be ready after 11m0s";
    let events = bench.news("web");
    assert!(events.contains(&text.to_owned()), "{events:?}");
    bench.seconds(1).await;
    assert!(bench.condition("web").starts_with("False WaitedTooLong: "));
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.balancers().all().len(), 1);
}

#[scenario]
async fn a_service_changed_while_its_plan_waits_is_planned_anew() {
    let bench = waiting().await;
    bench.patch_service("web", port(8080)).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.balancers().count("TCP/80 "), 0);
    assert_eq!(bench.balancers().count("create port shop/web TCP/80"), 1);
    assert_eq!(bench.balancers().count("create port shop/web TCP/8080"), 1);
    assert_eq!(bench.balancers().all().len(), 1);
}

#[scenario]
async fn a_service_deleted_while_its_plan_waits_gets_no_children() {
    let bench = waiting().await;
    bench.delete_service("web").await;
    bench.until_service_gone("web").await;
    bench.pass(SLOW).await;
    let count = |text: &str| bench.balancers().count(text);
    assert_eq!(count("port") + count("member"), 0);
    assert_eq!(count("delete load balancer"), 1);
    assert_eq!(bench.balancers().all(), []);
}

#[scenario]
async fn members_that_change_while_a_plan_waits_are_planned_with_once_it_goes_on() {
    let bench = waiting().await;
    // Together, so that it is one change of the members.
    tokio::join!(bench.delete("n2"), join(&bench, "n4"));
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.balancers().members(), ["n1", "n3", "n4"]);
    assert_eq!(bench.balancers().count("member shop/web n2"), 0);
    assert_eq!(bench.balancers().count("look at"), 2);
}

#[scenario]
async fn a_step_that_interrupts_is_not_made_for_a_plan_that_was_overtaken() {
    let bench = settled().await;
    bench.balancers().take(seconds(5));
    bench.balancers().clear();
    bench.patch_service("web", port(8080)).await;
    bench
        .until("the new port is made", |it| {
            it.balancers().count("create port shop/web TCP/8080") == 1
        })
        .await;
    // Back, before the old port is taken away.
    bench.patch_service("web", port(80)).await;
    let wanted = BTreeSet::from(["TCP/80".to_owned()]);
    bench
        .until("the new port is removed", |it| {
            it.balancers().count("delete port") > 0 && it.balancers().all()[0].ports == wanted
        })
        .await;
    bench.settle().await;
    let count = |text: &str| bench.balancers().count(text);
    assert_eq!(count("delete port shop/web TCP/80"), 1);
    assert_eq!(count("delete port shop/web TCP/8080"), 1);
    assert_eq!(bench.balancers().all()[0].ports, wanted);
}

#[scenario]
async fn before_a_step_that_interrupts_the_members_are_those_of_that_very_moment() {
    let bench = settled().await;
    // In memory, sooner than unrest among nodes is acted upon.
    let latency = if is_real() { 5000 } else { 300 };
    bench.balancers().take(Duration::from_millis(latency));
    bench.balancers().clear();
    bench.patch_service("web", port(8080)).await;
    bench
        .until("the new port is made", |it| {
            it.balancers().count("create port shop/web TCP/8080") == 1
        })
        .await;
    join(&bench, "n4").await;
    bench
        .until("the old port goes", |it| {
            it.balancers().count("delete port") == 1
        })
        .await;
    bench.settle().await;
    let calls = bench.balancers().calls();
    let at = |text: &str| calls.iter().position(|it| it.starts_with(text)).unwrap();
    let anew = at("look at shop/web (n1 n2 n3 n4)");
    assert!(
        at("create port") < anew && anew < at("delete port"),
        "{calls:?}"
    );
    assert_eq!(bench.balancers().count("look at"), 2);
}

#[scenario]
async fn a_stop_begins_no_further_step_and_the_next_manager_goes_on() {
    let mut bench = harness::new().await;
    bench.balancers().take(seconds(5));
    bench.create_service(service("web")).await;
    bench
        .until("the second step", |it| {
            it.balancers().count("create port") == 1
        })
        .await;
    bench.stop().await;
    assert_eq!(bench.balancers().count("member"), 0);
    let ports = &bench.balancers().all()[0].ports;
    assert_eq!(ports.len(), 1, "what was begun is done");
    bench.start();
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.balancers().count("create load balancer"), 1);
    assert_eq!(bench.balancers().members(), ["n1", "n2", "n3"]);
}
