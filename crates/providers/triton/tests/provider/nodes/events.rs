//! What people hear of by itself: events that the manager writes, and what wakes the labels.

use std::time::Duration;

use bowline_core::{AddressKind, Cloud as _, NodeAddress, ProviderEvent, Regarding};
use bowline_simulator_triton::{DEFAULT_FINGERPRINT, DEFAULT_PRIVATE_KEY, FABRIC, MachineSpec};
use bowline_triton::keys::PrivateKey;
use bowline_triton::{LOADED, REJECTED, SecretContent, Triton};
use tokio::time::timeout;

use super::harness::{Harness, found, id, known, lookup, node, presence, unclear};

fn secret(key: &str) -> SecretContent {
    SecretContent::new([("SDC_PRIVATE_KEY".to_owned(), key.to_owned())]).of("uid-1")
}

/// The next news within that many seconds.
async fn events(provider: &Triton, seconds: u64) -> Option<ProviderEvent> {
    let wait = timeout(Duration::from_secs(seconds), provider.next_event());
    wait.await.ok()
}

fn on_secret() -> Regarding {
    Regarding {
        kind: "Secret",
        namespace: "kube-system".to_owned(),
        name: "triton-credentials".to_owned(),
        uid: "uid-1".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_leads_hears_which_key_of_the_secret_is_in_use() {
    let test = Harness::new(1);
    let (key, text) = PrivateKey::generate().unwrap();
    let (provider, content) = test.provider_with_secret(secret(DEFAULT_PRIVATE_KEY));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(test.lines(), [""; 0], "nobody leads");
    let first = events(&provider, 10).await.unwrap();
    assert_eq!((first.reason, first.is_warning), (LOADED, false));
    assert_eq!(first.regarding, on_secret());
    assert!(first.message.contains(DEFAULT_FINGERPRINT), "{first:?}");
    // A key that the account does not have yet.
    content.send_replace(Some(secret(text.reveal())));
    let refused = events(&provider, 10).await.unwrap();
    assert_eq!((refused.reason, refused.is_warning), (REJECTED, true));
    assert_eq!(refused.regarding, on_secret());
    assert!(refused.message.contains("401"), "{refused:?}");
    assert!(!refused.message.contains("PRIVATE KEY"), "{refused:?}");
    assert_eq!(events(&provider, 180).await, None, "reported once");
    let line = format!("{} new", key.public_line());
    test.sim.add_key("acme", &line).unwrap();
    let second = events(&provider, 120).await.unwrap();
    assert_eq!(second.reason, LOADED);
    assert!(second.message.contains(&key.fingerprint().md5()));
    // Garbage, and no Secret at all.
    content.send_replace(Some(secret("garbage")));
    assert_eq!(events(&provider, 10).await.unwrap().reason, REJECTED);
    content.send_replace(Some(secret(text.reveal())));
    assert_eq!(events(&provider, 120).await, None, "it is the one in use");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_the_secrets_is_not_reported_on_it() {
    let test = Harness::new(1);
    let account = SecretContent::new([("SDC_ACCOUNT".to_owned(), "acme".to_owned())]);
    let (provider, _content) = test.provider_with_secret(account);
    assert_eq!(events(&provider, 120).await, None);
    let provider = test.provider();
    assert_eq!(events(&provider, 120).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_two_machines_fit_is_reported_once() {
    let test = Harness::new(0);
    for (name, number, address) in [("a", 1, "10.20.0.7"), ("b", 2, "10.20.0.8")] {
        let machine = MachineSpec::named(name).id(&id(number)).networks(&[FABRIC]);
        let machine = machine.addresses(&[address]);
        test.sim.add_machine(&machine).unwrap();
    }
    test.sim.set_address("b", 0, "10.20.0.7").unwrap();
    let provider = test.provider();
    let mut x = node("x", "");
    x.addresses = vec![NodeAddress::new(AddressKind::InternalIp, "10.20.0.7")];
    for _ in 0..3 {
        unclear(lookup(&provider, &x).await);
    }
    let reported = events(&provider, 1).await.unwrap();
    assert_eq!(
        (reported.reason, reported.is_warning),
        ("AmbiguousInstance", true)
    );
    assert_eq!(reported.regarding, Regarding::node(&x));
    assert!(reported.message.contains(&id(1)) && reported.message.contains(&id(2)));
    assert_eq!(events(&provider, 60).await, None);
    assert_eq!(provider.malformed_reason(), "InvalidProviderID");
}

#[tokio::test(start_paused = true)]
async fn machines_that_vanish_together_are_one_event() {
    let test = Harness::new(5);
    let provider = test.provider();
    let nodes = test.lose_five(&provider).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        presence(&provider, &nodes).await;
    }
    let reported = events(&provider, 1).await.unwrap();
    assert_eq!(
        (reported.reason, reported.is_warning),
        ("MassDisappearance", true)
    );
    assert_eq!(reported.regarding, Regarding::manager());
    assert!(reported.message.contains("5 of 5"), "{reported:?}");
    assert_eq!(events(&provider, 60).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_machine_wakes_the_labels_also_if_nobody_waited_for_it() {
    let test = Harness::new(3);
    let provider = test.provider();
    found(lookup(&provider, &known(1)).await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let sync = provider.label_sync().unwrap();
    let nothing = timeout(Duration::from_secs(120), sync.changed()).await;
    assert!(nothing.is_err());
    let value = Some("prod".into());
    test.sim.set_tag("k8s-1", "env", value).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let waited = timeout(Duration::from_millis(1), sync.changed()).await;
    assert!(waited.is_ok(), "it was not lost");
    let nothing = timeout(Duration::from_secs(120), sync.changed()).await;
    assert!(nothing.is_err());
}
