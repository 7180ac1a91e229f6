//! Exoscale through the program: its configuration, its command name, and the manager as a process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use bowline_simulator_exoscale::{
    Config, DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, InstanceSpec, PoolSpec,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::harness::{CloudHarness, Harness, PATIENCE, end, logged};
use crate::process::{Running, bowline, program, run};

const ORIGINAL: &str = "exoscale-cloud-controller-manager";

/// A manager that finds neither a cluster nor a cloud, with that cloud config.
fn lonely(file: &Path) -> Command {
    let mut command = bowline(&["--cloud-provider=exoscale", "--master=http://127.0.0.1:1"]);
    command
        .arg(format!("--cloud-config={}", file.display()))
        .env("EXOSCALE_API_ZONE", "ch-gva-2");
    command
}

fn config(text: &str) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud.yaml");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn exoscale_case_01_without_credentials_the_program_ends() {
    let (_folder, path) = config("---\n");
    run(lonely(&path)).failed_with(&["incomplete or missing Exoscale API credentials"]);
}

#[test]
fn a_cloud_config_that_is_not_there_is_named() {
    let ended = run(lonely(Path::new("/nonexistent/cloud.yaml")));
    ended.failed_with(&["/nonexistent/cloud.yaml", "--cloud-config", "No such file"]);
}

#[test]
fn exoscale_case_91_what_is_wrong_is_told_together_and_without_secrets() {
    let (_folder, path) = config(
        "global: {apiKey: EXOk, apiSecret: hunter2}\n\
         instances: {overrides: [{name: edge-1, type: 'nuc x'}]}\n",
    );
    let mut command = lonely(&path);
    command.env("EXOSCALE_SKS_AGENT_RUNNERS", "node-csr-validation,foo");
    let ended = run(command);
    ended.failed_with(&[
        "instances.overrides[0]",
        "edge-1",
        "type",
        "nuc x",
        "unsupported runner \"foo\"",
    ]);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}

type Setup = CloudHarness<Exoscale>;

impl Setup {
    async fn new() -> Self {
        let manifest = bowline_simulator_exoscale::manifest();
        let harness = Harness::new(manifest, "cloud-controller-manager", ORIGINAL).await;
        let cloud = Exoscale::new(&harness.world, Config::default());
        let (server, url) = harness.serve(cloud.clone()).await;
        Self {
            url: format!("{url}/v2"),
            harness,
            cloud,
            _server: server,
        }
    }

    /// The original's command line and environment, with that cloud config.
    fn manager(&self, file: &str) -> Command {
        std::fs::write(self.path("cloud.yaml"), file).unwrap();
        let original = ["--leader-elect=true", "--allow-untagged-cloud"];
        let mut command = program(&self.path(ORIGINAL), &original);
        command
            .arg(self.flag("cloud-config", "cloud.yaml"))
            .arg(self.flag("kubeconfig", "kubeconfig"))
            .arg("--secure-port=0")
            .env("EXOSCALE_API_ENDPOINT", &self.url)
            .env("EXOSCALE_API_ZONE", DEFAULT_ZONE)
            .env("EXOSCALE_API_KEY", DEFAULT_KEY)
            .env("EXOSCALE_API_SECRET", DEFAULT_SECRET);
        command
    }

    /// An instance of that name, and its kubelet.
    fn join(&self, name: &str) -> String {
        let id = self.cloud.add_instance(&InstanceSpec::named(name)).unwrap();
        self.fleet.join(self.cloud.kubelet(&id).unwrap()).unwrap();
        id
    }

    /// Waits for the first call to the cloud.
    async fn called(&self) {
        let calls = Filter::any().server("exoscale");
        let called = self.world.journal.wait_for(&calls, 1);
        tokio::time::timeout(PATIENCE, called).await.unwrap();
    }
}

#[tokio::test]
async fn under_the_originals_name_it_looks_after_nodes_and_ends_on_sigterm() {
    let test = Setup::new().await;
    let id = test.join("Worker-1");
    let running = Running::start(test.manager("---\n"));
    let wanted = format!("exoscale://{id}");
    let initialized = |test: &Harness| {
        let node = test.node("worker-1");
        node.is_some_and(|node| node["spec"]["providerID"] == wanted)
    };
    test.until("worker-1 is initialised", initialized).await;
    let ended = end(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains(DEFAULT_SECRET), "{}", ended.stderr);
    let denied = Filter::any().server("kubernetes").status(403);
    let mut denied = test.world.journal.matching(&denied);
    // What tells clusters apart: work goes on without it.
    denied.retain(|it| it.path != "/api/v1/namespaces/kube-system");
    assert!(
        denied.is_empty(),
        "the original's role is enough: {denied:?}"
    );
}

#[tokio::test]
async fn exoscale_case_06_with_everything_disabled_it_stays_up_and_touches_nothing() {
    let test = Setup::new().await;
    test.join("worker-1");
    let tainted = |test: &Harness| test.node("worker-1").is_some();
    test.until("worker-1 registers", tainted).await;
    let file = "instances: {disabled: true}\nloadBalancer: {disabled: true}\n";
    let running = Running::start(test.manager(file));
    let running = logged(
        running,
        &[
            "failed to start cloud node controller: cloud provider does not support instances",
            "failed to start cloud node lifecycle controller: cloud provider does not support \
             instances",
            "the cloud provider does not support external load balancers",
        ],
    )
    .await;
    let manager = Filter::any().server("kubernetes").mutating();
    let writes = test.world.journal.matching(&manager);
    let ours = "system:serviceaccount:kube-system:cloud-controller-manager";
    let touched = writes
        .iter()
        .filter(|call| call.caller == ours)
        .filter(|call| call.path.contains("/nodes") || call.path.contains("/services"));
    assert_eq!(touched.count(), 0);
    let asked = Filter::any().server("exoscale");
    let asked = test.world.journal.matching(&asked);
    assert!(
        asked.iter().all(|call| call.path == "/v2/zone"),
        "{asked:?}"
    );
    let node = test.node("worker-1").unwrap();
    assert!(node["spec"]["providerID"].is_null(), "{node}");
    assert_eq!(end(running).await.code, Some(0));
}

#[tokio::test]
async fn exoscale_case_12_a_zone_that_is_not_listed_ends_the_program() {
    let test = Setup::new().await;
    let mut command = test.manager("");
    command.env("EXOSCALE_API_ZONE", "at-vie-9");
    let ended = spawn_blocking(|| run(command)).await.unwrap();
    ended.failed_with(&["at-vie-9"]);
}

#[tokio::test]
async fn nobody_waits_for_an_api_that_does_not_answer_in_order_to_stop() {
    let test = Setup::new().await;
    test.world
        .faults
        .add(Rule::new(Action::Hang).server("exoscale"))
        .unwrap();
    let running = Running::start(test.manager(""));
    test.called().await;
    let begun = tokio::time::Instant::now();
    assert_eq!(end(running).await.code, Some(0));
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_plan_shows_the_steps_and_writes_nothing() {
    let test = Setup::new().await;
    let pool = test.cloud.add_pool(&PoolSpec::named("workers", 2)).unwrap();
    let member = &test.cloud.instances()[0];
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"},
        "spec": {"providerID": format!("exoscale://{}", member.id)},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {
            "type": "LoadBalancer", "selector": {"app": "web"},
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 31080}],
        },
    });
    test.cluster.install([node, service]).unwrap();
    let mut command = bowline(&["plan", "--all", "--cloud-provider=exoscale"]);
    command
        .arg(test.flag("kubeconfig", "kubeconfig"))
        .env("EXOSCALE_API_ENDPOINT", &test.url)
        .env("EXOSCALE_API_ZONE", DEFAULT_ZONE)
        .env("EXOSCALE_API_KEY", DEFAULT_KEY)
        .env("EXOSCALE_API_SECRET", DEFAULT_SECRET);
    let ended = spawn_blocking(|| run(command)).await.unwrap();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for words in ["Service default/web, in cloud exoscale", &pool, "k8s-"] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
    let writes = test.world.journal.matching(&Filter::any().mutating());
    assert!(writes.is_empty(), "{writes:?}");
}
