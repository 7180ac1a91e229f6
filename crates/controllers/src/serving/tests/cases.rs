//! The numbered cases of the specification.

use super::*;

#[tokio::test]
async fn framework_case_112_healthz_lists_the_election_first_then_the_controllers() {
    let running = start(options(), Backend::Good).await;
    let health = &running.parts.health;
    health.add_watchdog("leaderElection", Arc::new(|| Ok(())));
    health.add_controller("cloud-node-controller");
    health.add_controller("cloud-node-lifecycle-controller");
    let said = running.get("/healthz?verbose").await;
    let expected = "[+]leaderElection ok\n[+]cloud-node-controller ok\n\
                    [+]cloud-node-lifecycle-controller ok\nhealthz check passed\n";
    assert_eq!((said.status, said.body.as_str()), (200, expected));
    assert_eq!(running.get("/healthz").await.body, "ok");
    assert_eq!(said.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(said.headers["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn framework_case_115_authorization_per_path_and_caller() {
    let running = start(options(), Backend::Good).await;
    let said = running.get("/healthz").await;
    assert_eq!((said.status, said.body.as_str()), (200, "ok"));
    let said = running.get("/metrics").await;
    assert_eq!(said.status, 403);
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",
        "reason": "Forbidden", "details": {}, "code": 403,
    });
    assert_eq!(serde_json::from_str::<Value>(&said.body).unwrap(), expected);
    assert_eq!(said.headers["content-type"], "application/json");
    let said = running.get_with_token("/metrics", "good").await;
    assert_eq!(said.status, 200);
    assert!(
        said.body
            .contains("# TYPE process_start_time_seconds gauge\n")
    );
    let said = running.get_with_token("/configz", "good").await;
    assert_eq!(said.status, 403, "{}", said.body);
    assert!(
        said.body
            .contains(r#"User \"scraper\" cannot get path \"/configz\""#)
    );
    assert_eq!(
        running.get_with_token("/configz", "master").await.status,
        200
    );

    let failing = start(options(), Backend::Status(403)).await;
    let said = failing.get("/metrics?a=b").await;
    let expected = "Internal Server Error: \"/metrics?a=b\": it went wrong\n";
    assert_eq!((said.status, said.body.as_str()), (500, expected));

    let running = start(open(&["/healthz", "/metrics"]), Backend::Status(403)).await;
    assert_eq!(running.get("/metrics").await.status, 200);
}

#[tokio::test]
async fn framework_case_116_a_bad_token_gets_401_everywhere() {
    let running = start(open(&["*"]), Backend::Good).await;
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    for path in ["/healthz", "/metrics", "/nothing", "/livez", "/configz"] {
        let said = running.get_with_token(path, "wrong").await;
        assert_eq!(said.status, 401, "{path}");
        assert_eq!(serde_json::from_str::<Value>(&said.body).unwrap(), expected);
        assert_ne!(running.get_with_token(path, "good").await.status, 401);
    }
    assert_eq!(
        running.reviewer.asked("tokenreviews"),
        2,
        "answers are remembered"
    );
}

#[tokio::test]
async fn framework_case_117_a_standby_is_healthy_and_shows_that_it_does_not_lead() {
    let running = start(
        open(&["/healthz", "/readyz", "/livez", "/metrics"]),
        Backend::Good,
    )
    .await;
    running
        .parts
        .health
        .add_watchdog("leaderElection", Arc::new(|| Ok(())));
    running
        .parts
        .metrics
        .election
        .leading("cloud-controller-manager", false);
    for path in ["/healthz", "/livez", "/readyz", "/healthz/leaderElection"] {
        let said = running.get(path).await;
        let expected = if path == "/healthz/leaderElection" {
            403
        } else {
            200
        };
        assert_eq!(said.status, expected, "{path}");
    }
    let text = running.get("/metrics").await.body;
    assert!(text.contains("leader_election_master_status{name=\"cloud-controller-manager\"} 0\n"));
    assert!(!text.contains("running_managed_controllers"));
}

#[tokio::test]
async fn framework_case_121_configz_shows_the_given_value() {
    let reviewer = Reviewer::new(Backend::Good);
    let mut parts = parts(Some(&reviewer));
    let value = json!({"cloudcontrollermanager.config.k8s.io": {
        "kind": "CloudControllerManagerConfiguration",
        "NodeStatusUpdateFrequency": "10m0s",
        "Generic": {"Controllers": ["cloud-node-controller"]},
    }});
    let shown = value.clone();
    parts.configz = Arc::new(move || shown.clone());
    let running = start_with(open(&["/configz"]), parts, reviewer).await;
    let said = running.get("/configz").await;
    assert_eq!(serde_json::from_str::<Value>(&said.body).unwrap(), value);
    assert_eq!(said.headers["content-type"], "application/json");
    assert_eq!(said.headers["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn framework_case_132_unreachable_and_missing_review_back_ends() {
    let running = start(options(), Backend::Unreachable).await;
    let said = running.get("/metrics").await;
    assert_eq!(said.status, 500);
    assert!(
        said.body
            .starts_with("Internal Server Error: \"/metrics\": "),
        "{}",
        said.body
    );
    assert_eq!(
        running.reviewer.asked("subjectaccessreviews"),
        1,
        "refused: no further try"
    );
    assert_eq!(running.get_with_token("/metrics", "good").await.status, 401);
    assert_eq!(running.get("/healthz").await.status, 200);
    let text = running.parts.metrics.text();
    assert!(
        text.contains("apiserver_delegated_authz_request_total{code=\"<error>\"} 1\n"),
        "{text}"
    );

    let running = start_with(options(), parts(None), Reviewer::new(Backend::Good)).await;
    let said = running.get_with_token("/metrics", "good").await;
    assert_eq!(said.status, 403);
    assert!(said.body.contains("system:anonymous"));
}

#[tokio::test]
async fn framework_case_133_health_checks_are_counted_and_can_be_reset() {
    let running = start(open(&["/healthz", "/metrics*"]), Backend::Good).await;
    running
        .parts
        .health
        .add_watchdog("leaderElection", Arc::new(|| Ok(())));
    running.get("/healthz").await;
    running.get("/healthz").await;
    let series = "kubernetes_healthchecks_total{name=\"leaderElection\",status=\"success\",type=\"healthz\"} 2\n";
    let said = running.get("/metrics/slis").await;
    assert!(said.body.contains(series), "{}", said.body);
    assert!(said.body.contains("process_start_time_seconds"));
    let delete = |path: &'static str| {
        let ask = Ask {
            method: Some(Method::DELETE),
            ..Ask::default()
        };
        running.ask(path, ask)
    };
    let said = delete("/metrics/slis").await.unwrap();
    assert_eq!((said.status, said.body.trim_end()), (200, "metrics reset"));
    assert!(
        !running
            .get("/metrics/slis")
            .await
            .body
            .contains("leaderElection")
    );
    let said = delete("/metrics").await.unwrap();
    assert_eq!(said.status, 200);
    assert!(said.body.contains("# TYPE"));
}
