//! Faults: what every simulated server can do wrong, here.

use super::*;

async fn add(sim: &Harness, rule: Value) {
    let reply = sim
        .raw("POST", "/_sim/faults", &rule.to_string(), &[])
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[tokio::test(start_paused = true)]
async fn answers_can_be_wrong_in_many_ways() {
    let sim = Harness::new();
    let vm = format!("/vms/{VM1}");
    for (rule, status, fragment) in rows![
        { "operation": "GetVm", "action": "status", "code": 401 } => 401, "\"error\"";
        { "path": "*/vms/*", "action": "status", "code": 503 } => 503, "Service Unavailable";
        { "operation": "GetVm", "action": "html", "code": 404 } => 404, "<";
        { "operation": "GetVm", "action": "truncated" } => 200, "{";
        { "operation": "GetVm", "action": "status", "code": 200,
            "headers": { "content-type": "text/html" }, "body": {} } =>
            200, "{}";
    ] {
        let mut rule = rule;
        rule["times"] = json!(1);
        add(&sim, rule.clone()).await;
        let reply = sim.call("GET", &vm, Value::Null).await;
        assert_eq!(reply.status, status, "{rule}");
        assert!(reply.text().contains(fragment), "{rule}: {}", reply.text());
        assert!(
            serde_json::from_slice::<Value>(&reply.bytes).is_ok()
                == !matches!(rule["action"].as_str(), Some("html" | "truncated")),
            "{rule}"
        );
    }
    assert_eq!(sim.status(&vm).await, 200);
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_late_cut_or_missing() {
    let sim = Harness::new();
    add(
        &sim,
        json!({ "operation": "GetVms", "action": "delay", "delay": "40s", "times": 1 }),
    )
    .await;
    let began = tokio::time::Instant::now();
    sim.get("/vms").await;
    assert_eq!(began.elapsed(), Duration::from_secs(40));
    let cookie = format!("authenticationToken={DEFAULT_TOKEN}");
    let sent = [("cookie", cookie.as_str())];
    add(
        &sim,
        json!({ "operation": "GetVms", "action": "reset", "times": 1 }),
    )
    .await;
    assert!(sim.attempt("GET", "/rest/v0/vms", "", &sent).await.is_err());
    add(
        &sim,
        json!({ "operation": "GetVms", "action": "hang", "times": 1 }),
    )
    .await;
    let hung = sim.attempt("GET", "/rest/v0/vms", "", &sent);
    assert!(
        tokio::time::timeout(Duration::from_secs(60), hung)
            .await
            .is_err()
    );
    assert_eq!(sim.status("/vms").await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_fixture_brings_faults() {
    let fixture = format!(
        "{}faults: [{{operation: GetPools, action: status, code: 500}}]",
        usual()
    );
    let sim = Harness::with(&fixture);
    assert_eq!(sim.status("/pools").await, 500);
}
