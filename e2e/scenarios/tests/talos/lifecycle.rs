//! Nodes whose machines may be gone: spot machines of GCP alone, and never without proof.

use bowline_scenarios::objects::{
    PROVIDED_NODE_IP, SHUTDOWN, UNINITIALIZED, has_taint, known, node_info, taint, taint_list,
};
use bowline_scenarios::scenario;
use bowline_scenarios::talos::{Beginning, Role};
use bowline_simulator::journal::Filter;
use bowline_simulator_talos::OS_IMAGE;
use serde_json::{Value, json};

use crate::talos::harness::{Harness, LIFECYCLE, PLATFORM};

const FLAGS: &[&str] = &["--controllers=cloud-node,cloud-node-lifecycle"];
/// Longer than any proof of the guard takes.
const A_WHILE: u64 = 500;

/// Something about a node.
type Change = fn(&mut Value);

fn beginning() -> Beginning<'static> {
    Beginning {
        flags: FLAGS,
        role: Role::Deleting,
        ..Beginning::default()
    }
}

/// A spot machine of GCP that was taken away and came back as another.
fn taken_away(name: &str) -> Value {
    let id = format!("gce://p/z/{name}");
    let mut node = known(name, &id, "False", &["InternalIP:10.8.0.9"]);
    node["metadata"]["labels"][PLATFORM] = "gcp".into();
    node["metadata"]["labels"][LIFECYCLE] = "spot".into();
    node["spec"]["taints"] = taint_list(&["node.kubernetes.io/not-ready:NoExecute"]);
    node["status"]["nodeInfo"] = node_info("", OS_IMAGE);
    node
}

#[scenario]
async fn talos_case_59_a_spot_machine_that_was_taken_away_loses_its_node_after_two_looks() {
    let harness = Harness::with(beginning()).await;
    harness.put_aged(taken_away("g1"), 300).await;
    let begun = harness.world.clock.now();
    harness.until_deleted("g1").await;
    let took = harness.since(begun);
    assert!(took.as_secs() >= 9, "there was no second look: {took:?}");
    let reported = harness.message("g1", "DeletingNode").await;
    assert_eq!(
        reported,
        "Deleting node g1 because it does not exist in the cloud provider"
    );
    let checks = Filter::any().server("talos").operation("Version");
    assert!(
        harness.count(&checks) > 0,
        "whether Talos answers was asked"
    );
    harness.end().await;
}

#[scenario]
async fn talos_case_59_without_an_answer_of_any_machine_nothing_is_deleted() {
    let mut harness = Harness::idle(beginning()).await;
    harness.cloud.set_server_names(Some(&["other.example"]));
    harness.start().await;
    harness.put_aged(taken_away("g1"), 300).await;
    harness.long(A_WHILE).await;
    assert!(harness.find("g1").is_some());
    assert_eq!(harness.event_count("g1", "DeletingNode"), 0);
    harness.cloud.set_server_names(None);
    harness.until_deleted("g1").await;
    harness.end().await;
}

#[scenario]
async fn talos_case_59_no_more_nodes_go_than_the_budget_allows() {
    let mut harness = Harness::idle(beginning()).await;
    for number in 0..6 {
        harness
            .put_aged(taken_away(&format!("g{number}")), 300)
            .await;
    }
    harness.start().await;
    harness.long(A_WHILE).await;
    assert_eq!(harness.cluster.nodes().len(), 3);
    harness.end().await;
}

#[scenario]
async fn talos_case_60_anything_missing_and_the_node_is_kept() {
    let harness = Harness::with(beginning()).await;
    let changes: [(&str, Change); 5] = [
        ("no-id", |node| node["spec"]["providerID"] = Value::Null),
        ("new", |node| {
            // Nobody answers there: it waits for good.
            node["metadata"]["annotations"][PROVIDED_NODE_IP] = "10.8.0.66".into();
            let waits = taint(&format!("{UNINITIALIZED}=true:NoSchedule"));
            let all = node["spec"]["taints"].as_array_mut().unwrap();
            all.push(waits);
        }),
        ("aws", |node| {
            node["metadata"]["labels"][PLATFORM] = "aws".into();
        }),
        ("regular", |node| {
            let all = node["metadata"]["labels"].as_object_mut().unwrap();
            all.remove(LIFECYCLE).unwrap();
        }),
        ("silent", |node| {
            node["spec"]["taints"] = taint_list(&["node.kubernetes.io/unreachable:NoExecute"]);
        }),
    ];
    for (name, change) in &changes {
        let mut node = taken_away(name);
        change(&mut node);
        if node["spec"]["providerID"].is_null() {
            node["spec"].as_object_mut().unwrap().remove("providerID");
        }
        harness.put_aged(node, 300).await;
    }
    harness.long(A_WHILE).await;
    for (name, _) in &changes {
        assert!(harness.find(name).is_some(), "{name}");
        assert_eq!(harness.event_count(name, "DeletingNode"), 0, "{name}");
    }
    harness.end().await;
}

#[scenario]
async fn talos_case_60_a_young_node_is_kept_until_it_has_settled() {
    let harness = Harness::with(beginning()).await;
    harness.put_aged(taken_away("young"), 10).await;
    let begun = harness.world.clock.now();
    harness.until_deleted("young").await;
    let age = 10 + harness.since(begun).as_secs();
    assert!(age >= 30, "{age} s");
    harness.end().await;
}

#[scenario]
async fn talos_case_61_machines_elsewhere_are_kept_whatever_they_do() {
    let harness = Harness::with(beginning()).await;
    for (name, platform, id) in [
        ("hcloud", "hcloud", "hcloud://1"),
        ("metal", "metal", "talos://metal/10.8.0.7"),
        ("azure", "azure", "azure:///x"),
    ] {
        let mut node = taken_away(name);
        node["metadata"]["labels"][PLATFORM] = platform.into();
        node["spec"]["providerID"] = id.into();
        harness.put_aged(node, 300).await;
    }
    harness.long(A_WHILE).await;
    for name in ["hcloud", "metal", "azure"] {
        let node = harness.node(name);
        assert!(!has_taint(&node, SHUTDOWN), "{name}");
        assert_eq!(node["metadata"].get("deletionTimestamp"), None, "{name}");
        assert_eq!(harness.node_changes(name), [], "{name}: {}", json!(node));
    }
    harness.end().await;
}
