//! `bowline plan` on typical changes: what it says is recorded in `plans/*.txt`, beside the files that
//! it is asked about, and whatever it is asked, it writes nothing.
//!
//! To record anew: `BOWLINE_WRITE_PLANS=1 cargo test -p bowline --test plans`, then read the
//! difference.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

#[path = "plans/exoscale.rs"]
mod exoscale;
#[path = "plans/triton.rs"]
mod triton;
#[path = "plans/triton_machines.rs"]
mod triton_machines;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bowline_http::{Clock, Random};
use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::fixture;
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::{Api, Server};
use bowline_simulator_cloudscale::{Cloudscale, DEFAULT_TOKEN, Fixture};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::kinds;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::spawn_blocking;

/// Records instead of comparing.
const WRITE: &str = "BOWLINE_WRITE_PLANS";
/// Any seed will do; ids are drawn from it.
const SEED: u64 = 5;
/// No wait is longer. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// A free port on loopback.
const ANY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
const ACCOUNT: (&str, &str) = ("kube-system", "cloud-controller-manager");

/// The recorded command lines, by name.
const RECORDED: &[(&str, &str)] = &[
    ("new-service", "-f new-service.yaml"),
    ("no-change", "-f no-change.yaml"),
    ("port-number", "-f port-number.yaml"),
    ("port-name", "-f port-name.yaml"),
    ("second-port", "-f second-port.yaml"),
    ("algorithm", "-f algorithm.yaml"),
    ("proxy-protocol", "-f proxy-protocol.yaml"),
    ("allowed-cidrs", "-f allowed-cidrs.yaml"),
    ("source-ranges", "-f source-ranges.yaml"),
    ("timeout", "-f timeout.yaml"),
    ("local-policy", "-f local-policy.yaml"),
    ("port-settings", "-f port-settings.yaml"),
    ("bad-annotation", "-f bad-annotation.yaml"),
    ("bad-port-settings", "-f bad-port-settings.yaml"),
    ("foreign-owner", "-f foreign-owner.yaml"),
    ("no-load-balancer", "-f no-load-balancer.yaml"),
    ("all", "--all"),
    // What is done to the cluster before these is in `prepare`.
    ("nodes", "shop/web"),
    ("bad-annotation-and-nodes", "-f bad-annotation.yaml"),
    ("deletion", "shop/web"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans")
}

/// A simulated cluster on a socket, with the kubeconfig of a manager, for plans that are recorded in one
/// folder.
struct Recording {
    world: World,
    cluster: Cluster,
    /// Where the files are that plans are about, and what was recorded.
    folder: PathBuf,
    temporary: TempDir,
}

impl Recording {
    /// With the cluster of that folder, and the permissions of an original.
    async fn new(folder: PathBuf, manifest: Vec<Value>) -> Self {
        let world = World::with(Clock::system(), Random::seeded(SEED));
        let cluster = Cluster::on_socket(&world, ANY).await.unwrap();
        let objects = bowline_simulator_kubernetes::fixture::read(&folder.join("cluster.yaml"));
        cluster.install(objects.unwrap()).unwrap();
        cluster.install(manifest).unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let text = cluster.account_kubeconfig(ACCOUNT.0, ACCOUNT.1).unwrap();
        std::fs::write(temporary.path().join("kubeconfig"), text).unwrap();
        Self {
            world,
            cluster,
            folder,
            temporary,
        }
    }

    async fn serve(&self, cloud: Arc<dyn Api>) -> Server {
        let server = Server::builder(&self.world, cloud);
        server.plain(ANY).await.unwrap()
    }

    /// The program for that cloud, in the folder.
    fn program(&self, cloud: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let kubeconfig = self.temporary.path().join("kubeconfig");
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command
            .env_clear()
            .envs(environment.iter().copied())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .args(arguments)
            .arg(format!("--cloud-provider={cloud}"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()));
        command
    }

    /// Changes an object of the cluster.
    fn edit(&self, kind: &str, (namespace, name): (&str, &str), change: impl Fn(&mut Value)) {
        let kind = kinds::by_kind("", "v1", kind).unwrap();
        let mut object = self.cluster.api().get(kind, namespace, name).unwrap();
        change(&mut object);
        self.cluster.api().put(kind, object);
    }

    /// Marks a Service of the namespace `shop` as deleted.
    fn delete_service(&self, name: &str) {
        self.edit("Service", ("shop", name), |service| {
            service["metadata"]["deletionTimestamp"] = json!("2026-02-03T04:05:06Z");
        });
    }

    fn delete_node(&self, name: &str) {
        let kind = kinds::by_kind("", "v1", "Node").unwrap();
        assert!(self.cluster.api().delete(kind, "", name));
    }

    /// Runs each command line after what happens before it, and compares the output with what is
    /// recorded; on standard error only `expected` may be.
    async fn compare(
        &self,
        (cloud, environment): (&str, &[(&str, &str)]),
        recorded: &[(&str, &str)],
        expected: &str,
        prepare: impl Fn(&str),
    ) {
        let mut different = Vec::new();
        for (name, line) in recorded {
            prepare(name);
            let words: Vec<&str> = ["plan"].into_iter().chain(line.split(' ')).collect();
            let ended = finish(self.program(cloud, &words, environment)).await;
            let errors = ended.stderr.lines();
            let errors: Vec<&str> = errors
                .filter(|line| expected.is_empty() || !line.contains(expected))
                .collect();
            assert_eq!(errors, [""; 0], "{name}");
            let text = format!(
                "$ bowline plan {line}\n{}[exit {}]\n",
                ended.stdout, ended.code
            );
            let path = self.folder.join(format!("{name}.txt"));
            if std::env::var_os(WRITE).is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            if std::fs::read_to_string(&path).unwrap_or_default() != text {
                different.push(format!("{}:\n{text}", path.display()));
            }
        }
        self.nothing_was_written(cloud);
        assert!(
            different.is_empty(),
            "not as recorded; record anew with {WRITE}=1 cargo test -p bowline --test plans\n{}",
            different.join("\n")
        );
    }

    /// Nobody but a person writes.
    #[track_caller]
    fn nothing_was_written(&self, cloud: &str) {
        let journal = &self.world.journal;
        let writes = journal.matching(&Filter::any().mutating());
        assert!(writes.is_empty(), "{writes:?}");
        assert!(journal.count(&Filter::any().server(cloud)) > 0);
    }
}

/// The cluster and the cloud of the recorded plans of cloudscale.ch.
struct Harness {
    recording: Recording,
    cloud: Arc<Cloudscale>,
    server: Server,
}

impl Harness {
    async fn new() -> Self {
        let manifest = bowline_simulator_cloudscale::manifest();
        let recording = Recording::new(folder(), manifest).await;
        let fixture: Fixture = fixture::read(&folder().join("cloud.yaml")).unwrap();
        let cloud = Cloudscale::from_fixture(&recording.world, fixture).unwrap();
        let server = recording.serve(cloud.clone()).await;
        Self {
            recording,
            cloud,
            server,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(&["plan"]);
        command.args(arguments);
        command
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let url = self.url();
        self.recording
            .program("cloudscale", arguments, &environment(&url))
    }

    fn url(&self) -> String {
        format!("http://{}/v1", self.server.local_addr().unwrap())
    }

    /// Runs it to its end, on a thread of its own: the servers have to go on meanwhile.
    async fn plan(&self, arguments: &[&str]) -> Ended {
        finish(self.command(arguments)).await
    }

    #[track_caller]
    fn nothing_was_written(&self) {
        self.recording.nothing_was_written("cloudscale");
    }

    fn service(&self, name: &str) -> Value {
        let kind = kinds::by_kind("", "v1", "Service").unwrap();
        let api = self.recording.cluster.api();
        api.get(kind, "shop", name).unwrap()
    }

    fn put(&self, kind: &str, object: Value) {
        let kind = kinds::by_kind("", "v1", kind).unwrap();
        self.recording.cluster.api().put(kind, object);
    }

    /// What happens in the cluster before a recorded plan.
    fn prepare(&self, name: &str) {
        match name {
            "nodes" => {
                self.recording.delete_node("worker-a");
                let node = json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-c"},
                    "spec": {"providerID": "cloudscale://c1d2e3f4-0a1b-4c2d-8e3f-4a5b6c7d8e9f"},
                    "status": {"addresses": [{"type": "InternalIP", "address": "10.20.0.13"}]},
                });
                self.put("Node", node);
            }
            "deletion" => self.recording.delete_service("web"),
            _ => {}
        }
    }
}

/// What the provider of cloudscale.ch is given.
fn environment(url: &str) -> [(&str, &str); 2] {
    [
        ("CLOUDSCALE_API_URL", url),
        ("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN),
    ]
}

/// How the program ended, and its output.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

async fn finish(mut command: Command) -> Ended {
    let Output {
        status,
        stdout,
        stderr,
    } = spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    Ended {
        code: status.code().unwrap(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

#[tokio::test]
async fn typical_changes_are_told_as_recorded_and_nothing_is_written() {
    let test = Harness::new().await;
    let url = test.url();
    let prepare = |name: &str| test.prepare(name);
    let program = ("cloudscale", &environment(&url)[..]);
    test.recording.compare(program, RECORDED, "", prepare).await;
}

#[tokio::test]
async fn a_plan_in_json_says_the_same_for_programs() {
    let test = Harness::new().await;
    let ended = test.plan(&["-f", "timeout.yaml", "-o", "json"]).await;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(json["outlook"], "changes");
    let [service] = json["services"].as_array().unwrap().as_slice() else {
        panic!("{json}");
    };
    assert_eq!(service["service"], "shop/web");
    assert_eq!(service["file"], "timeout.yaml");
    assert_eq!(service["cloud"], "cloudscale");
    let changes = json!([{"field": "timeout_client_data_ms", "before": 50000, "after": 60000}]);
    assert_eq!(service["plan"]["steps"][0]["changes"], changes);
    assert_eq!(service["plan"]["steps"][0]["impact"], "in-place");
    assert_eq!(
        service["plan"]["found"][0]["object"]["kind"],
        "load balancer"
    );
    test.nothing_was_written();
}

#[tokio::test]
async fn files_can_be_applied_over_all_and_come_from_standard_input() {
    let test = Harness::new().await;
    let mut command = test.command(&["--all", "-f", "-"]);
    command.stdin(std::fs::File::open(folder().join("timeout.yaml")).unwrap());
    let ended = finish(command).await;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    for line in [
        "Service shop/billing, in cloud cloudscale: nothing to do\n",
        "Service shop/web, as in standard input, in cloud cloudscale: 2 steps, in place\n",
        "\n2 Services, 1 with changes, 1 with nothing to do.\n",
    ] {
        assert!(ended.stdout.contains(line), "{line}\n{}", ended.stdout);
    }
    // A name picks one; what is somebody else's is said to be so, and is nothing to do.
    let ended = test.plan(&["shop/database"]).await;
    let text = "Service shop/database: not a Service of type LoadBalancer\n";
    assert!(ended.stdout.starts_with(text), "{}", ended.stdout);
    assert_eq!(ended.code, 0);
    test.nothing_was_written();
}

#[tokio::test]
async fn what_cannot_be_planned_is_an_error_that_says_why() {
    let test = Harness::new().await;
    for (arguments, message) in [
        (
            &["shop/nobody"][..],
            "Error: there is no Service shop/nobody",
        ),
        (&["a/b/c"], "Error: \"a/b/c\" is not NAMESPACE/NAME"),
        (
            &[],
            "Error: which Services? Give NAMESPACE/NAME, --all, or -f FILE",
        ),
        (
            &["-f", "cloud.yaml"],
            "Error: cloud.yaml: there is no Service in it",
        ),
        (&["-f", "none.yaml"], "Error: cannot read none.yaml: "),
        (
            &["-f", "timeout.yaml", "-f", "no-change.yaml"],
            "Error: Service shop/web is in the files twice",
        ),
        (
            &["--all", "shop/web"],
            "error: the argument '--all' cannot be used with",
        ),
    ] {
        let ended = test.plan(arguments).await;
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (1, ""),
            "{arguments:?}"
        );
        assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
    }
    let mut nowhere = Command::new(env!("CARGO_BIN_EXE_bowline"));
    nowhere
        .env_clear()
        .env("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN)
        .current_dir(folder())
        .args([
            "plan",
            "--cloud-provider=cloudscale",
            "-f",
            "no-change.yaml",
        ]);
    let ended = finish(nowhere).await;
    let message = "Error: planning needs the cluster, also with -f: ";
    assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
    assert!(ended.stderr.contains("--kubeconfig"), "{}", ended.stderr);
    assert_eq!(ended.code, 1);
}

#[tokio::test]
async fn a_cloud_that_cannot_be_read_is_told_for_each_service_and_is_no_absence() {
    let test = Harness::new().await;
    let refused = Action::Status {
        code: 403,
        headers: BTreeMap::new(),
        body: None,
    };
    let rule = Rule::new(refused).on("GET", "/v1/load-balancers");
    test.recording.world.faults.add(rule).unwrap();
    let ended = test.plan(&["--all"]).await;
    assert_eq!(ended.code, 1);
    let line = "Service shop/web, in cloud cloudscale: the cloud could not be read: ";
    assert!(ended.stdout.contains(line), "{}", ended.stdout);
    let line = "2 Services, 2 that could not be planned.\n";
    assert!(ended.stdout.ends_with(line), "{}", ended.stdout);
    assert!(!ended.stdout.contains("create"), "{}", ended.stdout);
    assert_eq!(test.cloud.balancers().len(), 2);
    test.nothing_was_written();
}

#[tokio::test]
async fn one_bad_object_is_one_error_and_a_foreign_class_is_left_alone() {
    let test = Harness::new().await;
    let service = |name: &str, spec: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "spec": spec,
               "metadata": {"name": name, "namespace": "shop", "uid": name}})
    };
    test.put(
        "Service",
        service("broken", json!({"type": "LoadBalancer", "ports": 7})),
    );
    let foreign = json!({"type": "LoadBalancer", "loadBalancerClass": "vendor.test/lb"});
    test.put("Service", service("foreign", foreign));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "odd"},
                      "spec": {"taints": 7}});
    test.put("Node", node);
    let ended = test.plan(&["--all"]).await;
    assert_eq!(ended.code, 1);
    for line in [
        "Service shop/broken: invalid type: integer `7`, expected",
        "Service shop/web, in cloud cloudscale: nothing to do\n",
        "\nNode odd cannot be read: ",
        "\n3 Services, 1 that could not be planned, 2 with nothing to do.\n",
    ] {
        assert!(ended.stdout.contains(line), "{line}\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("foreign"), "{}", ended.stdout);
    let ended = test.plan(&["shop/foreign"]).await;
    let text = "Service shop/foreign: class \"vendor.test/lb\" is somebody else's\n";
    assert_eq!(ended.code, 0);
    assert!(ended.stdout.starts_with(text), "{}", ended.stdout);
    test.nothing_was_written();
}

/// The whole manager beside them: it tells the same steps, and writes as little.
#[tokio::test]
async fn an_observing_manager_tells_what_it_would_do_and_writes_nothing() {
    let test = Harness::new().await;
    test.prepare("nodes");
    let mut bad = test.service("billing");
    let key = "k8s.cloudscale.ch/loadbalancer-pool-algorithm";
    bad["metadata"]["annotations"][key] = json!("fastest");
    test.put("Service", bad);
    let mut command = test.program(&["--mode=observe", "--secure-port=0"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut observer = Process(command.spawn().unwrap());
    let mut log = Log::of(observer.0.stderr.take().unwrap());
    let first = [
        "observing: not done: create member 10.20.0.13:31080 in tcp/http (no impact)",
        "observing: not done: delete member 10.20.0.11:31080 in tcp/http (in place)",
        "observing: not done: InvalidLoadBalancerConfig: annotation",
    ];
    for text in first {
        log.until(text).await;
    }
    // What has been told and still holds is not told again.
    let mut service = test.service("web");
    let key = "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms";
    service["metadata"]["annotations"][key] = json!("60000");
    test.put("Service", service);
    log.until("update listener tcp/80 (in place), timeout_client_data_ms: 50000 → 60000")
        .await;
    for text in first {
        assert_eq!(log.seen.matches(text).count(), 1, "{text}:\n{}", log.seen);
    }
    test.prepare("deletion");
    log.until("observing: not done: delete load balancer k8s-service-5a4f2b10")
        .await;
    drop(observer);
    test.nothing_was_written();
}

/// The lines of a process, read by a thread.
struct Log {
    lines: UnboundedReceiver<String>,
    seen: String,
}

impl Log {
    fn of(pipe: impl std::io::Read + Send + 'static) -> Self {
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            let read = BufReader::new(pipe).lines().map_while(Result::ok);
            for line in read {
                let _ = sender.send(line);
            }
        });
        let seen = String::new();
        Self { lines, seen }
    }

    async fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await;
            let Ok(Some(line)) = line else {
                panic!("{text} is not in:\n{}", self.seen);
            };
            self.seen.push_str(&line);
            self.seen.push('\n');
        }
    }
}

/// A process that is ended with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
