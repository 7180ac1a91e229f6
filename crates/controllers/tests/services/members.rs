//! Nodes come, go and change; members follow, each load balancer once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::{Bench, node};
use crate::cloud::{Fault, SELECTOR};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

async fn settled() -> Bench {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench.cloud().clear();
    bench
}

/// Lets a change settle; says whether it made the controller look.
async fn looked(bench: &Bench) -> bool {
    bench.seconds(10).await;
    let looked = bench.cloud().count("look at") > 0;
    bench.cloud().clear();
    looked
}

#[tokio::test(start_paused = true)]
async fn framework_case_076_a_new_node_is_one_update_for_each_service() {
    let bench = settled().await;
    bench.ensured("api").await;
    bench.cloud().clear();
    bench.add_node("n4");
    bench.seconds(10).await;
    for name in ["web", "api"] {
        let look = format!("look at default/{name} (n1 n2 n3 n4)");
        assert_eq!(bench.cloud().count(&look), 1);
        let step = format!("create member default/{name} n4");
        assert_eq!(bench.cloud().count(&step), 1);
        assert_eq!(
            bench.events(name).last().unwrap(),
            "Normal UpdatedLoadBalancer: Updated load balancer with new hosts"
        );
        assert_eq!(bench.told(name, "EnsuringLoadBalancer"), 1);
    }
    assert_eq!(bench.cloud().calls().len(), 4);
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

#[tokio::test(start_paused = true)]
async fn framework_case_077_fifty_nodes_at_once_are_at_most_two_updates_for_each_service() {
    let bench = Bench::with(&["--concurrent-service-syncs=5"]);
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    for name in &names {
        bench.ensured(name).await;
    }
    bench.cloud().clear();
    for number in 10..60 {
        bench.add_node(&format!("n{number}"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bench.seconds(30).await;
    for name in &names {
        let look = format!("look at default/{name} ");
        assert!(bench.cloud().count(&look) <= 2, "{name}");
    }
    for balancer in bench.cloud().balancers() {
        assert_eq!(balancer.members.len(), 53);
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_never_rest_are_followed_every_five_seconds() {
    let bench = settled().await;
    for number in 10..50 {
        bench.add_node(&format!("n{number}"));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    bench.seconds(10).await;
    let looks = bench.cloud().times("look at");
    assert!((4..=6).contains(&looks.len()), "{}", looks.len());
    assert_eq!(bench.cloud().members().len(), 43);
}

#[tokio::test(start_paused = true)]
async fn framework_case_078_the_exclusion_label_takes_a_node_out_and_false_puts_it_back() {
    let bench = settled().await;
    for (value, member) in [
        (json!(""), false),
        (json!("false"), true),
        (json!("true"), false),
        (json!("0"), true),
        (json!("foo"), false),
        (Value::Null, true),
    ] {
        bench.change_node("n2", |node| match &value {
            Value::Null => node["metadata"]["labels"] = json!({}),
            text => node["metadata"]["labels"] = json!({ EXCLUDE: text }),
        });
        assert!(looked(&bench).await, "{value}");
        let is_member = bench.cloud().members().contains(&"n2".to_owned());
        assert_eq!(is_member, member, "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_079_readiness_and_cordons_change_nothing() {
    let bench = settled().await;
    bench.change_node("n2", |node| {
        node["status"]["conditions"][0]["status"] = "Unknown".into();
    });
    assert!(!looked(&bench).await);
    bench.change_node("n2", |node| node["spec"]["unschedulable"] = true.into());
    assert!(!looked(&bench).await);
    assert_eq!(bench.cloud().members(), ["n1", "n2", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn framework_case_080_the_autoscalers_taint_counts_with_the_next_change() {
    let bench = settled().await;
    bench.change_node("n2", |node| {
        node["spec"]["taints"] =
            json!([{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }]);
    });
    assert!(!looked(&bench).await);
    assert_eq!(bench.cloud().members(), ["n1", "n2", "n3"]);
    bench.change_node("n1", |node| {
        node["metadata"]["labels"] = json!({ "color": "blue" });
    });
    assert!(!looked(&bench).await, "a label that nobody asks for");
    bench.add_node("n4");
    assert!(looked(&bench).await);
    assert_eq!(bench.cloud().members(), ["n1", "n3", "n4"]);
}

#[tokio::test(start_paused = true)]
async fn framework_case_081_a_node_being_deleted_stays_until_its_object_is_gone() {
    let bench = settled().await;
    bench.change_node("n2", |node| {
        node["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        node["metadata"]["finalizers"] = json!(["example.test/hold"]);
    });
    assert!(!looked(&bench).await);
    assert_eq!(bench.cloud().members(), ["n1", "n2", "n3"]);
    bench.delete_node("n2");
    assert!(looked(&bench).await);
    assert_eq!(bench.cloud().members(), ["n1", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn framework_case_082_a_node_becomes_a_member_when_it_has_its_provider_id() {
    let bench = settled().await;
    let mut fresh = node("n4", "");
    fresh["spec"] = json!({});
    bench.put_node(fresh);
    assert!(!looked(&bench).await, "nobody owns it yet");
    bench.change_node("n4", |node| {
        node["spec"]["providerID"] = "demo://m-4".into();
    });
    assert!(looked(&bench).await);
    assert_eq!(bench.cloud().members(), ["n1", "n2", "n3", "n4"]);
}

#[tokio::test(start_paused = true)]
async fn framework_case_083_an_address_that_changes_is_followed() {
    let bench = settled().await;
    bench.change_node("n2", |node| {
        node["status"]["addresses"] = json!([{ "type": "InternalIP", "address": "10.0.9.9" }]);
    });
    bench.seconds(10).await;
    let members = &bench.cloud().balancers()[0].members;
    assert!(members.contains("n2 demo://n2 InternalIP:10.0.9.9"));
    let writes = bench.cloud().writes();
    let made = writes
        .iter()
        .position(|it| it.starts_with("create"))
        .unwrap();
    let gone = writes
        .iter()
        .position(|it| it.starts_with("delete"))
        .unwrap();
    assert!(made < gone, "make before break: {writes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_last_node_goes_has_no_members_and_that_is_told_once() {
    let bench = settled().await;
    for name in ["n1", "n2", "n3"] {
        bench.change_node(name, |node| {
            node["metadata"]["labels"] = json!({ EXCLUDE: "" });
        });
    }
    bench.seconds(30).await;
    assert_eq!(bench.cloud().members(), [""; 0]);
    assert_eq!(
        bench.events("web").last().unwrap(),
        "Warning UnAvailableLoadBalancer: There are no available nodes for LoadBalancer"
    );
    assert_eq!(bench.told("web", "UpdatedLoadBalancer"), 0);
    assert_eq!(bench.told("web", "UnAvailableLoadBalancer"), 1);
}

#[tokio::test(start_paused = true)]
async fn framework_case_085_members_that_cannot_be_updated_are_told_and_the_service_tried_at_once()
{
    let bench = settled().await;
    for number in 4..25 {
        bench.add_node(&format!("n{number:02}"));
    }
    bench.seconds(10).await;
    bench.cloud().clear();
    bench
        .cloud()
        .fault("create member", Fault::Error("quota"), 2);
    bench.add_node("n99");
    bench.until_told("web", "UpdateLoadBalancerFailed").await;
    let events = bench.events("web");
    let told = events.iter().find(|it| it.contains("UpdateLoad")).unwrap();
    let start =
        "Warning UpdateLoadBalancerFailed: Error updating load balancer with new hosts [n04 n05 ";
    assert!(told.starts_with(start), "{told}");
    let end = " <5 more>] [node names limited, total number of nodes: 25], error: quota";
    assert!(told.ends_with(end), "{told}");
    bench
        .until("it is updated", |it| it.cloud().members().len() == 25)
        .await;
    // At once as a whole Service, then with back-off.
    let looks = bench.cloud().times("look at");
    assert_eq!(crate::bench::gaps(&looks), [0, 5]);
    bench.seconds(1).await;
    assert_eq!(bench.told("web", "SyncLoadBalancerFailed"), 1);
    assert_eq!(
        bench.metric("service_controller_nodesync_error_total"),
        Some(1.0)
    );
}

#[tokio::test(start_paused = true)]
async fn framework_case_090_calls_for_one_service_never_overlap() {
    let bench = Bench::with(&["--concurrent-service-syncs=5"]);
    bench.ensured("web").await;
    bench.cloud().take(Duration::from_millis(700));
    // The cloud itself panics when two calls for one Service meet.
    for number in 10..20 {
        bench.add_node(&format!("n{number}"));
        let change = json!({ "metadata": { "annotations": { "a": number.to_string() } } });
        bench.patch("web", change).await;
        bench.seconds(1).await;
    }
    bench.seconds(60).await;
    assert_eq!(bench.cloud().members().len(), 13);
}

#[tokio::test(start_paused = true)]
async fn a_label_that_a_selector_asks_for_is_seen_and_others_are_not() {
    let bench = settled().await;
    bench.change_node("n1", |node| {
        node["metadata"]["labels"] = json!({ "env": "prod" });
    });
    let selector = json!({ "metadata": { "annotations": { SELECTOR: "env=prod" } } });
    bench.patch("web", selector).await;
    bench.seconds(10).await;
    assert_eq!(bench.cloud().members(), ["n1"]);
    bench.cloud().clear();
    bench.change_node("n2", |node| {
        node["metadata"]["labels"] = json!({ "env": "prod" });
    });
    assert!(looked(&bench).await);
    assert_eq!(bench.cloud().members(), ["n1", "n2"]);
    bench.change_node("n3", |node| {
        node["metadata"]["labels"] = json!({ "env": "test" });
    });
    assert!(!looked(&bench).await);
}
