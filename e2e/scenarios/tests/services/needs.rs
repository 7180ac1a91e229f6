//! What some clouds need to know besides Services and nodes: the uid of the cluster, where endpoints are, whether
//! nodes are Ready, and that time alone changes what is wanted.

use std::time::Duration;

use bowline_controllers::{PreviewParts, PreviewScope, preview};
use bowline_core::{Cloud, Need, Needs};
use bowline_scenarios::objects::service;
use bowline_scenarios::{LEASE, TestCluster, refuse, scenario};
use bowline_simulator::journal::Filter;
use bowline_simulator_kubernetes::auth::framework;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::{Value, json};

use crate::services::harness::{self, changed};

const SYSTEM: &str = "/api/v1/namespaces/kube-system";
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

const ENDPOINTS: Needs = Needs {
    endpoints: true,
    cluster_uid: Need::No,
    readiness: false,
};
const CLUSTER_UID: Needs = Needs {
    endpoints: false,
    cluster_uid: Need::Required,
    readiness: false,
};
const READINESS: Needs = Needs {
    endpoints: false,
    cluster_uid: Need::No,
    readiness: true,
};

/// A manager whose cloud needs that.
async fn needing(needs: Needs) -> TestCluster {
    let mut bench = harness::idle(&[]).await;
    bench.balancers().need(needs);
    bench.start();
    bench
}

/// The Service `web`, which takes traffic only where its pods are.
fn local() -> Value {
    changed("web", |it| {
        it["spec"]["externalTrafficPolicy"] = "Local".into();
    })
}

/// Nodes with a pod that is ready.
fn ready<'a>(nodes: &[&'a str]) -> Vec<(&'a str, Value)> {
    let ready = json!({ "ready": true });
    nodes.iter().map(|node| (*node, ready.clone())).collect()
}

async fn until_members(bench: &TestCluster, wanted: &[&str]) {
    let what = format!("the members are {wanted:?}");
    let are =
        |it: &TestCluster| it.balancers().all().len() == 1 && it.balancers().members() == wanted;
    bench.until(&what, are).await;
}

fn reads(bench: &TestCluster, path: &str) -> usize {
    bench.count(&Filter::any().path(path))
}

#[scenario]
async fn the_members_of_a_local_service_are_where_its_pods_are_and_move_with_them() {
    let bench = needing(ENDPOINTS).await;
    bench.cluster.put_endpoints("web", &ready(&["n2"])).await;
    bench.create_service(local()).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    until_members(&bench, &["n2"]).await;
    bench.balancers().clear();
    bench.cluster.put_endpoints("web", &ready(&["n3"])).await;
    until_members(&bench, &["n3"]).await;
    bench.settle().await;
    assert_eq!(bench.balancers().count("look at"), 1);
    // One that is not ready, one on its way out, one of which nothing is said, and two in one place.
    let mixed = [
        ("n1", json!({ "ready": false })),
        ("n2", json!({})),
        ("n2", json!({ "ready": true, "terminating": false })),
        ("n3", json!({ "ready": true, "terminating": true })),
    ];
    bench.cluster.put_endpoints("web", &mixed).await;
    until_members(&bench, &["n2"]).await;
    bench.cluster.put_endpoints("web", &[]).await;
    until_members(&bench, &[]).await;
}

#[scenario]
async fn endpoints_that_stay_on_their_nodes_or_are_of_no_local_service_cause_no_look() {
    let bench = needing(ENDPOINTS).await;
    bench.cluster.put_endpoints("web", &ready(&["n2"])).await;
    bench.create_service(local()).await;
    bench.create_service(service("api")).await;
    for name in ["web", "api"] {
        bench.until_event(name, "EnsuredLoadBalancer").await;
    }
    bench.balancers().clear();
    let cluster = &bench.cluster;
    cluster.put_endpoints("web", &ready(&["n2", "n2"])).await;
    cluster.put_endpoints("api", &ready(&["n1"])).await;
    cluster.put_endpoints("cache", &ready(&["n3"])).await;
    bench.settle().await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
    // From now on it matters.
    bench
        .change_service("api", |it| {
            it["spec"]["externalTrafficPolicy"] = "Local".into();
        })
        .await;
    bench
        .until("it is looked at", |it| {
            it.balancers().count("delete member shop/api") == 2
        })
        .await;
    assert_eq!(bench.balancers().count("delete member shop/api n1"), 0);
    assert_eq!(bench.balancers().count("shop/web"), 0);
}

#[scenario]
async fn what_no_cloud_needs_is_not_read() {
    let bench = harness::new().await;
    bench.create_service(local()).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    bench.settle().await;
    assert_eq!((reads(&bench, SLICES), reads(&bench, SYSTEM)), (0, 0));
    assert_eq!(bench.balancers().members(), ["n1", "n2", "n3"]);
    assert_eq!(bench.balancers().all()[0].cluster_uid, None);
}

#[scenario]
async fn until_the_uid_of_the_cluster_can_be_read_nothing_is_drafted() {
    let mut bench = harness::idle(&[]).await;
    bench.balancers().need(CLUSTER_UID);
    bench.fault(refuse(403, "GET", SYSTEM).times(4));
    bench.create_service(service("web")).await;
    bench.start();
    bench.until_event(LEASE, "ClusterUIDForbidden").await;
    let reported = bench.messages(LEASE, "ClusterUIDForbidden");
    assert!(reported[0].contains("get namespaces"), "{reported:?}");
    bench
        .until("it is told what it waits for", |it| {
            it.condition("web")
                .contains("the uid of namespace kube-system")
        })
        .await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.event_count(LEASE, "ClusterUIDForbidden"), 1);
    let namespaces: Api<Namespace> = Api::all(bench.admin());
    let system = namespaces.get("kube-system").await.unwrap();
    let balancer = &bench.balancers().all()[0];
    assert_eq!(balancer.cluster_uid, system.metadata.uid);
    // Once for good.
    let asked = reads(&bench, SYSTEM);
    bench.delete_service("web").await;
    bench.until_service_gone("web").await;
    assert_eq!(reads(&bench, SYSTEM), asked);
}

/// The framework's role, and what it takes to read these.
fn role(rules: &[Value]) -> Vec<Value> {
    let mut objects = framework("bowline", false);
    let is_role = |it: &&mut Value| it["kind"] == "ClusterRole";
    let role = objects.iter_mut().find(is_role).unwrap();
    role["rules"]
        .as_array_mut()
        .unwrap()
        .extend_from_slice(rules);
    objects
}

#[scenario]
async fn two_rights_more_are_enough() {
    let uid = json!({ "apiGroups": [""], "resources": ["namespaces"],
                          "resourceNames": ["kube-system"], "verbs": ["get"] });
    let slices = json!({ "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
                             "verbs": ["list", "watch"] });
    let mut bench = harness::idle(&[]).await;
    bench.balancers().need(ENDPOINTS.and(CLUSTER_UID));
    let granted = bench.cluster.grant("bowline", &role(&[uid, slices])).await;
    bench.act_as(granted.config);
    bench.start();
    bench.cluster.put_endpoints("web", &ready(&["n2"])).await;
    bench.create_service(local()).await;
    until_members(&bench, &["n2"]).await;
    bench.stop().await;
    let refused = Filter::any().caller(&granted.user).status(403);
    assert_eq!(bench.matching(&refused), []);
}

#[scenario]
async fn who_lacks_the_right_hears_which_and_no_cloud_is_asked() {
    let mut bench = harness::idle(&[]).await;
    bench.balancers().need(CLUSTER_UID);
    let granted = bench.cluster.grant("bowline", &role(&[])).await;
    bench.act_as(granted.config);
    bench.create_service(service("web")).await;
    bench.start();
    bench.until_event(LEASE, "ClusterUIDForbidden").await;
    bench
        .until("it waits", |it| it.condition("web").contains("kube-system"))
        .await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
}

#[scenario]
async fn until_endpoints_can_be_read_nothing_is_drafted() {
    let mut bench = harness::idle(&[]).await;
    bench.balancers().need(ENDPOINTS);
    // The first wait is half a second, and then twice as long each time.
    bench.fault(refuse(403, "GET", SLICES).times(6));
    bench.cluster.put_endpoints("web", &ready(&["n2"])).await;
    bench.create_service(local()).await;
    bench.start();
    bench
        .until("it is told what it waits for", |it| {
            it.condition("web").contains("the endpoints of Services")
        })
        .await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
    bench.until_event("web", "EnsuredLoadBalancer").await;
    assert_eq!(bench.balancers().members(), ["n2"]);
}

#[scenario]
async fn where_it_counts_a_node_that_is_not_ready_is_no_member() {
    let bench = needing(READINESS).await;
    bench.ensured("web").await;
    bench.set_ready("n2", "Unknown").await;
    until_members(&bench, &["n1", "n3"]).await;
    bench.balancers().clear();
    bench.set_ready("n2", "False").await;
    bench.settle().await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
    bench.set_ready("n2", "True").await;
    until_members(&bench, &["n1", "n2", "n3"]).await;
}

#[scenario]
async fn a_cloud_that_asks_for_it_is_looked_at_again_before_the_ordinary_comparison() {
    let mut bench = harness::idle(&[]).await;
    bench.balancers().audit_every(Duration::from_secs(3600));
    bench.balancers().look_again(Some(Duration::from_secs(7)));
    bench.start();
    bench.ensured("web").await;
    bench
        .until("three looks", |it| it.balancers().count("look at") == 3)
        .await;
    bench.assert_apart(&bench.balancers().times("look at"), &[7, 7]);
    bench.balancers().look_again(None);
    bench
        .until("the last look", |it| it.balancers().count("look at") >= 4)
        .await;
    let looks = bench.balancers().count("look at");
    bench.settle().await;
    assert_eq!(bench.balancers().count("look at"), looks);
    assert_eq!(bench.event_count("web", "EnsuredLoadBalancer"), 1);
}

#[scenario]
async fn a_preview_knows_the_same() {
    let bench = harness::idle(&[]).await;
    bench.balancers().need(ENDPOINTS.and(CLUSTER_UID));
    bench.cluster.put_endpoints("web", &ready(&["n2"])).await;
    bench.create_service(local()).await;
    let clouds = bench.clouds.iter().cloned();
    let parts = PreviewParts {
        rules: std::sync::Arc::default(),
        client: bench.cluster.client(bench.cluster.manager("planner").await),
        clouds: clouds.map(|it| it as std::sync::Arc<dyn Cloud>).collect(),
        cluster_name: "kubernetes".to_owned(),
        cluster_uid: None,
        lease: bench.managers_lease(),
        clock: bench.world.clock.clone(),
    };
    let previews = preview(&parts, &PreviewScope::All, &[]).await.unwrap();
    let plan = &previews.services[0].plan;
    let members = plan.steps.iter().filter(|it| it.object.kind == "member");
    let members: Vec<String> = members.map(|it| it.object.name.clone()).collect();
    let names = bench.cluster.names();
    assert_eq!(
        members,
        [names.own("web n2")].map(|it| format!("shop/{it}"))
    );
    assert_eq!((reads(&bench, SLICES), reads(&bench, SYSTEM)), (1, 1));
}
