use bowline_core::Secret;

use super::*;
use crate::clouds::test_cloud::test_cloud;

/// A cloud whose credentials can be changed.
struct Changing(Mutex<Option<&'static str>>);

test_cloud!(Changing {
    fn account(&self) -> Option<Secret> {
        self.0.lock().unwrap().map(Secret::new)
    }
});

fn changing(account: Option<&'static str>) -> (Arc<Changing>, Arc<dyn Cloud>) {
    let cloud = Arc::new(Changing(Mutex::new(account)));
    (cloud.clone(), cloud)
}

#[test]
fn a_proof_belongs_to_the_credentials_and_not_to_the_cloud_that_uses_them() {
    let accounts = Accounts::default();
    let (_, none) = changing(None);
    assert_eq!(accounts.state(&none), AccountState::Proven, "it has none");
    let (one, cloud) = changing(Some("one"));
    assert_eq!(accounts.state(&cloud), AccountState::Unproven);
    let key = AccountKey::of(&cloud).unwrap();
    accounts.with(key, |proof| proof.believe(bowline_core::ProvenBy::Machine));
    let (_, rebuilt) = changing(Some("one"));
    assert_eq!(accounts.state(&rebuilt), AccountState::Proven);
    *one.0.lock().unwrap() = Some("two");
    assert_eq!(accounts.state(&cloud), AccountState::Unproven);
}

#[test]
fn another_account_than_the_one_proven_last_is_known_for_that() {
    let accounts = Accounts::default();
    let (one, cloud) = changing(Some("one"));
    assert!(!accounts.is_other(&cloud), "none was proven");
    let key = AccountKey::of(&cloud).unwrap();
    let fingerprint = key.fingerprint(&bowline_http::Random::seeded(1));
    accounts.notes().set("demo", fingerprint);
    assert!(!accounts.is_other(&cloud));
    *one.0.lock().unwrap() = Some("two");
    assert!(accounts.is_other(&cloud));
}

#[test]
fn the_memory_of_sets_is_bounded() {
    let accounts = Accounts::default();
    for number in 0..=SETS {
        let (_, cloud) = changing(Some(Box::leak(number.to_string().into_boxed_str())));
        accounts.state(&cloud);
    }
    assert_eq!(accounts.lock().proofs.len(), SETS);
}
