//! A new process compares first and writes nothing that is right.

use std::time::Duration;

use serde_json::json;

use crate::bench::Bench;

#[tokio::test(start_paused = true)]
async fn framework_case_086_a_restart_looks_once_at_each_service_and_writes_nothing() {
    let mut bench = Bench::new();
    let names: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    for name in &names {
        bench.ensured(name).await;
    }
    bench.stop().await;
    bench.cloud().clear();
    let (writes, events) = (bench.writes().len(), bench.events("s0").len());
    bench.start();
    bench.seconds(600).await;
    assert_eq!(bench.cloud().writes(), [""; 0]);
    for name in &names {
        assert_eq!(bench.cloud().count(&format!("look at default/{name} ")), 1);
    }
    assert_eq!(bench.writes().len(), writes);
    assert_eq!(bench.events("s0").len(), events);
    let looks = bench.cloud().times("look at");
    let spread = looks[9].duration_since(looks[0]);
    assert!(spread.as_millis() > 500, "spread over time: {spread}");
}

#[tokio::test(start_paused = true)]
async fn services_that_need_something_come_first() {
    let mut bench = Bench::new();
    for number in 0..10 {
        bench.ensured(&format!("s{number}")).await;
    }
    bench.stop().await;
    bench.cloud().clear();
    bench.create("new").await;
    bench.delete("s5").await;
    bench.start();
    bench.until_told("new", "EnsuredLoadBalancer").await;
    bench.until_gone("s5").await;
    let calls = bench.cloud().calls();
    let first: Vec<&String> = calls
        .iter()
        .filter(|it| it.contains("look at"))
        .take(2)
        .collect();
    assert_eq!(
        first,
        [
            "look at default/new (n1 n2 n3)",
            "look at default/s5 (absent)"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_right_gets_no_condition() {
    let mut bench = Bench::new();
    bench.ensured("web").await;
    bench.stop().await;
    // As another program left it.
    let mut service = bench.service("web").unwrap();
    service["status"]
        .as_object_mut()
        .unwrap()
        .remove("conditions");
    bench.put_service(service);
    let writes = bench.writes().len();
    bench.start();
    bench.seconds(600).await;
    assert_eq!(bench.writes().len(), writes);
    assert_eq!(bench.condition("web"), None);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_twice_when_the_process_dies_between_any_two_calls() {
    // Each run dies a little later: after the first call, after the second one, …
    for calls in 1..10 {
        let mut bench = Bench::new();
        bench.cloud().take(Duration::from_millis(100));
        bench.create("web").await;
        bench
            .until("some calls", |it| {
                it.cloud().calls().len() + it.writes().len() >= calls
            })
            .await;
        bench.kill().await;
        bench.start();
        bench
            .until("it is served", |it| it.ingress("web").is_array())
            .await;
        assert_eq!(bench.cloud().balancers().len(), 1, "after {calls} calls");
        assert_eq!(bench.cloud().members(), ["n1", "n2", "n3"]);
        let wanted = json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]);
        assert_eq!(bench.ingress("web"), wanted);
        bench.stop().await;
        bench.cloud().clear();
        let writes = bench.writes().len();
        bench.start();
        bench.seconds(60).await;
        assert_eq!(bench.cloud().writes(), [""; 0], "a second plan is empty");
        assert_eq!(bench.writes().len(), writes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_deleted_while_no_manager_ran_is_cleaned_up() {
    let mut bench = Bench::new();
    bench.ensured("web").await;
    bench.kill().await;
    bench.delete("web").await;
    bench.start();
    bench.until_gone("web").await;
    assert_eq!(bench.cloud().balancers(), []);
}
