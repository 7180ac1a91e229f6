//! What reviews answer; `access` and `secrets` of the conformance stories compare the rest.

use super::*;

#[test]
fn one_can_ask_what_one_may() {
    let (auth, objects) = cluster(vec![]);
    let ann = User::new("ann", &[AUTHENTICATED]);
    let body = json!({ "spec": { "namespace": "x" } });
    let reported = auth
        .answer_review(
            kind("SelfSubjectRulesReview"),
            "",
            &body,
            &ann,
            &objects,
            now(),
        )
        .unwrap();
    let status = &reported["status"];
    assert_eq!(status["incomplete"], false);
    let rules = status["resourceRules"].as_array().unwrap();
    assert!(
        rules.contains(&json!({ "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"], "verbs": ["create"] })),
        "{status:#}"
    );
    assert_eq!(status["nonResourceRules"].as_array().unwrap().len(), 2);
}
