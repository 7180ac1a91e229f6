//! Credentials that change, clocks that differ, limits that bite.

use std::time::Duration;

use bowline_core::Cloud as _;
use bowline_simulator_triton::{DEFAULT_FINGERPRINT, DEFAULT_PRIVATE_KEY};
use bowline_triton::SecretContent;
use bowline_triton::keys::PrivateKey;

use super::harness::{Harness, found, known, lookup};

fn secret(key: &str) -> SecretContent {
    SecretContent::new([("SDC_PRIVATE_KEY".to_owned(), key.to_owned())])
}

#[tokio::test(start_paused = true)]
async fn triton_case_12_a_new_key_in_the_secret_is_used_and_garbage_is_not() {
    let test = Harness::new(1);
    let (key, text) = PrivateKey::generate().unwrap();
    let line = format!("{} new", key.public_line());
    test.sim.add_key("acme", &line).unwrap();
    let (provider, content) = test.provider_with_secret(secret(DEFAULT_PRIVATE_KEY));
    let in_use = || {
        let client = provider.data_center().api().client();
        client.signer().key_id().to_owned()
    };
    let id_of = |fingerprint: &str| format!("/acme/keys/{fingerprint}");
    assert_eq!(in_use(), id_of(DEFAULT_FINGERPRINT));
    found(lookup(&provider, &known(1)).await);

    content.send_replace(Some(secret(text.reveal())));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let new = id_of(&key.fingerprint().md5());
    assert_eq!(in_use(), new);
    found(lookup(&provider, &known(1)).await);

    // Garbage, and a key that the account does not have.
    let (stranger, strange) = PrivateKey::generate().unwrap();
    for wrong in ["garbage", strange.reveal()] {
        content.send_replace(Some(secret(wrong)));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(in_use(), new, "the old one stays");
        found(lookup(&provider, &known(1)).await);
    }
    // It is tried again, and used as soon as the account has it.
    let line = format!("{} strange", stranger.public_line());
    test.sim.add_key("acme", &line).unwrap();
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(in_use(), id_of(&stranger.fingerprint().md5()));
    provider.instances().unwrap().canary().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_is_read_again() {
    let test = Harness::new(1);
    let (provider, folder) = test.provider_with_file("[Global]\ntriton-user = nobody\n");
    let user = || {
        let client = provider.data_center().api().client();
        client.connection().owner.user.clone()
    };
    assert_eq!(user().as_deref(), Some("nobody"));
    std::fs::write(folder.path().join("cloud.conf"), "[Global]\n").unwrap();
    tokio::time::sleep(bowline_triton::POLL * 2).await;
    assert_eq!(user(), None);
    found(lookup(&provider, &known(1)).await);
}

#[tokio::test(start_paused = true)]
async fn triton_case_04_and_06_the_server_verifies_every_kind_of_key_also_with_another_clock() {
    for skew in [0, 600, -600] {
        let test = Harness::new(1);
        test.sim.set_skew(skew);
        found(lookup(&test.provider(), &known(1)).await);
        let refused = test.count(" 400");
        assert_eq!(refused > 0, skew != 0, "{:?}", test.lines());
    }
    for name in [
        "rsa.pkcs1",
        "p256.openssh",
        "p384.openssh",
        "p521.sec1",
        "ed25519.openssh",
    ] {
        let test = Harness::new(1);
        let path = format!("{}/src/keys/examples/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let key = PrivateKey::parse(&text, None).unwrap();
        test.sim
            .add_key("acme", &format!("{} k", key.public_line()))
            .unwrap();
        let provider = test.provider_of(Harness::sources(&[("SDC_PRIVATE_KEY", &text)]));
        found(lookup(&provider, &known(1)).await);
        assert_eq!(test.count(" 401"), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn triton_case_08_the_servers_own_limit_is_lived_with() {
    let test = Harness::new(60);
    test.sim
        .set_throttle(Some(bowline_simulator_triton::Throttle {
            burst: 3,
            rate: 1,
        }));
    let provider = test.provider();
    let nodes: Vec<_> = (1..=5).map(known).collect();
    for answer in super::harness::lookups(&provider, &nodes).await {
        found(answer);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_while_nobody_wants_to_know() {
    let test = Harness::new(1);
    let provider = test.provider();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(test.lines(), [""; 0]);
    found(lookup(&provider, &known(1)).await);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(
        test.count("GET /acme/machines 200") >= 5,
        "{:?}",
        test.lines()
    );
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let before = test.lines().len();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(test.lines().len(), before);
}
