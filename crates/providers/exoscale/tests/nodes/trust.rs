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
    let test = Harness::new().await;
    test.canary().await.unwrap();
    // Whether an empty zone is the cluster's is decided for all clouds alike.
    test.sim.destroy(I1).unwrap();
    test.wait(Duration::from_millis(1)).await;
    test.canary().await.unwrap();
    for denied in ["EXOother", "EXOnone"] {
        let refused = Harness::with(&[("EXOSCALE_API_KEY", denied)], "").await;
        refused.canary().await.unwrap_err();
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_instance_of_a_cluster_may_go() {
    let test = Harness::new().await;
    found(test.ask_one(&i1()).await);
    test.sim.destroy(I1).unwrap();
    gone(test.ask_one(&i1()).await);
    test.canary().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_list_an_instance_seen_before_is_the_proof() {
    let test = Harness::new().await;
    test.sim.deny(&["list-instances"]);
    let error = test.canary().await.unwrap_err().to_string();
    assert!(error.contains("list-instances"), "{error}");
    found(test.ask_one(&i1()).await);
    test.canary().await.unwrap();
    // A key that has lost its permission to read may get the same answer.
    test.sim.destroy(I1).unwrap();
    let error = test.canary().await.unwrap_err().to_string();
    assert!(error.contains("found before"), "{error}");
    test.sim.deny(&["get-instance"]);
    test.canary().await.unwrap_err();
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
    let test = Harness::with(&given, "").await;
    found(test.ask_one(&i1()).await);
    test.canary().await.unwrap();
    let first = test.cloud.account().unwrap();
    // The key of another organisation: the simulated cloud has one, so that its instances go.
    test.sim.destroy(I1).unwrap();
    test.sim.set_key("EXOsecond", Key::new("s2"));
    write("EXOsecond", "s2");
    let second = || {
        let calls = test.world.journal.entries();
        calls.iter().any(|call| call.caller == "EXOsecond")
    };
    while !second() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    while test.cloud.account().unwrap() == first {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    test.canary().await.unwrap();
    let answer = test.ask_one(&i1()).await;
    assert!(matches!(answer, Lookup::Gone(_)), "the guard holds it back");
}
