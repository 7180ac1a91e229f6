//! `--config` and the commands about it: several accounts of one cloud in one process.

use std::fmt::Write as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
use bowline_simulator_exoscale::{
    Config, DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, InstanceSpec,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::harness::{Harness, end};
use crate::process::{Ended, Running, bowline, run};

pub(crate) fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bowline.yaml");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

pub(crate) fn check(path: &Path) -> Ended {
    run(bowline(&["config", "check", path.to_str().unwrap()]))
}

#[test]
fn everything_wrong_with_a_configuration_is_told_with_file_line_and_column() {
    let text = "clouds:\n- name: a\n  provider: cloudscale\n  settings:\n    accessToken: hunter2\n    apiUrI: x\n\
                manager: {modee: observe}\n";
    let (_folder, path) = file(text);
    let name = path.display();
    let wanted = [
        format!("{name}:5:18: clouds[0].settings.accessToken: a secret does not stand here"),
        format!("{name}:6:5: clouds[0].settings.apiUrI: is no key here"),
        "did you mean apiUrl?".to_owned(),
        format!("{name}:7:11: manager.modee: is no key here"),
    ];
    let mut manager = bowline(&["--master=http://127.0.0.1:1"]);
    manager.arg(format!("--config={name}"));
    for ended in [check(&path), run(manager)] {
        assert_eq!(ended.code, Some(1), "{ended:?}");
        for words in &wanted {
            assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
        }
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
    let ended = check(Path::new("/nonexistent/bowline.yaml"));
    ended.failed_with(&["/nonexistent/bowline.yaml", "No such file"]);
}

#[test]
fn values_that_a_provider_refuses_and_flags_that_do_not_fit_together_are_told_too() {
    let text = "clouds:\n- name: a\n  provider: cloudscale\n  settings:\n    accessToken: {environment: NOT_HERE}\n    \
                apiUrl: ftp://x\nmanager: {leader-elect-renew-deadline: 20s}\n";
    let (_folder, path) = file(text);
    let ended = check(&path);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["6:13: clouds[0].settings.apiUrl", "manager: "] {
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
}

#[test]
fn leases_to_hold_can_stand_in_the_configuration_and_are_checked_there() {
    let cloud = "clouds:\n- {name: a, provider: cloudscale, settings: {accessToken: {environment: NOT_HERE}}}\n";
    for (manager, wanted) in [
        ("{hold-leases: [kube-system/one, two]}", None),
        ("{hold-leases: 'kube-system/one,two'}", None),
        (
            "{hold-leases: [kube-system/One]}",
            Some("3:24: manager.hold-leases: \"kube-system/One\" is not allowed"),
        ),
        (
            "{hold-leases: [one], leader-elect: false}",
            Some("--hold-leases needs leader election"),
        ),
    ] {
        let (_folder, path) = file(&format!("{cloud}manager: {manager}\n"));
        let ended = check(&path);
        let code = i32::from(wanted.is_some());
        assert_eq!(ended.code, Some(code), "{manager}: {ended:?}");
        let words = wanted.unwrap_or_default();
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
}

#[test]
fn the_leases_of_all_migrated_originals_are_held_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bowline.yaml");
    let into = format!("--into={}", path.display());
    for (name, original, lease) in [
        ("a", "cloudscale-cloud-controller-manager", None),
        (
            "b",
            "talos-cloud-controller-manager",
            Some("--leader-elect-resource-name=cloud-controller-manager-talos"),
        ),
        ("c", "cloudscale-cloud-controller-manager", None),
        (
            "d",
            "xenorchestra-cloud-controller-manager",
            Some("--leader-elect=false"),
        ),
    ] {
        let mut command = bowline(&["config", "migrate", "--name", name, &into, original]);
        command
            .args(lease)
            .env("CLOUDSCALE_ACCESS_TOKEN", "hunter2");
        command.env("XOA_URL", "https://xoa.example.com");
        command.env("XOA_TOKEN", "hunter2");
        let ended = run(command);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let reported = match name {
            "b" => {
                "kube-system/cloud-controller-manager-talos is held besides kube-system/cloud-controller-manager"
            }
            "d" => "this original has --leader-elect=false",
            _ => "",
        };
        assert!(ended.stderr.contains(reported), "{name}: {}", ended.stderr);
    }
    let checked = check(&path);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let words = "lease kube-system/cloud-controller-manager, held together with \
                 kube-system/cloud-controller-manager-talos";
    assert!(checked.stdout.contains(words), "{}", checked.stdout);
}

#[test]
fn a_right_configuration_is_told_to_be_so_with_what_it_runs() {
    let text = "clouds:\n- {name: a, provider: cloudscale, settings: {accessToken: {environment: NOT_HERE}}}\n\
                - {name: b, provider: talos, settings: {}}\nmanager: {controllers: [cloud-node-controller]}\n";
    let (_folder, path) = file(text);
    let ended = check(&path);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in [
        "is valid",
        "cloud a (cloudscale); Services without a class, and of class bowline.dev/a",
        "cloud b (talos)",
        "controllers cloud-node-controller\n",
        "not read here: clouds[0].settings.accessToken: the variable NOT_HERE: it is not set",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
}

#[test]
fn what_an_original_is_told_becomes_a_configuration_without_its_secrets() {
    let mut command = bowline(&[
        "config",
        "migrate",
        "--name=mine",
        "cloudscale-cloud-controller-manager",
    ]);
    command.args(["--cluster-name=shop", "--v=3"]);
    command.env("CLOUDSCALE_ACCESS_TOKEN", "hunter2");
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stdout.contains("hunter2") && !ended.stderr.contains("hunter2"));
    let (_folder, path) = file(&ended.stdout);
    let checked = check(&path);
    assert_eq!(checked.code, Some(0), "{checked:?}\n{}", ended.stdout);
    assert!(checked.stdout.contains("cloud mine (cloudscale)"));
}

#[test]
fn a_configuration_and_the_flags_of_originals_exclude_each_other() {
    for flag in ["--cloud-provider=exoscale", "--cloud-config=/x"] {
        let ended = run(bowline(&["--config=/nonexistent", flag]));
        let name = flag.split('=').next().unwrap();
        ended.failed_with(&["--config", name, "exclude each other"]);
    }
}

#[test]
fn secrets_that_cannot_be_read_are_all_named_at_the_start() {
    let text = "clouds:\n- {name: a, provider: cloudscale, settings: {accessToken: {environment: NOT_HERE}}}\n\
                - {name: b, provider: cloudscale, settings: {accessToken: {file: /nonexistent/t}}}\n\
                services: {defaultCloud: none}\n";
    let (_folder, path) = file(text);
    let mut command = bowline(&["--master=http://127.0.0.1:1", "--secure-port=0"]);
    command.arg(format!("--config={}", path.display()));
    run(command).failed_with(&[
        "clouds[0].settings.accessToken: the variable NOT_HERE: it is not set",
        "clouds[1].settings.accessToken: the file /nonexistent/t: No such file",
    ]);
}

/// Two accounts of one cloud, whose provider ids do not tell them apart, and one cluster.
pub(crate) struct Setup {
    harness: Harness,
    pub(crate) accounts: [Arc<Exoscale>; 2],
    servers: Vec<(Server, String)>,
}

impl Deref for Setup {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

impl Setup {
    pub(crate) async fn new() -> Self {
        let manifest = bowline_simulator_exoscale::manifest();
        let harness = Harness::new(manifest, "cloud-controller-manager", "original").await;
        let accounts = [(), ()].map(|()| Exoscale::new(&harness.world, Config::default()));
        let mut servers = Vec::new();
        for account in &accounts {
            servers.push(harness.serve(account.clone()).await);
        }
        std::fs::write(harness.path("secret"), format!("{DEFAULT_SECRET}\n")).unwrap();
        let test = Self {
            harness,
            accounts,
            servers,
        };
        std::fs::write(test.path("bowline.yaml"), test.configuration()).unwrap();
        test
    }

    pub(crate) fn configuration(&self) -> String {
        let secrets = [
            "{environment: SECRET_OF_A}".to_owned(),
            format!("{{file: {}}}", self.path("secret").display()),
        ];
        let mut text = String::from("services: {defaultCloud: none}\nclouds:\n");
        for ((name, (_, url)), secret) in ["a", "b"].iter().zip(&self.servers).zip(secrets) {
            write!(
                text,
                "- name: {name}\n  provider: exoscale\n  settings:\n    global: {{zone: {DEFAULT_ZONE}, apiKey: \
                 {DEFAULT_KEY}, apiSecret: {secret}, apiEndpoint: '{url}/v2'}}\n"
            )
            .unwrap();
        }
        text
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = bowline(words);
        command
            .arg(self.flag("config", "bowline.yaml"))
            .arg(self.flag("kubeconfig", "kubeconfig"))
            .env("SECRET_OF_A", DEFAULT_SECRET)
            // What configures an original is not looked at.
            .env("EXOSCALE_API_ENDPOINT", "http://127.0.0.1:1/v2");
        command
    }
}

#[tokio::test]
async fn two_accounts_of_one_cloud_look_after_their_own_nodes_and_leave_others_alone() {
    let test = Setup::new().await;
    let mut wanted = Vec::new();
    for (account, name) in test.accounts.iter().zip(["worker-a", "worker-b"]) {
        let id = account.add_instance(&InstanceSpec::named(name)).unwrap();
        test.fleet.join(account.kubelet(&id).unwrap()).unwrap();
        wanted.push((name, format!("exoscale://{id}")));
    }
    let foreign = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "metal-1"},
        "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true",
                             "effect": "NoSchedule"}]},
    });
    test.cluster.install([foreign]).unwrap();
    let running = Running::start(test.command(&["--secure-port=0"]));
    let initialized = |test: &Harness| {
        wanted.iter().all(|(name, id)| {
            let node = test.node(name);
            node.is_some_and(|node| node["spec"]["providerID"] == *id)
        })
    };
    test.until("both nodes are initialised", initialized).await;
    for (name, cloud) in [("worker-a", "a"), ("worker-b", "b")] {
        let command = test.command(&["explain", "node", name]);
        let ended = spawn_blocking(|| run(command)).await.unwrap();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let words = format!("owned by {cloud}, the only cloud that has a machine for it");
        assert!(ended.stdout.contains(&words), "{words}: {}", ended.stdout);
    }
    let command = test.command(&["explain", "node", "metal-1"]);
    let ended = spawn_blocking(|| run(command)).await.unwrap();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let words = "left alone: no configured cloud has a machine for it";
    assert!(ended.stdout.contains(words), "{}", ended.stdout);
    let ended = end(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains(DEFAULT_SECRET), "{}", ended.stderr);
    // The node of nobody is as it was.
    let manager = "system:serviceaccount:kube-system:cloud-controller-manager";
    let writes = Filter::any()
        .server("kubernetes")
        .mutating()
        .caller(manager);
    let writes = test.world.journal.matching(&writes);
    assert!(
        !writes.iter().any(|call| call.path.contains("metal-1")),
        "{writes:?}"
    );
}
