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
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bowline_http::{Clock, Random};
use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::fixture;
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
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

/// The cluster and the cloud of the recorded plans, on sockets.
struct Harness {
    world: World,
    cluster: Cluster,
    cloud: Arc<Cloudscale>,
    server: Server,
    folder: TempDir,
}

impl Harness {
    async fn new() -> Self {
        let world = World::with(Clock::system(), Random::seeded(SEED));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let cluster = Cluster::on_socket(&world, any).await.unwrap();
        let objects = bowline_simulator_kubernetes::fixture::read(&folder().join("cluster.yaml"));
        cluster.install(objects.unwrap()).unwrap();
        // The rights of the original are enough.
        cluster
            .install(bowline_simulator_cloudscale::manifest())
            .unwrap();
        let scene: Fixture = fixture::read(&folder().join("cloud.yaml")).unwrap();
        let cloud = Cloudscale::from_fixture(&world, scene).unwrap();
        let server = Server::builder(&world, cloud.clone());
        let server = server.plain(any).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let text = cluster.account_kubeconfig(ACCOUNT.0, ACCOUNT.1).unwrap();
        std::fs::write(folder.path().join("kubeconfig"), text).unwrap();
        Self {
            world,
            cluster,
            cloud,
            server,
            folder,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(&["plan"]);
        command.args(arguments);
        command
    }

    /// The program with what it has to know about the test.
    fn program(&self, arguments: &[&str]) -> Command {
        let url = format!("http://{}/v1", self.server.local_addr().unwrap());
        let kubeconfig = self.folder.path().join("kubeconfig");
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command
            .env_clear()
            .env("CLOUDSCALE_API_URL", url)
            .env("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN)
            .current_dir(folder())
            .stdin(Stdio::null())
            .args(arguments)
            .arg("--cloud-provider=cloudscale")
            .arg(format!("--kubeconfig={}", kubeconfig.display()));
        command
    }

    /// Runs it to its end, on a thread of its own: the servers have to go on meanwhile.
    async fn plan(&self, arguments: &[&str]) -> Told {
        finish(self.command(arguments)).await
    }

    /// Nobody but a person writes.
    #[track_caller]
    fn nothing_was_written(&self) {
        let writes = self.world.journal.matching(&Filter::any().mutating());
        assert!(writes.is_empty(), "{writes:?}");
        assert!(
            self.world
                .journal
                .count(&Filter::any().server("cloudscale"))
                > 0
        );
    }

    fn service(&self, name: &str) -> Value {
        let kind = kinds::by_kind("", "v1", "Service").unwrap();
        self.cluster.api().get(kind, "shop", name).unwrap()
    }

    fn put(&self, kind: &str, object: Value) {
        let kind = kinds::by_kind("", "v1", kind).unwrap();
        self.cluster.api().put(kind, object);
    }

    /// What happens in the cluster before a recorded plan.
    fn prepare(&self, name: &str) {
        match name {
            "nodes" => {
                let kind = kinds::by_kind("", "v1", "Node").unwrap();
                assert!(self.cluster.api().delete(kind, "", "worker-a"));
                let node = json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-c"},
                    "spec": {"providerID": "cloudscale://c1d2e3f4-0a1b-4c2d-8e3f-4a5b6c7d8e9f"},
                    "status": {"addresses": [{"type": "InternalIP", "address": "10.20.0.13"}]},
                });
                self.put("Node", node);
            }
            "deletion" => {
                let mut service = self.service("web");
                service["metadata"]["deletionTimestamp"] = json!("2026-02-03T04:05:06Z");
                self.put("Service", service);
            }
            _ => {}
        }
    }
}

/// What the program said.
struct Told {
    code: i32,
    text: String,
    complaint: String,
}

async fn finish(mut command: Command) -> Told {
    let Output {
        status,
        stdout,
        stderr,
    } = spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    Told {
        code: status.code().unwrap(),
        text: String::from_utf8(stdout).unwrap(),
        complaint: String::from_utf8(stderr).unwrap(),
    }
}

#[tokio::test]
async fn typical_changes_are_told_as_recorded_and_nothing_is_written() {
    let test = Harness::new().await;
    let mut different = Vec::new();
    for (name, line) in RECORDED {
        test.prepare(name);
        let words: Vec<&str> = line.split(' ').collect();
        let told = test.plan(&words).await;
        assert_eq!(told.complaint, "", "{name}");
        let text = format!("$ bowline plan {line}\n{}[exit {}]\n", told.text, told.code);
        let path = folder().join(format!("{name}.txt"));
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            different.push(format!("{}:\n{text}", path.display()));
        }
    }
    test.nothing_was_written();
    assert!(
        different.is_empty(),
        "not as recorded; record anew with {WRITE}=1 cargo test -p bowline --test plans\n{}",
        different.join("\n")
    );
}

#[tokio::test]
async fn a_plan_in_json_says_the_same_for_programs() {
    let test = Harness::new().await;
    let told = test.plan(&["-f", "timeout.yaml", "-o", "json"]).await;
    assert_eq!(told.code, 2, "{}", told.complaint);
    let json: Value = serde_json::from_str(&told.text).unwrap();
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
    let told = finish(command).await;
    assert_eq!(told.code, 2, "{}", told.complaint);
    for line in [
        "Service shop/billing, in cloud cloudscale: nothing to do\n",
        "Service shop/web, as in standard input, in cloud cloudscale: 2 steps, in place\n",
        "\n2 Services, 1 with changes, 1 with nothing to do.\n",
    ] {
        assert!(told.text.contains(line), "{line}\n{}", told.text);
    }
    // A name picks one; what is somebody else's is said to be so, and is nothing to do.
    let told = test.plan(&["shop/database"]).await;
    let text = "Service shop/database: not a Service of type LoadBalancer\n";
    assert!(told.text.starts_with(text), "{}", told.text);
    assert_eq!(told.code, 0);
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
        let told = test.plan(arguments).await;
        assert_eq!((told.code, told.text.as_str()), (1, ""), "{arguments:?}");
        assert!(told.complaint.starts_with(message), "{}", told.complaint);
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
    let told = finish(nowhere).await;
    let message = "Error: planning needs the cluster, also with -f: ";
    assert!(told.complaint.starts_with(message), "{}", told.complaint);
    assert!(
        told.complaint.contains("--kubeconfig"),
        "{}",
        told.complaint
    );
    assert_eq!(told.code, 1);
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
    test.world.faults.add(rule).unwrap();
    let told = test.plan(&["--all"]).await;
    assert_eq!(told.code, 1);
    let line = "Service shop/web, in cloud cloudscale: the cloud could not be read: ";
    assert!(told.text.contains(line), "{}", told.text);
    let line = "2 Services, 2 that could not be planned.\n";
    assert!(told.text.ends_with(line), "{}", told.text);
    assert!(!told.text.contains("create"), "{}", told.text);
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
    let told = test.plan(&["--all"]).await;
    assert_eq!(told.code, 1);
    for line in [
        "Service shop/broken: invalid type: integer `7`, expected",
        "Service shop/web, in cloud cloudscale: nothing to do\n",
        "\nNode odd cannot be read: ",
        "\n3 Services, 1 that could not be planned, 2 with nothing to do.\n",
    ] {
        assert!(told.text.contains(line), "{line}\n{}", told.text);
    }
    assert!(!told.text.contains("foreign"), "{}", told.text);
    let told = test.plan(&["shop/foreign"]).await;
    let text = "Service shop/foreign: class \"vendor.test/lb\" is somebody else's\n";
    assert_eq!(told.code, 0);
    assert!(told.text.starts_with(text), "{}", told.text);
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
