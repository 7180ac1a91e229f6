//! Whether the controller starts, and what it takes over.

use bowline_scenarios::cloud::runs;
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{TestCluster, scenario};

use crate::ipam::harness::{ALLOCATE, CLOUD, idle, join, ranges, running, with_ranges};

const RUNNING: &str =
    "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"nodeipam\"}";

/// The other controllers do their work, and no node gets pod ranges.
async fn assert_others_work(bench: &TestCluster) {
    bench.cloud().say("n1", runs("n1", "10.0.0.5"));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    bench.seconds(15).await;
    assert!(ranges(bench, "n1").is_empty());
    assert!(bench.is_running());
}

#[scenario]
async fn framework_case_107_a_node_with_a_range_outside_keeps_the_controller_from_starting() {
    let mut bench = idle(&["--cluster-cidr=10.244.0.0/16"]).await;
    bench.create(with_ranges("old", &["172.10.0.0/24"])).await;
    bench.start();
    // Ours: only this controller, and only until the node or the flag is another.
    assert_others_work(&bench).await;
    bench.delete("old").await;
    assert_eq!(
        crate::ipam::harness::until_given(&bench, "n1").await,
        ["10.244.0.0/24"]
    );
}

#[scenario]
async fn framework_case_107_what_nodes_have_is_taken_before_the_first_block_is_given() {
    let mut bench = idle(&["--cluster-cidr=10.244.0.0/16"]).await;
    bench.create(fresh("a-new")).await;
    bench.create(with_ranges("b-old", &["10.244.0.0/24"])).await;
    bench
        .create(with_ranges("c-wide", &["10.244.2.0/23"]))
        .await;
    bench.start();
    let given = crate::ipam::harness::until_given(&bench, "a-new").await;
    assert_eq!(given, ["10.244.1.0/24"]);
    assert_eq!(join(&bench, "d-new").await, ["10.244.4.0/24"]);
}

#[scenario]
async fn framework_case_109_an_ipv6_range_of_too_many_blocks_is_a_start_error() {
    let flags = ["--cluster-cidr=fd00::/48", "--node-cidr-mask-size=65"];
    assert_others_work(&running(&flags).await).await;
}

#[scenario]
async fn framework_case_111_one_mask_for_two_families_is_a_start_error() {
    let flags = [
        "--cluster-cidr=10.0.0.0/16,fd00::/56",
        "--node-cidr-mask-size=24",
    ];
    assert_others_work(&running(&flags).await).await;
}

#[scenario]
async fn framework_case_142_a_star_does_not_start_node_ipam() {
    let range = "--cluster-cidr=10.244.0.0/16";
    let bench = TestCluster::with(&["--controllers=*", ALLOCATE[1], range]).await;
    assert_others_work(&bench).await;
    assert_eq!(bench.metric(RUNNING), None);
    let bench = TestCluster::with(&["--controllers=nodeipam", ALLOCATE[1], range]).await;
    join(&bench, "n1").await;
    assert_eq!(bench.metric(RUNNING), Some(1.0));
}

#[scenario]
async fn talos_case_75_masks_that_do_not_fit_the_families_are_start_errors() {
    for flags in [
        &[
            "--cluster-cidr=10.0.0.0/16,fd00::/64",
            "--node-cidr-mask-size=24",
        ],
        &[
            "--cluster-cidr=10.0.0.0/16",
            "--node-cidr-mask-size-ipv6=64",
        ],
    ] {
        assert_others_work(&running(flags).await).await;
    }
}

#[scenario]
async fn talos_case_76_a_wide_ipv6_range_with_the_cloud_s_mask_is_a_start_error() {
    let mut bench = idle(&["--cluster-cidr=fd00:10::/56", CLOUD]).await;
    bench.cloud().offer_networks();
    bench.start();
    assert_others_work(&bench).await;
}

#[scenario]
async fn talos_case_77_without_the_flag_nothing_is_allocated() {
    let flags = [ALLOCATE[0], "--cluster-cidr=10.244.0.0/16"];
    let bench = TestCluster::with(&flags).await;
    assert_others_work(&bench).await;
    assert_eq!(bench.metric(RUNNING), None);
}

#[scenario]
async fn talos_case_99_a_cloud_that_cannot_say_the_ranges_stops_nobody_else() {
    let mut bench = idle(&[]).await;
    let networks = bench.cloud().offer_networks();
    networks.say_ranges("10.32.0.0/12", "10.32.0.0/22");
    networks.fail_ranges(true);
    bench.start();
    assert_others_work(&bench).await;
    bench.cloud().networks().fail_ranges(false);
    assert_eq!(
        crate::ipam::harness::until_given(&bench, "n1").await,
        ["10.32.4.0/24"]
    );
}

#[scenario]
async fn an_observer_tells_what_it_would_give_and_writes_nothing() {
    let mut bench = idle(&["--cluster-cidr=10.244.0.0/16", "--mode=observe"]).await;
    bench.create(fresh("n1")).await;
    bench.start();
    bench.seconds(15).await;
    bench.create(fresh("n2")).await;
    bench.long(90).await;
    assert_eq!(bench.node_writes(), [""; 0]);
    // It keeps the two apart: one block for each.
    let used = crate::ipam::harness::metric(&bench, "cidrset_usage_cidrs", "10.244.0.0/16");
    assert_eq!(used, Some(2.0 / 256.0));
}
