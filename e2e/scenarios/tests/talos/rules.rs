//! Rules of the cloud config, on nodes.

use bowline_controllers::metrics::Metrics;
use bowline_scenarios::objects::{UNINITIALIZED, has_taint, is_uninitialized, labels, taints};
use bowline_scenarios::scenario;
use bowline_scenarios::talos::{Beginning, Need};
use bowline_simulator_talos::{MachineSpec, PlatformSpec, SystemSpec};
use serde_json::Value;

use crate::stage::{PLATFORM, Stage, cloud_platform, platform};

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
    let stage = Stage::configured("").await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    stage.ready("w1").await;
    stage.rounds("10.8.0.11", 2).await;
    assert_eq!(stage.asked("*SystemInformations*"), []);
    stage.end().await;
}

#[scenario]
async fn talos_case_36_rules_do_not_see_what_earlier_ones_changed() {
    let stage = Stage::configured(
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
    stage.join_on("w1", &["eth0/10.8.0.11/24"], in_zone("z-old"));
    let all = labels(&stage.ready("w1").await);
    assert_eq!(all["topology.kubernetes.io/zone"], "z-new");
    assert_eq!(all["failure-domain.beta.kubernetes.io/zone"], "z-new");
    assert_eq!(all.get("hit"), None);
    assert_eq!(all["zone-copy"], "z-old");
    stage.end().await;
}

#[scenario]
async fn talos_case_37_later_rules_win_and_81_over_what_is_always_there() {
    let stage = Stage::configured(&format!(
        "transformations: [{{labels: {{tier: a}}}}, {{labels: {{tier: b, {PLATFORM}: over}}}}]"
    ))
    .await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let all = labels(&stage.ready("w1").await);
    assert_eq!((&*all["tier"], &*all[PLATFORM]), ("b", "over"));
    stage.end().await;
}

#[scenario]
async fn talos_case_40_a_rule_gives_a_machine_the_id_of_its_cloud_and_41_its_type() {
    let stage = Stage::configured(
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
    let told = PlatformSpec {
        instance_id: "u-1".into(),
        ..platform("nocloud")
    };
    let machine = MachineSpec::named("w1", &["eth0/10.8.0.11/24"]);
    let machine = machine.platform(told).system(system);
    stage.cloud.add_machine(&machine).unwrap();
    stage.join("w1");
    let node = stage.ready("w1").await;
    assert_eq!(node["spec"]["providerID"], "cloudscale://u-1");
    let all = labels(&node);
    assert_eq!(all["node.kubernetes.io/instance-type"], "c2-m4");
    assert_eq!(all["beta.kubernetes.io/instance-type"], "c2-m4");
    stage.end().await;
}

#[scenario]
async fn talos_case_42_a_role_is_a_label_although_it_is_in_kubernetes_name_space() {
    let config = "transformations: [{labels: {node-role.kubernetes.io/web: ''}}]";
    let stage = Stage::configured(config).await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let all = labels(&stage.ready("w1").await);
    assert_eq!(all["node-role.kubernetes.io/web"], "");
    stage.end().await;
}

#[scenario]
async fn talos_case_44_annotations_are_written_once() {
    let config = "transformations: [{annotations: {x.example/id: 'id-{{ .InstanceID }}'}}]";
    let stage = Stage::configured(config).await;
    stage.join_on(
        "w1",
        &["eth0/10.8.0.11/24"],
        cloud_platform("hcloud", "hcloud://4711"),
    );
    let node = stage.ready("w1").await;
    assert_eq!(annotation(&node, "x.example/id"), "id-4711");
    let before = stage.node_changes("w1").len();
    stage.rounds("10.8.0.11", 3).await;
    assert_eq!(stage.node_changes("w1").len(), before);
    // It is the rule's all the same.
    stage
        .change("w1", |node| {
            node["metadata"]["annotations"]["x.example/id"] = "mine".into();
        })
        .await;
    let is_back = |it: &bowline_scenarios::TestCluster| {
        annotation(&it.node("w1"), "x.example/id") == "id-4711"
    };
    stage.until("the annotation is back", is_back).await;
    stage.end().await;
}

const STORAGE: &str = "node.cloudprovider.kubernetes.io/storage-type";

#[scenario]
async fn talos_case_45_a_taint_of_a_rule_is_there_before_the_node_is_and_is_given_once() {
    let config = format!("transformations: [{{taints: {{{STORAGE}: 'ceph:NoSchedule'}}}}]");
    let stage = Stage::configured(&config).await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let node = stage.ready("w1").await;
    assert_eq!(own_taints(&node), [format!("{STORAGE}=ceph:NoSchedule")]);
    for version in stage.versions("w1") {
        let keeps_away = has_taint(&version, UNINITIALIZED) || has_taint(&version, STORAGE);
        assert!(
            keeps_away,
            "nothing keeps pods away: {:?}",
            taints(&version)
        );
    }
    stage
        .change("w1", |node| {
            let all = node["spec"]["taints"].as_array_mut().unwrap();
            all.retain(|it| it["key"] != STORAGE);
        })
        .await;
    stage.rounds("10.8.0.11", 3).await;
    assert_eq!(own_taints(&stage.node("w1")), [""; 0]);
    stage.end().await;
}

#[scenario]
async fn talos_case_47_taints_are_templates() {
    let config = "transformations: [{taints: {rack: '{{ .Zone }}:NoExecute', k: NoSchedule}}]";
    let stage = Stage::configured(config).await;
    stage.join_on("w1", &["eth0/10.8.0.11/24"], in_zone("z1"));
    let mut found = own_taints(&stage.ready("w1").await);
    found.sort();
    assert_eq!(found, ["k:NoSchedule", "rack=z1:NoExecute"]);
    stage.end().await;
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
    let stage = Stage::configured(BROKEN).await;
    stage.assert_said("broken");
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    stage.join_on("w2", &["eth0/10.8.0.12/24"], platform("nocloud"));
    assert_eq!(labels(&stage.ready("w1").await)["b"], "c");
    let told = stage.message("w2", "NodeInitializationFailed").await;
    assert!(told.contains("broken"), "{told}");
    stage.long(300).await;
    assert!(is_uninitialized(&stage.node("w2")));
    assert_eq!(stage.node_changes("w2"), []);
    // Repaired, and the node is initialised without a new process.
    stage
        .cloud
        .configure(&BROKEN.replace("my-{{ .Spot", "my-{{ .Spot }}"));
    assert_eq!(labels(&stage.ready("w2").await)["a"], "my-false");
    stage.end().await;
}

#[scenario]
async fn talos_case_50_a_broken_rule_for_all_nodes_lets_nothing_start() {
    let config = "transformations: [{name: all, labels: {a: 'my-{{ .Spot'}}]";
    let stage = Stage::idle(Beginning {
        config,
        ..Beginning::default()
    })
    .await;
    let made = stage
        .cloud
        .cloud(&stage.world, &Metrics::new(), Need::Machines);
    let told = made.err().unwrap().to_string();
    for part in ["ccm-config.yaml", "all", "labels"] {
        assert!(told.contains(part), "{told}");
    }
}

#[scenario]
async fn talos_case_80_a_zone_that_is_no_label_value_is_left_out_and_the_node_is_initialised() {
    // The original has the API server refuse the whole node, for ever.
    let config = "transformations: [{platformMetadata: {Zone: zone one, Region: r1}}]";
    let stage = Stage::configured(config).await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let node = stage.ready("w1").await;
    assert_eq!(node["spec"]["providerID"], "talos://metal/10.8.0.11");
    let all = labels(&node);
    assert_eq!(all.get("topology.kubernetes.io/zone"), None);
    assert_eq!(all.get("failure-domain.beta.kubernetes.io/zone"), None);
    assert_eq!(all["topology.kubernetes.io/region"], "r1");
    stage.assert_said("zone one");
    stage.end().await;
}
