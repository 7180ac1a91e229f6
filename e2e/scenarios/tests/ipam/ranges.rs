//! Blocks of the cluster's ranges.

use bowline_scenarios::objects::{fresh, is_uninitialized};
use bowline_scenarios::scenario;

use crate::ipam::harness::{join, metric, ranges, running, until_given};

#[scenario]
async fn framework_case_105_blocks_come_one_after_the_other_and_free_ones_after_the_round() {
    let bench = running(&["--cluster-cidr=10.244.0.0/22"]).await;
    assert_eq!(join(&bench, "a").await, ["10.244.0.0/24"]);
    assert_eq!(join(&bench, "b").await, ["10.244.1.0/24"]);
    assert_eq!(join(&bench, "c").await, ["10.244.2.0/24"]);
    bench.delete("b").await;
    let released = |bench: &bowline_scenarios::TestCluster| {
        metric(bench, "cidrset_cidrs_releases_total", "10.244.0.0/22") == Some(1.0)
    };
    // Nothing is called for it, so that somebody else's call has to be waited with.
    while !released(&bench) {
        bench.seconds(1).await;
    }
    assert_eq!(join(&bench, "d").await, ["10.244.3.0/24"]);
    assert_eq!(join(&bench, "e").await, ["10.244.1.0/24"]);
}

#[scenario]
async fn framework_case_105_a_node_costs_one_write_and_no_read() {
    let bench = running(&["--cluster-cidr=10.244.0.0/16"]).await;
    bench.settle().await;
    join(&bench, "n1").await;
    bench.settle().await;
    let calls = bench.calls("n1");
    let calls: Vec<String> = calls
        .iter()
        .map(|it| format!("{} {} {}", it.method, it.path, it.body["spec"]))
        .collect();
    let expected = "PATCH /api/v1/nodes/n1 \
                        {\"podCIDR\":\"10.244.0.0/24\",\"podCIDRs\":[\"10.244.0.0/24\"]}";
    assert_eq!(calls, [expected]);
    assert_eq!(bench.events("n1"), [""; 0]);
}

#[scenario]
async fn framework_case_106_services_are_left_out() {
    let bench = running(&[
        "--cluster-cidr=127.123.234.0/24",
        "--node-cidr-mask-size=30",
        "--service-cluster-ip-range=127.123.234.0/26",
    ])
    .await;
    assert_eq!(join(&bench, "n1").await, ["127.123.234.64/30"]);
}

#[scenario]
async fn framework_case_108_two_families_give_two_blocks_in_the_flag_s_order() {
    for (cluster, expected) in [
        (
            "10.10.0.0/16,fd00:10::/56",
            [
                ["10.10.0.0/24", "fd00:10::/64"],
                ["10.10.1.0/24", "fd00:10:0:1::/64"],
            ],
        ),
        (
            "fd00:10::/56,10.10.0.0/16",
            [
                ["fd00:10::/64", "10.10.0.0/24"],
                ["fd00:10:0:1::/64", "10.10.1.0/24"],
            ],
        ),
    ] {
        let bench = running(&[&format!("--cluster-cidr={cluster}")]).await;
        assert_eq!(join(&bench, "a").await, expected[0]);
        assert_eq!(join(&bench, "b").await, expected[1]);
    }
}

#[scenario]
async fn framework_case_110_when_no_block_is_left_that_is_told_and_a_free_one_is_given_at_once() {
    let bench = running(&["--cluster-cidr=10.244.0.0/23"]).await;
    join(&bench, "a").await;
    join(&bench, "b").await;
    bench.create(fresh("c")).await;
    bench.until_event("c", "CIDRNotAvailable").await;
    let event = "Normal CIDRNotAvailable cidrAllocator: \
                     Node c status is now: CIDRNotAvailable (1)";
    assert_eq!(bench.events("c"), [event]);
    assert!(ranges(&bench, "c").is_empty());
    let event = &bench.events_of("CIDRNotAvailable")[0];
    assert_eq!(
        event["involvedObject"]["resourceVersion"],
        serde_json::Value::Null
    );
    let from = bench.world.clock.now();
    bench.delete("a").await;
    assert_eq!(until_given(&bench, "c").await, ["10.244.0.0/24"]);
    let took = bench.since(from);
    assert!(took.as_secs() < 5, "{took:?}");
}

#[scenario]
async fn talos_case_71_services_that_the_cloud_knows_are_left_out() {
    let mut bench = crate::ipam::harness::idle(&["--service-cluster-ip-range=10.96.0.0/12"]).await;
    let networks = bench.cloud().offer_networks();
    networks.say_ranges("10.32.0.0/12", "10.32.0.0/22");
    bench.start();
    assert_eq!(join(&bench, "a").await, ["10.32.4.0/24"]);
    assert_eq!(join(&bench, "b").await, ["10.32.5.0/24"]);
    assert_eq!(join(&bench, "c").await, ["10.32.6.0/24"]);
}

#[scenario]
async fn talos_case_78_the_range_allocator_does_not_wait_for_the_cloud() {
    let bench = running(&["--cluster-cidr=10.244.0.0/16"]).await;
    join(&bench, "n1").await;
    assert!(is_uninitialized(&bench.node("n1")));
}

#[scenario]
async fn talos_case_96_one_range_of_services_is_enough_for_two_of_pods() {
    let mut bench = crate::ipam::harness::idle(&[]).await;
    let networks = bench.cloud().offer_networks();
    networks.say_ranges("10.96.0.0/16,fd00:96::/64", "10.97.0.0/20");
    bench.start();
    assert_eq!(join(&bench, "n1").await, ["10.96.0.0/24", "fd00:96::/80"]);
}

#[scenario]
async fn talos_case_98_metrics_count_blocks_of_services_too() {
    let mut bench = crate::ipam::harness::idle(&["--node-cidr-mask-size-ipv4=25"]).await;
    let networks = bench.cloud().offer_networks();
    networks.say_ranges("10.64.0.0/14", "10.64.0.0/20");
    bench.start();
    assert_eq!(join(&bench, "a").await, ["10.64.16.0/25"]);
    assert_eq!(join(&bench, "b").await, ["10.64.16.128/25"]);
    assert_eq!(join(&bench, "c").await, ["10.64.17.0/25"]);
    bench.delete("a").await;
    assert_eq!(join(&bench, "d").await, ["10.64.17.128/25"]);
    let value = |name: &str| metric(&bench, name, "10.64.0.0/14");
    while value("cidrset_cidrs_releases_total") != Some(1.0) {
        bench.seconds(1).await;
    }
    assert_eq!(value("cirdset_max_cidrs"), Some(2048.0));
    assert_eq!(value("cidrset_cidrs_allocations_total"), Some(36.0));
    assert_eq!(value("cidrset_usage_cidrs"), Some(35.0 / 2048.0));
    let tries = "cidrset_allocation_tries_per_request_count";
    assert_eq!(value(tries), Some(4.0));
    let text = bench.metrics.text();
    let series = "node_ipam_controller_cidrset_allocation_tries_per_request_bucket{\
                      clusterCIDR=\"10.64.0.0/14\",le=\"25\"} 3";
    assert!(text.contains(series), "{text}");
    assert!(text.contains("workqueue_adds_total{name=\"cidrallocator_node\"}"));
}
