//! Endpoints, certificates, and machines that do not answer.

use std::time::Duration;

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::talos::{Beginning, CONTROLLERS, ENDPOINT};
use bowline_scenarios::{TestCluster, is_real, scenario};
use bowline_simulator_talos::{Access, PlatformSpec};

use crate::stage::{METADATA_ERRORS, OFTEN, Stage};

/// Lets some machines join, and waits until all are initialised.
async fn join_some(stage: &Stage) {
    for number in 1..=5 {
        let address = format!("eth0/10.8.0.{number}/24");
        stage.join_metal(&format!("w{number}"), &[&address]);
    }
    for number in 1..=5 {
        stage.ready(&format!("w{number}")).await;
    }
}

#[scenario]
async fn talos_case_54_an_endpoint_that_refuses_connections_fails_no_call() {
    let mut stage = Stage::idle(Beginning::default()).await;
    stage.cloud.give(&Access::reader(&["10.0.0.7", ENDPOINT]));
    stage.start().await;
    join_some(&stage).await;
    assert_eq!(stage.counted(METADATA_ERRORS), 0);
    stage.end().await;
}

#[scenario]
async fn talos_case_55_certificates_are_renewed_and_no_node_notices() {
    // Long enough for the file to be seen before the old one ends.
    let lifetime = Duration::from_secs(if is_real() { 30 } else { 600 });
    let mut stage = Stage::idle(Beginning {
        flags: &[CONTROLLERS, OFTEN],
        ..Beginning::default()
    })
    .await;
    let access = Access::reader(&[ENDPOINT]).lifetime(lifetime);
    stage.cloud.give(&access);
    stage.start().await;
    stage.join_metal("w0", &["eth0/10.8.0.10/24"]);
    stage.ready("w0").await;
    for number in 1..=3 {
        stage.pass(lifetime / 2).await;
        stage.cloud.give(&access);
        // By now the one before has ended, and so have all connections.
        stage.pass(lifetime / 2 + Duration::from_secs(1)).await;
        stage.cloud.drop_connections();
        let (name, address) = (format!("w{number}"), format!("eth0/10.8.0.{number}/24"));
        stage.join_metal(&name, &[&address]);
        stage.ready(&name).await;
        assert_eq!(stage.told(&name, "NodeInitializationFailed"), 0);
        // The next one is written while this one still counts.
        stage.cloud.give(&access);
    }
    stage.rounds("10.8.0.10", 1).await;
    for kind in ["platformmetadata", "addresses"] {
        let errors = format!("talosccm_api_request_errors_total{{request=\"{kind}\"}}");
        assert_eq!(stage.counted(&errors), 0, "{kind}");
    }
    stage.end().await;
}

#[scenario]
async fn talos_case_56_an_endpoint_that_is_a_worker_fails_no_call() {
    let mut stage = Stage::idle(Beginning::default()).await;
    stage
        .cloud
        .add("w9", &["eth0/10.8.0.9/24"], PlatformSpec::default());
    stage.cloud.serve("w9", "10.8.0.9");
    stage.cloud.give(&Access::reader(&["10.8.0.9", ENDPOINT]));
    stage.start().await;
    join_some(&stage).await;
    assert_eq!(stage.counted(METADATA_ERRORS), 0);
    stage.end().await;
}

#[scenario]
async fn talos_case_57_a_server_with_another_name_is_not_trusted_and_that_is_told() {
    let mut stage = Stage::idle(Beginning::default()).await;
    stage.cloud.set_server_names(Some(&["other.example"]));
    stage.start().await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let told = stage.message("w1", "NodeInitializationFailed").await;
    let wanted = "it was issued for another";
    assert!(told.contains(wanted), "{told}");
    stage.assert_said(wanted);
    assert!(stage.counted(METADATA_ERRORS) > 0);
    stage.long(120).await;
    assert!(is_uninitialized(&stage.node("w1")));
    assert_eq!(stage.node_changes("w1"), []);
    stage.cloud.set_server_names(None);
    stage.ready("w1").await;
    stage.end().await;
}

#[scenario]
async fn talos_case_58_a_machine_that_never_answers_holds_up_its_own_node_alone(stage: Stage) {
    stage
        .cloud
        .add("dead", &["eth0/10.8.0.66/24"], PlatformSpec::default());
    stage.cloud.hang("dead", true).unwrap();
    stage.join("dead");
    let is_there = |it: &TestCluster| it.find("dead").is_some();
    stage.until("its node is there", is_there).await;
    // By now it is asked.
    stage.seconds(1).await;
    let begun = stage.world.clock.now();
    join_some(&stage).await;
    let took = stage.since(begun);
    let most = Duration::from_secs(5) + stage.slack();
    assert!(took < most, "{took:?}");
    if !is_real() {
        let given_up = stage.told("dead", "NodeInitializationFailed");
        assert_eq!(given_up, 0, "it was waited for meanwhile");
    }
    let told = stage.message("dead", "NodeInitializationFailed").await;
    assert!(told.contains("there is no answer within 10 s"), "{told}");
    // And again, while it is asked for the second and the third time.
    stage.join_metal("later", &["eth0/10.8.0.50/24"]);
    stage.ready("later").await;
    assert!(is_uninitialized(&stage.node("dead")));
    stage.cloud.hang("dead", false).unwrap();
    stage.ready("dead").await;
}
