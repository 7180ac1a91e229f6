use super::*;
use crate::api::{Cpus, Memory};
use crate::testing::{H1, PA, PB, VM1, fresh, known, vm1};

const NAMES: Around<'_> = Around {
    host: Some("xcp 1"),
    pool: Some("lab pool"),
};

fn described(vm: &Vm, node: &Node, around: Around<'_>) -> Instance {
    describe(vm, node, around, &NodeConfig::default(), &BTreeSet::new())
}

fn labels_of(instance: &Instance) -> Vec<String> {
    let short = |key: &str| key.rsplit_once('/').unwrap().1.to_owned();
    let pairs = instance.extra_labels.iter();
    pairs
        .map(|(key, value)| format!("{}={value}", short(key)))
        .collect()
}

fn initialised() -> Node {
    known("w1", &format!("xenorchestra://{PA}/{VM1}"))
}

#[test]
fn a_new_node_is_reported_everything() {
    let instance = described(&vm1(), &fresh("w1", VM1), NAMES);
    assert_eq!(
        instance.provider_id.unwrap().as_str(),
        format!("xenorchestra://{PA}/{VM1}")
    );
    assert_eq!((&*instance.zone, &*instance.region), (H1, PA));
    assert_eq!(instance.instance_type, "4vCPU-4GB");
    assert_eq!(instance.power, Power::On);
    assert_eq!(
        labels_of(&described(&vm1(), &fresh("w1", VM1), NAMES)),
        [
            &format!("host_id={H1}"),
            "host_name_label=xcp-1",
            &format!("pool_id={PA}"),
            "pool_name_label=lab-pool",
            "name_label=worker-1",
        ]
    );
}

#[test]
fn xenorchestra_case_38_types_are_the_table_s() {
    for (cpus, size, wanted) in [
        (2, 4_294_967_296, "2vCPU-4GB"),
        (4, 10_737_418_240, "4vCPU-10GB"),
        (1, 536_870_912, "1vCPU-0GB"),
        (1, 537_919_488, "1vCPU-1GB"),
        (2, 1_610_612_736, "2vCPU-2GB"),
        (2, 2_684_354_560, "2vCPU-2GB"),
        (2, 3_758_096_384, "2vCPU-4GB"),
        (8, 17_179_869_183, "8vCPU-16GB"),
        (32, 137_438_953_472, "32vCPU-128GB"),
    ] {
        let mut vm = vm1();
        vm.cpus = Some(Cpus { max: cpus });
        let limits = vec![0, 2 * 1024 * 1024 * 1024];
        vm.memory = Some(Memory { size, limits });
        let current = instance_type(&vm, TypeMemory::Current);
        assert_eq!(current.as_deref(), Some(wanted), "{cpus} {size}");
        let fixed = instance_type(&vm, TypeMemory::Static).unwrap();
        assert_eq!(fixed, format!("{cpus}vCPU-2GB"));
    }
    let mut vm = vm1();
    vm.cpus = None;
    assert_eq!(instance_type(&vm, TypeMemory::Current), None);
}

#[test]
fn xenorchestra_case_39_the_type_counts_what_a_vm_may_have_not_what_it_has_now() {
    assert_eq!(
        instance_type(&vm1(), TypeMemory::Current).as_deref(),
        Some("4vCPU-4GB")
    );
}

#[test]
fn what_cannot_be_read_is_unknown_to_a_new_node_and_unchanged_on_others() {
    let nothing = Around::default();
    let new = described(&vm1(), &fresh("w1", VM1), nothing);
    assert_eq!((&*new.zone, &*new.region), (H1, PA));
    assert_eq!(new.extra_labels[labels::HOST_NAME], "unknown");
    assert_eq!(new.extra_labels[labels::POOL_NAME], "unknown");
    assert_eq!(new.extra_labels[labels::HOST_ID], H1);
    let old = described(&vm1(), &initialised(), nothing);
    assert!(!old.extra_labels.contains_key(labels::HOST_NAME));
    assert!(!old.extra_labels.contains_key(labels::POOL_NAME));
    assert_eq!(old.extra_labels[labels::HOST_ID], H1);
}

#[test]
fn a_vm_that_does_not_run_is_on_no_host() {
    for state in [
        PowerState::Halted,
        PowerState::Paused,
        PowerState::Suspended,
    ] {
        let mut vm = vm1();
        vm.power_state = Some(state);
        vm.container = vm.pool();
        let instance = described(&vm, &initialised(), NAMES);
        assert_eq!(instance.power, Power::Off);
        assert_eq!((&*instance.zone, &*instance.region), ("", PA));
        assert!(!instance.extra_labels.contains_key(labels::HOST_ID));
        assert!(!instance.extra_labels.contains_key(labels::HOST_NAME));
        // On the host that has its disk: counts for a new node, if there is such a host.
        vm.container = H1.parse().ok();
        assert_eq!(described(&vm, &initialised(), NAMES).zone, "");
        assert_eq!(described(&vm, &fresh("w1", VM1), NAMES).zone, H1);
        let unread = Around {
            host: None,
            ..NAMES
        };
        assert_eq!(described(&vm, &fresh("w1", VM1), unread).zone, "");
    }
}

#[test]
fn a_vm_without_a_place_has_no_zone_and_no_host_labels() {
    let mut vm = vm1();
    vm.container = None;
    for node in [fresh("w1", VM1), initialised()] {
        let instance = described(
            &vm,
            &node,
            Around {
                host: None,
                ..NAMES
            },
        );
        assert_eq!(instance.zone, "");
        assert!(!instance.extra_labels.contains_key(labels::HOST_ID));
        assert!(!instance.extra_labels.contains_key(labels::HOST_NAME));
    }
}

#[test]
fn a_vm_that_moved_to_another_pool_is_believed_when_it_runs() {
    let mut vm = vm1();
    vm.set_pool(PB.parse().ok());
    let there = described(&vm, &initialised(), NAMES);
    assert_eq!((&*there.region, there.power), (PB, Power::On));
    assert_eq!(
        there.provider_id.unwrap().as_str(),
        format!("xenorchestra://{PA}/{VM1}")
    );
    vm.power_state = Some(PowerState::Halted);
    let between = described(&vm, &initialised(), NAMES);
    assert_eq!((&*between.region, between.power), ("", Power::Unclear));
    assert!(!between.extra_labels.contains_key(labels::POOL_ID));
    // It has arrived, its node has the label, and now it is switched off.
    let mut node = initialised();
    node.labels.insert(labels::POOL_ID.into(), PB.into());
    let off = described(&vm, &node, NAMES);
    assert_eq!((&*off.region, off.power), (PB, Power::Off));
}

#[test]
fn a_state_that_is_not_known_is_no_reason_for_a_taint() {
    let mut vm = vm1();
    vm.power_state = None;
    assert_eq!(described(&vm, &initialised(), NAMES).power, Power::Unclear);
}

#[test]
fn the_zone_can_be_something_else() {
    for (zone, wanted) in [
        (ZoneSource::Host, H1),
        (ZoneSource::HostName, "xcp-1"),
        (ZoneSource::Pool, PA),
    ] {
        let config = NodeConfig {
            zone,
            ..NodeConfig::default()
        };
        let instance = describe(&vm1(), &initialised(), NAMES, &config, &BTreeSet::new());
        assert_eq!(instance.zone, wanted);
        assert_eq!(instance.extra_labels[labels::HOST_ID], H1);
    }
}

#[test]
fn tags_are_marks_on_request_only() {
    let mut vm = vm1();
    vm.tags = vec!["k8s/label=team:blue".into()];
    assert!(described(&vm, &initialised(), NAMES).marks.is_nothing());
    let config = NodeConfig {
        tag_prefix: Some("k8s/label=".into()),
        ..NodeConfig::default()
    };
    let marks = describe(&vm, &initialised(), NAMES, &config, &BTreeSet::new()).marks;
    assert_eq!(
        (marks.labels["team"].as_str(), marks.keeping),
        ("blue", MetadataPolicy::Own)
    );
}
