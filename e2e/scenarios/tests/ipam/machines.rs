//! IPv6 blocks from the networks of machines.

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::{TestCluster, scenario};

use crate::ipam::harness::{
    CLOUD, create_with_machine, idle, join_with_machine, ranges, until_given,
};

/// A running manager with the cloud allocator; the cloud knows these ranges of pods.
async fn running(pods: &str) -> TestCluster {
    let mut bench = idle(&[CLOUD]).await;
    bench
        .cloud()
        .offer_networks()
        .say_ranges(pods, "10.200.0.0/16");
    bench.start();
    bench
}

/// The example of the specification: A and B in one network, C in another, D without IPv6.
async fn four() -> TestCluster {
    let bench = running("10.32.0.0/12,fd00:10:32::/64").await;
    for (name, addresses, expected) in [
        (
            "a",
            &["2001:db8:a:1::10/64"][..],
            ["10.32.0.0/24", "2001:db8:a:1::/80"],
        ),
        (
            "b",
            &["2001:db8:a:1::11/64"],
            ["10.32.1.0/24", "2001:db8:a:1:1::/80"],
        ),
        (
            "c",
            &["10.0.0.7/24", "2001:db8:a:2::10/64"],
            ["10.32.2.0/24", "2001:db8:a:2::/80"],
        ),
        ("d", &["10.0.0.8/24"], ["10.32.3.0/24", "fd00:10:32::/80"]),
    ] {
        assert_eq!(join_with_machine(&bench, name, addresses).await, expected);
    }
    bench
}

#[scenario]
async fn talos_case_72_nodes_get_blocks_of_their_machines_networks() {
    let bench = four().await;
    assert_eq!(bench.cloud().networks().asked_about("a"), 1);
}

#[scenario]
async fn talos_case_73_after_a_restart_the_blocks_of_nodes_are_taken() {
    let mut bench = four().await;
    bench.stop().await;
    bench.start();
    let given = join_with_machine(&bench, "e", &["2001:db8:a:1::12/64"]).await;
    assert_eq!(given, ["10.32.4.0/24", "2001:db8:a:1:2::/80"]);
}

#[scenario]
async fn talos_case_74_a_network_that_is_too_small_gives_nothing_and_a_single_address_the_cluster_s()
 {
    let bench = running("10.32.0.0/12,fd00:10:32::/64").await;
    create_with_machine(&bench, "small", &["2001:db8:77::5/124"]).await;
    bench.until_initialized("small").await;
    bench.settle().await;
    assert!(ranges(&bench, "small").is_empty());
    assert!(
        bench.cloud().networks().asked_about("small") > 1,
        "it is tried again"
    );
    let given = join_with_machine(&bench, "single", &["2001:db8:78::5/128"]).await;
    assert_eq!(
        given,
        ["10.32.0.0/24", "fd00:10:32::/80"],
        "no block is lost meanwhile"
    );
}

#[scenario]
async fn talos_case_78_the_cloud_allocator_leaves_tainted_nodes_alone() {
    let bench = running("10.32.0.0/12,fd00:10:32::/64").await;
    bench
        .cloud()
        .say("n1", bowline_scenarios::cloud::Script::None);
    bench.create(bowline_scenarios::objects::fresh("n1")).await;
    bench.settle().await;
    assert!(is_uninitialized(&bench.node("n1")));
    assert!(ranges(&bench, "n1").is_empty());
}

#[scenario]
async fn talos_case_94_a_wide_network_is_cut_to_the_part_around_its_machine() {
    let bench = running("10.96.0.0/16,fd00:96::/64").await;
    for (name, address, block) in [
        ("a", "2001:db8:c2:ab00::4/56", "2001:db8:c2:ab00::/80"),
        ("b", "2001:db8:c2:ab22::4/56", "2001:db8:c2:ab22::/80"),
    ] {
        assert_eq!(join_with_machine(&bench, name, &[address]).await[1], block);
    }
}

#[scenario]
async fn talos_case_95_a_network_beside_a_single_address_is_used() {
    let bench = running("10.96.0.0/16,fd00:96::/64").await;
    let addresses = ["2001:db8:c6::5/128", "2001:db8:c7::5/64"];
    let given = join_with_machine(&bench, "n1", &addresses).await;
    assert_eq!(given[1], "2001:db8:c7::/80");
}

#[scenario]
async fn talos_case_97_the_block_of_a_node_whose_machine_is_silent_stays_taken() {
    let mut bench = running("10.32.0.0/12,fd00:10:32::/64").await;
    let given = join_with_machine(&bench, "a", &["2001:db8:a:1::10/64"]).await;
    assert_eq!(given[1], "2001:db8:a:1::/80");
    bench.stop().await;
    bench.cloud().networks().silence("a", true);
    bench.start();
    let given = join_with_machine(&bench, "b", &["2001:db8:a:1::11/64"]).await;
    assert_eq!(given, ["10.32.1.0/24", "2001:db8:a:1:1::/80"]);
}

#[scenario]
async fn a_machine_that_does_not_answer_is_waited_for_and_takes_no_block() {
    let bench = running("10.32.0.0/12,fd00:10:32::/64").await;
    bench.cloud().networks().silence("a", true);
    create_with_machine(&bench, "a", &["2001:db8:a:1::10/64"]).await;
    bench.until_initialized("a").await;
    bench.settle().await;
    assert!(
        ranges(&bench, "a").is_empty(),
        "pod ranges are for good: nobody guesses"
    );
    let given = join_with_machine(&bench, "b", &["2001:db8:a:1::11/64"]).await;
    assert_eq!(given, ["10.32.0.0/24", "2001:db8:a:1::/80"]);
    bench.cloud().networks().silence("a", false);
    let given = until_given(&bench, "a").await;
    assert_eq!(given, ["10.32.1.0/24", "2001:db8:a:1:1::/80"]);
}
