//! New nodes: what their machines say about them, and what becomes of it.

use std::time::Duration;

use bowline_scenarios::objects::{PROVIDED_NODE_IP, addresses, is_uninitialized, labels, taints};
use bowline_scenarios::talos::{Beginning, CONTROLLERS};
use bowline_scenarios::{is_real, scenario};
use bowline_simulator::KubeletSpec;
use bowline_simulator_talos::{MachineSpec, PlatformSpec, Stage};
use serde_json::json;

use crate::talos::harness::{
    CLUSTER, Harness, LIFECYCLE, METADATA_ERRORS, OFTEN, PLATFORM, cloud_platform, platform,
    talos_node,
};

/// The labels of pairs that a cloud can give.
const PAIRS: [(&str, &str); 3] = [
    (
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/zone",
    ),
    (
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/region",
    ),
    (
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
    ),
];
/// Long enough for every back-off to have run through several times.
const A_WHILE: u64 = 300;

#[scenario]
async fn talos_case_01_a_machine_on_metal_is_called_by_its_address(harness: Harness) {
    harness.join_metal(
        "w1",
        &["eth0/10.8.0.11/24", "eth0/fe80::1/64", "lo/127.0.0.1/8"],
    );
    let node = harness.ready("w1").await;
    assert_eq!(node["spec"]["providerID"], "talos://metal/10.8.0.11");
    assert_eq!(addresses(&node), ["InternalIP:10.8.0.11", "Hostname:w1"]);
    let all = labels(&node);
    assert_eq!(all[PLATFORM], "metal");
    let absent = PAIRS.iter().flat_map(|(one, other)| [one, other]);
    for key in absent.chain([&LIFECYCLE, &CLUSTER]) {
        assert!(!all.contains_key(*key), "{key}: {all:?}");
    }
    let reported = harness.message("w1", "Synced").await;
    assert_eq!(reported, "Node synced successfully");
    harness.until_ready("w1", "True").await;
}

#[scenario]
async fn talos_case_02_a_machine_at_a_cloud_has_the_clouds_id_place_and_type(harness: Harness) {
    let id = "9f6a1c00-0000-4000-8000-000000000001";
    let reported = PlatformSpec {
        hostname: "n2".into(),
        region: "ch-gva-2".into(),
        zone: "ch-gva-2".into(),
        instance_type: "standard.medium".into(),
        ..cloud_platform("exoscale", &format!("exoscale://{id}"))
    };
    harness.join_on(
        "n2",
        &["eth0/10.1.0.2/24", "external/194.182.160.5/32"],
        reported,
    );
    let node = harness.ready("n2").await;
    assert_eq!(node["spec"]["providerID"], format!("exoscale://{id}"));
    assert_eq!(
        addresses(&node),
        [
            "InternalIP:10.1.0.2",
            "ExternalIP:194.182.160.5",
            "Hostname:n2"
        ]
    );
    let all = labels(&node);
    for ((one, other), value) in PAIRS
        .iter()
        .zip(["ch-gva-2", "ch-gva-2", "standard.medium"])
    {
        assert_eq!((&*all[*one], &*all[*other]), (value, value));
    }
}

#[scenario]
async fn talos_case_03_public_addresses_are_found_on_the_links_of_metal(harness: Harness) {
    let machine = MachineSpec::named(
        "w1",
        &[
            "cilium_host/203.0.113.99/32",
            "dummy0/203.0.113.98/32",
            "eth0/10.8.0.11/24",
            "eth0/198.51.100.7/24",
            "eth0/2001:db8:8:0:aaaa:bbbb:cccc:dddd/64(256)",
            "eth0/2001:db8:8::7/64(128)",
            "kubespan/fdaa::1/128",
            "lo/::1/128",
            "siderolink/fdbb::2/64",
        ],
    );
    let machine = machine.node_ips(&["10.8.0.11".parse().unwrap()]);
    harness.cloud.add_machine(&machine).unwrap();
    harness.join("w1");
    assert_eq!(
        addresses(&harness.ready("w1").await),
        [
            "InternalIP:10.8.0.11",
            "ExternalIP:198.51.100.7",
            "ExternalIP:2001:db8:8::7",
            "Hostname:w1"
        ]
    );
}

#[scenario]
async fn talos_case_10_two_families_are_written_as_the_kubelet_has_them(harness: Harness) {
    harness.cloud.add(
        "w1",
        &["eth0/10.8.0.11/24", "eth0/fd00:8::11/64"],
        PlatformSpec::default(),
    );
    // Not the usual text of the address.
    harness
        .create(talos_node("w1", Some("10.8.0.11,fd00:8:0::11")))
        .await;
    let node = harness.ready("w1").await;
    assert_eq!(
        addresses(&node),
        [
            "InternalIP:10.8.0.11",
            "InternalIP:fd00:8::11",
            "Hostname:w1"
        ]
    );
    assert_eq!(node["spec"]["providerID"], "talos://metal/10.8.0.11");
}

#[scenario]
async fn talos_case_11_ipv6_is_asked_first_where_it_is_preferred() {
    let harness = Harness::configured("global: {preferIPv6: true}").await;
    harness.join_metal(
        "w1",
        &[
            "eth0/10.8.0.11/24",
            "eth0/198.51.100.7/24",
            "eth0/fd00:8::11/64",
            "eth0/2001:db8:8::7/64",
        ],
    );
    let node = harness.ready("w1").await;
    let first = harness.asked("*&node=*").remove(0);
    assert_eq!(first.body["node"], "fd00:8::11");
    assert_eq!(node["spec"]["providerID"], "talos://metal/fd00:8::11");
    assert_eq!(
        addresses(&node),
        [
            "InternalIP:10.8.0.11",
            "InternalIP:fd00:8::11",
            "ExternalIP:2001:db8:8::7",
            "ExternalIP:198.51.100.7",
            "Hostname:w1"
        ]
    );
    harness.end().await;
}

#[scenario]
async fn talos_case_12_a_machine_is_asked_by_its_other_address_where_the_first_is_silent(
    harness: Harness,
) {
    // Nobody has the first one.
    harness
        .cloud
        .add("w1", &["eth0/fd00:8::11/64"], PlatformSpec::default());
    harness.join_as(KubeletSpec {
        provided_node_ip: Some("10.8.0.11,fd00:8::11".into()),
        ..harness.cloud.kubelet("w1").unwrap()
    });
    let node = harness.ready("w1").await;
    assert_eq!(node["spec"]["providerID"], "talos://metal/fd00:8::11");
    assert_eq!(harness.counted(METADATA_ERRORS), 1);
}

#[scenario]
async fn talos_case_13_while_a_machine_cannot_be_reached_its_node_waits_untouched(
    harness: Harness,
) {
    let before = talos_node("w1", Some("10.8.0.11,fd00:8::11"));
    harness.create(before.clone()).await;
    let reported = harness.message("w1", "NodeInitializationFailed").await;
    assert!(
        reported.contains("error getting metadata from the node w1"),
        "{reported}"
    );
    harness.long(A_WHILE).await;
    let node = harness.node("w1");
    assert!(is_uninitialized(&node));
    assert_eq!(node["spec"].get("providerID"), None);
    assert_eq!(harness.node_changes("w1"), []);
    assert!(harness.counted(METADATA_ERRORS) >= 4, "it is tried again");
    harness.cloud.add(
        "w1",
        &["eth0/10.8.0.11/24", "eth0/fd00:8::11/64"],
        PlatformSpec::default(),
    );
    harness.ready("w1").await;
}

#[scenario]
async fn talos_case_14_a_blank_in_the_annotation_keeps_the_node_waiting(harness: Harness) {
    harness
        .cloud
        .add("w1", &["eth0/10.8.0.11/24"], PlatformSpec::default());
    harness
        .create(talos_node("w1", Some("10.8.0.11, fd00:8::11")))
        .await;
    harness.message("w1", "NodeInitializationFailed").await;
    harness.long(A_WHILE).await;
    let node = harness.node("w1");
    assert!(is_uninitialized(&node));
    assert_eq!(
        labels(&node)[PLATFORM],
        "metal",
        "what is reported is written"
    );
    assert_eq!(node["spec"].get("providerID"), None);
}

#[scenario]
async fn talos_case_15_without_an_address_there_is_no_id(harness: Harness) {
    harness.create(talos_node("w1", None)).await;
    let reported = harness.message("w1", "NodeInitializationFailed").await;
    let wanted = "cloud provider does not set node provider ID for node w1";
    assert!(reported.contains(wanted), "{reported}");
    harness.long(A_WHILE).await;
    assert!(is_uninitialized(&harness.node("w1")));
    assert_eq!(harness.node_changes("w1"), []);
    assert_eq!(harness.asked("*&node=*"), []);
}

#[scenario]
async fn talos_case_16_without_an_address_an_id_of_the_kubelet_is_enough(harness: Harness) {
    let mut node = talos_node("w1", None);
    node["spec"]["providerID"] = "foo://1".into();
    harness.create(node).await;
    let before = harness.content("w1");
    harness.ready("w1").await;
    let mut after = harness.content("w1");
    assert_eq!(after["taints"], json!([]));
    after["taints"] = before["taints"].clone();
    assert_eq!(after, before);
    assert_eq!(harness.asked("*&node=*"), []);
}

#[scenario]
async fn talos_case_17_a_full_host_name_is_told_as_the_internal_one(harness: Harness) {
    let reported = PlatformSpec {
        hostname: "n5.corp.example".into(),
        ..PlatformSpec::default()
    };
    harness.join_on("n5", &["eth0/10.8.0.15/24"], reported);
    let list = addresses(&harness.ready("n5").await);
    assert_eq!(list[1..], ["Hostname:n5", "InternalDNS:n5.corp.example"]);
}

#[scenario]
async fn talos_case_20_a_machine_of_azure_without_an_id_waits(harness: Harness) {
    harness.join_on("w1", &["eth0/10.8.0.11/24"], platform("azure"));
    harness.message("w1", "NodeInitializationFailed").await;
    // Longer than anybody's patience.
    harness.long(900).await;
    assert!(is_uninitialized(&harness.node("w1")));
    assert_eq!(harness.node_changes("w1"), []);
}

#[scenario(only_in_memory = "back-off takes twenty minutes of the clock to become long")]
async fn a_machine_that_waits_for_its_metadata_is_asked_at_least_once_a_minute(harness: Harness) {
    let own = ["eth0/10.8.0.11/24"];
    harness.cloud.add("w1", &own, platform("azure"));
    harness.create(talos_node("w1", Some("10.8.0.11"))).await;
    harness.seconds(1200).await;
    let query = "*node=10.8.0.11&type=PlatformMetadatas*";
    let before = harness.asked(query).len();
    harness.seconds(600).await;
    let more = harness.asked(query).len() - before;
    assert!(more >= 9, "asked {more} times in ten minutes");
}

#[scenario]
async fn talos_case_21_a_spot_machine_is_labelled_and_stays_so() {
    let harness = Harness::configured("").await;
    let reported = PlatformSpec {
        spot: true,
        ..cloud_platform("gcp", "gce://p/z/n21")
    };
    harness.join_on("n21", &["eth0/10.8.0.21/32"], reported);
    assert_eq!(labels(&harness.ready("n21").await)[LIFECYCLE], "spot");
    harness
        .cloud
        .edit_platform("n21", |it| it.spot = false)
        .unwrap();
    harness.rounds("10.8.0.21", 2).await;
    assert_eq!(labels(&harness.node("n21"))[LIFECYCLE], "spot");
    harness.end().await;
}

#[scenario]
async fn talos_case_22_the_clusters_name_comes_from_the_file_or_from_the_credentials() {
    for (config, wanted) in [
        ("", Some("prod-eu")),
        ("global: {clusterName: blue}", Some("blue")),
        ("global: {clusterName: my cluster}", None),
    ] {
        let harness = Harness::with(Beginning {
            cluster: "cluster_name: prod-eu",
            config,
            ..Beginning::default()
        })
        .await;
        harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
        let all = labels(&harness.ready("w1").await);
        assert_eq!(all.get(CLUSTER).map(String::as_str), wanted, "{config}");
        assert_eq!(all[PLATFORM], "metal");
        harness.end().await;
    }
}

#[scenario]
async fn talos_case_25_a_machine_that_does_not_know_its_id_yet_is_waited_for(harness: Harness) {
    let machine = MachineSpec::named("w1", &["eth0/10.8.0.11/32"]);
    let machine = machine.platform(cloud_platform("hcloud", "hcloud://4711"));
    let machine = machine.stage(Stage::MetadataPartial);
    harness.cloud.add_machine(&machine).unwrap();
    harness.join("w1");
    let reported = harness.message("w1", "NodeInitializationFailed").await;
    assert!(
        reported.contains("does not know its own id yet"),
        "{reported}"
    );
    harness.seconds(20).await;
    assert_eq!(harness.node_changes("w1"), [], "nothing is written before");
    harness.cloud.set_stage("w1", Stage::Ready).unwrap();
    let node = harness.ready("w1").await;
    assert_eq!(node["spec"]["providerID"], "hcloud://4711");
    for version in harness.versions("w1") {
        let id = version["spec"]["providerID"].as_str().unwrap_or_default();
        assert!(!id.starts_with("talos:"), "{id}");
    }
}

#[scenario]
async fn talos_case_26_a_platform_without_ids_is_not_waited_for(harness: Harness) {
    let reported = PlatformSpec {
        instance_id: "abc".into(),
        ..platform("nocloud")
    };
    harness.join_on("w1", &["eth0/10.8.0.11/24"], reported);
    let node = harness.ready("w1").await;
    assert_eq!(node["spec"]["providerID"], "talos://nocloud/10.8.0.11");
    assert_eq!(harness.event_count("w1", "NodeInitializationFailed"), 0);
}

#[scenario]
async fn talos_case_27_metadata_that_comes_later_is_waited_for(harness: Harness) {
    harness
        .cloud
        .add("w1", &["eth0/10.8.0.11/24"], platform("metal"));
    let metadata = json!({
        "machine": "w1", "namespace": "runtime", "type": "PlatformMetadatas.talos.dev",
        "id": "platformmetadata",
    });
    harness.cloud.carry_out("remove-resource", &metadata);
    harness.join("w1");
    let reported = harness.message("w1", "NodeInitializationFailed").await;
    assert!(reported.contains("doesn't exist"), "{reported}");
    harness.seconds(10).await;
    assert!(is_uninitialized(&harness.node("w1")));
    harness.cloud.edit_platform("w1", |_| ()).unwrap();
    harness.ready("w1").await;
}

#[scenario]
async fn a_node_of_a_machine_without_talos_is_left_alone() {
    let flags = [CONTROLLERS, OFTEN];
    let harness = Harness::with(Beginning {
        flags: &flags,
        ..Beginning::default()
    })
    .await;
    // Somebody is there who would answer.
    harness
        .cloud
        .add("debian", &["eth0/10.8.0.66/24"], PlatformSpec::default());
    harness.join_as(KubeletSpec {
        os_image: "Debian GNU/Linux 12 (bookworm)".into(),
        ..harness.cloud.kubelet("debian").unwrap()
    });
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    harness.ready("w1").await;
    let time = if is_real() { 30 } else { 3600 };
    harness.pass(Duration::from_secs(time)).await;
    let node = harness.node("debian");
    assert!(is_uninitialized(&node), "{:?}", taints(&node));
    assert_eq!(
        node["metadata"]["annotations"][PROVIDED_NODE_IP],
        "10.8.0.66"
    );
    assert_eq!(harness.node_changes("debian"), []);
    assert_eq!(harness.asked("*node=10.8.0.66*"), []);
    assert_eq!(harness.event_count("debian", "NodeInitializationFailed"), 0);
    harness.end().await;
}
