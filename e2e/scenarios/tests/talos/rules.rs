//! Rules of the cloud config, on nodes.

use bowline_controllers::metrics::Metrics;
use bowline_scenarios::objects::{UNINITIALIZED, has_taint, is_uninitialized, labels, taints};
use bowline_scenarios::scenario;
use bowline_scenarios::talos::{Beginning, Need};
use bowline_simulator_talos::{MachineSpec, PlatformSpec, SystemSpec};
use serde_json::Value;

use crate::talos::harness::{Harness, PLATFORM, cloud_platform, platform};

fn annotation<'a>(node: &'a Value, key: &str) -> &'a Value {
    &node["metadata"]["annotations"][key]
}

fn in_zone(zone: &str) -> PlatformSpec {
    PlatformSpec {
        zone: zone.into(),
        ..PlatformSpec::default()
    }
}

/// The taints that a node has besides those of its conditions.
fn own_taints(node: &Value) -> Vec<String> {
    let mut all = taints(node);
    all.retain(|it| !it.starts_with("node.kubernetes.io/"));
    all
}

#[scenario]
async fn talos_case_28_without_rules_the_firmware_is_not_asked() {
    let harness = Harness::configured("").await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    harness.ready("w1").await;
    harness.rounds("10.8.0.11", 2).await;
    assert_eq!(harness.asked("*SystemInformations*"), []);
    harness.end().await;
}

#[scenario]
async fn talos_case_36_rules_do_not_see_what_earlier_ones_changed() {
    let harness = Harness::configured(
        "
transformations:
- {name: place, platformMetadata: {Zone: z-new}}
- name: hit
  nodeSelector: [{matchExpressions: [{key: zone, operator: In, values: [z-new]}]}]
  labels: {hit: 'yes'}
- {name: copy, labels: {zone-copy: '{{ .Zone }}'}}
",
    )
    .await;
    harness.join_on("w1", &["eth0/10.8.0.11/24"], in_zone("z-old"));
    let all = labels(&harness.ready("w1").await);
    assert_eq!(all["topology.kubernetes.io/zone"], "z-new");
    assert_eq!(all["failure-domain.beta.kubernetes.io/zone"], "z-new");
    assert_eq!(all.get("hit"), None);
    assert_eq!(all["zone-copy"], "z-old");
    harness.end().await;
}

#[scenario]
async fn talos_case_37_later_rules_win_and_81_over_what_is_always_there() {
    let harness = Harness::configured(&format!(
        "transformations: [{{labels: {{tier: a}}}}, {{labels: {{tier: b, {PLATFORM}: over}}}}]"
    ))
    .await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let all = labels(&harness.ready("w1").await);
    assert_eq!((&*all["tier"], &*all[PLATFORM]), ("b", "over"));
    harness.end().await;
}

#[scenario]
async fn talos_case_40_a_rule_gives_a_machine_the_id_of_its_cloud_and_41_its_type() {
    let harness = Harness::configured(
        "
transformations:
- platformMetadata:
    ProviderID: 'cloudscale://{{ .InstanceID }}'
    InstanceType: '{{ coalesce .InstanceType .SKUNumber }}'
",
    )
    .await;
    let system = SystemSpec {
        sku_number: "c2-m4".into(),
        ..SystemSpec::default()
    };
    let reported = PlatformSpec {
        instance_id: "u-1".into(),
        ..platform("nocloud")
    };
    let machine = MachineSpec::named("w1", &["eth0/10.8.0.11/24"]);
    let machine = machine.platform(reported).system(system);
    harness.cloud.add_machine(&machine).unwrap();
    harness.join("w1");
    let node = harness.ready("w1").await;
    assert_eq!(node["spec"]["providerID"], "cloudscale://u-1");
    let all = labels(&node);
    assert_eq!(all["node.kubernetes.io/instance-type"], "c2-m4");
    assert_eq!(all["beta.kubernetes.io/instance-type"], "c2-m4");
    harness.end().await;
}

#[scenario]
async fn talos_case_42_a_role_is_a_label_although_it_is_in_kubernetes_name_space() {
    let config = "transformations: [{labels: {node-role.kubernetes.io/web: ''}}]";
    let harness = Harness::configured(config).await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let all = labels(&harness.ready("w1").await);
    assert_eq!(all["node-role.kubernetes.io/web"], "");
    harness.end().await;
}

#[scenario]
async fn talos_case_44_annotations_are_written_once() {
    let config = "transformations: [{annotations: {x.example/id: 'id-{{ .InstanceID }}'}}]";
    let harness = Harness::configured(config).await;
    harness.join_on(
        "w1",
        &["eth0/10.8.0.11/24"],
        cloud_platform("hcloud", "hcloud://4711"),
    );
    let node = harness.ready("w1").await;
    assert_eq!(annotation(&node, "x.example/id"), "id-4711");
    let before = harness.node_changes("w1").len();
    harness.rounds("10.8.0.11", 3).await;
    assert_eq!(harness.node_changes("w1").len(), before);
    // It is the rule's all the same.
    harness
        .change("w1", |node| {
            node["metadata"]["annotations"]["x.example/id"] = "mine".into();
        })
        .await;
    let is_back = |it: &bowline_scenarios::TestCluster| {
        annotation(&it.node("w1"), "x.example/id") == "id-4711"
    };
    harness.until("the annotation is back", is_back).await;
    harness.end().await;
}

const STORAGE: &str = "node.cloudprovider.kubernetes.io/storage-type";

#[scenario]
async fn talos_case_45_a_taint_of_a_rule_is_there_before_the_node_is_and_is_given_once() {
    let config = format!("transformations: [{{taints: {{{STORAGE}: 'ceph:NoSchedule'}}}}]");
    let harness = Harness::configured(&config).await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let node = harness.ready("w1").await;
    assert_eq!(own_taints(&node), [format!("{STORAGE}=ceph:NoSchedule")]);
    for version in harness.versions("w1") {
        let keeps_away = has_taint(&version, UNINITIALIZED) || has_taint(&version, STORAGE);
        assert!(
            keeps_away,
            "nothing keeps pods away: {:?}",
            taints(&version)
        );
    }
    harness
        .change("w1", |node| {
            let all = node["spec"]["taints"].as_array_mut().unwrap();
            all.retain(|it| it["key"] != STORAGE);
        })
        .await;
    harness.rounds("10.8.0.11", 3).await;
    assert_eq!(own_taints(&harness.node("w1")), [""; 0]);
    harness.end().await;
}

#[scenario]
async fn talos_case_47_taints_are_templates() {
    let config = "transformations: [{taints: {rack: '{{ .Zone }}:NoExecute', k: NoSchedule}}]";
    let harness = Harness::configured(config).await;
    harness.join_on("w1", &["eth0/10.8.0.11/24"], in_zone("z1"));
    let mut found = own_taints(&harness.ready("w1").await);
    found.sort();
    assert_eq!(found, ["k:NoSchedule", "rack=z1:NoExecute"]);
    harness.end().await;
}

const BROKEN: &str = "
transformations:
- name: broken
  nodeSelector: [{matchExpressions: [{key: platform, operator: In, values: [nocloud]}]}]
  labels: {a: 'my-{{ .Spot'}
- {name: good, labels: {b: c}}
";

#[scenario]
async fn talos_case_50_a_broken_rule_holds_up_those_it_is_for_and_nobody_else() {
    let harness = Harness::configured(BROKEN).await;
    harness.assert_said("broken");
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    harness.join_on("w2", &["eth0/10.8.0.12/24"], platform("nocloud"));
    assert_eq!(labels(&harness.ready("w1").await)["b"], "c");
    let reported = harness.message("w2", "NodeInitializationFailed").await;
    assert!(reported.contains("broken"), "{reported}");
    harness.long(300).await;
    assert!(is_uninitialized(&harness.node("w2")));
    assert_eq!(harness.node_changes("w2"), []);
    // Repaired, and the node is initialised without a new process.
    harness
        .cloud
        .configure(&BROKEN.replace("my-{{ .Spot", "my-{{ .Spot }}"));
    assert_eq!(labels(&harness.ready("w2").await)["a"], "my-false");
    harness.end().await;
}

#[scenario]
async fn talos_case_50_a_broken_rule_for_all_nodes_lets_nothing_start() {
    let config = "transformations: [{name: all, labels: {a: 'my-{{ .Spot'}}]";
    let harness = Harness::idle(Beginning {
        config,
        ..Beginning::default()
    })
    .await;
    let made = harness
        .cloud
        .cloud(&harness.world, &Metrics::new(), Need::Machines);
    let reported = made.err().unwrap().to_string();
    for part in ["ccm-config.yaml", "all", "labels"] {
        assert!(reported.contains(part), "{reported}");
    }
}

#[scenario]
async fn talos_case_80_a_zone_that_is_no_label_value_is_left_out_and_the_node_is_initialised() {
    // The original has the API server refuse the whole node, for ever.
    let config = "transformations: [{platformMetadata: {Zone: zone one, Region: r1}}]";
    let harness = Harness::configured(config).await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let node = harness.ready("w1").await;
    assert_eq!(node["spec"]["providerID"], "talos://metal/10.8.0.11");
    let all = labels(&node);
    assert_eq!(all.get("topology.kubernetes.io/zone"), None);
    assert_eq!(all.get("failure-domain.beta.kubernetes.io/zone"), None);
    assert_eq!(all["topology.kubernetes.io/region"], "r1");
    harness.assert_said("zone one");
    harness.end().await;
}
