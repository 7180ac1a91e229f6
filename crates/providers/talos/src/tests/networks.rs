//! Networks of the cluster and of machines.

use std::net::IpAddr;

use bowline_core::CloudErrorKind;
use bowline_core::ipam::candidates;
use bowline_simulator_talos::{Access, Config, MachineSpec};

use crate::testing::cluster::{FIRST, Harness};

#[tokio::test(start_paused = true)]
async fn the_clusters_ranges_come_from_a_control_plane() {
    let mut harness = Harness::with(Config {
        pods: vec!["10.32.0.0/12".into(), "fd00:10:32::/64".into()],
        services: vec!["10.200.0.0/22".into()],
        ..Config::default()
    });
    harness.add(&MachineSpec::named("w2", &["eth0/10.8.0.12/24"]));
    harness.serve("w2", "10.8.0.12");
    harness.give(&Access::reader(&["10.8.0.12", FIRST]));
    let cloud = harness.cloud("");
    let networks = cloud.networks().unwrap();
    for _ in 0..4 {
        let ranges = networks.cluster_ranges().await.unwrap();
        let pods: Vec<String> = ranges.pods.iter().map(ToString::to_string).collect();
        assert_eq!(pods, ["10.32.0.0/12", "fd00:10:32::/64"]);
        assert_eq!(ranges.services.len(), 1);
    }
    assert_eq!(networks.ipv6_mask(), 80);
}

#[tokio::test(start_paused = true)]
async fn talos_case_99_ranges_that_cannot_be_read_now_can_be_later() {
    let mut harness = Harness::new();
    harness.silence().await;
    let cloud = harness.cloud("");
    assert_eq!(cloud.ready(), Ok(()), "nobody is called at the start");
    let networks = cloud.networks().unwrap();
    let error = networks.cluster_ranges().await.unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    harness.serve("cp1", FIRST);
    networks.cluster_ranges().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_machines_networks_are_those_of_links_that_lead_outside() {
    let harness = Harness::new();
    let own = [
        "cilium_host/2001:db8:99::1/64",
        "dummy0/2001:db8:98::1/64",
        "eth0/10.8.0.11/24",
        "eth0/2001:db8:a:1::10/64",
        "eth0/2001:db8:a:1::11/64(128)",
        "external/2001:db8:b::5/128",
        "kubespan/2001:db8:97::1/128",
        "lo/::1/128",
    ];
    harness.metal("w1", &own);
    let cloud = harness.cloud("");
    let node = harness.node("w1", "10.8.0.99,10.8.0.11");
    let found = cloud.networks().unwrap().machine_addresses(&node).await;
    let found = found.unwrap();
    let ips: Vec<IpAddr> = vec!["10.8.0.11".parse().unwrap()];
    let texts: Vec<String> = candidates(&ips, &found)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        texts,
        [
            "2001:db8:a:1::11/64",
            "2001:db8:a:1::10/64",
            "2001:db8:b::5/128"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_answer_is_an_error_and_no_answer() {
    let harness = Harness::new();
    let cloud = harness.cloud("");
    let networks = cloud.networks().unwrap();
    let silent = networks
        .machine_addresses(&harness.node("w1", "10.8.0.11"))
        .await;
    assert_eq!(silent.unwrap_err().kind(), CloudErrorKind::Unavailable);
    let nowhere = networks.machine_addresses(&harness.node("w1", "")).await;
    let error = nowhere.unwrap_err().chain();
    assert!(error.ends_with("node has no addresses"), "{error}");
}
