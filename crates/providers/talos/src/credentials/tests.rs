use super::*;
use bowline_test_kit::says;

use std::path::Path;

use bowline_http::Pipes;

use crate::testing::pki::Authority;

fn clock() -> Clock {
    Clock::system()
}

/// What is said beside the talosconfig.
type Said = Arc<Mutex<Vec<String>>>;

fn following(path: &Path, said: &Said) -> Keyring {
    let said = Arc::clone(said);
    let endpoints = move || said.lock().unwrap().clone();
    let connector = Connector::simulated(Pipes::default());
    Keyring::open(vec![path.to_owned()], endpoints, connector, clock())
}

fn open(path: &Path, endpoints: &[&str]) -> (Keyring, Result<(), Arc<CredentialsError>>) {
    let said = endpoints.iter().map(ToString::to_string).collect();
    let keyring = following(path, &Said::new(Mutex::new(said)));
    let opened = keyring.current().map(drop);
    (keyring, opened)
}

fn dialled(keyring: &Keyring) -> Vec<String> {
    let current = keyring.current().unwrap();
    current.endpoints.iter().map(ToString::to_string).collect()
}

#[test]
fn talos_case_53_the_environment_says_where_machines_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let authority = Authority::new();
    std::fs::write(&path, authority.talosconfig(&["file.example"], 3600)).unwrap();
    let (keyring, opened) = open(&path, &["10.0.0.2", "10.0.0.3:51000"]);
    opened.unwrap();
    assert_eq!(dialled(&keyring), ["10.0.0.2:50000", "10.0.0.3:51000"]);
    let (keyring, _) = open(&path, &[]);
    assert_eq!(dialled(&keyring), ["file.example:50000"]);
}

#[test]
fn an_endpoint_that_is_none_spoils_nothing_unless_it_is_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let authority = Authority::new();
    std::fs::write(&path, authority.talosconfig(&[], 3600)).unwrap();
    let (keyring, opened) = open(&path, &["10.0.0.2", " 10.0.0.3", "10.0.0.2:50000"]);
    opened.unwrap();
    assert_eq!(dialled(&keyring), ["10.0.0.2:50000"], "and each only once");
    let error = open(&path, &[" 10.0.0.3"]).1.unwrap_err().to_string();
    says(&error, "\" 10.0.0.3\" is no endpoint");
    let error = open(&path, &[]).1.unwrap_err().to_string();
    says(&error, "failed to determine endpoints");
    says(&error, path.to_str().unwrap());
}

#[tokio::test]
async fn talos_case_55_a_turned_link_brings_new_credentials_and_a_bad_file_none() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let authority = Authority::new();
    std::fs::create_dir(at("one")).unwrap();
    std::fs::create_dir(at("two")).unwrap();
    std::fs::write(at("one/config"), authority.talosconfig(&["a"], 60)).unwrap();
    std::fs::write(at("two/config"), authority.talosconfig(&["b"], 3600)).unwrap();
    std::os::unix::fs::symlink(at("one"), at("data")).unwrap();
    let said = Said::default();
    let keyring = following(&at("data/config"), &said);
    let first = keyring.current().unwrap();
    keyring.look().await;
    assert_eq!(keyring.current().unwrap().generation, first.generation);

    std::os::unix::fs::symlink(at("two"), at("next")).unwrap();
    std::fs::rename(at("next"), at("data")).unwrap();
    keyring.look().await;
    let second = keyring.current().unwrap();
    assert_eq!(second.generation, first.generation + 1);
    assert_eq!(dialled(&keyring), ["b:50000"]);

    for bad in ["", "context: nowhere", "- x"] {
        std::fs::write(at("two/config"), bad).unwrap();
        keyring.look().await;
        assert_eq!(keyring.current().unwrap().generation, second.generation);
        assert_eq!(keyring.ready(), Ok(()));
    }
    std::fs::remove_file(at("two/config")).unwrap();
    keyring.look().await;
    assert_eq!(keyring.current().unwrap().generation, second.generation);

    std::fs::write(at("two/config"), authority.talosconfig(&["c"], 3600)).unwrap();
    keyring.look().await;
    assert_eq!(dialled(&keyring), ["c:50000"], "what comes back is taken");
    said.lock().unwrap().push("10.0.0.9".to_owned());
    keyring.look().await;
    assert_eq!(
        dialled(&keyring),
        ["10.0.0.9:50000"],
        "and so is a cloud config's word"
    );
}

#[tokio::test]
async fn without_a_usable_file_the_reason_is_reported_until_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let (keyring, opened) = open(&path, &[]);
    assert!(opened.is_err());
    assert!(
        keyring
            .ready()
            .unwrap_err()
            .contains("there is no talosconfig")
    );
    std::fs::write(&path, "").unwrap();
    keyring.look().await;
    assert!(keyring.ready().unwrap_err().contains("it is empty"));
    std::fs::write(&path, Authority::new().talosconfig(&["a"], 3600)).unwrap();
    keyring.look().await;
    assert_eq!(keyring.ready(), Ok(()));
}

#[test]
fn a_certificate_that_has_ended_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, Authority::new().talosconfig(&["a"], -60)).unwrap();
    let (keyring, opened) = open(&path, &[]);
    opened.unwrap();
    let reason = keyring.ready().unwrap_err();
    says(&reason, "client certificate of the talosconfig ended");
}
