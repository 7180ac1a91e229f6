//! Triton through the program: credentials that are proven and stored, and the provider's start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_simulator::World;
use bowline_simulator::serve::Server;
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_triton::{DEFAULT_FINGERPRINT, DEFAULT_PRIVATE_KEY, Fixture, Triton};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::process::{Ended, Running, bowline, run};

struct Setup {
    cluster: Cluster,
    url: String,
    folder: TempDir,
    _server: Server,
}

impl Setup {
    async fn new() -> Self {
        let world = World::real();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let cluster = Cluster::on_socket(&world, any).await.unwrap();
        let cloud = Triton::from_fixture(&world, Fixture::default()).unwrap();
        let server = Server::builder(&world, cloud);
        let server = server.plain(any).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("kubeconfig"), cluster.admin_kubeconfig().unwrap()).unwrap();
        std::fs::create_dir(path(".ssh")).unwrap();
        std::fs::write(path(".ssh/mine"), DEFAULT_PRIVATE_KEY).unwrap();
        std::fs::write(path(".ssh/known_hosts"), "example.com ssh-rsa AAAA").unwrap();
        Self {
            url: format!("http://{}", server.local_addr().unwrap()),
            cluster,
            folder,
            _server: server,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The tool, with what finds the data center and the cluster.
    fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = bowline(&["triton", "credentials"]);
        command
            .args(arguments)
            .arg(format!(
                "--kubeconfig={}",
                self.path("kubeconfig").display()
            ))
            .env("HOME", self.folder.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("SDC_URL", &self.url)
            .env("SDC_ACCOUNT", "acme")
            .env("SDC_KEY_ID", DEFAULT_FINGERPRINT);
        command
    }

    /// Events with that reason, in the namespace of the Secret.
    async fn events(&self, reason: &str) -> Vec<k8s_openapi::api::core::v1::Event> {
        let api: kube::Api<k8s_openapi::api::core::v1::Event> =
            kube::Api::namespaced(self.cluster.admin().unwrap(), "kube-system");
        let all = api.list(&kube::api::ListParams::default()).await.unwrap();
        let with =
            |event: &k8s_openapi::api::core::v1::Event| event.reason.as_deref() == Some(reason);
        all.items.into_iter().filter(with).collect()
    }

    /// The texts of the Secret in the cluster, if there is one.
    async fn secret(&self, name: &str) -> Option<std::collections::BTreeMap<String, String>> {
        let client = self.cluster.admin().unwrap();
        let api: kube::Api<k8s_openapi::api::core::v1::Secret> =
            kube::Api::namespaced(client, "kube-system");
        let secret = api.get_opt(name).await.unwrap()?;
        let data = secret.data.unwrap_or_default().into_iter();
        Some(
            data.map(|(key, bytes)| (key, String::from_utf8(bytes.0).unwrap()))
                .collect(),
        )
    }
}

async fn ran(command: Command) -> Ended {
    spawn_blocking(|| run(command)).await.unwrap()
}

fn example(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../providers/triton/src/keys/examples");
    folder.join(name)
}

#[tokio::test]
async fn triton_case_65_a_wrong_account_is_told_and_nothing_is_written() {
    let test = Setup::new().await;
    let ended = ran(test.tool(&["--account=nobody"])).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    for words in ["401", DEFAULT_FINGERPRINT, "account nobody", &test.url] {
        assert!(ended.error().contains(words), "{words} in {ended:?}");
    }
    assert_eq!(test.secret("triton-credentials").await, None);
    let ended = ran(test.tool(&["--dry-run", "-o", "yaml"])).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for key in [
        "SDC_ENDPOINT:",
        "SDC_ACCOUNT: acme",
        "SDC_KEY_ID:",
        "SDC_PRIVATE_KEY:",
    ] {
        assert!(ended.stdout.contains(key), "{key} in {}", ended.stdout);
    }
    assert!(ended.stdout.contains("kind: Secret") && !ended.stdout.contains("SDC_USER"));
    assert_eq!(test.secret("triton-credentials").await, None);
}

#[tokio::test]
async fn a_proven_key_is_stored_and_never_shown() {
    let test = Setup::new().await;
    let ended = ran(test.tool(&["--name=mine"])).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let secret = test.secret("mine").await.unwrap();
    let keys: Vec<&str> = secret.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "SDC_ACCOUNT",
            "SDC_ENDPOINT",
            "SDC_KEY_ID",
            "SDC_PRIVATE_KEY"
        ]
    );
    assert_eq!(secret["SDC_KEY_ID"], DEFAULT_FINGERPRINT);
    assert_eq!(secret["SDC_PRIVATE_KEY"].trim(), DEFAULT_PRIVATE_KEY.trim());
    assert!(!format!("{ended:?}").contains("PRIVATE KEY"), "{ended:?}");
    // Once more changes nothing.
    assert_eq!(ran(test.tool(&["--name=mine"])).await.code, Some(0));
}

#[tokio::test]
async fn a_new_key_is_made_added_and_stored() {
    let test = Setup::new().await;
    let ended = ran(test.tool(&["--generate"])).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let secret = test.secret("triton-credentials").await.unwrap();
    assert_ne!(secret["SDC_KEY_ID"], DEFAULT_FINGERPRINT);
    assert!(ended.stdout.contains("as bowline-kubernetes"), "{ended:?}");
    // And the account takes it.
    let file = test.path("new");
    std::fs::write(&file, &secret["SDC_PRIVATE_KEY"]).unwrap();
    let mut again = test.tool(&[]);
    again
        .env("SDC_KEY_ID", &secret["SDC_KEY_ID"])
        .arg(format!("--key-file={}", file.display()));
    assert_eq!(ran(again).await.code, Some(0));
}

#[tokio::test]
async fn each_problem_has_its_exit_code() {
    let test = Setup::new().await;
    let mut nothing = test.tool(&["--skip-verify", "--dry-run"]);
    nothing.env_remove("SDC_URL").env_remove("SDC_ACCOUNT");
    let ended = ran(nothing).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.error().contains("SDC_ENDPOINT"), "{ended:?}");
    assert_eq!(ran(test.tool(&["--no-such-flag"])).await.code, Some(1));
    // Of another key.
    let p256 = example("p256.openssh");
    let key_file = format!("--key-file={}", p256.display());
    let ended = ran(test.tool(&["--dry-run", &key_file])).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.error().contains(DEFAULT_FINGERPRINT), "{ended:?}");
    // Encrypted, and nobody said what to do about it.
    let encrypted = format!("--key-file={}", example("p256.encrypted").display());
    let mut command = test.tool(&["--dry-run", "--skip-verify", &encrypted]);
    command.env_remove("SDC_KEY_ID");
    let ended = ran(command).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.error().contains("--store-decrypted"), "{ended:?}");
    let passphrase = test.path("passphrase");
    std::fs::write(&passphrase, "correct horse\n").unwrap();
    let passphrase = format!("--passphrase-file={}", passphrase.display());
    for (flag, words) in [
        ("--store-decrypted", "BEGIN OPENSSH PRIVATE KEY"),
        ("--with-passphrase", "TRITON_KEY_PASSPHRASE: correct horse"),
    ] {
        let arguments = [
            "--dry-run",
            "--skip-verify",
            "-oyaml",
            &encrypted,
            &passphrase,
            flag,
        ];
        let mut command = test.tool(&arguments);
        command.env_remove("SDC_KEY_ID");
        let ended = ran(command).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stdout.contains(words), "{}", ended.stdout);
    }
    // No cluster.
    let ended = ran(bowline(&[
        "triton",
        "credentials",
        "--kubeconfig=/nonexistent",
    ]))
    .await;
    assert_eq!(ended.code, Some(4), "{ended:?}");
}

#[test]
fn the_provider_tells_what_is_missing() {
    let mut command = bowline(&["--cloud-provider=triton", "--master=http://127.0.0.1:1"]);
    command.env("SDC_ENDPOINT", "http://127.0.0.1:1");
    run(command).failed_with(&[
        "triton",
        "the account is missing",
        "the private key is missing",
    ]);
}

#[test]
fn flags_are_read_named_and_go_before_the_environment() {
    let mut command = bowline(&["--cloud-provider=triton", "--master=http://127.0.0.1:1"]);
    command
        .args(["--triton-endpoint=ftp://x", "--triton-account=a/b"])
        .args(["--triton-user", "u", "--triton-act-as=other"])
        .env("SDC_ENDPOINT", "http://127.0.0.1:1")
        .env("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY);
    run(command).failed_with(&[
        "--triton-endpoint",
        "--triton-account",
        "triton-user (--triton-user) and triton-act-as (--triton-act-as)",
    ]);
    // The key itself is no flag.
    let ended = run(bowline(&["--triton-private-key=x"]));
    ended.failed_with(&["unknown flag: --triton-private-key"]);
    let wrong = run(bowline(&[
        "--cloud-provider=triton",
        "--master=http://127.0.0.1:1",
        "--triton-credentials-secret=triton-credentials",
    ]));
    wrong.failed_with(&["--triton-credentials-secret", "is not <namespace>/<name>"]);
}

#[tokio::test]
async fn a_plan_does_not_wait_for_a_secret_that_is_not_there() {
    let test = Setup::new().await;
    let mut command = bowline(&["plan", "--all", "--cloud-provider=triton"]);
    command
        .arg(format!(
            "--kubeconfig={}",
            test.path("kubeconfig").display()
        ))
        .arg("--triton-credentials-secret=kube-system/triton-credentials");
    let ended = ran(command).await;
    ended.failed_with(&[
        "Secret kube-system/triton-credentials (--triton-credentials-secret) does not exist",
        "the private key is missing",
    ]);
}

#[tokio::test]
async fn a_manager_waits_for_its_secret_and_a_rotated_key_is_taken_on_without_a_restart() {
    let test = Setup::new().await;
    let mut command = bowline(&["--cloud-provider=triton", "--secure-port=0", "--v=2"]);
    command
        .arg(format!(
            "--kubeconfig={}",
            test.path("kubeconfig").display()
        ))
        .arg(format!("--triton-endpoint={}", test.url))
        .arg("--triton-credentials-secret=kube-system/triton-credentials");
    let mut manager = Running::start(command);
    let mut manager = spawn_blocking(move || {
        let line = manager.logs("the start waits for the Secret");
        assert!(line.contains("kube-system/triton-credentials"), "{line}");
        assert!(line.contains("the account is missing"), "{line}");
        manager
    })
    .await
    .unwrap();
    assert_eq!(ran(test.tool(&[])).await.code, Some(0));
    let manager = spawn_blocking(move || {
        manager.logs("Bowline starts");
        let line = manager.logs("CredentialsLoaded");
        assert!(line.contains(DEFAULT_FINGERPRINT), "{line}");
        manager
    })
    .await
    .unwrap();
    let ended = ran(test.tool(&["--rotate", "--remove-old-key"])).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let removed = format!("removed the key {DEFAULT_FINGERPRINT}");
    assert!(ended.stdout.contains(&removed), "{ended:?}");
    let new = test.secret("triton-credentials").await.unwrap()["SDC_KEY_ID"].clone();
    assert_ne!(new, DEFAULT_FINGERPRINT);
    // The old key no longer opens anything.
    let ended = ran(test.tool(&["--dry-run"])).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.error().contains("401"), "{ended:?}");
    // What people see on the Secret: it, and not another of its name.
    let events = test.events("CredentialsLoaded").await;
    let secret: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(test.cluster.admin().unwrap(), "kube-system");
    let secret = secret.get("triton-credentials").await.unwrap();
    for event in &events {
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        assert_eq!(event.involved_object.kind.as_deref(), Some("Secret"));
        assert_eq!(event.involved_object.uid, secret.metadata.uid);
    }
    let messages: Vec<&str> = events
        .iter()
        .filter_map(|it| it.message.as_deref())
        .collect();
    for fingerprint in [DEFAULT_FINGERPRINT, &new] {
        let telling = messages.iter().filter(|text| text.contains(fingerprint));
        assert_eq!(telling.count(), 1, "{messages:?}");
    }
    // What cannot be used is told there too, and the manager goes on.
    let mut broken = test.tool(&["--skip-verify"]);
    broken.arg("--account=nobody");
    assert_eq!(ran(broken).await.code, Some(0));
    let mut manager = spawn_blocking(move || {
        let mut manager = manager;
        manager.logs("CredentialsRejected");
        manager.signal("TERM");
        manager
    })
    .await
    .unwrap();
    let line = spawn_blocking(move || {
        let line = manager.logs("Bowline ends");
        (line, manager.end())
    });
    let (_, ended) = line.await.unwrap();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains("PRIVATE KEY"), "{ended:?}");
    assert_eq!(test.events("CredentialsRejected").await.len(), 1);
}
