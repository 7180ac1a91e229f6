//! Endpoints, certificates, and machines that do not answer.

use std::time::Duration;

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::talos::{Beginning, CONTROLLERS, ENDPOINT};
use bowline_scenarios::{TestCluster, is_real, scenario};
use bowline_simulator_talos::{Access, PlatformSpec};

use crate::talos::harness::{Harness, METADATA_ERRORS, OFTEN};

/// Lets some machines join, and waits until all are initialised.
async fn join_some(harness: &Harness) {
    for number in 1..=5 {
        let address = format!("eth0/10.8.0.{number}/24");
        harness.join_metal(&format!("w{number}"), &[&address]);
    }
    for number in 1..=5 {
        harness.ready(&format!("w{number}")).await;
    }
}

#[scenario]
async fn talos_case_54_an_endpoint_that_refuses_connections_fails_no_call() {
    let mut harness = Harness::idle(Beginning::default()).await;
    harness.cloud.give(&Access::reader(&["10.0.0.7", ENDPOINT]));
    harness.start().await;
    join_some(&harness).await;
    assert_eq!(harness.counted(METADATA_ERRORS), 0);
    harness.end().await;
}

#[scenario]
async fn talos_case_55_certificates_are_renewed_and_no_node_notices() {
    // Long enough for the file to be seen before the old one ends.
    let lifetime = Duration::from_secs(if is_real() { 30 } else { 600 });
    let mut harness = Harness::idle(Beginning {
        flags: &[CONTROLLERS, OFTEN],
        ..Beginning::default()
    })
    .await;
    let access = Access::reader(&[ENDPOINT]).lifetime(lifetime);
    harness.cloud.give(&access);
    harness.start().await;
    harness.join_metal("w0", &["eth0/10.8.0.10/24"]);
    harness.ready("w0").await;
    for number in 1..=3 {
        harness.pass(lifetime / 2).await;
        harness.cloud.give(&access);
        // By now the one before has ended, and so have all connections.
        harness.pass(lifetime / 2 + Duration::from_secs(1)).await;
        harness.cloud.drop_connections();
        let (name, address) = (format!("w{number}"), format!("eth0/10.8.0.{number}/24"));
        harness.join_metal(&name, &[&address]);
        harness.ready(&name).await;
        assert_eq!(harness.event_count(&name, "NodeInitializationFailed"), 0);
        // The next one is written while this one still counts.
        harness.cloud.give(&access);
    }
    harness.rounds("10.8.0.10", 1).await;
    for kind in ["platformmetadata", "addresses"] {
        let errors = format!("talosccm_api_request_errors_total{{request=\"{kind}\"}}");
        assert_eq!(harness.counted(&errors), 0, "{kind}");
    }
    harness.end().await;
}

#[scenario]
async fn talos_case_56_an_endpoint_that_is_a_worker_fails_no_call() {
    let mut harness = Harness::idle(Beginning::default()).await;
    harness
        .cloud
        .add("w9", &["eth0/10.8.0.9/24"], PlatformSpec::default());
    harness.cloud.serve("w9", "10.8.0.9");
    harness.cloud.give(&Access::reader(&["10.8.0.9", ENDPOINT]));
    harness.start().await;
    join_some(&harness).await;
    assert_eq!(harness.counted(METADATA_ERRORS), 0);
    harness.end().await;
}

#[scenario]
async fn talos_case_57_a_server_with_another_name_is_not_trusted_and_that_is_told() {
    let mut harness = Harness::idle(Beginning::default()).await;
    harness.cloud.set_server_names(Some(&["other.example"]));
    harness.start().await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let reported = harness.message("w1", "NodeInitializationFailed").await;
    let wanted = "it was issued for another";
    assert!(reported.contains(wanted), "{reported}");
    harness.assert_said(wanted);
    assert!(harness.counted(METADATA_ERRORS) > 0);
    harness.long(120).await;
    assert!(is_uninitialized(&harness.node("w1")));
    assert_eq!(harness.node_changes("w1"), []);
    harness.cloud.set_server_names(None);
    harness.ready("w1").await;
    harness.end().await;
}

#[scenario]
async fn talos_case_58_a_machine_that_never_answers_holds_up_its_own_node_alone(harness: Harness) {
    harness
        .cloud
        .add("dead", &["eth0/10.8.0.66/24"], PlatformSpec::default());
    harness.cloud.hang("dead", true).unwrap();
    harness.join("dead");
    let is_there = |it: &TestCluster| it.find("dead").is_some();
    harness.until("its node is there", is_there).await;
    // By now it is asked.
    harness.seconds(1).await;
    let begun = harness.world.clock.now();
    join_some(&harness).await;
    let took = harness.since(begun);
    let most = Duration::from_secs(5) + harness.slack();
    assert!(took < most, "{took:?}");
    if !is_real() {
        let given_up = harness.event_count("dead", "NodeInitializationFailed");
        assert_eq!(given_up, 0, "it was waited for meanwhile");
    }
    let reported = harness.message("dead", "NodeInitializationFailed").await;
    assert!(
        reported.contains("there is no answer within 10 s"),
        "{reported}"
    );
    // And again, while it is asked for the second and the third time.
    harness.join_metal("later", &["eth0/10.8.0.50/24"]);
    harness.ready("later").await;
    assert!(is_uninitialized(&harness.node("dead")));
    harness.cloud.hang("dead", false).unwrap();
    harness.ready("dead").await;
}
