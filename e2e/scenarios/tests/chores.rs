//! What only one cloud does for a cluster: the cloud-chores controller, with a scripted cloud's objects.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::{ManagedObject, ManagedObjectKind, Secret};
use bowline_scenarios::cloud::{NOT_KEPT, runs};
use bowline_scenarios::objects::{fresh, known};
use bowline_scenarios::rights::apply;
use bowline_scenarios::{LEASE, Setup, Sharing, TestCluster, refuse, scenario};
use bowline_simulator::journal::Filter;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret as SecretObject};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

const SYSTEM: &str = "kube-system";
const TLS: ManagedObjectKind = ManagedObjectKind::Secret("kubernetes.io/tls");

fn object(kind: ManagedObjectKind, name: &str, data: &[(&str, &str)]) -> ManagedObject {
    let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), Secret::new(*value));
    ManagedObject {
        kind,
        name: name.to_owned(),
        data: data.iter().map(entry).collect(),
    }
}

fn certificate(text: &str) -> ManagedObject {
    object(TLS, "client", &[("tls.crt", text), ("tls.key", "k")])
}

fn text(value: &str) -> ManagedObject {
    object(ManagedObjectKind::ConfigMap, "config", &[("a", value)])
}

/// A bench whose cloud keeps these, on a server of its own: their names are fixed.
async fn keeping(flags: &[&str], objects: Vec<ManagedObject>) -> TestCluster {
    let bench = TestCluster::set_up(Setup {
        flags,
        sharing: Sharing::Alone,
        ..Setup::default()
    })
    .await;
    bench.cloud().keep(objects);
    bench
}

/// The texts in the Secret or ConfigMap of that name; none if there is none.
async fn stored(
    bench: &TestCluster,
    kind: ManagedObjectKind,
    name: &str,
) -> Option<BTreeMap<String, String>> {
    match kind {
        ManagedObjectKind::Secret(_) => {
            let api: Api<SecretObject> = Api::namespaced(bench.admin(), SYSTEM);
            let data = api.get_opt(name).await.unwrap()?.data.unwrap_or_default();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            Some(
                data.into_iter()
                    .map(|(key, it)| (key, text(it.0)))
                    .collect(),
            )
        }
        ManagedObjectKind::ConfigMap => {
            let api: Api<ConfigMap> = Api::namespaced(bench.admin(), SYSTEM);
            Some(api.get_opt(name).await.unwrap()?.data.unwrap_or_default())
        }
    }
}

async fn until_kept(bench: &TestCluster, wanted: &ManagedObject) {
    let entries = wanted.data.iter();
    let texts: BTreeMap<String, String> = entries
        .map(|(key, value)| (key.clone(), value.reveal().to_owned()))
        .collect();
    for _ in 0..600 {
        if stored(bench, wanted.kind, &wanted.name).await.as_ref() == Some(&texts) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{} is never as wanted", wanted.name);
}

/// The manager's writes of Secrets and ConfigMaps.
fn writes(bench: &TestCluster) -> Vec<String> {
    let all = Filter::any().server("kubernetes").mutating();
    let all = bench.matching(&all).into_iter();
    let ours = all.filter(|it| it.path.contains("/secrets/") || it.path.contains("/configmaps/"));
    ours.map(|it| format!("{} {} {}", it.method, it.path, it.status))
        .collect()
}

async fn rounds(bench: &TestCluster, more: usize) {
    let wanted = bench.cloud().rounds().len() + more;
    bench
        .until("the rounds", |it| it.cloud().rounds().len() >= wanted)
        .await;
}

#[scenario]
async fn what_a_cloud_keeps_is_made_changed_and_made_again() {
    let mut bench = keeping(&[], vec![certificate("1"), text("1")]).await;
    bench.start();
    until_kept(&bench, &certificate("1")).await;
    until_kept(&bench, &text("1")).await;
    rounds(&bench, 2).await;
    assert_eq!(writes(&bench).len(), 2, "what is right is not written");
    let api: Api<SecretObject> = Api::namespaced(bench.admin(), SYSTEM);
    let made = api.get("client").await.unwrap();
    assert_eq!(made.type_.as_deref(), Some("kubernetes.io/tls"));
    assert_eq!(
        made.metadata.labels.unwrap()["app.kubernetes.io/managed-by"],
        "bowline"
    );
    // What is wanted changes, and a key goes with it.
    let changed = object(
        TLS,
        "client",
        &[("tls.crt", "2"), ("tls.key", "k"), ("ca.crt", "c")],
    );
    for wanted in [changed, certificate("3")] {
        bench.cloud().keep(vec![wanted.clone(), text("1")]);
        until_kept(&bench, &wanted).await;
    }
    // Somebody edits one, and deletes the other.
    let api: Api<ConfigMap> = Api::namespaced(bench.admin(), SYSTEM);
    let edit = json!({"data": {"a": "theirs", "b": "theirs"}});
    let params = PatchParams::default();
    api.patch("config", &params, &Patch::Merge(edit))
        .await
        .unwrap();
    let secrets: Api<SecretObject> = Api::namespaced(bench.admin(), SYSTEM);
    secrets
        .delete("client", &DeleteParams::default())
        .await
        .unwrap();
    until_kept(&bench, &certificate("3")).await;
    until_kept(&bench, &text("1")).await;
    let before = writes(&bench);
    rounds(&bench, 3).await;
    assert_eq!(writes(&bench), before, "and then there is peace");
    let refused = bench.matching(&Filter::any().server("kubernetes").status(409));
    assert_eq!(refused, [], "no write meets another");
}

#[scenario]
async fn what_is_somebody_elses_stays_and_is_told_once() {
    let mut bench = keeping(&[], vec![certificate("1"), text("1")]).await;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "theirs"},
                            "metadata": {"name": "config", "namespace": SYSTEM}});
    apply(bench.admin(), theirs).await;
    bench.start();
    until_kept(&bench, &certificate("1")).await;
    bench
        .until("it is reported", |it| !it.events_of(NOT_KEPT).is_empty())
        .await;
    rounds(&bench, 3).await;
    let reported = bench.events_of(NOT_KEPT);
    assert_eq!((reported.len(), &reported[0]["count"]), (1, &json!(1)));
    assert_eq!(reported[0]["involvedObject"]["kind"], "ConfigMap");
    assert_eq!(
        reported[0]["source"]["component"],
        "cloud-chores-controller"
    );
    let words = "ConfigMap kube-system/config is left alone: it lacks the label \
                     app.kubernetes.io/managed-by=bowline";
    assert_eq!(reported[0]["message"], words);
    let kept = stored(&bench, ManagedObjectKind::ConfigMap, "config")
        .await
        .unwrap();
    assert_eq!(kept["a"], "theirs");
}

#[scenario]
async fn chores_see_the_nodes_of_their_cloud_and_an_observer_writes_nothing() {
    let mut bench = keeping(&["--mode=observe"], vec![certificate("1")]).await;
    bench.put(known("n1", "demo://n1", "True", &[])).await;
    bench.put(known("n2", "other://n2", "True", &[])).await;
    bench.create(fresh("n3")).await;
    bench.start();
    rounds(&bench, 2).await;
    let api: Api<Namespace> = Api::all(bench.admin());
    let uid = api.get(SYSTEM).await.unwrap().metadata.uid.unwrap();
    let (seen, nodes) = bench.cloud().rounds().last().unwrap().clone();
    assert_eq!((seen, nodes), (uid, vec!["n1".to_owned()]));
    bench.put(known("n0", "demo://n0", "True", &[])).await;
    bench
        .until("the new one is seen", |it| {
            let rounds = it.cloud().rounds();
            rounds
                .last()
                .is_some_and(|(_, nodes)| *nodes == ["n0", "n1"])
        })
        .await;
    assert_eq!(writes(&bench), [""; 0]);
    assert_eq!(stored(&bench, TLS, "client").await, None);
}

#[scenario]
async fn only_who_leads_does_chores() {
    let bench = keeping(&[], vec![certificate("1")]).await;
    let first = bench.replica("first", &[]).await;
    let holder = bench.until_held(LEASE, "").await;
    until_kept(&bench, &certificate("1")).await;
    let second = bench.replica("second", &[]).await;
    rounds(&bench, 3).await;
    let by = |name: &str| {
        let of = Filter::any().server("kubernetes").caller(name);
        bench.matching(&of.path("*/secrets/*")).len()
    };
    assert!(by("first") > 0 && by("second") == 0);
    first.stop().await.0.unwrap();
    bench.until_held(LEASE, &holder).await;
    bench.cloud().keep(vec![certificate("2")]);
    until_kept(&bench, &certificate("2")).await;
    assert!(by("second") > 0);
    second.stop().await.0.unwrap();
}

#[scenario]
async fn an_api_server_that_refuses_is_tried_again() {
    let mut bench = keeping(&[], vec![text("1")]).await;
    bench.start();
    rounds(&bench, 1).await;
    let fault = bench.fault(refuse(403, "PATCH", "*/configmaps/*").times(2));
    bench.cloud().keep(vec![text("2")]);
    fault.struck(2).await;
    until_kept(&bench, &text("2")).await;
    let reported = bench.events_of(NOT_KEPT);
    assert_eq!(
        reported[0]["message"].as_str().unwrap().split(':').next(),
        Some("writing ConfigMap kube-system/config")
    );
}

/// What the chores of one cloud need beside what nodes do.
fn rights() -> Vec<Value> {
    let shipped = include_str!("../../../deploy/rbac.yaml");
    let mut objects = bowline_simulator_kubernetes::fixture::parse("rbac.yaml", shipped).unwrap();
    objects.extend([
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "chores", "namespace": SYSTEM},
            "rules": [
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["client"],
                 "verbs": ["get", "create", "patch"]},
                {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["config"],
                 "verbs": ["get", "create", "patch"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "chores", "namespace": SYSTEM},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "chores"},
            "subjects": [{"kind": "ServiceAccount", "name": "bowline", "namespace": SYSTEM}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "chores"},
            "rules": [{"apiGroups": [""], "resources": ["namespaces"],
                       "resourceNames": [SYSTEM], "verbs": ["get"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "chores"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "chores"},
            "subjects": [{"kind": "ServiceAccount", "name": "bowline", "namespace": SYSTEM}],
        }),
    ]);
    objects
}

#[scenario]
async fn three_rights_to_named_objects_are_enough() {
    let mut bench = keeping(&[], vec![certificate("1"), text("1")]).await;
    let granted = bench.cluster.grant("bowline", &rights()).await;
    bench.act_as(granted.config);
    bench.cloud().say("n1", runs("n1", "10.0.0.1"));
    bench.create(fresh("n1")).await;
    bench.start();
    until_kept(&bench, &certificate("1")).await;
    until_kept(&bench, &text("1")).await;
    bench.cloud().keep(vec![certificate("2"), text("2")]);
    until_kept(&bench, &certificate("2")).await;
    until_kept(&bench, &text("2")).await;
    bench.until_initialized("n1").await;
    let calls = bench.matching(&Filter::any().caller(&granted.user));
    let refused: Vec<_> = calls.iter().filter(|it| it.status == 403).collect();
    assert!(!calls.is_empty() && refused.is_empty(), "{refused:#?}");
}
