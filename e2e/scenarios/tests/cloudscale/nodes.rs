//! New nodes: which server they are, and what they get.

use bowline_core::UNINITIALIZED_TAINT;
use bowline_scenarios::objects::{addresses, has_taint, text};
use bowline_scenarios::{TestCluster, is_real, scenario};
use bowline_simulator::KubeletSpec;
use bowline_simulator_cloudscale::MachineSpec;
use serde_json::json;

use crate::cloudscale::harness::{A, Harness};

/// Long enough for every back-off to have run through several times.
const A_WHILE: u64 = 300;

#[scenario]
async fn cloudscale_case_01_a_new_node_gets_id_labels_and_addresses_and_loses_the_taint(
    test: Harness,
) {
    test.join("worker-a", A);
    let node = test.initialized("worker-a").await;
    assert_eq!(node["spec"]["providerID"], format!("cloudscale://{A}"));
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "flex-8-4"),
        ("beta.kubernetes.io/instance-type", "flex-8-4"),
        ("topology.kubernetes.io/zone", "rma1"),
        ("failure-domain.beta.kubernetes.io/zone", "rma1"),
        ("topology.kubernetes.io/region", "rma"),
        ("failure-domain.beta.kubernetes.io/region", "rma"),
    ] {
        assert_eq!(node["metadata"]["labels"][key], value, "{key}");
    }
    assert_eq!(
        addresses(&node),
        [
            "Hostname:worker-a",
            "ExternalIP:203.0.113.11",
            "ExternalIP:2001:db8:1:1101::11",
            "InternalIP:10.20.0.11"
        ]
    );
    assert_eq!(
        test.message("worker-a", "Synced").await,
        "Node synced successfully"
    );
    test.until_ready("worker-a", "True").await;
    let writes = test.writes_to("/api/v1/nodes/*");
    let paths: Vec<&str> = writes.iter().map(|call| call.path.as_str()).collect();
    assert_eq!(
        paths,
        ["/api/v1/nodes/worker-a/status", "/api/v1/nodes/worker-a"],
        "addresses first, and two writes in all"
    );
    assert_eq!(test.cloud_calls("*").len(), 1, "one list call");
}

#[scenario]
async fn cloudscale_case_02_two_servers_of_one_name_leave_the_node_tainted(test: Harness) {
    let first = test.add_server(&MachineSpec::named("clone"));
    let second = test.add_server(&MachineSpec::named("clone"));
    test.join("clone", &first);
    let message = test.message("clone", "NodeInitializationFailed").await;
    assert!(message.contains("found more than one"), "{message}");
    let before = test.content("clone");
    test.long(A_WHILE).await;
    assert_eq!(test.content("clone"), before);
    assert!(has_taint(&test.node("clone"), UNINITIALIZED_TAINT));
    assert_eq!(test.writes_to("/api/v1/nodes/*").len(), 0);
    test.cloud.destroy(&second).unwrap();
    let node = test.initialized("clone").await;
    assert_eq!(node["spec"]["providerID"], format!("cloudscale://{first}"));
}

#[scenario]
async fn cloudscale_case_03_a_provider_id_wins_over_the_name(test: Harness) {
    test.add_server(&MachineSpec::named("bar"));
    test.join_as(KubeletSpec {
        node_name: "bar".into(),
        machine_id: format!("cloudscale://{A}"),
        provider_id: Some(format!("cloudscale://{A}")),
        ..KubeletSpec::default()
    });
    let node = test.initialized("bar").await;
    assert_eq!(node["spec"]["providerID"], format!("cloudscale://{A}"));
    assert_eq!(addresses(&node)[1], "ExternalIP:203.0.113.11");
}

#[scenario]
async fn cloudscale_case_07_a_malformed_provider_id_is_told_once_and_the_node_is_left_alone(
    test: Harness,
) {
    test.join_as(KubeletSpec {
        node_name: "broken".into(),
        machine_id: format!("cloudscale://{A}"),
        provider_id: Some("cloudscale://invalid".into()),
        ..KubeletSpec::default()
    });
    test.silent_node("silent", Some("cloudscale://as-invalid"))
        .await;
    let message = test.message("broken", "MalformedProviderID").await;
    assert!(message.contains("is not one of cloudscale"), "{message}");
    let (broken, silent) = (test.content("broken"), test.content("silent"));
    test.long(A_WHILE).await;
    assert_eq!(test.content("broken"), broken);
    assert_eq!(test.content("silent"), silent);
    assert_eq!(test.writes_to("/api/v1/nodes*").len(), 0);
    assert_eq!(test.cloud_calls("*").len(), 0);
    assert_eq!(test.messages("broken", "MalformedProviderID").len(), 1);
}

#[scenario]
async fn cloudscale_case_10_the_region_is_the_zone_without_its_number(test: Harness) {
    let south = MachineSpec::named("south").zone("lpg1");
    let uuid = test.add_server(&south);
    test.join("south", &uuid);
    let node = test.initialized("south").await;
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["topology.kubernetes.io/zone"], "lpg1");
    assert_eq!(labels["topology.kubernetes.io/region"], "lpg");
}

#[scenario]
async fn cloudscale_case_11_addresses_keep_the_order_of_the_interfaces(test: Harness) {
    let spec = MachineSpec::named("inside-out")
        .interface("k8s", Some(vec!["10.20.0.31".parse().unwrap()]))
        .interface("public", Some(vec!["203.0.113.31".parse().unwrap()]));
    let uuid = test.add_server(&spec);
    test.join("inside-out", &uuid);
    assert_eq!(
        addresses(&test.initialized("inside-out").await),
        [
            "Hostname:inside-out",
            "InternalIP:10.20.0.31",
            "ExternalIP:203.0.113.31"
        ]
    );
}

#[scenario]
async fn cloudscale_case_12_an_interface_without_addresses_adds_none(test: Harness) {
    let spec = MachineSpec::named("layer-2")
        .interface("k8s", Some(vec![]))
        .interface("public", Some(vec!["203.0.113.32".parse().unwrap()]));
    let uuid = test.add_server(&spec);
    test.join("layer-2", &uuid);
    assert_eq!(
        addresses(&test.initialized("layer-2").await),
        ["Hostname:layer-2", "ExternalIP:203.0.113.32"]
    );
}

#[scenario]
async fn cloudscale_case_13_the_kubelets_address_comes_first_or_the_node_waits(test: Harness) {
    let kubelet = |name: &str, uuid: &str, ip: &str| KubeletSpec {
        node_name: name.into(),
        machine_id: format!("cloudscale://{uuid}"),
        provided_node_ip: Some(ip.into()),
        ..KubeletSpec::default()
    };
    test.join_as(kubelet("worker-a", A, "10.20.0.11"));
    assert_eq!(
        addresses(&test.initialized("worker-a").await),
        [
            "InternalIP:10.20.0.11",
            "Hostname:worker-a",
            "ExternalIP:203.0.113.11",
            "ExternalIP:2001:db8:1:1101::11"
        ]
    );
    let elsewhere = test.add_server(&MachineSpec::named("elsewhere"));
    test.join_as(kubelet("elsewhere", &elsewhere, "10.99.0.1"));
    let message = test.message("elsewhere", "NodeInitializationFailed").await;
    assert!(message.contains("10.99.0.1"), "{message}");
    test.long(A_WHILE).await;
    assert!(has_taint(&test.node("elsewhere"), UNINITIALIZED_TAINT));
    assert_eq!(test.writes_to("/api/v1/nodes/elsewhere*").len(), 0);
}

#[scenario]
async fn cloudscale_case_14_another_spelling_of_the_id_is_understood_and_kept(test: Harness) {
    let shouting = "cloudscale://3F9B1C526A7D4E089C41D2F0A8B7E613";
    test.join_as(KubeletSpec {
        node_name: "worker-a".into(),
        machine_id: format!("cloudscale://{A}"),
        provider_id: Some(shouting.into()),
        ..KubeletSpec::default()
    });
    let node = test.initialized("worker-a").await;
    assert_eq!(node["spec"]["providerID"], shouting);
    assert_eq!(
        node["metadata"]["labels"]["topology.kubernetes.io/zone"],
        "rma1"
    );
}

#[scenario]
async fn cloudscale_case_15_a_renamed_server_leaves_the_node_its_host_name() {
    let test = Harness::with(&[], &["--node-status-update-frequency=10s"]).await;
    test.join("worker-a", A);
    let before = addresses(&test.initialized("worker-a").await);
    test.cloud.rename(A, "acme | node").unwrap();
    let calls = test.cloud_calls("*").len();
    test.until_cloud_calls(calls + 3).await;
    assert_eq!(addresses(&test.node("worker-a")), before);
    // An address that changes is seen all the same.
    let interfaces = json!([{ "type": "public", "addresses": [{ "address": "203.0.113.99" }] }]);
    let members = [("interfaces".to_owned(), interfaces)]
        .into_iter()
        .collect();
    test.cloud.deform(A, members).unwrap();
    let wanted = ["Hostname:worker-a", "ExternalIP:203.0.113.99"];
    let is_there = |it: &TestCluster| addresses(&it.node("worker-a")) == wanted;
    test.until("the new address", is_there).await;
    test.end().await;
}

#[scenario]
async fn many_nodes_that_join_at_once_share_one_list_call(test: Harness) {
    test.join_fleet(50);
    for number in 1..=50 {
        test.initialized(&format!("fleet-{number}")).await;
    }
    let lists = test.cloud_calls("*").len();
    // On a loaded machine they do not join all at once.
    let most = if is_real() { 15 } else { 5 };
    assert!(lists <= most, "{lists} cloud calls for 50 nodes");
    assert_eq!(
        test.writes_to("/api/v1/nodes/*").len(),
        100,
        "two writes per node"
    );
    let node = test.node("fleet-50");
    assert!(text(&node["spec"]["providerID"]).starts_with("cloudscale://"));
}
