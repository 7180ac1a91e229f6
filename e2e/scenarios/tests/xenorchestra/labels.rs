//! Labels that follow what Xen Orchestra says, and those that do not.

use bowline_scenarios::objects::{fresh, is_uninitialized, labels, node_info};
use bowline_scenarios::{TestCluster, refuse, scenario, status};
use serde_json::Value;

use super::stage::{
    BETA_ZONE, H1, H2, HOST_ID, HOST_NAME, NODE, PA, POOL_NAME, REGION, Stage, TYPE, VM_NAME, VM1,
    ZONE, assert_labels, assert_without, known_node,
};

#[scenario]
async fn xenorchestra_case_59_nothing_changed_costs_no_write_and_no_event() {
    let story = async |settings: &str| {
        let stage = Stage::configured(settings).await;
        stage.joined().await;
        let (before, writes) = (stage.content(NODE), stage.writes_to("*").len());
        stage.rounds().await;
        stage.rounds().await;
        assert_eq!(stage.content(NODE), before);
        assert_eq!(stage.writes_to("*").len(), writes);
        assert_eq!(stage.synced(), [""; 0]);
        stage.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_60_a_node_that_waits_is_not_touched(stage: Stage) {
    let mut node = known_node("True");
    // It waits because of its address; its labels are old.
    node["spec"]["taints"] = fresh(NODE)["spec"]["taints"].clone();
    node["metadata"]["annotations"] =
        serde_json::json!({ bowline_core::PROVIDED_NODE_IP: "10.20.0.11, 2001:db8::11" });
    stage.cloud.migrate(VM1, H2).unwrap();
    stage.put(node).await;
    stage.message(NODE, "NodeInitializationFailed").await;
    stage.rounds().await;
    let node = stage.node(NODE);
    assert!(is_uninitialized(&node));
    assert_labels(&node, &[(ZONE, H1), (HOST_ID, H1), (HOST_NAME, "xcp-1")]);
    assert_eq!(stage.writes_to("*"), []);
    assert_eq!(stage.synced(), [""; 0]);
}

#[scenario]
async fn xenorchestra_case_61_a_zone_that_somebody_removed_does_not_come_back(stage: Stage) {
    let mut node = known_node("True");
    let all = node["metadata"]["labels"].as_object_mut().unwrap();
    all.remove(ZONE);
    all.remove(BETA_ZONE);
    stage.put(node).await;
    stage.cloud.migrate(VM1, H2).unwrap();
    stage.until_label(HOST_ID, H2).await;
    stage.rounds().await;
    assert_without(&stage.node(NODE), &[ZONE, BETA_ZONE]);
    assert_labels(&stage.node(NODE), &[(HOST_NAME, "xcp-2"), (REGION, PA)]);
    assert_eq!(stage.synced(), [""; 0]);
}

#[scenario]
async fn xenorchestra_case_62_what_the_api_server_rejects_is_not_told(stage: Stage) {
    stage.joined().await;
    let path = format!("/api/v1/nodes/{NODE}");
    let rejected = stage.fault(refuse(422, "PATCH", &path));
    stage.cloud.migrate(VM1, H2).unwrap();
    rejected.struck(1).await;
    stage.settle().await;
    assert_labels(&stage.node(NODE), &[(ZONE, H1)]);
    assert_eq!(stage.synced(), [""; 0]);
    stage.world.faults.clear();
    stage.until_label(ZONE, H2).await;
    assert_eq!(stage.until_synced(1).await.len(), 1);
}

#[scenario]
async fn xenorchestra_case_63_a_halted_vm_keeps_its_place() {
    let story = async |settings: &str| {
        let stage = Stage::configured(settings).await;
        stage.put_known("False").await;
        stage.cloud.halt(VM1).unwrap();
        // Something else still follows.
        stage.cloud.rename(VM1, "asleep").unwrap();
        stage.until_label(VM_NAME, "asleep").await;
        stage.rounds().await;
        let node = stage.node(NODE);
        assert_labels(&node, &[(ZONE, H1), (BETA_ZONE, H1), (HOST_ID, H1)]);
        assert_labels(&node, &[(HOST_NAME, "xcp-1")]);
        assert_eq!(stage.synced(), [""; 0]);
        stage.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_64_a_host_that_cannot_be_read_keeps_its_name() {
    let mut stage = Stage::idle("events: no\n", &[]).await;
    stage.fail("hosts*", status(500));
    stage.cloud.rename_host(H1, "xcp one").unwrap();
    stage.cloud.rename_pool(PA, "laboratory").unwrap();
    stage.put_known("True").await;
    stage.start().await;
    stage.until_label(POOL_NAME, "laboratory").await;
    assert_labels(&stage.node(NODE), &[(HOST_NAME, "xcp-1"), (HOST_ID, H1)]);
    stage.world.faults.clear();
    stage.until_label(HOST_NAME, "xcp-one").await;
    assert_eq!(stage.synced(), [""; 0]);
    stage.end().await;
}

#[scenario]
async fn xenorchestra_case_65_other_labels_are_never_touched(stage: Stage) {
    stage.joined().await;
    let mine = [
        ("example.com/zone", "mine"),
        ("xenorchestra.example.com/host_id", "mine"),
        ("kubernetes.io/arch", "amd64"),
    ];
    let give = |node: &mut Value| {
        for (key, value) in mine {
            node["metadata"]["labels"][key] = value.into();
        }
        node["metadata"]["labels"][VM_NAME] = "by-hand".into();
    };
    stage.change(NODE, give).await;
    let before = labels(&stage.node(NODE));
    stage.until_label(VM_NAME, "worker-1").await;
    stage.cloud.migrate(VM1, H2).unwrap();
    stage.until_label(ZONE, H2).await;
    stage.rounds().await;
    let after = labels(&stage.node(NODE));
    for (key, value) in &before {
        let standard = [ZONE, BETA_ZONE].contains(&key.as_str());
        if !key.contains("k8s.xenorchestra") && !standard {
            assert_eq!(after.get(key), Some(value), "{key}");
        }
    }
    let new: Vec<&String> = after
        .keys()
        .filter(|key| !before.contains_key(*key))
        .collect();
    assert_eq!(new, [super::stage::FIRST_HOST]);
    assert_labels(&stage.node(NODE), &[(TYPE, "4vCPU-4GB")]);
}

#[scenario]
async fn a_node_of_nobody_is_not_labelled(stage: Stage) {
    let mut node = fresh(NODE);
    node["spec"] = serde_json::json!({});
    node["status"]["nodeInfo"] = node_info(super::stage::NOBODY, "");
    stage.create(node).await;
    let before = stage.content(NODE);
    stage.rounds().await;
    assert_eq!(stage.content(NODE), before);
    let written = |it: &TestCluster| it.events(NODE);
    assert_eq!(written(&stage), [""; 0]);
}
