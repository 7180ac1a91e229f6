//! `--mode=observe`: the whole manager without a write.

use bowline_simulator::journal::Filter;
use bowline_simulator_kubernetes::auth::original;
use serde_json::{Value, json};

use crate::cloud::Answer;
use crate::harness::{Harness, LEASE, kind, parse, pass, set_ready};

const FLAGS: &[&str] = &["--secure-port=0", "--mode=observe"];
const USER: &str = "system:serviceaccount:kube-system:observer";

/// An account that may look at nodes and do nothing else.
fn reader() -> Vec<Value> {
    let role = "rbac.authorization.k8s.io";
    vec![
        json!({ "kind": "ServiceAccount", "apiVersion": "v1",
            "metadata": { "namespace": "kube-system", "name": "observer" } }),
        json!({ "kind": "ClusterRole", "apiVersion": format!("{role}/v1"),
            "metadata": { "name": "observer" },
            "rules": [{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"] }] }),
        json!({ "kind": "ClusterRoleBinding", "apiVersion": format!("{role}/v1"),
            "metadata": { "name": "observer" },
            "roleRef": { "apiGroup": role, "kind": "ClusterRole", "name": "observer" },
            "subjects": [{ "kind": "ServiceAccount", "namespace": "kube-system", "name": "observer" }] }),
    ]
}

#[tokio::test(start_paused = true)]
async fn an_observer_looks_at_everything_and_writes_nothing() {
    let test = Harness::on_pipe(1);
    test.cluster.install(reader()).unwrap();
    test.cloud.say("fresh", Answer::Runs("10.0.0.1"));
    test.cloud.say("off", Answer::IsOff("10.0.0.2"));
    test.cloud.say("gone", Answer::Gone);
    for name in ["fresh", "off", "gone"] {
        test.join(name);
    }
    for name in ["off", "gone"] {
        test.change_node(name, |node| {
            node["spec"] = json!({ "providerID": format!("demo://{name}") });
            set_ready(node, "Unknown");
        });
    }
    let before = ["fresh", "off", "gone"].map(|name| test.node(name));
    let observer = test.start_as(&test.account("observer"), FLAGS);
    // Longer than every proof and period.
    pass(1200).await;
    assert!(observer.is_running());
    assert!(
        test.cloud.calls().len() > 100,
        "it asked the cloud again and again"
    );
    let calls = test.calls_of(USER, 0);
    assert!(!calls.is_empty());
    for call in calls {
        assert_eq!(
            (call.method.as_str(), call.status),
            ("GET", 200),
            "{call:?}"
        );
    }
    assert_eq!(["fresh", "off", "gone"].map(|name| test.node(name)), before);
    let api = test.cluster.api();
    assert_eq!(api.list(kind("Event"), None), [Value::Null; 0]);
    assert_eq!(api.get(kind("Lease"), "kube-system", LEASE), None);
    observer.stop().await.0.unwrap();
    assert_eq!(
        test.world
            .journal
            .count(&Filter::any().caller(USER).mutating()),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn an_observer_runs_beside_the_manager_that_works() {
    let test = Harness::on_pipe(2);
    test.cluster.install(reader()).unwrap();
    test.cluster.install(original()).unwrap();
    let observer = test.start_as(&test.account("observer"), FLAGS);
    let manager = test.start("worker", &["--secure-port=0"]);
    test.cloud.say("n1", Answer::Runs("10.0.0.1"));
    test.join("n1");
    test.until_initialized("n1").await;
    pass(60).await;
    assert_eq!(
        test.world
            .journal
            .count(&Filter::any().caller(USER).mutating()),
        0
    );
    observer.stop().await.0.unwrap();
    manager.stop().await.0.unwrap();
}

#[test]
fn another_mode_is_refused_by_name() {
    let refused = parse(&["--mode=dry-run"]).validate().unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("--mode is \"dry-run\"; it must be manage or observe"),
        "{text}"
    );
}
