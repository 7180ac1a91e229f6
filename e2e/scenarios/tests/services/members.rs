//! Nodes come, go and change; members follow, each load balancer once.

use std::time::Duration;

use bowline_scenarios::cloud::{SELECTOR, Trouble};
use bowline_scenarios::objects::service;
use bowline_scenarios::{TestCluster, is_real, scenario};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::services::harness::{self, join, node};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

async fn settled() -> TestCluster {
    let bench = harness::settled().await;
    bench.balancers().clear();
    bench
}

/// Waits until these are the members.
async fn until_members(bench: &TestCluster, wanted: &[&str]) {
    let what = format!("the members are {wanted:?}");
    bench
        .until(&what, |it| it.balancers().members() == wanted)
        .await;
}

/// Nothing that happened makes the controller look.
async fn assert_unmoved(bench: &TestCluster) {
    bench.settle().await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
}

/// Gives a node these labels and no others.
async fn label(bench: &TestCluster, name: &str, labels: Value) {
    bench
        .change(name, |node| node["metadata"]["labels"] = labels.clone())
        .await;
}

#[scenario]
async fn framework_case_076_a_new_node_is_one_update_for_each_service() {
    let bench = settled().await;
    bench.ensured("api").await;
    bench.balancers().clear();
    join(&bench, "n4").await;
    for name in ["web", "api"] {
        bench.until_event(name, "UpdatedLoadBalancer").await;
    }
    bench.settle().await;
    for name in ["web", "api"] {
        let look = format!("look at shop/{name} (n1 n2 n3 n4)");
        assert_eq!(bench.balancers().count(&look), 1);
        let step = format!("create member shop/{name} n4");
        assert_eq!(bench.balancers().count(&step), 1);
        assert_eq!(
            bench.news(name).last().unwrap(),
            "Normal UpdatedLoadBalancer: Updated load balancer with new hosts"
        );
        assert_eq!(bench.event_count(name, "EnsuringLoadBalancer"), 1);
    }
    assert_eq!(bench.balancers().calls().len(), 4);
    assert_eq!(
        bench.metric("service_controller_loadbalancer_sync_total"),
        Some(2.0)
    );
    let updates = "service_controller_update_loadbalancer_host_latency_seconds_count";
    assert_eq!(bench.metric(updates), Some(2.0));
    let passes = "service_controller_nodesync_latency_seconds_count";
    assert_eq!(bench.metric(passes), Some(1.0));
    assert_eq!(
        bench.metric("service_controller_nodesync_error_total"),
        Some(0.0)
    );
}

#[scenario]
async fn framework_case_077_fifty_nodes_at_once_are_at_most_two_updates_for_each_service() {
    let bench = harness::with(&["--concurrent-service-syncs=5"]).await;
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    for name in &names {
        bench.create_service(service(name)).await;
    }
    for name in &names {
        bench.until_event(name, "EnsuredLoadBalancer").await;
    }
    bench.balancers().clear();
    let bench = &bench;
    let join_soon = async |number: u32| {
        tokio::time::sleep(Duration::from_millis(20) * (number - 10)).await;
        join(bench, &format!("n{number}")).await;
    };
    join_all((10..60).map(join_soon)).await;
    bench
        .until("all are members", |it| {
            let mut all = it.balancers().all().into_iter();
            all.all(|it| it.members.len() == 53)
        })
        .await;
    bench.settle().await;
    for name in &names {
        let look = format!("look at shop/{name} ");
        assert!(bench.balancers().count(&look) <= 2, "{name}");
    }
}

#[scenario]
async fn nodes_that_never_rest_are_followed_every_five_seconds() {
    let bench = settled().await;
    let begun = bench.world.clock.now();
    // On the real clock, sooner: it should not be a second in spite of a busy machine.
    let pause = Duration::from_millis(if is_real() { 250 } else { 500 });
    let mut rests = 0;
    for number in 10..50 {
        let last = bench.world.clock.now();
        join(&bench, &format!("n{number}")).await;
        tokio::time::sleep(pause).await;
        rests += usize::from(bench.since(last) > Duration::from_millis(800));
    }
    let took = bench.since(begun).as_secs();
    bench
        .until("all are members", |it| it.balancers().members().len() == 43)
        .await;
    bench.settle().await;
    let looks = bench.balancers().times("look at").len();
    // Every five seconds, and a bit: the next change is what the next five begin with.
    let least = usize::try_from(took / 6).unwrap();
    let most = usize::try_from(took / 5).unwrap() + 2 + rests;
    assert!((least..=most).contains(&looks), "{looks} in {took} s");
    assert!(is_real() || rests == 0);
}

#[scenario]
async fn framework_case_078_the_exclusion_label_takes_a_node_out_and_false_puts_it_back() {
    let bench = settled().await;
    for (labels, is_member) in [
        (json!({ EXCLUDE: "" }), false),
        (json!({ EXCLUDE: "false" }), true),
        (json!({ EXCLUDE: "true" }), false),
        (json!({ EXCLUDE: "0" }), true),
        (json!({ EXCLUDE: "foo" }), false),
        (json!({}), true),
    ] {
        label(&bench, "n2", labels).await;
        let all = ["n1", "n2", "n3"];
        let wanted = if is_member { &all } else { &["n1", "n3"][..] };
        until_members(&bench, wanted).await;
    }
}

#[scenario]
async fn framework_case_079_readiness_and_cordons_change_nothing() {
    let bench = settled().await;
    bench.set_ready("n2", "Unknown").await;
    assert_unmoved(&bench).await;
    bench
        .change("n2", |node| node["spec"]["unschedulable"] = true.into())
        .await;
    assert_unmoved(&bench).await;
    assert_eq!(bench.balancers().members(), ["n1", "n2", "n3"]);
}

#[scenario]
async fn framework_case_080_the_autoscalers_taint_counts_with_the_next_change() {
    let bench = settled().await;
    let taint = json!({ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" });
    bench
        .change("n2", |node| {
            node["spec"]["taints"] = json!([taint]);
        })
        .await;
    assert_unmoved(&bench).await;
    assert_eq!(bench.balancers().members(), ["n1", "n2", "n3"]);
    // A label that nobody asks for.
    label(&bench, "n1", json!({ "color": "blue" })).await;
    assert_unmoved(&bench).await;
    join(&bench, "n4").await;
    until_members(&bench, &["n1", "n3", "n4"]).await;
}

#[scenario]
async fn framework_case_081_a_node_being_deleted_stays_until_its_object_is_gone() {
    let bench = settled().await;
    let nodes: Api<Node> = Api::all(bench.admin());
    let own = bench.cluster.names().own("n2");
    let hold = async |finalizers: Value| {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
        let options = PatchParams::default();
        nodes.patch(&own, &options, &patch).await.unwrap();
    };
    hold(json!(["example.test/hold"])).await;
    nodes.delete(&own, &DeleteParams::default()).await.unwrap();
    assert_unmoved(&bench).await;
    let node = bench.node("n2");
    assert!(node["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(bench.balancers().members(), ["n1", "n2", "n3"]);
    hold(Value::Null).await;
    bench.until_deleted("n2").await;
    until_members(&bench, &["n1", "n3"]).await;
}

#[scenario]
async fn framework_case_082_a_node_becomes_a_member_when_it_has_its_provider_id() {
    let bench = settled().await;
    let mut fresh = node("n4", "");
    fresh["spec"] = json!({});
    bench.put(fresh).await;
    // Nobody owns it yet.
    assert_unmoved(&bench).await;
    bench
        .change("n4", |node| {
            node["spec"]["providerID"] = "demo://m-4".into();
        })
        .await;
    until_members(&bench, &["n1", "n2", "n3", "n4"]).await;
}

#[scenario]
async fn framework_case_083_an_address_that_changes_is_followed() {
    let bench = settled().await;
    bench
        .change("n2", |node| {
            node["status"]["addresses"] = json!([{ "type": "InternalIP", "address": "10.0.9.9" }]);
        })
        .await;
    bench
        .until("the old one goes", |it| it.balancers().count("delete") == 1)
        .await;
    let members = &bench.balancers().all()[0].members;
    assert!(members.contains("n2 demo://n2 InternalIP:10.0.9.9"));
    let writes = bench.balancers().writes();
    let at = |verb: &str| writes.iter().position(|it| it.starts_with(verb));
    assert!(
        at("create").unwrap() < at("delete").unwrap(),
        "make before break: {writes:?}"
    );
}

#[scenario]
async fn a_service_whose_last_node_goes_has_no_members_and_that_is_told_once() {
    let bench = settled().await;
    let exclude = |name| label(&bench, name, json!({ EXCLUDE: "" }));
    join_all(["n1", "n2", "n3"].map(exclude)).await;
    until_members(&bench, &[]).await;
    bench.until_event("web", "UnAvailableLoadBalancer").await;
    bench.settle().await;
    assert_eq!(
        bench.news("web").last().unwrap(),
        "Warning UnAvailableLoadBalancer: There are no available nodes for LoadBalancer"
    );
    assert_eq!(bench.event_count("web", "UpdatedLoadBalancer"), 0);
    assert_eq!(bench.event_count("web", "UnAvailableLoadBalancer"), 1);
}

#[scenario]
async fn a_load_balancer_without_targets_is_not_ready_and_keeps_its_address() {
    let bench = settled().await;
    let shown = bench.entrances("web");
    assert_eq!(bench.condition("web"), "True Ready");
    label(&bench, "n1", json!({ EXCLUDE: "" })).await;
    for name in ["n2", "n3"] {
        bench.delete(name).await;
    }
    until_members(&bench, &[]).await;
    let empty = "False NoTargets: The load balancer has no targets";
    bench
        .until("that is shown", |it| it.condition("web").starts_with(empty))
        .await;
    assert_eq!(bench.entrances("web"), shown);
    let writes = bench.service_writes("web").len();
    bench.settle().await;
    assert_eq!(bench.service_writes("web").len(), writes, "shown once");
    join(&bench, "n4").await;
    bench
        .until("it is ready again", |it| {
            it.condition("web") == "True Ready"
        })
        .await;
    assert_eq!(bench.balancers().members(), ["n4"]);
    assert_eq!(bench.entrances("web"), shown);
}

#[scenario]
async fn services_do_not_wait_for_each_other_unless_they_are_told_to() {
    let story = async |flags: &[&str], at_once: bool| {
        let bench = harness::with(flags).await;
        bench.balancers().take(Duration::from_secs(2));
        let names = ["s1", "s2", "s3", "s4", "s5"];
        for name in names {
            bench.create_service(service(name)).await;
        }
        for name in names {
            bench.until_event(name, "EnsuredLoadBalancer").await;
        }
        let looks = bench.balancers().times("look at");
        assert_eq!(looks.len(), 5);
        // One look and five steps of two seconds each.
        let apart = Duration::try_from(looks[4].duration_since(looks[0])).unwrap();
        let together = apart < Duration::from_secs(10);
        assert_eq!(together, at_once, "{flags:?}: {apart:?}");
    };
    story(&[], true).await;
    story(&["--concurrent-service-syncs=1"], false).await;
}

#[scenario]
async fn targets_of_deleted_nodes_go_before_others_come() {
    let bench = harness::with(&["--concurrent-service-syncs=1"]).await;
    let gains = ["s1", "s2", "s3", "s4"];
    let of = |name: &str, pool: &str| {
        let mut it = service(name);
        it["metadata"]["annotations"][SELECTOR] = format!("pool={pool}").into();
        it
    };
    for (name, pool) in [("n1", "a"), ("n2", "b"), ("n3", "b")] {
        label(&bench, name, json!({ "pool": pool })).await;
    }
    bench.settle().await;
    for name in gains {
        bench.create_service(of(name, "a")).await;
    }
    bench.create_service(of("web", "b")).await;
    for name in gains.iter().chain(&["web"]) {
        bench.until_event(name, "EnsuredLoadBalancer").await;
    }
    bench.settle().await;
    bench.balancers().clear();
    bench.balancers().take(Duration::from_secs(2));
    let mut fourth = node("n4", "demo://n4");
    fourth["metadata"]["labels"] = json!({ "pool": "a" });
    bench.put(fourth).await;
    bench
        .until("the first gains", |it| {
            it.balancers().count("create member") == 1
        })
        .await;
    bench.delete("n3").await;
    bench
        .until("all have gained", |it| {
            it.balancers().count("create member") == 4
        })
        .await;
    bench
        .until("the target is gone", |it| {
            it.balancers().count("delete member") == 1
        })
        .await;
    let writes = bench.balancers().writes();
    let gone = writes
        .iter()
        .position(|it| it == "delete member shop/web n3");
    assert!(gone.unwrap() < 3, "{writes:?}");
}

#[scenario]
async fn framework_case_085_members_that_cannot_be_updated_are_told_and_the_service_tried_at_once()
{
    let bench = settled().await;
    for number in 4..25 {
        join(&bench, &format!("n{number:02}")).await;
    }
    bench
        .until("all are members", |it| it.balancers().members().len() == 24)
        .await;
    bench.settle().await;
    bench.balancers().clear();
    bench
        .balancers()
        .fail("create member", Trouble::Error("quota"), 2);
    join(&bench, "n99").await;
    bench.until_event("web", "UpdateLoadBalancerFailed").await;
    let events = bench.news("web");
    let reported = events.iter().find(|it| it.contains("UpdateLoad")).unwrap();
    let start = "Warning UpdateLoadBalancerFailed: Error updating load balancer with new hosts \
                     [n04 n05 ";
    assert!(reported.starts_with(start), "{reported}");
    let end = " <5 more>] [node names limited, total number of nodes: 25], error: quota";
    assert!(reported.ends_with(end), "{reported}");
    bench
        .until("it is updated", |it| it.balancers().members().len() == 25)
        .await;
    // At once as a whole Service, then with back-off.
    let looks = bench.balancers().times("look at");
    bench.assert_apart(&looks, &[0, 5]);
    bench.until_event("web", "SyncLoadBalancerFailed").await;
    assert_eq!(bench.event_count("web", "SyncLoadBalancerFailed"), 1);
    assert_eq!(
        bench.metric("service_controller_nodesync_error_total"),
        Some(1.0)
    );
}

#[scenario]
async fn framework_case_090_calls_for_one_service_never_overlap() {
    let bench = harness::with(&["--concurrent-service-syncs=5"]).await;
    bench.ensured("web").await;
    bench.balancers().take(Duration::from_millis(700));
    // The cloud itself panics when two calls for one Service meet.
    for number in 10..20 {
        join(&bench, &format!("n{number}")).await;
        let change = json!({ "metadata": { "annotations": { "a": number.to_string() } } });
        bench.patch_service("web", change).await;
        bench.seconds(1).await;
    }
    bench
        .until("all are members", |it| it.balancers().members().len() == 13)
        .await;
    bench.settle().await;
    assert!(bench.is_running());
}

#[scenario]
async fn a_label_that_a_selector_asks_for_is_seen_and_others_are_not() {
    let bench = settled().await;
    label(&bench, "n1", json!({ "env": "prod" })).await;
    let selector = json!({ "metadata": { "annotations": { SELECTOR: "env=prod" } } });
    bench.patch_service("web", selector).await;
    until_members(&bench, &["n1"]).await;
    label(&bench, "n2", json!({ "env": "prod" })).await;
    until_members(&bench, &["n1", "n2"]).await;
    bench.settle().await;
    bench.balancers().clear();
    label(&bench, "n3", json!({ "env": "test" })).await;
    assert_unmoved(&bench).await;
}
