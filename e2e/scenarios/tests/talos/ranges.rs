//! Pod ranges, from what the cluster's control plane and its machines say.

use bowline_scenarios::certificates::Ask;
use bowline_scenarios::objects::{fresh, is_uninitialized};
use bowline_scenarios::talos::{Beginning, ENDPOINT, Site};
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator_talos::Stage as At;

use crate::stage::{Stage, cloud_platform, talos_node};

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
async fn by_machines(cluster: &str) -> Stage {
    let flags = [ALLOCATE, &[CLOUD]].concat();
    Stage::with(beginning(cluster, &flags)).await
}

fn ranges(bench: &TestCluster, name: &str) -> Vec<String> {
    let node = bench.find(name).unwrap_or_default();
    let list = node["spec"]["podCIDRs"].as_array().into_iter().flatten();
    list.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Waits until a node has pod ranges.
async fn given(stage: &Stage, name: &str) -> Vec<String> {
    let what = format!("node {name} has pod ranges");
    stage.until(&what, |it| !ranges(it, name).is_empty()).await;
    ranges(stage, name)
}

/// A machine joins, and its node gets pod ranges.
async fn join(stage: &Stage, name: &str, addresses: &[&str]) -> Vec<String> {
    stage.join_metal(name, addresses);
    given(stage, name).await
}

#[scenario]
async fn talos_case_71_ranges_come_from_the_control_plane_and_leave_the_services_out() {
    let stage = Stage::with(beginning(SINGLE, ALLOCATE)).await;
    for (name, address, block) in [
        ("a", "eth0/10.8.0.1/24", "10.32.4.0/24"),
        ("b", "eth0/10.8.0.2/24", "10.32.5.0/24"),
        ("c", "eth0/10.8.0.3/24", "10.32.6.0/24"),
    ] {
        assert_eq!(join(&stage, name, &[address]).await, [block]);
    }
    stage.end().await;
}

/// The example of the specification: A and B in one network, C in another, D without IPv6.
async fn four() -> Stage {
    let stage = by_machines(DUAL).await;
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
        assert_eq!(join(&stage, name, addresses).await, wanted, "{name}");
    }
    stage
}

#[scenario]
async fn talos_case_72_nodes_get_blocks_of_their_machines_networks() {
    four().await.end().await;
}

#[scenario]
async fn talos_case_73_after_a_restart_what_nodes_have_is_taken() {
    let mut stage = four().await;
    stage.stop().await;
    stage.start().await;
    let own = ["eth0/10.8.0.5/24", "eth0/2001:db8:a:1::12/64"];
    let given = join(&stage, "e", &own).await;
    assert_eq!(given, ["10.32.4.0/24", "2001:db8:a:1:2::/80"]);
    stage.end().await;
}

#[scenario]
async fn talos_case_74_a_network_that_is_too_small_gives_nothing_and_a_single_address_the_clusters()
{
    let stage = by_machines(DUAL).await;
    stage.join_metal("small", &["eth0/10.8.0.1/24", "eth0/2001:db8:77::5/124"]);
    stage.ready("small").await;
    stage
        .until_said("CIDRv6 is too small: 2001:db8:77::5/124")
        .await;
    assert_eq!(ranges(&stage, "small"), [""; 0]);
    let own = ["eth0/10.8.0.2/24", "eth0/2001:db8:78::5/128"];
    let given = join(&stage, "single", &own).await;
    assert_eq!(given, ["10.32.0.0/24", "fd00:10:32::/80"]);
    stage.end().await;
}

#[scenario]
async fn talos_case_78_a_node_that_waits_gets_nothing_of_its_machines_network() {
    let stage = by_machines(DUAL).await;
    stage.create(talos_node("w1", Some("10.8.0.11"))).await;
    stage.until_told("w1", "NodeInitializationFailed").await;
    stage.settle().await;
    assert!(is_uninitialized(&stage.node("w1")));
    assert_eq!(ranges(&stage, "w1"), [""; 0]);
    stage.end().await;
}

#[scenario]
async fn talos_case_94_a_wide_network_is_cut_to_the_part_around_its_machine() {
    let cluster = "networks: {pods: [10.96.0.0/16, 'fd00:96::/64'], services: []}";
    let stage = by_machines(cluster).await;
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
        assert_eq!(join(&stage, name, &own).await[1], block);
    }
    stage.end().await;
}

#[scenario]
async fn talos_case_95_a_network_beside_a_single_address_is_used() {
    let stage = by_machines(DUAL).await;
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
    stage.cloud.add_machine(&machine).unwrap();
    stage.join("n1");
    let given = given(&stage, "n1").await;
    assert_eq!(given, ["10.32.0.0/24", "2001:db8:c7::/80"]);
    stage.end().await;
}

#[scenario]
async fn talos_case_96_two_families_of_pods_and_one_of_services_are_fine() {
    let cluster = "networks: {pods: [10.96.0.0/16, 'fd00:96::/64'], services: [10.97.0.0/20]}";
    let stage = Stage::with(beginning(cluster, ALLOCATE)).await;
    let given = join(&stage, "n1", &["eth0/10.8.0.1/24"]).await;
    assert_eq!(given, ["10.96.0.0/24", "fd00:96::/80"]);
    stage.end().await;
}

#[scenario]
async fn talos_case_97_the_block_of_a_node_whose_machine_is_silent_stays_taken() {
    let mut stage = by_machines(DUAL).await;
    let own = ["eth0/10.8.0.1/24", "eth0/2001:db8:a:1::10/64"];
    assert_eq!(join(&stage, "a", &own).await[1], "2001:db8:a:1::/80");
    stage.stop().await;
    stage.cloud.set_stage("a", At::Down).unwrap();
    stage.start().await;
    let own = ["eth0/10.8.0.2/24", "eth0/2001:db8:a:1::11/64"];
    let given = join(&stage, "b", &own).await;
    assert_eq!(given, ["10.32.1.0/24", "2001:db8:a:1:1::/80"]);
    stage.end().await;
}

/// Beside case 99, rule 3 of certificates (proof): without a machine's word a request waits.
#[scenario]
async fn talos_case_99_without_an_endpoint_the_other_controllers_work_and_ranges_follow() {
    let mut stage = Stage::at(Site::without_endpoint(beginning(SINGLE, ALLOCATE)).await);
    stage.start().await;
    // Nobody has to be asked for this one.
    let mut node = talos_node("n1", None);
    node["spec"]["providerID"] = "foo://1".into();
    stage.create(node).await;
    stage.ready("n1").await;
    let ask = Ask::new("c", "n1", &[]);
    stage.put_request(&ask).await;
    stage.seconds(15).await;
    assert_eq!(stage.decided("c"), [""; 0]);
    assert_eq!(ranges(&stage, "n1"), [""; 0]);
    assert!(stage.is_running());
    stage.cloud.serve("cp1", ENDPOINT);
    assert_eq!(given(&stage, "n1").await, ["10.32.4.0/24"]);
    stage.create(fresh("n2")).await;
    assert_eq!(given(&stage, "n2").await, ["10.32.5.0/24"]);
    stage.end().await;
}
