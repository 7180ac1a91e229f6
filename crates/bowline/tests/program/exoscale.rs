//! Exoscale through the program: its configuration, its command name, and the manager as a process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
use bowline_simulator_exoscale::{
    Config, DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, InstanceSpec, PoolSpec,
};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::fleet::{self, Fleet};
use bowline_simulator_kubernetes::kinds;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::process::{Ended, Running, bowline, program, run};

/// No wait on the cluster's state is longer. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
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

/// What processes work on.
struct Stage {
    world: World,
    cluster: Cluster,
    cloud: Arc<Exoscale>,
    url: String,
    fleet: Fleet,
    folder: TempDir,
    _server: Server,
}

impl Stage {
    async fn new() -> Self {
        let world = World::real();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let cluster = Cluster::on_socket(&world, any).await.unwrap();
        cluster
            .install(bowline_simulator_exoscale::manifest())
            .unwrap();
        let cloud = Exoscale::new(&world, Config::default());
        let server = Server::builder(&world, cloud.clone());
        let server = server.plain(any).await.unwrap();
        let fleet = Fleet::new(&world, cluster.admin().unwrap(), fleet::Settings::default());
        let folder = tempfile::tempdir().unwrap();
        let account = "cloud-controller-manager";
        let text = cluster.account_kubeconfig("kube-system", account).unwrap();
        std::fs::write(folder.path().join("kubeconfig"), text).unwrap();
        let link = folder.path().join(ORIGINAL);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bowline"), link).unwrap();
        Self {
            url: format!("http://{}/v2", server.local_addr().unwrap()),
            world,
            cluster,
            cloud,
            fleet,
            folder,
            _server: server,
        }
    }

    /// The original's command line and environment, with that cloud config.
    fn manager(&self, file: &str) -> Command {
        let path = self.folder.path().join("cloud.yaml");
        std::fs::write(&path, file).unwrap();
        let kubeconfig = self.folder.path().join("kubeconfig");
        let original = ["--leader-elect=true", "--allow-untagged-cloud"];
        let mut command = program(&self.folder.path().join(ORIGINAL), &original);
        command
            .arg(format!("--cloud-config={}", path.display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
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

    /// The Node of that name, as it is.
    fn node(&self, name: &str) -> Option<serde_json::Value> {
        let kind = kinds::by_kind("", "v1", "Node").unwrap();
        self.cluster.api().get(kind, "", name)
    }

    async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let mut writes = self.cluster.api().store().subscribe();
        let waiting = async {
            loop {
                writes.mark_unchanged();
                if is(self) {
                    return;
                }
                writes.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        found.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"));
    }

    /// Waits for the first call to the cloud.
    async fn called(&self) {
        let calls = Filter::any().server("exoscale");
        let called = self.world.journal.wait_for(&calls, 1);
        tokio::time::timeout(PATIENCE, called).await.unwrap();
    }
}

/// Asks the process to end, and waits for it on a thread of its own: the cluster has to go on.
async fn end(running: Running) -> Ended {
    running.signal("TERM");
    spawn_blocking(|| running.end()).await.unwrap()
}

/// Waits the same way for lines of the log.
async fn logged(mut running: Running, lines: &'static [&'static str]) -> Running {
    let waiting = move || {
        for line in lines {
            running.logs(line);
        }
        running
    };
    spawn_blocking(waiting).await.unwrap()
}

#[tokio::test]
async fn under_the_originals_name_it_looks_after_nodes_and_ends_on_sigterm() {
    let stage = Stage::new().await;
    let id = stage.join("Worker-1");
    let running = Running::start(stage.manager("---\n"));
    let wanted = format!("exoscale://{id}");
    let initialized = |stage: &Stage| {
        let node = stage.node("worker-1");
        node.is_some_and(|node| node["spec"]["providerID"] == wanted)
    };
    stage.until("worker-1 is initialised", initialized).await;
    let ended = end(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains(DEFAULT_SECRET), "{}", ended.stderr);
    let denied = Filter::any().server("kubernetes").status(403);
    let mut denied = stage.world.journal.matching(&denied);
    // What tells clusters apart: work goes on without it.
    denied.retain(|it| it.path != "/api/v1/namespaces/kube-system");
    assert!(
        denied.is_empty(),
        "the original's role is enough: {denied:?}"
    );
}

#[tokio::test]
async fn exoscale_case_06_with_everything_disabled_it_stays_up_and_touches_nothing() {
    let stage = Stage::new().await;
    stage.join("worker-1");
    let tainted = |stage: &Stage| stage.node("worker-1").is_some();
    stage.until("worker-1 registers", tainted).await;
    let file = "instances: {disabled: true}\nloadBalancer: {disabled: true}\n";
    let running = Running::start(stage.manager(file));
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
    let writes = stage.world.journal.matching(&manager);
    let ours = "system:serviceaccount:kube-system:cloud-controller-manager";
    let touched = writes
        .iter()
        .filter(|call| call.caller == ours)
        .filter(|call| call.path.contains("/nodes") || call.path.contains("/services"));
    assert_eq!(touched.count(), 0);
    let asked = Filter::any().server("exoscale");
    let asked = stage.world.journal.matching(&asked);
    assert!(
        asked.iter().all(|call| call.path == "/v2/zone"),
        "{asked:?}"
    );
    let node = stage.node("worker-1").unwrap();
    assert!(node["spec"]["providerID"].is_null(), "{node}");
    assert_eq!(end(running).await.code, Some(0));
}

#[tokio::test]
async fn exoscale_case_12_a_zone_that_is_not_listed_ends_the_program() {
    let stage = Stage::new().await;
    let mut command = stage.manager("");
    command.env("EXOSCALE_API_ZONE", "at-vie-9");
    let ended = spawn_blocking(|| run(command)).await.unwrap();
    ended.failed_with(&["at-vie-9"]);
}

#[tokio::test]
async fn nobody_waits_for_an_api_that_does_not_answer_in_order_to_stop() {
    let stage = Stage::new().await;
    stage
        .world
        .faults
        .add(Rule::new(Action::Hang).server("exoscale"))
        .unwrap();
    let running = Running::start(stage.manager(""));
    stage.called().await;
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
    let stage = Stage::new().await;
    let pool = stage
        .cloud
        .add_pool(&PoolSpec::named("workers", 2))
        .unwrap();
    let member = &stage.cloud.instances()[0];
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
    stage.cluster.install([node, service]).unwrap();
    let kubeconfig = stage.folder.path().join("kubeconfig");
    let mut command = bowline(&["plan", "--all", "--cloud-provider=exoscale"]);
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .env("EXOSCALE_API_ENDPOINT", &stage.url)
        .env("EXOSCALE_API_ZONE", DEFAULT_ZONE)
        .env("EXOSCALE_API_KEY", DEFAULT_KEY)
        .env("EXOSCALE_API_SECRET", DEFAULT_SECRET);
    let ended = spawn_blocking(|| run(command)).await.unwrap();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for words in ["Service default/web, in cloud exoscale", &pool, "k8s-"] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
    let writes = stage.world.journal.matching(&Filter::any().mutating());
    assert!(writes.is_empty(), "{writes:?}");
}
