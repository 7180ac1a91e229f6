use super::*;
use crate::instances::labels::{CLUSTER_NAME, LIFECYCLE, PLATFORM};
use crate::testing::node;
use bowline_core::metadata::{TAINTS_ANNOTATION, additions, enforcement};
use bowline_core::{InitializeError, initialize};

fn machine(platform: &str, id: &str) -> PlatformMetadata {
    PlatformMetadata {
        platform: platform.into(),
        provider_id: id.into(),
        ..PlatformMetadata::default()
    }
}

fn seconds(node: &Node, seconds: i64) -> Timestamp {
    node.created + SignedDuration::from_secs(seconds)
}

struct Asked<'a> {
    config: &'a str,
    node: Node,
    reported: PlatformMetadata,
    system: SystemInformation,
    age: i64,
    cluster_name: Option<&'a str>,
}

impl Default for Asked<'_> {
    fn default() -> Self {
        Self {
            config: "",
            node: node("w1", "10.8.0.11"),
            reported: machine("metal", ""),
            system: SystemInformation::default(),
            age: 1,
            cluster_name: None,
        }
    }
}

fn with(config: &str) -> Asked<'_> {
    Asked {
        config,
        ..Asked::default()
    }
}

fn reporting(reported: PlatformMetadata, age: i64) -> Asked<'static> {
    Asked {
        reported,
        age,
        ..Asked::default()
    }
}

fn described(asked: &Asked<'_>) -> Result<Instance, DescribeError> {
    let config = Config::read(asked.config).unwrap();
    let ip = crate::instances::addresses::node_ips(
        asked.node.provided_node_ip().unwrap(),
        config.prefer_ipv6,
    )[0];
    let now = seconds(&asked.node, asked.age);
    let recognised = recognise(&config, &asked.node, &asked.reported, ip, now)?;
    recognised.describe(&config, &asked.node, &asked.system, &[], asked.cluster_name)
}

fn id_of(instance: &Instance) -> &str {
    instance.provider_id.as_ref().map_or("", ProviderId::as_str)
}

#[test]
fn talos_case_01_a_machine_of_metal() {
    let asked = Asked::default();
    let found = described(&asked).unwrap();
    assert_eq!(id_of(&found), "talos://metal/10.8.0.11");
    let labels: Vec<_> = found.marks.labels.iter().collect();
    assert_eq!(labels, [(&PLATFORM.to_owned(), &"metal".to_owned())]);
    assert!(found.marks.annotations.is_empty() && found.marks.taints.is_empty());
    let change = initialize(&asked.node, &found).unwrap();
    assert!(change.labels.is_empty() && change.taints.is_empty());
}

#[test]
fn talos_case_02_a_machine_of_a_cloud() {
    let asked = reporting(
        PlatformMetadata {
            hostname: "n2".into(),
            region: "ch-gva-2".into(),
            zone: "ch-gva-2".into(),
            instance_type: "standard.medium".into(),
            instance_id: "9f01".into(),
            ..machine("exoscale", "exoscale://9f01")
        },
        1,
    );
    let found = described(&asked).unwrap();
    assert_eq!(id_of(&found), "exoscale://9f01");
    let change = initialize(&asked.node, &found).unwrap();
    let with = |value: &str| change.labels.values().filter(|it| *it == value).count();
    assert_eq!((with("ch-gva-2"), with("standard.medium")), (4, 2));
}

#[test]
fn talos_case_15_without_an_address_and_an_id_a_node_goes_on_waiting() {
    let mut bare = node("w1", "");
    bare.annotations.clear();
    let error = initialize(&bare, &nothing()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cloud provider does not set node provider ID for node w1"
    );
}

#[test]
fn talos_case_16_without_an_address_but_with_an_id_only_the_taint_goes() {
    let mut bare = node("w1", "");
    bare.annotations.clear();
    bare.provider_id = Some("foo://1".into());
    let change = initialize(&bare, &nothing()).unwrap();
    assert!(change.labels.is_empty() && change.taints.is_empty());
    assert_eq!((change.provider_id, change.addresses), (None, None));
    assert!(nothing().marks.is_nothing());
}

#[test]
fn rules_own_what_they_set_if_the_file_says_so() {
    let asked = with(
        "global: {enforceTransformations: yes}\ntransformations: [{taints: {rack: NoExecute}}]",
    );
    let marks = described(&asked).unwrap().marks;
    assert_eq!(marks.keeping, MetadataPolicy::Own);
    let all = enforcement(&asked.node, &marks);
    assert_eq!(all.applied.labels[PLATFORM], "metal");
    assert_eq!(all.applied.annotations[TAINTS_ANNOTATION], "rack:NoExecute");
    assert_eq!(all.taints.unwrap().len(), 2);
}

#[test]
fn talos_case_18_an_empty_host_name_is_the_nodes() {
    let asked = Asked {
        node: node("n6.corp.example", "10.8.0.11"),
        ..Asked::default()
    };
    let addresses = described(&asked).unwrap().addresses;
    let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown[1..],
        ["Hostname:n6.corp.example", "InternalDNS:n6.corp.example"]
    );
}

#[test]
fn talos_case_20_azure_never_gets_an_id_of_ours() {
    for age in [1, 3000] {
        let asked = reporting(machine("azure", ""), age);
        assert!(described(&asked).is_err(), "after {age} s");
    }
}

#[test]
fn talos_case_21_a_spot_machine_is_labelled() {
    let mut asked = reporting(
        PlatformMetadata {
            spot: true,
            ..machine("gcp", "gce://p/z/n21")
        },
        1,
    );
    let found = described(&asked).unwrap();
    assert_eq!(found.marks.labels[LIFECYCLE], "spot");
    // Later it is none: the label is not written any more, and nothing removes it.
    asked.reported.spot = false;
    asked.node.labels = found.marks.labels.clone().into_iter().collect();
    let found = described(&asked).unwrap();
    assert!(!found.marks.labels.contains_key(LIFECYCLE));
    assert!(additions(&asked.node, &found.marks).labels.is_empty());
}

#[test]
fn talos_case_22_the_name_of_the_cluster_is_a_label() {
    let asked = Asked {
        cluster_name: Some("prod-eu"),
        ..Asked::default()
    };
    let labels = |asked| described(asked).unwrap().marks.labels;
    assert_eq!(labels(&asked)[CLUSTER_NAME], "prod-eu");
    let named = Asked {
        config: "global: {clusterName: blue}",
        cluster_name: Some("prod-eu"),
        ..Asked::default()
    };
    assert_eq!(labels(&named)[CLUSTER_NAME], "blue");
}

#[test]
fn talos_case_23_a_label_that_was_removed_is_wanted_again() {
    let asked = Asked::default();
    let found = described(&asked).unwrap();
    let mut node = asked.node.clone();
    node.labels = found.marks.labels.clone().into_iter().collect();
    assert!(additions(&node, &found.marks).labels.is_empty());
    node.labels.remove(PLATFORM);
    let again = additions(&node, &found.marks).labels;
    assert_eq!(again.keys().collect::<Vec<_>>(), [PLATFORM]);
}

#[test]
fn talos_case_25_a_machine_that_does_not_know_its_id_yet_is_waited_for() {
    let mut asked = reporting(machine("hcloud", ""), 20);
    let error = described(&asked).unwrap_err();
    assert_eq!(error, DescribeError::NotReady("w1".into()));
    // A rule that sets the id makes waiting needless.
    asked.config = "transformations: [{platformMetadata: {ProviderID: \"own://{{ .Hostname }}\"}}]";
    assert_eq!(id_of(&described(&asked).unwrap()), "own://w1");
    asked.config = "";
    asked.reported = PlatformMetadata {
        instance_id: "4711".into(),
        ..machine("hcloud", "hcloud://4711")
    };
    assert_eq!(id_of(&described(&asked).unwrap()), "hcloud://4711");
    // Nobody waits for ever.
    asked.reported = machine("hcloud", "");
    asked.age = 301;
    assert_eq!(
        id_of(&described(&asked).unwrap()),
        "talos://hcloud/10.8.0.11"
    );
}

#[test]
fn talos_case_40_a_rule_can_set_the_provider_id() {
    let asked = Asked {
        config: "transformations: [{platformMetadata: {ProviderID: \"cloudscale://{{ .InstanceID }}\"}}]",
        reported: PlatformMetadata {
            instance_id: "u-1".into(),
            ..machine("openstack", "openstack:///u-1")
        },
        ..Asked::default()
    };
    assert_eq!(id_of(&described(&asked).unwrap()), "cloudscale://u-1");
}

#[test]
fn talos_case_41_a_type_from_the_firmware() {
    let asked = Asked {
        config: "transformations: [{platformMetadata: {InstanceType: \"{{ coalesce .InstanceType .SKUNumber }}\"}}]",
        system: SystemInformation {
            sku_number: "c2-m4".into(),
            ..SystemInformation::default()
        },
        ..Asked::default()
    };
    let found = described(&asked).unwrap();
    assert_eq!(found.instance_type, "c2-m4");
    let change = initialize(&asked.node, &found).unwrap();
    assert_eq!(
        change.labels.values().filter(|it| *it == "c2-m4").count(),
        2
    );
}

#[test]
fn talos_case_79_a_rule_that_renders_no_id_leaves_the_node_waiting() {
    let asked = with("transformations: [{platformMetadata: {ProviderID: \"{{ .Zone }}\"}}]");
    let found = described(&asked).unwrap();
    assert_eq!(
        initialize(&asked.node, &found),
        Err(InitializeError::NoProviderId("w1".into()))
    );
}

#[test]
fn talos_case_81_a_rule_overrides_what_is_known() {
    let asked =
        with("transformations: [{labels: {node.cloudprovider.kubernetes.io/platform: over}}]");
    assert_eq!(described(&asked).unwrap().marks.labels[PLATFORM], "over");
}

#[test]
fn a_rule_that_cannot_be_applied_is_reported_with_its_place() {
    let asked =
        with("transformations: [{}, {name: gpu, labels: {a: \"{{ .Tags.nope | upper }}\"}}]");
    assert_eq!(
        described(&asked).unwrap_err().to_string(),
        "error transforming node: transformations[1] (gpu): failed to transformer label \"a\": \
         template: transformer:1:16: invalid value; expected string"
    );
}
