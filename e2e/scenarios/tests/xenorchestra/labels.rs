//! Labels that follow what Xen Orchestra says, and those that do not.

use bowline_scenarios::objects::{fresh, is_uninitialized, labels, node_info};
use bowline_scenarios::{TestCluster, refuse, scenario, status};
use serde_json::Value;

use super::harness::{
    BETA_ZONE, H1, H2, HOST_ID, HOST_NAME, Harness, NODE, PA, POOL_NAME, REGION, TYPE, VM_NAME,
    VM1, ZONE, assert_labels, assert_without, known_node,
};

#[scenario]
async fn xenorchestra_case_59_nothing_changed_costs_no_write_and_no_event() {
    let story = async |settings: &str| {
        let test = Harness::configured(settings).await;
        test.joined().await;
        let (before, writes) = (test.content(NODE), test.writes_to("*").len());
        test.rounds().await;
        test.rounds().await;
        assert_eq!(test.content(NODE), before);
        assert_eq!(test.writes_to("*").len(), writes);
        assert_eq!(test.synced(), [""; 0]);
        test.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_60_a_node_that_waits_is_not_touched(test: Harness) {
    let mut node = known_node("True");
    // It waits because of its address; its labels are old.
    node["spec"]["taints"] = fresh(NODE)["spec"]["taints"].clone();
    node["metadata"]["annotations"] =
        serde_json::json!({ bowline_core::PROVIDED_NODE_IP: "10.20.0.11, 2001:db8::11" });
    test.cloud.migrate(VM1, H2).unwrap();
    test.put(node).await;
    test.message(NODE, "NodeInitializationFailed").await;
    test.rounds().await;
    let node = test.node(NODE);
    assert!(is_uninitialized(&node));
    assert_labels(&node, &[(ZONE, H1), (HOST_ID, H1), (HOST_NAME, "xcp-1")]);
    assert_eq!(test.writes_to("*"), []);
    assert_eq!(test.synced(), [""; 0]);
}

#[scenario]
async fn xenorchestra_case_61_a_zone_that_somebody_removed_does_not_come_back(test: Harness) {
    let mut node = known_node("True");
    let all = node["metadata"]["labels"].as_object_mut().unwrap();
    all.remove(ZONE);
    all.remove(BETA_ZONE);
    test.put(node).await;
    test.cloud.migrate(VM1, H2).unwrap();
    test.until_label(HOST_ID, H2).await;
    test.rounds().await;
    assert_without(&test.node(NODE), &[ZONE, BETA_ZONE]);
    assert_labels(&test.node(NODE), &[(HOST_NAME, "xcp-2"), (REGION, PA)]);
    assert_eq!(test.synced(), [""; 0]);
}

#[scenario]
async fn xenorchestra_case_62_what_the_api_server_rejects_is_not_told(test: Harness) {
    test.joined().await;
    let path = format!("/api/v1/nodes/{NODE}");
    let rejected = test.fault(refuse(422, "PATCH", &path));
    test.cloud.migrate(VM1, H2).unwrap();
    rejected.struck(1).await;
    test.settle().await;
    assert_labels(&test.node(NODE), &[(ZONE, H1)]);
    assert_eq!(test.synced(), [""; 0]);
    test.world.faults.clear();
    test.until_label(ZONE, H2).await;
    assert_eq!(test.until_synced(1).await.len(), 1);
}

#[scenario]
async fn xenorchestra_case_63_a_halted_vm_keeps_its_place() {
    let story = async |settings: &str| {
        let test = Harness::configured(settings).await;
        test.put_known("False").await;
        test.cloud.halt(VM1).unwrap();
        // Something else still follows.
        test.cloud.rename(VM1, "asleep").unwrap();
        test.until_label(VM_NAME, "asleep").await;
        test.rounds().await;
        let node = test.node(NODE);
        assert_labels(&node, &[(ZONE, H1), (BETA_ZONE, H1), (HOST_ID, H1)]);
        assert_labels(&node, &[(HOST_NAME, "xcp-1")]);
        assert_eq!(test.synced(), [""; 0]);
        test.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_64_a_host_that_cannot_be_read_keeps_its_name() {
    let mut test = Harness::idle("events: no\n", &[]).await;
    test.fail("hosts*", status(500));
    test.cloud.rename_host(H1, "xcp one").unwrap();
    test.cloud.rename_pool(PA, "laboratory").unwrap();
    test.put_known("True").await;
    test.start().await;
    test.until_label(POOL_NAME, "laboratory").await;
    assert_labels(&test.node(NODE), &[(HOST_NAME, "xcp-1"), (HOST_ID, H1)]);
    test.world.faults.clear();
    test.until_label(HOST_NAME, "xcp-one").await;
    assert_eq!(test.synced(), [""; 0]);
    test.end().await;
}

#[scenario]
async fn xenorchestra_case_65_other_labels_are_never_touched(test: Harness) {
    test.joined().await;
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
    test.change(NODE, give).await;
    let before = labels(&test.node(NODE));
    test.until_label(VM_NAME, "worker-1").await;
    test.cloud.migrate(VM1, H2).unwrap();
    test.until_label(ZONE, H2).await;
    test.rounds().await;
    let after = labels(&test.node(NODE));
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
    assert_eq!(new, [super::harness::FIRST_HOST]);
    assert_labels(&test.node(NODE), &[(TYPE, "4vCPU-4GB")]);
}

#[scenario]
async fn a_node_of_nobody_is_not_labelled(test: Harness) {
    let mut node = fresh(NODE);
    node["spec"] = serde_json::json!({});
    node["status"]["nodeInfo"] = node_info(super::harness::NOBODY, "");
    test.create(node).await;
    let before = test.content(NODE);
    test.rounds().await;
    assert_eq!(test.content(NODE), before);
    let written = |it: &TestCluster| it.events(NODE);
    assert_eq!(written(&test), [""; 0]);
}
