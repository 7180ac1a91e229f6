//! A slow cloud holds no worker, and what waits is gone on with or dropped.

use std::time::Duration;

use serde_json::json;

use crate::bench::{Bench, gaps};

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_takes_its_time_holds_no_worker() {
    let bench = Bench::new();
    bench.cloud().build_for(seconds(60));
    bench.create("slow").await;
    bench
        .until("it waits", |it| {
            it.cloud().count("create load balancer default/slow") > 1
        })
        .await;
    bench.cloud().build_for(Duration::ZERO);
    let begun = bench.now();
    bench.ensured("quick").await;
    assert!(bench.world.clock.since(begun) < seconds(1));
    bench.until_told("slow", "EnsuredLoadBalancer").await;
    // One plan, looked at every two seconds, and no child before it is ready.
    assert_eq!(bench.cloud().count("look at default/slow"), 1);
    let tries = bench.cloud().times("create load balancer default/slow");
    assert_eq!(gaps(&tries), [2; 30]);
    let port = bench.cloud().times("create port default/slow")[0];
    assert!(port.duration_since(tries[0]).as_secs() >= 60);
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_is_told_once_as_an_event_and_shown_as_a_condition() {
    let bench = Bench::new();
    bench.cloud().build_for(seconds(60));
    bench.create("web").await;
    bench.until_told("web", "WaitingForLoadBalancer").await;
    bench.seconds(1).await;
    assert_eq!(
        bench.condition("web").unwrap(),
        "False Waiting: 0 of 5 steps done: waiting for load balancer lb-1 to be ready"
    );
    let writes = bench.writes().len();
    bench.seconds(30).await;
    assert_eq!(bench.writes().len(), writes, "nothing new is said");
    let id = &bench.service("web").unwrap()["metadata"]["annotations"];
    assert_eq!(id["demo.test/id"], "lb-1", "known as soon as it is made");
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.told("web", "WaitingForLoadBalancer"), 1);
    assert_eq!(bench.condition("web").unwrap(), "True Ready");
    let events = bench.events("web");
    assert!(
        events.iter().all(|it| it.starts_with("Normal")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_is_not_worth_a_word() {
    let bench = Bench::new();
    bench.cloud().build_for(seconds(3));
    bench.ensured("web").await;
    assert_eq!(
        bench.reasons("web"),
        ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]
    );
    assert_eq!(bench.writes().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn after_five_minutes_a_wait_is_a_failure() {
    let bench = Bench::new();
    bench.cloud().build_for(seconds(330));
    bench.create("web").await;
    bench.until_told("web", "SyncLoadBalancerFailed").await;
    let text = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure \
                load balancer: still waiting for load balancer lb-1 to be ready after 5m0s";
    let events = bench.events("web");
    assert!(events.contains(&text.to_owned()), "{events:?}");
    bench.seconds(1).await;
    assert!(
        bench
            .condition("web")
            .unwrap()
            .starts_with("False WaitedTooLong: ")
    );
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.cloud().balancers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_changed_while_its_plan_waits_is_planned_anew() {
    let bench = Bench::new();
    bench.cloud().build_for(seconds(60));
    bench.create("web").await;
    bench
        .until("it waits", |it| {
            it.cloud().count("create load balancer") > 1
        })
        .await;
    let change = json!({ "spec": { "ports": [{ "name": "http", "port": 8080 }] } });
    bench.patch("web", change).await;
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.cloud().count("TCP/80 "), 0);
    assert_eq!(bench.cloud().count("create port default/web TCP/80"), 1);
    assert_eq!(bench.cloud().count("create port default/web TCP/8080"), 1);
    assert_eq!(bench.cloud().balancers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_deleted_while_its_plan_waits_gets_no_children() {
    let bench = Bench::new();
    bench.cloud().build_for(seconds(60));
    bench.create("web").await;
    bench
        .until("it waits", |it| {
            it.cloud().count("create load balancer") > 1
        })
        .await;
    bench.delete("web").await;
    bench.until_gone("web").await;
    bench.seconds(120).await;
    assert_eq!(
        bench.cloud().count("port") + bench.cloud().count("member"),
        0
    );
    assert_eq!(bench.cloud().count("delete load balancer"), 1);
    assert_eq!(bench.cloud().balancers(), []);
}

#[tokio::test(start_paused = true)]
async fn members_that_change_while_a_plan_waits_are_planned_with_once_it_goes_on() {
    let bench = Bench::new();
    bench.cloud().build_for(seconds(60));
    bench.create("web").await;
    bench
        .until("it waits", |it| {
            it.cloud().count("create load balancer") > 1
        })
        .await;
    bench.delete_node("n2");
    bench.add_node("n4");
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.cloud().members(), ["n1", "n3", "n4"]);
    assert_eq!(bench.cloud().count("member default/web n2"), 0);
    assert_eq!(bench.cloud().count("look at"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_interrupts_is_not_made_for_a_plan_that_was_overtaken() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench.cloud().take(seconds(1));
    bench.cloud().clear();
    let port = |number: u16| json!({ "spec": { "ports": [{ "name": "http", "port": number }] } });
    bench.patch("web", port(8080)).await;
    bench
        .until("the new port is made", |it| {
            it.cloud().count("create port default/web TCP/8080") == 1
        })
        .await;
    // Back, before the old port is taken away.
    bench.patch("web", port(80)).await;
    bench.seconds(30).await;
    assert_eq!(bench.cloud().count("delete port default/web TCP/80"), 1);
    assert_eq!(bench.cloud().count("delete port default/web TCP/8080"), 1);
    let ports: Vec<String> = bench.cloud().balancers()[0].ports.iter().cloned().collect();
    assert_eq!(ports, ["TCP/80"]);
}

#[tokio::test(start_paused = true)]
async fn before_a_step_that_interrupts_the_members_are_those_of_that_very_moment() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench.cloud().take(Duration::from_millis(300));
    bench.cloud().clear();
    let change = json!({ "spec": { "ports": [{ "name": "http", "port": 8080 }] } });
    bench.patch("web", change).await;
    bench
        .until("the new port is made", |it| {
            it.cloud().count("create port default/web TCP/8080") == 1
        })
        .await;
    // Sooner than unrest among nodes is acted upon.
    bench.add_node("n4");
    bench.seconds(30).await;
    let calls = bench.cloud().calls();
    let at = |text: &str| calls.iter().position(|it| it.starts_with(text)).unwrap();
    let anew = at("look at default/web (n1 n2 n3 n4)");
    assert!(
        at("create port") < anew && anew < at("delete port"),
        "{calls:?}"
    );
    assert_eq!(bench.cloud().count("look at"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_begins_no_further_step_and_the_next_manager_goes_on() {
    let mut bench = Bench::new();
    bench.cloud().take(seconds(2));
    bench.create("web").await;
    bench
        .until("the second step", |it| it.cloud().count("create port") == 1)
        .await;
    bench.stop().await;
    assert_eq!(bench.cloud().count("member"), 0);
    assert_eq!(
        bench.cloud().balancers()[0].ports.len(),
        1,
        "what was begun is done"
    );
    bench.start();
    bench.until_told("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.cloud().count("create load balancer"), 1);
    assert_eq!(bench.cloud().members(), ["n1", "n2", "n3"]);
}
