//! The two files: what stops the start, and what comes of a change.

use std::time::Duration;

use bowline_core::MachineAnswer;
use bowline_simulator_talos::Access;

use crate::Need;
use crate::testing::cluster::{FIRST, Harness, found};

#[tokio::test(start_paused = true)]
async fn talos_case_88_without_usable_credentials_there_is_no_start_where_machines_are_asked() {
    let stage = Harness::new();
    let config = stage.path("config");
    for (text, words) in [
        (Some(""), "it is empty"),
        (Some("context: gone"), "its context \"gone\" is not found"),
        (None, "there is no talosconfig"),
    ] {
        match text {
            Some(text) => stage.write("config", text),
            None => std::fs::remove_file(&config).unwrap(),
        }
        let wrong = stage.build("", &[], Need::Machines).err().unwrap();
        let told = wrong.to_string();
        assert!(told.contains(words), "{told}");
        assert!(told.contains(config.to_str().unwrap()), "{told}");
    }
    assert!(!config.exists());
}

#[tokio::test(start_paused = true)]
async fn talos_case_93_certificates_need_no_credentials() {
    let stage = Harness::new();
    std::fs::remove_file(stage.path("config")).unwrap();
    let cloud = stage.build("", &[], Need::Nodes).unwrap();
    assert_eq!(cloud.ready(), Ok(()));
    let node = stage.node("n1", "10.0.0.5");
    let certificates = cloud.serving_certificates().unwrap();
    let answer = certificates.machine("n1", Some(&node)).await;
    let MachineAnswer::Machines(machines) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(
        machines[0].claimed_addresses,
        ["10.0.0.5".parse::<std::net::IpAddr>().unwrap()]
    );
    assert_eq!(stage.world.journal.entries(), []);
    assert!(!stage.path("config").exists());
}

#[tokio::test(start_paused = true)]
async fn talos_case_87_a_bad_cloud_config_changes_nothing_and_a_good_one_is_taken() {
    let stage = Harness::with_worker();
    let node = stage.node("w1", "10.8.0.11");
    let cloud = stage.cloud("transformations: [{labels: {a: old}}]");
    let rows = [
        ("transformations: {", "old"),
        ("transformations: [{labels: {\"-\": x}}]", "old"),
        ("transformations: [{labels: {a: new}}]", "new"),
    ];
    for (text, value) in rows {
        stage.write("cloud.yaml", text);
        tokio::time::sleep(Duration::from_secs(6)).await;
        let instance = found(&cloud, &node).await;
        assert_eq!(instance.marks.labels["a"], value, "{text}");
        assert_eq!(cloud.ready(), Ok(()));
    }
    let refused = r#"talosccm_config_reloads_total{result="refused"}"#;
    assert_eq!(stage.metric(refused), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_config_that_cannot_be_used_stops_the_start() {
    let stage = Harness::new();
    let wrong = stage.build("global: [", &[], Need::Machines).err().unwrap();
    assert!(wrong.to_string().contains("cloud.yaml"), "{wrong}");
    stage.give(&Access::reader(&[FIRST]));
    stage.build("", &[], Need::Machines).unwrap();
    stage
        .build("global: {odd: 1}", &[], Need::Machines)
        .unwrap();
    let findings = r#"talosccm_config_findings{severity="warning"}"#;
    assert_eq!(
        stage.metric(findings),
        0,
        "the first of several counts here"
    );
}
