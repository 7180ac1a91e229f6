//! What reviews answer.

use super::*;

fn review(auth: &Auth, objects: &Memory, name: &str, namespace: &str, spec: &Value) -> Value {
    let body = json!({ "spec": spec });
    let caller = User::new("ann", &[AUTHENTICATED]);
    auth.answer_review(kind(name), namespace, &body, &caller, objects, now())
        .unwrap_or_else(|refusal| refusal.to_status())
}

#[test]
fn a_token_review_tells_the_user_and_the_audiences() {
    let (auth, objects) = cluster(vec![]);
    let answer = token_for(
        &auth,
        &objects,
        "default",
        &json!({ "audiences": ["a", "b"] }),
    );
    let token = text(&answer, "/status/token");
    let ask = |spec: Value| review(&auth, &objects, "TokenReview", "", &spec);
    let told = ask(json!({ "token": token, "audiences": ["b", "c"] }));
    assert_eq!(told["kind"], "TokenReview");
    assert_eq!(told["apiVersion"], "authentication.k8s.io/v1");
    assert_eq!(told["status"]["authenticated"], true);
    assert_eq!(told["status"]["audiences"], json!(["b"]));
    let user = &told["status"]["user"];
    assert_eq!(
        user["username"],
        "system:serviceaccount:kube-system:default"
    );
    assert_eq!(user["groups"][2], AUTHENTICATED);
    assert!(
        text(
            &user["extra"],
            "/authentication.kubernetes.io~1credential-id/0"
        )
        .starts_with("JTI=")
    );
    let failed = json!({ "user": {}, "error": "invalid bearer token" });
    assert_eq!(ask(json!({ "token": token }))["status"], failed);
    assert_eq!(ask(json!({ "token": "nonsense" }))["status"], failed);
    assert_eq!(ask(json!({}))["code"], 400);
}

#[test]
fn access_reviews_answer_for_others_and_for_oneself() {
    let (auth, objects) = cluster(vec![]);
    let ask =
        |name: &str, namespace: &str, spec: Value| review(&auth, &objects, name, namespace, &spec);
    let told = ask(
        "SubjectAccessReview",
        "",
        json!({ "user": "x", "groups": ["system:masters"],
        "resourceAttributes": { "verb": "list", "resource": "nodes" } }),
    );
    assert_eq!(told["status"], json!({ "allowed": true }));
    let told = ask(
        "SubjectAccessReview",
        "",
        json!({
        "user": "system:serviceaccount:kube-system:node-controller",
        "resourceAttributes": { "verb": "patch", "resource": "nodes", "subresource": "status" } }),
    );
    assert_eq!(
        told["status"],
        json!({ "allowed": true, "reason":
        "RBAC: allowed by ClusterRoleBinding \"system:controller:node-controller\" of ClusterRole \
         \"system:controller:node-controller\" to ServiceAccount \"node-controller/kube-system\"" })
    );
    let told = ask(
        "SubjectAccessReview",
        "",
        json!({ "user": "x",
        "nonResourceAttributes": { "verb": "get", "path": "/metrics" } }),
    );
    assert_eq!(told["status"], json!({ "allowed": false }));
    assert_eq!(told["spec"]["nonResourceAttributes"]["path"], "/metrics");
    let told = ask(
        "SelfSubjectAccessReview",
        "",
        json!({
        "nonResourceAttributes": { "verb": "get", "path": "/api" } }),
    );
    assert_eq!(told["status"]["allowed"], true);
    let local = |namespace: &str| {
        json!({ "user": "x", "resourceAttributes":
        { "verb": "get", "resource": "pods", "namespace": namespace } })
    };
    let told = ask("LocalSubjectAccessReview", "dev", local("dev"));
    assert_eq!(told["status"]["allowed"], false);
    assert_eq!(told["metadata"]["namespace"], "dev");
    assert_eq!(
        ask("LocalSubjectAccessReview", "dev", local("prod"))["code"],
        422
    );
    assert_eq!(
        ask("SubjectAccessReview", "", json!({ "user": "x" }))["code"],
        422
    );
    let nobody = json!({ "nonResourceAttributes": { "verb": "get", "path": "/" } });
    assert_eq!(ask("SubjectAccessReview", "", nobody)["code"], 422);
}

#[test]
fn one_can_ask_who_one_is_and_what_one_may() {
    let (auth, objects) = cluster(vec![]);
    let told = review(&auth, &objects, "SelfSubjectReview", "", &json!(null));
    assert_eq!(
        told,
        json!({ "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
            "metadata": { "creationTimestamp": "2026-10-01T12:00:00Z" },
            "status": { "userInfo": { "username": "ann", "groups": [AUTHENTICATED] } } })
    );
    let told = review(
        &auth,
        &objects,
        "SelfSubjectRulesReview",
        "",
        &json!({ "namespace": "x" }),
    );
    let status = &told["status"];
    assert_eq!(status["incomplete"], false);
    let rules = status["resourceRules"].as_array().unwrap();
    assert!(
        rules.contains(&json!({ "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"], "verbs": ["create"] })),
        "{status:#}"
    );
    assert_eq!(status["nonResourceRules"].as_array().unwrap().len(), 2);
}
