//! Faults: what every simulated server can do wrong, here.

use super::*;

async fn add(harness: &Harness, rule: Value) {
    let reply = harness
        .raw("POST", "/_sim/faults", &rule.to_string(), &[])
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[tokio::test(start_paused = true)]
async fn answers_can_be_wrong_in_many_ways() {
    let harness = Harness::new();
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
        add(&harness, rule.clone()).await;
        let reply = harness.call("GET", &vm, Value::Null).await;
        assert_eq!(reply.status, status, "{rule}");
        assert!(reply.text().contains(fragment), "{rule}: {}", reply.text());
        assert!(
            serde_json::from_slice::<Value>(&reply.bytes).is_ok()
                == !matches!(rule["action"].as_str(), Some("html" | "truncated")),
            "{rule}"
        );
    }
    assert_eq!(harness.status(&vm).await, 200);
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_late_cut_or_missing() {
    let harness = Harness::new();
    add(
        &harness,
        json!({ "operation": "GetVms", "action": "delay", "delay": "40s", "times": 1 }),
    )
    .await;
    let began = tokio::time::Instant::now();
    harness.get("/vms").await;
    assert_eq!(began.elapsed(), Duration::from_secs(40));
    let cookie = format!("authenticationToken={DEFAULT_TOKEN}");
    let sent = [("cookie", cookie.as_str())];
    add(
        &harness,
        json!({ "operation": "GetVms", "action": "reset", "times": 1 }),
    )
    .await;
    assert!(
        harness
            .attempt("GET", "/rest/v0/vms", "", &sent)
            .await
            .is_err()
    );
    add(
        &harness,
        json!({ "operation": "GetVms", "action": "hang", "times": 1 }),
    )
    .await;
    let hung = harness.attempt("GET", "/rest/v0/vms", "", &sent);
    assert!(
        tokio::time::timeout(Duration::from_secs(60), hung)
            .await
            .is_err()
    );
    assert_eq!(harness.status("/vms").await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_fixture_brings_faults() {
    let fixture = format!(
        "{}faults: [{{operation: GetPools, action: status, code: 500}}]",
        usual()
    );
    let harness = Harness::with(&fixture);
    assert_eq!(harness.status("/pools").await, 500);
}
