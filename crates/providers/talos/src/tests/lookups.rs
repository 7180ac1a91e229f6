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
    let harness = Harness::new();
    harness.metal("w1", &["eth0/fd00:8::11/64"]);
    let cloud = harness.cloud("");
    let instance = found(&cloud, &harness.node("w1", "10.8.0.11,fd00:8::11")).await;
    assert_eq!(id(&instance), "talos://metal/fd00:8::11");
    assert_eq!(harness.metric(ERRORS), 1);
    let count = r#"talosccm_api_request_duration_seconds_count{request="platformmetadata"}"#;
    assert_eq!(harness.metric(count), 2);
}

#[tokio::test(start_paused = true)]
async fn talos_case_11_the_preferred_family_is_asked_first() {
    let harness = Harness::new();
    let own = ["eth0/10.8.0.11/24", "eth0/fd00:8::11/64"];
    harness.metal("w1", &own);
    let node = harness.node("w1", "10.8.0.11,fd00:8::11");
    let first = found(&harness.cloud(""), &node).await;
    assert_eq!(id(&first), "talos://metal/10.8.0.11");
    let cloud = harness.cloud("global: {preferIPv6: true}");
    assert_eq!(id(&found(&cloud, &node).await), "talos://metal/fd00:8::11");
}

#[tokio::test(start_paused = true)]
async fn talos_case_13_without_an_answer_nothing_is_said() {
    let harness = Harness::new();
    let cloud = harness.cloud("");
    let error = cannot_tell(&cloud, &harness.node("w1", "10.8.0.11,fd00:8::11")).await;
    begins(
        &error,
        "error getting metadata from the node w1: 10.0.0.1:50000 answered",
    );
    assert_eq!(harness.metric(ERRORS), 2);
    let error = cannot_tell(&cloud, &harness.node("w1", "nothing")).await;
    assert!(
        error.contains("from the node w1: the annotation"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn talos_case_14_a_part_with_a_blank_is_no_address() {
    let harness = Harness::new();
    harness.metal("w1", &["eth0/10.8.0.11/24", "eth0/fd00:8::11/64"]);
    let cloud = harness.cloud("");
    let instance = found(&cloud, &harness.node("w1", "10.8.0.11, fd00:8::11")).await;
    assert_eq!(
        addresses(&instance),
        ["InternalIP:10.8.0.11", "Hostname:w1"]
    );
    let labels = &instance.marks.labels;
    assert_eq!(labels["node.cloudprovider.kubernetes.io/platform"], "metal");
}

#[tokio::test(start_paused = true)]
async fn talos_case_15_and_16_without_an_annotation_nobody_is_asked() {
    let harness = Harness::new();
    let cloud = harness.cloud("");
    let mut node = (*harness.node("w1", "")).clone();
    node.annotations.clear();
    let nothing = found(&cloud, &Arc::new(node.clone())).await;
    assert_eq!(nothing, crate::nothing());
    node.os_image.clear();
    let unknown = look(&cloud, &Arc::new(node.clone())).await;
    assert!(matches!(unknown, Lookup::NotMine), "{unknown:?}");
    node.provider_id = Some("foo://1".into());
    let nothing = found(&cloud, &Arc::new(node)).await;
    assert_eq!(nothing, crate::nothing());
    assert_eq!(harness.world.journal.entries(), []);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_run_talos_is_left_to_others() {
    let harness = Harness::with_worker();
    let cloud = harness.cloud("");
    let mut node = (*harness.node("w1", "10.8.0.11")).clone();
    node.os_image = "Debian GNU/Linux 12 (bookworm)".into();
    let node = Arc::new(node);
    assert!(matches!(look(&cloud, &node).await, Lookup::NotMine));
    let nodes = [node];
    let presence = cloud.instances().unwrap().presence(&nodes).await;
    assert!(matches!(presence[..], [Lookup::NotMine]));
    assert_eq!(harness.world.journal.entries(), []);
}

#[tokio::test(start_paused = true)]
async fn talos_case_22_the_clusters_name_comes_from_the_talosconfig_unless_it_is_said() {
    let harness = Harness::with(Config {
        cluster_name: "prod-eu".into(),
        ..Config::default()
    });
    harness.metal("w1", &["eth0/10.8.0.11/24"]);
    let node = harness.node("w1", "10.8.0.11");
    for (config, name) in [("", "prod-eu"), ("global: {clusterName: blue}", "blue")] {
        let instance = found(&harness.cloud(config), &node).await;
        let labels = instance.marks.labels;
        assert_eq!(labels["node.cloudprovider.kubernetes.io/clustername"], name);
    }
}

#[tokio::test(start_paused = true)]
async fn talos_case_25_a_machine_that_does_not_know_its_id_yet_is_waited_for() {
    let harness = Harness::new();
    let boot = MachineSpec::named("w1", &["eth0/10.8.0.11/24"])
        .platform(hcloud())
        .stage(Boot::MetadataPartial);
    harness.add(&boot);
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    for _ in 0..10 {
        let error = cannot_tell(&cloud, &node).await;
        assert!(error.contains("does not know its own id yet"), "{error}");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    harness.talos.set_stage("w1", Boot::Ready).unwrap();
    assert_eq!(id(&found(&cloud, &node).await), "hcloud://4711");
}

#[tokio::test(start_paused = true)]
async fn talos_case_26_a_platform_without_ids_is_not_waited_for() {
    let harness = Harness::new();
    let platform = PlatformSpec {
        platform: "nocloud".into(),
        instance_id: "abc".into(),
        ..PlatformSpec::default()
    };
    harness.on("w1", &["eth0/10.8.0.11/24"], platform);
    let instance = found(&harness.cloud(""), &harness.node("w1", "10.8.0.11")).await;
    assert_eq!(id(&instance), "talos://nocloud/10.8.0.11");
}

#[tokio::test(start_paused = true)]
async fn talos_case_27_metadata_that_is_not_there_comes_later() {
    let harness = Harness::with_worker();
    let at = PlatformMetadataSpec::ID;
    let metadata: PlatformMetadataSpec = harness.talos.read("w1", at).unwrap();
    harness
        .talos
        .remove::<PlatformMetadataSpec>("w1", at)
        .unwrap();
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    let error = cannot_tell(&cloud, &node).await;
    assert!(error.contains("NotFound: resource"), "{error}");
    let Lookup::CannotTell(error) = look(&cloud, &node).await else {
        panic!("nothing can be told");
    };
    assert_ne!(error.kind(), CloudErrorKind::NotFound, "not of the machine");
    harness.talos.set("w1", at, &metadata).unwrap();
    assert_eq!(id(&found(&cloud, &node).await), "talos://metal/10.8.0.11");
}

#[tokio::test(start_paused = true)]
async fn talos_case_28_the_firmware_is_only_asked_for_where_a_rule_for_the_machine_needs_it() {
    let harness = Harness::new();
    let system = SystemSpec {
        sku_number: "c2-m4".into(),
        ..SystemSpec::default()
    };
    harness.add(&MachineSpec::named("w1", &["eth0/10.8.0.11/24"]).system(system));
    let node = harness.node("w1", "10.8.0.11");
    let elsewhere = "transformations:\n- nodeSelector: [{matchExpressions: [{key: platform, operator: \
                     In, values: [aws]}]}]\n  labels: {sku: \"{{ .SKUNumber }}\"}\n- labels: {a: b}";
    for config in ["", elsewhere] {
        found(&harness.cloud(config), &node).await;
        assert_eq!(harness.asked_for("SystemInformations"), 0, "{config}");
    }
    let here = "transformations: [{labels: {sku: \"{{ .SKUNumber }}\"}}]";
    let instance = found(&harness.cloud(here), &node).await;
    assert_eq!(instance.marks.labels["sku"], "c2-m4");
    assert_eq!(harness.asked_for("SystemInformations"), 1);
}

#[tokio::test(start_paused = true)]
async fn talos_case_49_a_machine_without_firmware_facts_has_empty_ones() {
    let harness = Harness::new();
    harness.add(&MachineSpec::named("w1", &["eth0/10.8.0.11/24"]).without_system());
    let cloud = harness.cloud("transformations: [{labels: {uuid: \"{{ .UUID }}\"}}]");
    let instance = found(&cloud, &harness.node("w1", "10.8.0.11")).await;
    assert_eq!(instance.marks.labels["uuid"], "");
}

#[tokio::test(start_paused = true)]
async fn firmware_that_cannot_be_asked_for_fails_the_node() {
    use bowline_simulator_talos::Failure;
    let harness = Harness::with_worker();
    let cloud = harness.cloud("transformations: [{labels: {uuid: \"{{ .UUID }}\"}}]");
    let node = harness.node("w1", "10.8.0.11");
    found(&cloud, &node).await;
    // The metadata is the first, the firmware the second.
    harness
        .talos
        .fail(Failure::next(tonic::Code::Internal, "first").method("List"));
    let error = cannot_tell(&cloud, &node).await;
    assert_eq!(
        error,
        "error getting interfaces list from the node w1: 10.0.0.1:50000 answered Internal: first"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_fails_is_reported_and_counted() {
    let harness = Harness::with_worker();
    let cloud =
        harness.cloud("transformations: [{name: x, labels: {a: \"{{ slice .Zone 0 9 }}\"}}]");
    let error = cannot_tell(&cloud, &harness.node("w1", "10.8.0.11")).await;
    assert!(error.starts_with("error transforming node: "), "{error}");
    let errors = r#"talosccm_transformer_errors_total{type="transformer"}"#;
    assert_eq!(harness.metric(errors), 1);
}

#[tokio::test(start_paused = true)]
async fn talos_case_58_a_machine_that_never_answers_costs_its_own_node_alone() {
    let harness = Harness::with_worker();
    harness.metal("w2", &["eth0/10.8.0.12/24", "eth0/fd00:8::12/64"]);
    harness.talos.hang("w2", true).unwrap();
    let cloud = harness.cloud("");
    let (w1, w2) = (
        harness.node("w1", "10.8.0.11"),
        harness.node("w2", "10.8.0.12"),
    );
    let begun = Instant::now();
    let hanging = async {
        let error = cannot_tell(&cloud, &w2).await;
        (error, begun.elapsed())
    };
    let quick = async {
        found(&cloud, &w1).await;
        begun.elapsed()
    };
    let ((error, late), soon) = tokio::join!(hanging, quick);
    let silence =
        "there is no answer within 10 s from 10.0.0.1:50000 about the machine at 10.8.0.12";
    assert!(error.ends_with(silence), "{error}");
    assert_eq!(late.as_secs(), 10);
    assert!(soon < Duration::from_millis(10), "{soon:?}");

    let pair = harness.node("w2", "10.8.0.12,fd00:8::12");
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
    let harness = Harness::new();
    let own = [
        "eth0/10.8.0.11/24",
        "eth10/198.51.100.9/24",
        "eth2/198.51.100.8/24",
    ];
    harness.metal("w1", &own);
    let instance = found(&harness.cloud(""), &harness.node("w1", "10.8.0.11")).await;
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
    let harness = Harness::new();
    let nodes: Vec<_> = (0..100)
        .map(|number| {
            let (name, ip) = (format!("w{number}"), format!("10.9.0.{number}"));
            harness.metal(&name, &[&format!("eth0/{ip}/16")]);
            harness.node(&name, &ip)
        })
        .collect();
    let cloud = harness.cloud("");
    let answers = cloud.instances().unwrap().lookup(&nodes).await;
    for (answer, node) in answers.iter().zip(&nodes) {
        let Lookup::Found(instance) = answer else {
            panic!("{}: {answer:?}", node.name);
        };
        let ip = node.provided_node_ip().unwrap();
        assert_eq!(id(instance), format!("talos://metal/{ip}"));
    }
    for node in &nodes {
        harness.talos.hang(&node.name, true).unwrap();
    }
    let begun = Instant::now();
    let answers = cloud.instances().unwrap().lookup(&nodes).await;
    assert!(answers.iter().all(|it| matches!(it, Lookup::CannotTell(_))));
    assert_eq!(begun.elapsed().as_secs(), 10, "all are waited for at once");
}

#[tokio::test(start_paused = true)]
async fn talos_case_59_presence_is_told_by_the_node_and_the_check_read_asks_an_endpoint() {
    let mut harness = Harness::new();
    let cloud = harness.cloud("");
    let mut gone = (*harness.node("n1", "10.0.0.5")).clone();
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
    assert_eq!(harness.world.journal.entries(), []);
    instances.canary().await.unwrap();
    harness.silence().await;
    harness.talos.drop_connections();
    let error = instances.canary().await.unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
}
