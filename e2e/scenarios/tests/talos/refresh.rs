//! Initialised nodes, whose machines are asked again from time to time.

use bowline_scenarios::objects::{addresses, labels};
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator_talos::PlatformSpec;

use crate::talos::harness::{Harness, PLATFORM, cloud_platform};

#[scenario]
async fn talos_case_23_a_label_that_is_taken_away_comes_back() {
    let harness = Harness::configured("").await;
    let reported = PlatformSpec {
        zone: "z1".into(),
        ..cloud_platform("gcp", "gce://p/z1/n1")
    };
    harness.join_on("n1", &["eth0/10.8.0.11/32"], reported);
    let before = harness.ready("n1").await;
    // What is decided at the beginning stays, whatever the machine says by now.
    let moves = harness
        .cloud
        .edit_platform("n1", |it| it.zone = "z2".into());
    moves.unwrap();
    harness
        .change("n1", |node| {
            let all = node["metadata"]["labels"].as_object_mut().unwrap();
            all.remove(PLATFORM).unwrap();
        })
        .await;
    let is_back = |it: &TestCluster| labels(&it.node("n1")).contains_key(PLATFORM);
    harness.until("the label is back", is_back).await;
    let after = harness.node("n1");
    assert_eq!(after["spec"]["providerID"], before["spec"]["providerID"]);
    assert_eq!(labels(&after), labels(&before));
    harness.end().await;
}

#[scenario]
async fn talos_case_24_an_address_that_a_machine_gains_appears() {
    let harness = Harness::configured("").await;
    harness.join_on(
        "n1",
        &["eth0/10.8.0.11/32"],
        cloud_platform("gcp", "gce://p/z/n1"),
    );
    let before = harness.ready("n1").await;
    assert_eq!(addresses(&before), ["InternalIP:10.8.0.11", "Hostname:n1"]);
    harness
        .cloud
        .add_address("n1", "external/34.1.2.3/32")
        .unwrap();
    let wanted = ["InternalIP:10.8.0.11", "ExternalIP:34.1.2.3", "Hostname:n1"];
    let is_there = |it: &TestCluster| addresses(&it.node("n1")) == wanted;
    harness.until("the address appears", is_there).await;
    harness.end().await;
}

#[scenario]
async fn a_machine_that_cannot_be_reached_any_more_changes_nothing() {
    let harness = Harness::configured("").await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    harness.join_metal("w2", &["eth0/10.8.0.12/24"]);
    harness.ready("w1").await;
    harness.ready("w2").await;
    let before = harness.content("w1");
    harness.cloud.hang("w1", true).unwrap();
    // The others are looked at as always.
    harness.rounds("10.8.0.12", 3).await;
    assert_eq!(harness.content("w1"), before);
    harness.end().await;
}
