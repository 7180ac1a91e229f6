//! Which credentials are believed when they say that an instance is gone.

use std::fs;
use std::time::Duration;

use bowline_core::Lookup;
use bowline_simulator_exoscale::{DEFAULT_KEY, DEFAULT_SECRET, Key};

use crate::harness::{Harness, I1, found, gone, known};

fn i1() -> bowline_core::Node {
    known("w", &format!("exoscale://{I1}"))
}

#[tokio::test(start_paused = true)]
async fn the_check_read_succeeds_only_if_the_credentials_hold() {
    let stage = Harness::new().await;
    stage.canary().await.unwrap();
    // Whether an empty zone is the cluster's is decided for all clouds alike.
    stage.sim.destroy(I1).unwrap();
    stage.wait(Duration::from_millis(1)).await;
    stage.canary().await.unwrap();
    for denied in ["EXOother", "EXOnone"] {
        let refused = Harness::with(&[("EXOSCALE_API_KEY", denied)], "").await;
        refused.canary().await.unwrap_err();
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_instance_of_a_cluster_may_go() {
    let stage = Harness::new().await;
    found(stage.ask_one(&i1()).await);
    stage.sim.destroy(I1).unwrap();
    gone(stage.ask_one(&i1()).await);
    stage.canary().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_list_an_instance_seen_before_is_the_proof() {
    let stage = Harness::new().await;
    stage.sim.deny(&["list-instances"]);
    let error = stage.canary().await.unwrap_err().to_string();
    assert!(error.contains("list-instances"), "{error}");
    found(stage.ask_one(&i1()).await);
    stage.canary().await.unwrap();
    stage.sim.destroy(I1).unwrap();
    stage.canary().await.unwrap();
    stage.sim.deny(&["get-instance"]);
    stage.canary().await.unwrap_err();
}

#[tokio::test]
async fn new_credentials_have_an_account_of_their_own_to_prove() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials.json");
    let write = |key: &str, secret: &str| {
        let text = format!(r#"{{"name":"n","api_key":"{key}","api_secret":"{secret}"}}"#);
        fs::write(&file, text).unwrap();
    };
    write(DEFAULT_KEY, DEFAULT_SECRET);
    let path = file.to_str().unwrap();
    let given = [
        ("EXOSCALE_API_KEY", ""),
        ("EXOSCALE_API_SECRET", ""),
        ("EXOSCALE_API_CREDENTIALS_FILE", path),
    ];
    let stage = Harness::with(&given, "").await;
    found(stage.ask_one(&i1()).await);
    stage.canary().await.unwrap();
    let first = stage.cloud.account().unwrap();
    // The key of another organisation: the simulated cloud has one, so that its instances go.
    stage.sim.destroy(I1).unwrap();
    stage.sim.set_key("EXOsecond", Key::new("s2"));
    write("EXOsecond", "s2");
    let second = || {
        let calls = stage.world.journal.entries();
        calls.iter().any(|call| call.caller == "EXOsecond")
    };
    while !second() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    while stage.cloud.account().unwrap() == first {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.canary().await.unwrap();
    let answer = stage.ask_one(&i1()).await;
    assert!(matches!(answer, Lookup::Gone(_)), "the guard holds it back");
}
