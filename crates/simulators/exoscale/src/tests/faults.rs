//! What goes wrong on the way, by the names of operations.

use std::collections::BTreeMap;

use bowline_simulator::faults::{Action, Rule};

use super::*;

fn create() -> Rule {
    Rule::new(Action::Reset).operation("create-load-balancer")
}

#[tokio::test(start_paused = true)]
async fn faults_strike_single_operations_by_their_ids() {
    let sim = Harness::new();
    let add = |action| {
        let rule = Rule { action, ..create() };
        sim.world.faults.add(rule.times(1)).unwrap()
    };
    let body = |name: &str| json!({ "name": name }).to_string();
    let attempt = |name| {
        let body = body(name);
        let sim = &sim;
        async move { sim.attempt("POST", "/v2/load-balancer", &body).await }
    };
    let headers = BTreeMap::from([("Retry-After".to_owned(), "7".to_owned())]);
    add(Action::Status {
        code: 503,
        headers,
        body: None,
    });
    assert_eq!(sim.status("GET", "/v2/load-balancer").await, 200);
    let reply = attempt("a").await.unwrap();
    assert_eq!(
        (reply.status, reply.headers["retry-after"].as_bytes()),
        (503, &b"7"[..])
    );
    refused(&reply, 503, "Service Unavailable");

    // Before and after it was done.
    add(Action::Reset);
    assert!(attempt("a").await.is_err());
    assert_eq!(sim.cloud.balancers(), []);
    add(Action::LostAnswer);
    assert!(attempt("a").await.is_err());
    assert_eq!(sim.cloud.balancers().len(), 1);
    assert_eq!(attempt("a").await.unwrap().status, 409);

    add(Action::Truncated);
    let cut = attempt("b").await.unwrap();
    assert_eq!((cut.status, cut.json()), (200, Value::Null));
    assert!(cut.text().starts_with("{\"id\":\""), "{}", cut.text());
    assert_eq!(sim.cloud.balancers().len(), 2);
    let wait = Duration::from_secs(9);
    add(Action::Delay {
        least: wait,
        most: wait,
    });
    let before = tokio::time::Instant::now();
    assert_eq!(attempt("c").await.unwrap().status, 200);
    assert_eq!(before.elapsed(), wait);
}

#[tokio::test(start_paused = true)]
async fn faults_are_written_with_operations() {
    let sim = Harness::with(
        "faults:\n- {operation: get-*, action: status, code: 500, times: 2}\n\
         - {operation: list-zones, action: truncated}\n",
    );
    for expected in [500, 500, 404] {
        assert_eq!(sim.status("GET", "/v2/instance/x").await, expected);
    }
    assert_eq!(sim.status("GET", "/v2/instance").await, 200);
    let reported = sim.call("GET", "/_sim/faults", Value::Null).await.json();
    let shown: Vec<_> = reported["rules"].as_array().unwrap().iter().collect();
    shows!(shown[0], {"operation": "get-*", "struck": 2});
    assert_eq!(shown[1]["action"], "truncated");
}
