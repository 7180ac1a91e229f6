//! New nodes: which instance they are, and what they get.

use bowline_scenarios::objects::{addresses, fresh, is_uninitialized, node_info};
use bowline_scenarios::{TestCluster, is_real, scenario};
use bowline_simulator::KubeletSpec;
use bowline_simulator_exoscale::InstanceSpec;
use serde_json::{Value, json};

use super::harness::{Harness, I1, NOBODY, NODE};

const HOST: &str = "Hostname:Pool-a1b2c-xyz";
const EXTERNAL: &str = "ExternalIP:198.51.100.21";
const INTERNAL: &str = "InternalIP:198.51.100.21";

/// Long enough for every back-off to have run through several times.
const A_WHILE: u64 = 300;

fn assert_labels(node: &Value, kind: &str, place: &str) {
    for (key, value) in [
        ("node.kubernetes.io/instance-type", kind),
        ("beta.kubernetes.io/instance-type", kind),
        ("topology.kubernetes.io/zone", place),
        ("failure-domain.beta.kubernetes.io/zone", place),
        ("topology.kubernetes.io/region", place),
        ("failure-domain.beta.kubernetes.io/region", place),
    ] {
        assert_eq!(node["metadata"]["labels"][key], value, "{key}");
    }
}

#[scenario]
async fn exoscale_case_18_a_new_node_gets_id_labels_and_addresses_and_loses_the_taint(
    test: Harness,
) {
    test.join(I1);
    let node = test.initialized(NODE).await;
    assert_eq!(node["spec"]["providerID"], format!("exoscale://{I1}"));
    assert_labels(&node, "standard.medium", "ch-gva-2");
    assert_eq!(addresses(&node), [HOST, EXTERNAL, INTERNAL]);
    let reported = test.message(NODE, "Synced").await;
    assert_eq!(reported, "Node synced successfully");
    test.until_ready(NODE, "True").await;
    assert_eq!(test.writes_to("*").len(), 2);
}

#[scenario]
async fn exoscale_case_19_two_families_settle_and_are_not_written_again() {
    let test = Harness::with("", &["--node-status-update-frequency=10s"]).await;
    let address = "2001:db8::21".parse().unwrap();
    test.cloud.set_ipv6(I1, Some(address)).unwrap();
    test.join(I1);
    let list = addresses(&test.initialized(NODE).await);
    let of = |kind: &str| -> Vec<String> {
        let mine = list.iter().filter(|it| it.starts_with(kind));
        mine.cloned().collect()
    };
    assert_eq!(list.len(), 5, "{list:?}");
    assert_eq!(of("Hostname"), [HOST]);
    assert_eq!(of("ExternalIP"), [EXTERNAL, "ExternalIP:2001:db8::21"]);
    assert_eq!(of("InternalIP"), [INTERNAL, "InternalIP:2001:db8::21"]);
    let calls = test.cloud_calls("*").len();
    test.until_cloud_calls(calls + 3).await;
    assert_eq!(test.writes_to("*").len(), 2, "nothing changed");
    test.end().await;
}

#[scenario]
async fn exoscale_case_96_an_unchanged_node_of_two_families_is_not_patched() {
    let test = Harness::with("", &["--node-status-update-frequency=10s"]).await;
    let address = "2001:db8::21".parse().unwrap();
    test.cloud.set_ipv6(I1, Some(address)).unwrap();
    test.join(I1);
    test.initialized(NODE).await;
    let before = test.content(NODE);
    let calls = test.cloud_calls("*").len();
    test.until_cloud_calls(calls + 3).await;
    assert_eq!(test.content(NODE), before);
    // One that changes is seen all the same.
    test.cloud
        .set_public_ip(I1, Some("198.51.100.99".parse().unwrap()))
        .unwrap();
    let wanted = "ExternalIP:198.51.100.99".to_owned();
    let is_there = |it: &TestCluster| addresses(&it.node(NODE)).contains(&wanted);
    test.until("the new address", is_there).await;
    test.end().await;
}

#[scenario]
async fn exoscale_case_21_the_address_of_the_kubelet_comes_first(test: Harness) {
    test.cloud.set_private_networks(I1, &["inside"]).unwrap();
    test.join_as(KubeletSpec {
        provided_node_ip: Some("10.0.0.5".into()),
        ..test.kubelet(I1)
    });
    let list = addresses(&test.initialized(NODE).await);
    assert_eq!(list, ["InternalIP:10.0.0.5", HOST, EXTERNAL]);
}

#[scenario]
async fn exoscale_case_23_an_address_that_the_instance_does_not_have_keeps_the_node_waiting(
    test: Harness,
) {
    test.join_as(KubeletSpec {
        provided_node_ip: Some("10.0.0.5".into()),
        ..test.kubelet(I1)
    });
    let message = test.message(NODE, "NodeInitializationFailed").await;
    assert!(message.contains("10.0.0.5"), "{message}");
    test.long(A_WHILE).await;
    assert!(is_uninitialized(&test.node(NODE)));
    assert_eq!(test.writes_to("*").len(), 0);
}

#[scenario]
async fn exoscale_case_25_a_kubelet_with_two_addresses_keeps_both(test: Harness) {
    test.cloud.set_private_networks(I1, &["inside"]).unwrap();
    let address = "2001:db8::21".parse().unwrap();
    test.cloud.set_ipv6(I1, Some(address)).unwrap();
    test.join_as(KubeletSpec {
        provided_node_ip: Some("10.0.0.5,fd00::5".into()),
        ..test.kubelet(I1)
    });
    let wanted = [
        "InternalIP:10.0.0.5",
        "InternalIP:fd00::5",
        HOST,
        EXTERNAL,
        "ExternalIP:2001:db8::21",
    ];
    assert_eq!(addresses(&test.initialized(NODE).await), wanted);
}

#[scenario]
async fn a_private_instance_leaves_the_node_its_own_internal_addresses(test: Harness) {
    test.cloud.set_public_ip(I1, None).unwrap();
    // A kubelet that guesses its address writes no annotation.
    test.join_as(KubeletSpec {
        provided_node_ip: Some("0.0.0.0".into()),
        own_addresses: vec!["10.0.0.7".parse().unwrap()],
        ..test.kubelet(I1)
    });
    let list = addresses(&test.initialized(NODE).await);
    assert_eq!(list, [HOST, "InternalIP:10.0.0.7"]);
}

#[scenario]
async fn exoscale_case_26_an_id_that_the_kubelet_gives_is_kept(test: Harness) {
    let id = format!("exoscale://{I1}");
    test.join_as(KubeletSpec {
        node_name: "other-name".into(),
        provider_id: Some(id.clone()),
        system_uuid: String::new(),
        os_image: String::new(),
        ..test.kubelet(I1)
    });
    let node = test.initialized("other-name").await;
    assert_eq!(node["spec"]["providerID"], id);
    assert_labels(&node, "standard.medium", "ch-gva-2");
}

#[scenario]
async fn exoscale_case_38_a_node_on_an_unknown_machine_waits_and_is_kept(test: Harness) {
    test.join_outside("stranger", None);
    let registered = |it: &TestCluster| it.find("stranger").is_some();
    test.until("it registers", registered).await;
    test.long(A_WHILE).await;
    assert!(is_uninitialized(&test.node("stranger")));
    // Also when it falls silent.
    let stopped = bowline_simulator::machines::Power::Off;
    test.world.machines.set("rack://stranger", stopped);
    test.until_ready("stranger", "Unknown").await;
    test.long(super::harness::A_WHILE).await;
    assert!(is_uninitialized(&test.node("stranger")));
    assert_eq!(test.writes_to("*").len(), 0);
    assert!(!test.cloud_calls(&format!("/{NOBODY}")).is_empty());
}

#[scenario]
async fn exoscale_case_94_a_machine_that_says_its_id_in_upper_case_is_understood(test: Harness) {
    test.join_as(KubeletSpec {
        system_uuid: I1.to_uppercase(),
        os_image: String::new(),
        ..test.kubelet(I1)
    });
    let node = test.initialized(NODE).await;
    assert_eq!(node["spec"]["providerID"], format!("exoscale://{I1}"));
}

#[scenario]
async fn exoscale_case_97_a_node_whose_instance_lacks_a_field_waits_until_it_has_it(test: Harness) {
    test.deform(I1, &json!({ "instance-type": null }));
    test.join(I1);
    test.join(super::harness::I2);
    test.initialized(super::harness::OTHER).await;
    let message = test.message(NODE, "NodeInitializationFailed").await;
    assert!(message.contains("instance-type"), "{message}");
    test.deform(I1, &json!({ "name": null }));
    test.seconds(60).await;
    assert!(is_uninitialized(&test.node(NODE)));
    test.deform(I1, &json!({}));
    assert_labels(&test.initialized(NODE).await, "standard.medium", "ch-gva-2");
}

#[scenario]
async fn many_nodes_that_join_at_once_share_a_list_of_instances_and_one_of_types(test: Harness) {
    test.join_fleet(50, "standard.small");
    for number in 1..=50 {
        test.initialized(&format!("fleet-{number}")).await;
    }
    let calls = test.cloud_calls("*").len();
    // On a loaded machine they do not join all at once.
    let most = if is_real() { 20 } else { 6 };
    assert!(calls <= most, "{calls} calls for 50 nodes");
    assert_eq!(test.writes_to("*").len(), 100, "two writes per node");
}

#[scenario(only_in_memory = "hundreds of nodes at 20 writes a second take long on the real clock")]
async fn hundreds_of_nodes_that_wait_at_the_start_cost_two_reads() {
    let mut test = Harness::idle("", &[]).await;
    let mut ids = Vec::new();
    for kind in ["standard.small", "standard.large", "cpu.extra-large"] {
        let mut spec = InstanceSpec::named(kind).kind(kind);
        spec.count = Some(100);
        ids.extend(test.cloud.add_instances(&spec).unwrap());
    }
    for (number, id) in ids.iter().enumerate() {
        let mut node = fresh(&format!("n-{number}"));
        node["status"]["nodeInfo"] = node_info(id, "");
        test.put(node).await;
    }
    test.start().await;
    for number in 0..ids.len() {
        test.initialized(&format!("n-{number}")).await;
    }
    let calls = test.cloud_calls("*").into_iter().map(|it| it.operation);
    let calls: Vec<String> = calls.collect();
    assert_eq!(calls, ["list-instances", "list-instance-types"]);
    test.end().await;
}
