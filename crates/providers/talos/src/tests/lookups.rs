//! What nodes get from their machines.

use bowline_test_kit::begins;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudErrorKind, Lookup, Taint};
use bowline_simulator_talos::{Config, MachineSpec, PlatformSpec, Stage as Boot, SystemSpec};
use bowline_talos_api::Single as _;
use bowline_talos_api::specs::PlatformMetadataSpec;
use tokio::time::Instant;

use crate::testing::cluster::{Harness, addresses, cannot_tell, found, id, look};

const ERRORS: &str = r#"talosccm_api_request_errors_total{request="platformmetadata"}"#;

fn hcloud() -> PlatformSpec {
    PlatformSpec {
        platform: "hcloud".into(),
        instance_id: "4711".into(),
        provider_id: "hcloud://4711".into(),
        ..PlatformSpec::default()
    }
}

#[tokio::test(start_paused = true)]
async fn talos_case_12_the_second_address_answers_where_the_first_does_not() {
    let stage = Harness::new();
    stage.metal("w1", &["eth0/fd00:8::11/64"]);
    let cloud = stage.cloud("");
    let instance = found(&cloud, &stage.node("w1", "10.8.0.11,fd00:8::11")).await;
    assert_eq!(id(&instance), "talos://metal/fd00:8::11");
    assert_eq!(stage.metric(ERRORS), 1);
    let count = r#"talosccm_api_request_duration_seconds_count{request="platformmetadata"}"#;
    assert_eq!(stage.metric(count), 2);
}

#[tokio::test(start_paused = true)]
async fn talos_case_11_the_preferred_family_is_asked_first() {
    let stage = Harness::new();
    let own = ["eth0/10.8.0.11/24", "eth0/fd00:8::11/64"];
    stage.metal("w1", &own);
    let node = stage.node("w1", "10.8.0.11,fd00:8::11");
    let first = found(&stage.cloud(""), &node).await;
    assert_eq!(id(&first), "talos://metal/10.8.0.11");
    let cloud = stage.cloud("global: {preferIPv6: true}");
    assert_eq!(id(&found(&cloud, &node).await), "talos://metal/fd00:8::11");
}

#[tokio::test(start_paused = true)]
async fn talos_case_13_without_an_answer_nothing_is_said() {
    let stage = Harness::new();
    let cloud = stage.cloud("");
    let told = cannot_tell(&cloud, &stage.node("w1", "10.8.0.11,fd00:8::11")).await;
    begins(
        &told,
        "error getting metadata from the node w1: 10.0.0.1:50000 answered",
    );
    assert_eq!(stage.metric(ERRORS), 2);
    let told = cannot_tell(&cloud, &stage.node("w1", "nothing")).await;
    assert!(told.contains("from the node w1: the annotation"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn talos_case_14_a_part_with_a_blank_is_no_address() {
    let stage = Harness::new();
    stage.metal("w1", &["eth0/10.8.0.11/24", "eth0/fd00:8::11/64"]);
    let cloud = stage.cloud("");
    let instance = found(&cloud, &stage.node("w1", "10.8.0.11, fd00:8::11")).await;
    assert_eq!(
        addresses(&instance),
        ["InternalIP:10.8.0.11", "Hostname:w1"]
    );
    let labels = &instance.marks.labels;
    assert_eq!(labels["node.cloudprovider.kubernetes.io/platform"], "metal");
}

#[tokio::test(start_paused = true)]
async fn talos_case_15_and_16_without_an_annotation_nobody_is_asked() {
    let stage = Harness::new();
    let cloud = stage.cloud("");
    let mut node = (*stage.node("w1", "")).clone();
    node.annotations.clear();
    let nothing = found(&cloud, &Arc::new(node.clone())).await;
    assert_eq!(nothing, crate::nothing());
    node.os_image.clear();
    let unknown = look(&cloud, &Arc::new(node.clone())).await;
    assert!(matches!(unknown, Lookup::NotMine), "{unknown:?}");
    node.provider_id = Some("foo://1".into());
    let nothing = found(&cloud, &Arc::new(node)).await;
    assert_eq!(nothing, crate::nothing());
    assert_eq!(stage.world.journal.entries(), []);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_run_talos_is_left_to_others() {
    let stage = Harness::with_worker();
    let cloud = stage.cloud("");
    let mut node = (*stage.node("w1", "10.8.0.11")).clone();
    node.os_image = "Debian GNU/Linux 12 (bookworm)".into();
    let node = Arc::new(node);
    assert!(matches!(look(&cloud, &node).await, Lookup::NotMine));
    let nodes = [node];
    let presence = cloud.instances().unwrap().presence(&nodes).await;
    assert!(matches!(presence[..], [Lookup::NotMine]));
    assert_eq!(stage.world.journal.entries(), []);
}

#[tokio::test(start_paused = true)]
async fn talos_case_22_the_clusters_name_comes_from_the_talosconfig_unless_it_is_said() {
    let stage = Harness::with(Config {
        cluster_name: "prod-eu".into(),
        ..Config::default()
    });
    stage.metal("w1", &["eth0/10.8.0.11/24"]);
    let node = stage.node("w1", "10.8.0.11");
    for (config, name) in [("", "prod-eu"), ("global: {clusterName: blue}", "blue")] {
        let instance = found(&stage.cloud(config), &node).await;
        let labels = instance.marks.labels;
        assert_eq!(labels["node.cloudprovider.kubernetes.io/clustername"], name);
    }
}

#[tokio::test(start_paused = true)]
async fn talos_case_25_a_machine_that_does_not_know_its_id_yet_is_waited_for() {
    let stage = Harness::new();
    let boot = MachineSpec::named("w1", &["eth0/10.8.0.11/24"])
        .platform(hcloud())
        .stage(Boot::MetadataPartial);
    stage.add(&boot);
    let (cloud, node) = (stage.cloud(""), stage.node("w1", "10.8.0.11"));
    for _ in 0..10 {
        let told = cannot_tell(&cloud, &node).await;
        assert!(told.contains("does not know its own id yet"), "{told}");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    stage.talos.set_stage("w1", Boot::Ready).unwrap();
    assert_eq!(id(&found(&cloud, &node).await), "hcloud://4711");
}

#[tokio::test(start_paused = true)]
async fn talos_case_26_a_platform_without_ids_is_not_waited_for() {
    let stage = Harness::new();
    let platform = PlatformSpec {
        platform: "nocloud".into(),
        instance_id: "abc".into(),
        ..PlatformSpec::default()
    };
    stage.on("w1", &["eth0/10.8.0.11/24"], platform);
    let instance = found(&stage.cloud(""), &stage.node("w1", "10.8.0.11")).await;
    assert_eq!(id(&instance), "talos://nocloud/10.8.0.11");
}

#[tokio::test(start_paused = true)]
async fn talos_case_27_metadata_that_is_not_there_comes_later() {
    let stage = Harness::with_worker();
    let at = PlatformMetadataSpec::ID;
    let metadata: PlatformMetadataSpec = stage.talos.read("w1", at).unwrap();
    stage
        .talos
        .remove::<PlatformMetadataSpec>("w1", at)
        .unwrap();
    let (cloud, node) = (stage.cloud(""), stage.node("w1", "10.8.0.11"));
    let told = cannot_tell(&cloud, &node).await;
    assert!(told.contains("NotFound: resource"), "{told}");
    let Lookup::CannotTell(error) = look(&cloud, &node).await else {
        panic!("nothing can be told");
    };
    assert_ne!(error.kind(), CloudErrorKind::NotFound, "not of the machine");
    stage.talos.set("w1", at, &metadata).unwrap();
    assert_eq!(id(&found(&cloud, &node).await), "talos://metal/10.8.0.11");
}

#[tokio::test(start_paused = true)]
async fn talos_case_28_the_firmware_is_only_asked_for_where_a_rule_for_the_machine_needs_it() {
    let stage = Harness::new();
    let system = SystemSpec {
        sku_number: "c2-m4".into(),
        ..SystemSpec::default()
    };
    stage.add(&MachineSpec::named("w1", &["eth0/10.8.0.11/24"]).system(system));
    let node = stage.node("w1", "10.8.0.11");
    let elsewhere = "transformations:\n- nodeSelector: [{matchExpressions: [{key: platform, operator: \
                     In, values: [aws]}]}]\n  labels: {sku: \"{{ .SKUNumber }}\"}\n- labels: {a: b}";
    for config in ["", elsewhere] {
        found(&stage.cloud(config), &node).await;
        assert_eq!(stage.asked_for("SystemInformations"), 0, "{config}");
    }
    let here = "transformations: [{labels: {sku: \"{{ .SKUNumber }}\"}}]";
    let instance = found(&stage.cloud(here), &node).await;
    assert_eq!(instance.marks.labels["sku"], "c2-m4");
    assert_eq!(stage.asked_for("SystemInformations"), 1);
}

#[tokio::test(start_paused = true)]
async fn talos_case_49_a_machine_without_firmware_facts_has_empty_ones() {
    let stage = Harness::new();
    stage.add(&MachineSpec::named("w1", &["eth0/10.8.0.11/24"]).without_system());
    let cloud = stage.cloud("transformations: [{labels: {uuid: \"{{ .UUID }}\"}}]");
    let instance = found(&cloud, &stage.node("w1", "10.8.0.11")).await;
    assert_eq!(instance.marks.labels["uuid"], "");
}

#[tokio::test(start_paused = true)]
async fn firmware_that_cannot_be_asked_for_fails_the_node() {
    use bowline_simulator_talos::Failure;
    let stage = Harness::with_worker();
    let cloud = stage.cloud("transformations: [{labels: {uuid: \"{{ .UUID }}\"}}]");
    let node = stage.node("w1", "10.8.0.11");
    found(&cloud, &node).await;
    // The metadata is the first, the firmware the second.
    stage
        .talos
        .fail(Failure::next(tonic::Code::Internal, "first").method("List"));
    let told = cannot_tell(&cloud, &node).await;
    assert_eq!(
        told,
        "error getting interfaces list from the node w1: 10.0.0.1:50000 answered Internal: first"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_fails_is_told_and_counted() {
    let stage = Harness::with_worker();
    let cloud = stage.cloud("transformations: [{name: x, labels: {a: \"{{ slice .Zone 0 9 }}\"}}]");
    let told = cannot_tell(&cloud, &stage.node("w1", "10.8.0.11")).await;
    assert!(told.starts_with("error transforming node: "), "{told}");
    let errors = r#"talosccm_transformer_errors_total{type="transformer"}"#;
    assert_eq!(stage.metric(errors), 1);
}

#[tokio::test(start_paused = true)]
async fn talos_case_58_a_machine_that_never_answers_costs_its_own_node_alone() {
    let stage = Harness::with_worker();
    stage.metal("w2", &["eth0/10.8.0.12/24", "eth0/fd00:8::12/64"]);
    stage.talos.hang("w2", true).unwrap();
    let cloud = stage.cloud("");
    let (w1, w2) = (stage.node("w1", "10.8.0.11"), stage.node("w2", "10.8.0.12"));
    let begun = Instant::now();
    let hanging = async {
        let told = cannot_tell(&cloud, &w2).await;
        (told, begun.elapsed())
    };
    let quick = async {
        found(&cloud, &w1).await;
        begun.elapsed()
    };
    let ((told, late), soon) = tokio::join!(hanging, quick);
    let silence =
        "there is no answer within 10 s from 10.0.0.1:50000 about the machine at 10.8.0.12";
    assert!(told.ends_with(silence), "{told}");
    assert_eq!(late.as_secs(), 10);
    assert!(soon < Duration::from_millis(10), "{soon:?}");

    let pair = stage.node("w2", "10.8.0.12,fd00:8::12");
    let begun = Instant::now();
    let answers = cloud.instances().unwrap();
    let nodes = [w1, pair];
    let answers = answers.lookup(&nodes).await;
    assert!(matches!(
        answers[..],
        [Lookup::Found(_), Lookup::CannotTell(_)]
    ));
    assert_eq!(begun.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn talos_case_90_addresses_keep_the_machines_order() {
    let stage = Harness::new();
    let own = [
        "eth0/10.8.0.11/24",
        "eth10/198.51.100.9/24",
        "eth2/198.51.100.8/24",
    ];
    stage.metal("w1", &own);
    let instance = found(&stage.cloud(""), &stage.node("w1", "10.8.0.11")).await;
    assert_eq!(
        addresses(&instance),
        [
            "InternalIP:10.8.0.11",
            "ExternalIP:198.51.100.9",
            "Hostname:w1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn many_machines_are_asked_at_once_on_one_connection() {
    let stage = Harness::new();
    let nodes: Vec<_> = (0..100)
        .map(|number| {
            let (name, ip) = (format!("w{number}"), format!("10.9.0.{number}"));
            stage.metal(&name, &[&format!("eth0/{ip}/16")]);
            stage.node(&name, &ip)
        })
        .collect();
    let cloud = stage.cloud("");
    let answers = cloud.instances().unwrap().lookup(&nodes).await;
    for (answer, node) in answers.iter().zip(&nodes) {
        let Lookup::Found(instance) = answer else {
            panic!("{}: {answer:?}", node.name);
        };
        let ip = node.provided_node_ip().unwrap();
        assert_eq!(id(instance), format!("talos://metal/{ip}"));
    }
    for node in &nodes {
        stage.talos.hang(&node.name, true).unwrap();
    }
    let begun = Instant::now();
    let answers = cloud.instances().unwrap().lookup(&nodes).await;
    assert!(answers.iter().all(|it| matches!(it, Lookup::CannotTell(_))));
    assert_eq!(begun.elapsed().as_secs(), 10, "all are waited for at once");
}

#[tokio::test(start_paused = true)]
async fn talos_case_59_presence_is_told_by_the_node_and_the_check_read_asks_an_endpoint() {
    let mut stage = Harness::new();
    let cloud = stage.cloud("");
    let mut gone = (*stage.node("n1", "10.0.0.5")).clone();
    gone.provider_id = Some("gce://p/z/n1".into());
    gone.taints = vec![Taint::new("node.kubernetes.io/not-ready", "", "NoExecute")];
    for (key, value) in [("platform", "gcp"), ("lifecycle", "spot")] {
        let key = format!("node.cloudprovider.kubernetes.io/{key}");
        gone.labels.insert(key, value.into());
    }
    let mut there = gone.clone();
    there.labels.clear();
    tokio::time::sleep(Duration::from_secs(300)).await;
    let nodes = [Arc::new(gone), Arc::new(there)];
    let instances = cloud.instances().unwrap();
    let presence = instances.presence(&nodes).await;
    assert!(
        matches!(presence[..], [Lookup::Gone(_), Lookup::Found(_)]),
        "{presence:?}"
    );
    assert_eq!(stage.world.journal.entries(), []);
    instances.canary().await.unwrap();
    stage.silence().await;
    stage.talos.drop_connections();
    let error = instances.canary().await.unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
}
