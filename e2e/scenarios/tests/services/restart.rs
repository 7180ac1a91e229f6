//! A new process compares first and writes nothing that is right.

use std::time::Duration;

use bowline_scenarios::objects::service;
use bowline_scenarios::{TestCluster, scenario};
use futures::future::join_all;

use crate::services::harness::{self, settled};

/// Ten Services that are right, and no manager.
async fn ten_services() -> (TestCluster, Vec<String>) {
    let mut bench = harness::new().await;
    let names: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    for name in &names {
        bench.create_service(service(name)).await;
    }
    for name in &names {
        bench.until_event(name, "EnsuredLoadBalancer").await;
    }
    bench.stop().await;
    bench.balancers().clear();
    (bench, names)
}

#[scenario]
async fn framework_case_086_a_restart_looks_once_at_each_service_and_writes_nothing() {
    let (mut bench, names) = ten_services().await;
    let (writes, events) = (bench.all_service_writes().len(), bench.news("s0").len());
    bench.start();
    bench
        .until("all are looked at", |it| {
            it.balancers().count("look at") >= 10
        })
        .await;
    bench.settle().await;
    assert_eq!(bench.balancers().writes(), [""; 0]);
    for name in &names {
        assert_eq!(bench.balancers().count(&format!("look at shop/{name} ")), 1);
    }
    assert_eq!(bench.all_service_writes().len(), writes);
    assert_eq!(bench.news("s0").len(), events);
    let looks = bench.balancers().times("look at");
    let spread = looks[9].duration_since(looks[0]);
    assert!(spread.as_millis() > 500, "spread over time: {spread}");
}

#[scenario]
async fn services_that_need_something_come_first() {
    let (mut bench, _) = ten_services().await;
    bench.create_service(service("new")).await;
    bench.delete_service("s5").await;
    bench.start();
    bench.until_event("new", "EnsuredLoadBalancer").await;
    bench.until_service_gone("s5").await;
    let calls = bench.balancers().calls();
    let mut first: Vec<&String> = calls
        .iter()
        .filter(|it| it.contains("look at"))
        .take(2)
        .collect();
    // Both at once.
    first.sort();
    assert_eq!(
        first,
        ["look at shop/new (n1 n2 n3)", "look at shop/s5 (absent)"]
    );
}

#[scenario]
async fn a_service_that_is_right_gets_no_condition() {
    let mut bench = settled().await;
    bench.stop().await;
    // As another program left it.
    bench
        .change_service("web", |it| {
            it["status"].as_object_mut().unwrap().remove("conditions");
        })
        .await;
    let writes = bench.all_service_writes().len();
    bench.balancers().clear();
    bench.start();
    bench
        .until("a look", |it| it.balancers().count("look at") == 1)
        .await;
    bench.settle().await;
    assert_eq!(bench.all_service_writes().len(), writes);
    assert_eq!(bench.condition("web"), "");
}

#[scenario]
async fn nothing_is_made_twice_when_the_process_dies_between_any_two_calls() {
    let story = async |calls: usize| {
        let mut bench = harness::new().await;
        bench.balancers().take(Duration::from_millis(100));
        bench.create_service(service("web")).await;
        bench
            .until("some calls", |it| {
                it.balancers().calls().len() + it.all_service_writes().len() >= calls
            })
            .await;
        bench.kill().await;
        bench.start();
        bench
            .until("it is served", |it| !it.entrances("web").is_empty())
            .await;
        assert_eq!(bench.balancers().all().len(), 1, "after {calls} calls");
        assert_eq!(bench.balancers().members(), ["n1", "n2", "n3"]);
        assert_eq!(bench.entrances("web"), ["192.0.2.1 VIP"]);
        bench.stop().await;
        bench.balancers().clear();
        let writes = bench.all_service_writes().len();
        bench.start();
        bench
            .until("a look", |it| it.balancers().count("look at") == 1)
            .await;
        bench.settle().await;
        let made = bench.balancers().writes();
        assert_eq!(made, [""; 0], "a second plan is empty");
        assert_eq!(bench.all_service_writes().len(), writes);
    };
    // Each run dies a little later: after the first call, after the second one, …
    join_all((1..10).map(story)).await;
}

#[scenario]
async fn a_service_deleted_while_no_manager_ran_is_cleaned_up() {
    let mut bench = settled().await;
    bench.kill().await;
    bench.delete_service("web").await;
    bench.start();
    bench.until_service_gone("web").await;
    assert_eq!(bench.balancers().all(), []);
}
