//! Initialised nodes, whose machines are asked again from time to time.

use bowline_scenarios::objects::{addresses, labels};
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator_talos::PlatformSpec;

use crate::stage::{PLATFORM, Stage, cloud_platform};

#[scenario]
async fn talos_case_23_a_label_that_is_taken_away_comes_back() {
    let stage = Stage::configured("").await;
    let told = PlatformSpec {
        zone: "z1".into(),
        ..cloud_platform("gcp", "gce://p/z1/n1")
    };
    stage.join_on("n1", &["eth0/10.8.0.11/32"], told);
    let before = stage.ready("n1").await;
    // What is decided at the beginning stays, whatever the machine says by now.
    let moves = stage.cloud.edit_platform("n1", |it| it.zone = "z2".into());
    moves.unwrap();
    stage
        .change("n1", |node| {
            let all = node["metadata"]["labels"].as_object_mut().unwrap();
            all.remove(PLATFORM).unwrap();
        })
        .await;
    let is_back = |it: &TestCluster| labels(&it.node("n1")).contains_key(PLATFORM);
    stage.until("the label is back", is_back).await;
    let after = stage.node("n1");
    assert_eq!(after["spec"]["providerID"], before["spec"]["providerID"]);
    assert_eq!(labels(&after), labels(&before));
    stage.end().await;
}

#[scenario]
async fn talos_case_24_an_address_that_a_machine_gains_appears() {
    let stage = Stage::configured("").await;
    stage.join_on(
        "n1",
        &["eth0/10.8.0.11/32"],
        cloud_platform("gcp", "gce://p/z/n1"),
    );
    let before = stage.ready("n1").await;
    assert_eq!(addresses(&before), ["InternalIP:10.8.0.11", "Hostname:n1"]);
    stage
        .cloud
        .add_address("n1", "external/34.1.2.3/32")
        .unwrap();
    let wanted = ["InternalIP:10.8.0.11", "ExternalIP:34.1.2.3", "Hostname:n1"];
    let is_there = |it: &TestCluster| addresses(&it.node("n1")) == wanted;
    stage.until("the address appears", is_there).await;
    stage.end().await;
}

#[scenario]
async fn a_machine_that_cannot_be_reached_any_more_changes_nothing() {
    let stage = Stage::configured("").await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    stage.join_metal("w2", &["eth0/10.8.0.12/24"]);
    stage.ready("w1").await;
    stage.ready("w2").await;
    let before = stage.content("w1");
    stage.cloud.hang("w1", true).unwrap();
    // The others are looked at as always.
    stage.rounds("10.8.0.12", 3).await;
    assert_eq!(stage.content("w1"), before);
    stage.end().await;
}
