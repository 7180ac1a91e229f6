//! The change feed: what it starts, what it never decides, and what happens without it.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::Power;
use bowline_simulator_triton::State;
use bowline_triton::{GATHER, REFUSED, Triton, TritonMetrics, build};
use prometheus_client::registry::Registry;

use super::harness::{Harness, found, known, lookup};

/// A provider whose metrics can be read, with its change feed followed.
async fn followed(test: &Harness) -> (Arc<Triton>, Registry) {
    let mut registry = Registry::default();
    let metrics = TritonMetrics::register(&mut registry);
    let cloud = build(Harness::sources(&[]), &test.seams(), &metrics).unwrap();
    found(lookup(&cloud, &known(1)).await);
    // Interest is what starts it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    (cloud, registry)
}

fn connected(registry: &Registry) -> bool {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let name = "triton_changefeed_connected{datacenter=\"\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap() == "1"
}

#[tokio::test(start_paused = true)]
async fn triton_case_25_a_migration_is_seen_within_seconds() {
    let test = Harness::new(3);
    let (cloud, registry) = followed(&test).await;
    assert!(connected(&registry), "{:?}", test.lines());
    let mut changes = cloud.data_center().machines().changes();
    let there = "c0000000-0000-4000-8000-000000000003";
    test.sim.migrate("k8s-1", there).unwrap();
    let reported = tokio::time::timeout(Duration::from_secs(5), changes.recv()).await;
    assert_eq!(reported.unwrap().unwrap().len(), 1);
    let instance = found(lookup(&cloud, &known(1)).await);
    let label = &instance.extra_labels["cloud.tritoncompute/compute-node"];
    assert_eq!(label, there);
}

#[tokio::test(start_paused = true)]
async fn triton_case_26_the_frames_own_object_is_not_believed() {
    let test = Harness::new(3);
    let (cloud, _registry) = followed(&test).await;
    let value = Some("prod".into());
    test.sim.set_tag("k8s-1", "env", value).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let instance = found(lookup(&cloud, &known(1)).await);
    let package = &instance.instance_type;
    assert_eq!(package, "g4-highcpu-1G", "the frame said nothing");
}

#[tokio::test(start_paused = true)]
async fn triton_case_78_frames_start_one_list_and_decide_nothing() {
    let test = Harness::new(3);
    let (cloud, _registry) = followed(&test).await;
    let lists = || test.count("GET /acme/machines 200");
    let before = lists();
    for _ in 0..2 {
        test.sim.set_state("k8s-1", State::Stopped).unwrap();
        test.sim.set_state("k8s-1", State::Running).unwrap();
    }
    tokio::time::sleep(GATHER * 2).await;
    assert_eq!(lists(), before + 1, "{:?}", test.lines());
    assert_eq!(found(lookup(&cloud, &known(1)).await).power, Power::On);
    assert_eq!(lists(), before + 1, "the look-up uses that list");
    let writes = test.count("POST") + test.count("PUT") + test.count("DELETE");
    assert_eq!(writes, 0);
    test.sim.set_state("k8s-1", State::Stopped).unwrap();
    tokio::time::sleep(GATHER * 2).await;
    assert_eq!(found(lookup(&cloud, &known(1)).await).power, Power::Off);
}

#[tokio::test(start_paused = true)]
async fn triton_case_78_without_a_feed_machines_are_listed_and_it_is_asked_for_again() {
    let test = Harness::new(3);
    test.sim.set_quirks(|quirks| quirks.no_changefeed = true);
    let (cloud, registry) = followed(&test).await;
    assert!(!connected(&registry));
    assert_eq!(test.count("/changefeed"), 1, "{:?}", test.lines());
    test.sim.set_state("k8s-1", State::Stopped).unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(found(lookup(&cloud, &known(1)).await).power, Power::Off);
    tokio::time::sleep(REFUSED.saturating_sub(Duration::from_secs(90))).await;
    assert_eq!(test.count("/changefeed"), 1);
    test.sim.set_quirks(|quirks| quirks.no_changefeed = false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(test.count("/changefeed"), 2);
    assert!(connected(&registry));
}

#[tokio::test(start_paused = true)]
async fn the_feed_is_kept_alive_by_pings_and_followed_again_when_it_breaks() {
    let test = Harness::new(3);
    let (cloud, registry) = followed(&test).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(test.count("/changefeed"), 1, "{:?}", test.lines());
    assert!(connected(&registry));
    test.sim.drop_feeds();
    tokio::time::sleep(Duration::from_secs(5)).await;
    found(lookup(&cloud, &known(1)).await);
    assert_eq!(test.count("/changefeed"), 2, "{:?}", test.lines());
    assert!(connected(&registry));
}
