//! The two files: what stops the start, and what comes of a change.

use std::time::Duration;

use bowline_core::MachineAnswer;
use bowline_simulator_talos::Access;

use crate::Need;
use crate::testing::cluster::{FIRST, Harness, found};

#[tokio::test(start_paused = true)]
async fn talos_case_88_without_usable_credentials_there_is_no_start_where_machines_are_asked() {
    let harness = Harness::new();
    let config = harness.path("config");
    for (text, words) in [
        (Some(""), "it is empty"),
        (Some("context: gone"), "its context \"gone\" is not found"),
        (None, "there is no talosconfig"),
    ] {
        match text {
            Some(text) => harness.write("config", text),
            None => std::fs::remove_file(&config).unwrap(),
        }
        let wrong = harness.build("", &[], Need::Machines).err().unwrap();
        let error = wrong.to_string();
        assert!(error.contains(words), "{error}");
        assert!(error.contains(config.to_str().unwrap()), "{error}");
    }
    assert!(!config.exists());
}

#[tokio::test(start_paused = true)]
async fn talos_case_93_certificates_need_no_credentials() {
    let harness = Harness::new();
    std::fs::remove_file(harness.path("config")).unwrap();
    let cloud = harness.build("", &[], Need::Nodes).unwrap();
    assert_eq!(cloud.ready(), Ok(()));
    let node = harness.node("n1", "10.0.0.5");
    let certificates = cloud.serving_certificates().unwrap();
    let answer = certificates.machine("n1", Some(&node)).await;
    let MachineAnswer::Machines(machines) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(
        machines[0].claimed_addresses,
        ["10.0.0.5".parse::<std::net::IpAddr>().unwrap()]
    );
    assert_eq!(harness.world.journal.entries(), []);
    assert!(!harness.path("config").exists());
}

#[tokio::test(start_paused = true)]
async fn talos_case_87_a_bad_cloud_config_changes_nothing_and_a_good_one_is_taken() {
    let harness = Harness::with_worker();
    let node = harness.node("w1", "10.8.0.11");
    let cloud = harness.cloud("transformations: [{labels: {a: old}}]");
    let rows = [
        ("transformations: {", "old"),
        ("transformations: [{labels: {\"-\": x}}]", "old"),
        ("transformations: [{labels: {a: new}}]", "new"),
    ];
    for (text, value) in rows {
        harness.write("cloud.yaml", text);
        tokio::time::sleep(Duration::from_secs(6)).await;
        let instance = found(&cloud, &node).await;
        assert_eq!(instance.marks.labels["a"], value, "{text}");
        assert_eq!(cloud.ready(), Ok(()));
    }
    let refused = r#"talosccm_config_reloads_total{result="refused"}"#;
    assert_eq!(harness.metric(refused), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_config_that_cannot_be_used_stops_the_start() {
    let harness = Harness::new();
    let wrong = harness
        .build("global: [", &[], Need::Machines)
        .err()
        .unwrap();
    assert!(wrong.to_string().contains("cloud.yaml"), "{wrong}");
    harness.give(&Access::reader(&[FIRST]));
    harness.build("", &[], Need::Machines).unwrap();
    harness
        .build("global: {odd: 1}", &[], Need::Machines)
        .unwrap();
    let findings = r#"talosccm_config_findings{severity="warning"}"#;
    assert_eq!(
        harness.metric(findings),
        0,
        "the first of several counts here"
    );
}
