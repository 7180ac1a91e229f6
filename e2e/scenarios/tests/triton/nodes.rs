//! New nodes: which machine they are, and what they get.

use bowline_scenarios::objects::{addresses, fresh, is_uninitialized};
use bowline_scenarios::triton::section;
use bowline_scenarios::{TestCluster, scenario};
use serde_json::json;

use crate::triton::harness::{A_WHILE, ACCOUNT_ID, Harness, id, label, provider_id};

const BRAND: &str = "cloud.tritoncompute/brand";
const COMPUTE_NODE: &str = "cloud.tritoncompute/compute-node";
const ENVIRONMENT: &str = "tag.cloud.tritoncompute/env";

/// What DNS calls the first machine, inside and outside.
fn names() -> [String; 2] {
    let name = |zone: &str| format!("k8s-1.inst.{ACCOUNT_ID}.{zone}");
    [
        format!("InternalDNS:{}", name("int.eg-1.example.com")),
        format!("ExternalDNS:{}", name("eg-1.cns.example.com")),
    ]
}

#[scenario]
async fn a_new_node_gets_its_id_its_addresses_its_labels_and_loses_the_taint() {
    let test = Harness::new(3).await;
    let node = test.joined(1).await;
    assert_eq!(node["spec"]["providerID"], provider_id(1));
    let [internal, external] = names();
    assert_eq!(
        addresses(&node),
        [
            "InternalIP:10.20.0.5",
            "ExternalIP:203.0.113.10",
            "Hostname:k8s-1",
            &internal,
            &external
        ]
    );
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "g4-highcpu-1G"),
        ("topology.kubernetes.io/region", "eg-1"),
        ("topology.kubernetes.io/zone", "eg-1"),
        (BRAND, "bhyve"),
    ] {
        assert_eq!(label(&node, key), value, "{key}");
    }
    assert_eq!(test.event_count("k8s-1", "Synced"), 1);
    test.end().await;
}

#[scenario]
async fn labels_follow_a_machine_that_moves_and_tags_that_were_named() {
    let test = Harness::configured(1, &section("Nodes", &[("labels-from-tags", "env")])).await;
    test.cloud
        .set_tag("k8s-1", "env", Some("prod eu".into()))
        .unwrap();
    let first = test.cloud.machine("k8s-1").unwrap().compute_node.unwrap();
    let node = test.joined(1).await;
    assert_eq!(label(&node, COMPUTE_NODE), first);
    assert_eq!(label(&node, ENVIRONMENT), "prod-eu");
    let second = "c0000000-0000-4000-8000-000000000003";
    assert_ne!(first, second);
    test.cloud.migrate("k8s-1", second).unwrap();
    test.cloud.set_tag("k8s-1", "env", None).unwrap();
    let followed = |it: &TestCluster| {
        let node = it.node("k8s-1");
        label(&node, COMPUTE_NODE) == second && label(&node, ENVIRONMENT).is_empty()
    };
    test.until("its labels follow", followed).await;
    test.end().await;
}

#[scenario]
async fn nodes_of_other_clouds_and_of_no_machine_are_left_alone() {
    let test = Harness::new(1).await;
    let mut foreign = fresh("k8s-1");
    foreign["spec"]["providerID"] = format!("exoscale://{}", id(1)).into();
    test.create(foreign).await;
    test.create(fresh("stranger")).await;
    let mut silent = fresh("silent");
    silent["spec"] = json!({ "providerID": format!("exoscale://{}", id(7)) });
    silent["status"]["conditions"] = json!([bowline_scenarios::objects::ready("False")]);
    test.put(silent).await;
    let before = ["k8s-1", "stranger", "silent"].map(|name| test.content(name));
    test.long(A_WHILE).await;
    let after = ["k8s-1", "stranger", "silent"].map(|name| test.content(name));
    assert_eq!(after, before);
    assert!(is_uninitialized(&test.node("k8s-1")));
    assert_eq!(test.node_writes_to("*"), 0);
    test.end().await;
}

#[scenario]
async fn while_the_name_service_is_down_nodes_are_initialised_and_none_is_deleted() {
    let test = Harness::new(3).await;
    test.cloud.set_quirks(|quirks| quirks.names_down = true);
    let node = test.joined(1).await;
    assert_eq!(
        addresses(&node),
        [
            "InternalIP:10.20.0.5",
            "ExternalIP:203.0.113.10",
            "Hostname:k8s-1"
        ]
    );
    // One whose kubelet is silent, though its machine runs, and one whose machine is really gone.
    test.put_known(2, "False").await;
    test.cloud.destroy("k8s-3").unwrap();
    test.put_known(3, "False").await;
    test.long(A_WHILE).await;
    for name in ["k8s-1", "k8s-2", "k8s-3"] {
        assert!(test.find(name).is_some(), "{name}");
        assert_eq!(test.event_count(name, "DeletingNode"), 0);
    }
    test.cloud.set_quirks(|quirks| quirks.names_down = false);
    test.until_deleted("k8s-3").await;
    let has_names = |it: &TestCluster| {
        let shown = addresses(&it.node("k8s-1"));
        names().iter().all(|name| shown.contains(name))
    };
    test.until("its names in DNS", has_names).await;
    assert!(test.find("k8s-2").is_some());
    test.end().await;
}
