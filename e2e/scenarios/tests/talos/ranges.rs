//! Pod ranges, from what the cluster's control plane and its machines say.

use bowline_scenarios::certificates::Ask;
use bowline_scenarios::objects::{fresh, is_uninitialized};
use bowline_scenarios::talos::{Beginning, CloudHarness, ENDPOINT};
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator_talos::Stage;

use crate::talos::harness::{Harness, cloud_platform, talos_node};

const ALLOCATE: &[&str] = &[
    "--controllers=cloud-node,node-csr-approval,node-ipam-controller",
    "--allocate-node-cidrs",
];
const CLOUD: &str = "--cidr-allocator-type=CloudAllocator";
const DUAL: &str = "networks: {pods: ['10.32.0.0/12', 'fd00:10:32::/64'], \
                    services: [10.200.0.0/22, 'fd40:10:200::/108']}";
const SINGLE: &str = "networks: {pods: [10.32.0.0/12], services: [10.32.0.0/22]}";

fn beginning<'a>(cluster: &'a str, flags: &'a [&'a str]) -> Beginning<'a> {
    Beginning {
        cluster,
        flags,
        ..Beginning::default()
    }
}

/// A running manager with the cloud allocator, in a cluster with these networks.
async fn by_machines(cluster: &str) -> Harness {
    let flags = [ALLOCATE, &[CLOUD]].concat();
    Harness::with(beginning(cluster, &flags)).await
}

fn ranges(bench: &TestCluster, name: &str) -> Vec<String> {
    let node = bench.find(name).unwrap_or_default();
    let list = node["spec"]["podCIDRs"].as_array().into_iter().flatten();
    list.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Waits until a node has pod ranges.
async fn given(harness: &Harness, name: &str) -> Vec<String> {
    let what = format!("node {name} has pod ranges");
    harness
        .until(&what, |it| !ranges(it, name).is_empty())
        .await;
    ranges(harness, name)
}

/// A machine joins, and its node gets pod ranges.
async fn join(harness: &Harness, name: &str, addresses: &[&str]) -> Vec<String> {
    harness.join_metal(name, addresses);
    given(harness, name).await
}

#[scenario]
async fn talos_case_71_ranges_come_from_the_control_plane_and_leave_the_services_out() {
    let harness = Harness::with(beginning(SINGLE, ALLOCATE)).await;
    for (name, address, block) in [
        ("a", "eth0/10.8.0.1/24", "10.32.4.0/24"),
        ("b", "eth0/10.8.0.2/24", "10.32.5.0/24"),
        ("c", "eth0/10.8.0.3/24", "10.32.6.0/24"),
    ] {
        assert_eq!(join(&harness, name, &[address]).await, [block]);
    }
    harness.end().await;
}

/// The example of the specification: A and B in one network, C in another, D without IPv6.
async fn four() -> Harness {
    let harness = by_machines(DUAL).await;
    for (name, addresses, wanted) in [
        (
            "a",
            &["eth0/10.8.0.1/24", "eth0/2001:db8:a:1::10/64"][..],
            ["10.32.0.0/24", "2001:db8:a:1::/80"],
        ),
        (
            "b",
            &["eth0/10.8.0.2/24", "eth0/2001:db8:a:1::11/64"],
            ["10.32.1.0/24", "2001:db8:a:1:1::/80"],
        ),
        (
            "c",
            &["eth0/10.8.0.3/24", "eth0/2001:db8:a:2::10/64"],
            ["10.32.2.0/24", "2001:db8:a:2::/80"],
        ),
        (
            "d",
            &["eth0/10.8.0.4/24"],
            ["10.32.3.0/24", "fd00:10:32::/80"],
        ),
    ] {
        assert_eq!(join(&harness, name, addresses).await, wanted, "{name}");
    }
    harness
}

#[scenario]
async fn talos_case_72_nodes_get_blocks_of_their_machines_networks() {
    four().await.end().await;
}

#[scenario]
async fn talos_case_73_after_a_restart_what_nodes_have_is_taken() {
    let mut harness = four().await;
    harness.stop().await;
    harness.start().await;
    let own = ["eth0/10.8.0.5/24", "eth0/2001:db8:a:1::12/64"];
    let given = join(&harness, "e", &own).await;
    assert_eq!(given, ["10.32.4.0/24", "2001:db8:a:1:2::/80"]);
    harness.end().await;
}

#[scenario]
async fn talos_case_74_a_network_that_is_too_small_gives_nothing_and_a_single_address_the_clusters()
{
    let harness = by_machines(DUAL).await;
    harness.join_metal("small", &["eth0/10.8.0.1/24", "eth0/2001:db8:77::5/124"]);
    harness.ready("small").await;
    harness
        .until_said("CIDRv6 is too small: 2001:db8:77::5/124")
        .await;
    assert_eq!(ranges(&harness, "small"), [""; 0]);
    let own = ["eth0/10.8.0.2/24", "eth0/2001:db8:78::5/128"];
    let given = join(&harness, "single", &own).await;
    assert_eq!(given, ["10.32.0.0/24", "fd00:10:32::/80"]);
    harness.end().await;
}

#[scenario]
async fn talos_case_78_a_node_that_waits_gets_nothing_of_its_machines_network() {
    let harness = by_machines(DUAL).await;
    harness.create(talos_node("w1", Some("10.8.0.11"))).await;
    harness.until_event("w1", "NodeInitializationFailed").await;
    harness.settle().await;
    assert!(is_uninitialized(&harness.node("w1")));
    assert_eq!(ranges(&harness, "w1"), [""; 0]);
    harness.end().await;
}

#[scenario]
async fn talos_case_94_a_wide_network_is_cut_to_the_part_around_its_machine() {
    let cluster = "networks: {pods: [10.96.0.0/16, 'fd00:96::/64'], services: []}";
    let harness = by_machines(cluster).await;
    for (name, own, block) in [
        (
            "a",
            ["eth0/10.8.0.1/24", "eth0/2001:db8:c2:ab00::4/56"],
            "2001:db8:c2:ab00::/80",
        ),
        (
            "b",
            ["eth0/10.8.0.2/24", "eth0/2001:db8:c2:ab22::4/56"],
            "2001:db8:c2:ab22::/80",
        ),
    ] {
        assert_eq!(join(&harness, name, &own).await[1], block);
    }
    harness.end().await;
}

#[scenario]
async fn talos_case_95_a_network_beside_a_single_address_is_used() {
    let harness = by_machines(DUAL).await;
    // No platform whose addresses are found on its links: the node has none of these two.
    let machine = bowline_simulator_talos::MachineSpec::named(
        "n1",
        &[
            "eth0/10.8.0.1/24",
            "eth0/2001:db8:c6::5/128(128)",
            "eth1/2001:db8:c7::5/64",
        ],
    );
    let machine = machine.node_ips(&["10.8.0.1".parse().unwrap()]);
    let machine = machine.platform(cloud_platform("hcloud", "hcloud://1"));
    harness.cloud.add_machine(&machine).unwrap();
    harness.join("n1");
    let given = given(&harness, "n1").await;
    assert_eq!(given, ["10.32.0.0/24", "2001:db8:c7::/80"]);
    harness.end().await;
}

#[scenario]
async fn talos_case_96_two_families_of_pods_and_one_of_services_are_fine() {
    let cluster = "networks: {pods: [10.96.0.0/16, 'fd00:96::/64'], services: [10.97.0.0/20]}";
    let harness = Harness::with(beginning(cluster, ALLOCATE)).await;
    let given = join(&harness, "n1", &["eth0/10.8.0.1/24"]).await;
    assert_eq!(given, ["10.96.0.0/24", "fd00:96::/80"]);
    harness.end().await;
}

#[scenario]
async fn talos_case_97_the_block_of_a_node_whose_machine_is_silent_stays_taken() {
    let mut harness = by_machines(DUAL).await;
    let own = ["eth0/10.8.0.1/24", "eth0/2001:db8:a:1::10/64"];
    assert_eq!(join(&harness, "a", &own).await[1], "2001:db8:a:1::/80");
    harness.stop().await;
    harness.cloud.set_stage("a", Stage::Down).unwrap();
    harness.start().await;
    let own = ["eth0/10.8.0.2/24", "eth0/2001:db8:a:1::11/64"];
    let given = join(&harness, "b", &own).await;
    assert_eq!(given, ["10.32.1.0/24", "2001:db8:a:1:1::/80"]);
    harness.end().await;
}

/// Beside case 99, rule 3 of certificates (proof): without a machine's word a request waits.
#[scenario]
async fn talos_case_99_without_an_endpoint_the_other_controllers_work_and_ranges_follow() {
    let mut harness =
        Harness::at(CloudHarness::without_endpoint(beginning(SINGLE, ALLOCATE)).await);
    harness.start().await;
    // Nobody has to be asked for this one.
    let mut node = talos_node("n1", None);
    node["spec"]["providerID"] = "foo://1".into();
    harness.create(node).await;
    harness.ready("n1").await;
    let ask = Ask::new("c", "n1", &[]);
    harness.put_request(&ask).await;
    harness.seconds(15).await;
    assert_eq!(harness.decided("c"), [""; 0]);
    assert_eq!(ranges(&harness, "n1"), [""; 0]);
    assert!(harness.is_running());
    harness.cloud.serve("cp1", ENDPOINT);
    assert_eq!(given(&harness, "n1").await, ["10.32.4.0/24"]);
    harness.create(fresh("n2")).await;
    assert_eq!(given(&harness, "n2").await, ["10.32.5.0/24"]);
    harness.end().await;
}
