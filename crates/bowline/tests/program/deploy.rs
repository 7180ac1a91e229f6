//! What is deployed fits the program: deploy/cloudscale.yaml and the chart that it is made from.
//! (That the manifest is what the chart gives, and that an API server takes it, is for `e2e/deploy`.)

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_controllers::options::{self, CommandLine, Request};
use bowline_simulator::World;
use bowline_simulator::cloudscale::{Cloudscale, Config, DEFAULT_TOKEN, MachineSpec};
use bowline_simulator::cluster::Cluster;
use bowline_simulator::fleet::{self, Fleet, Kubelet};
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Container, Node, PodSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::process::{Running, bowline, program, run};

/// No wait is longer. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SYSTEM: &str = "kube-system";
const ORIGINAL: &str = "cloudscale-cloud-controller-manager";

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn documents(path: &str) -> Vec<Value> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_multiple_with_options(&file(path), options).unwrap()
}

fn manifest() -> Vec<Value> {
    documents("deploy/cloudscale.yaml")
}

fn daemon_set() -> DaemonSet {
    let mut found: Vec<Value> = manifest();
    found.retain(|object| object["kind"] == "DaemonSet");
    let [object] = found.try_into().expect("one DaemonSet");
    serde_json::from_value(object).unwrap()
}

fn pod() -> PodSpec {
    daemon_set().spec.unwrap().template.spec.unwrap()
}

fn container() -> Container {
    let [container] = pod().containers.try_into().expect("one container");
    container
}

fn arguments() -> Vec<String> {
    container().args.unwrap()
}

/// Everything that says what an account may do.
fn rights(objects: &[Value]) -> Vec<Value> {
    let group = "rbac.authorization.k8s.io/v1";
    let is_right = |it: &&Value| it["apiVersion"] == group || it["kind"] == "ServiceAccount";
    objects.iter().filter(is_right).cloned().collect()
}

fn understood(arguments: &[String]) -> CommandLine {
    match options::parse("bowline", None, arguments) {
        Ok(Request::Run(line)) => *line,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

#[test]
fn cloudscale_defect_d24_the_program_understands_the_arguments_and_variables() {
    assert_eq!(container().command.unwrap(), ["bowline"]);
    let line = understood(&arguments());
    line.options.validate().unwrap();
    assert_eq!(line.warnings, [""; 0]);
    assert_eq!(line.options.cloud.provider, "cloudscale");
    // The original's own settings.
    let original = ["--v=3", "--concurrent-service-syncs=2"];
    let original = original.map(str::to_owned);
    assert!(original.iter().all(|flag| arguments().contains(flag)));
    let known: BTreeSet<&str> = bowline_cloudscale::config::VARIABLES
        .iter()
        .map(|variable| variable.name)
        .collect();
    for variable in container().env.unwrap() {
        assert!(known.contains(variable.name.as_str()), "{variable:?}");
    }
}

#[test]
fn cloudscale_defect_d24_the_token_comes_from_the_originals_secret() {
    let env = container().env.unwrap();
    let token = env.iter().find(|it| it.name == "CLOUDSCALE_ACCESS_TOKEN");
    let source = token.and_then(|it| it.value_from.clone()).unwrap();
    let key = source.secret_key_ref.unwrap();
    assert_eq!(
        (key.name.as_str(), key.key.as_str()),
        ("cloudscale", "access-token")
    );
    assert_ne!(key.optional, Some(true));
}

#[test]
fn cloudscale_defect_d24_applied_over_the_original_it_takes_its_place() {
    let set = daemon_set();
    assert_eq!(set.metadata.name.as_deref(), Some(ORIGINAL));
    assert_eq!(set.metadata.namespace.as_deref(), Some(SYSTEM));
    let spec = set.spec.unwrap();
    // The API server refuses to change it.
    let selector = BTreeMap::from([("k8s-app".to_owned(), ORIGINAL.to_owned())]);
    assert_eq!(spec.selector.match_labels, Some(selector.clone()));
    let labels = spec.template.metadata.unwrap().labels.unwrap();
    assert!(selector.iter().all(|(key, value)| labels[key] == *value));
    let pod = spec.template.spec.unwrap();
    assert_eq!(
        pod.service_account_name.as_deref(),
        Some("cloud-controller-manager")
    );
    assert_eq!(pod.containers[0].name, ORIGINAL);
    assert_eq!(pod.host_network, Some(true));
    let role = "node-role.kubernetes.io/control-plane";
    assert_eq!(pod.node_selector.unwrap()[role], "");
    for taint in [
        role,
        "CriticalAddonsOnly",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.kubernetes.io/not-ready",
    ] {
        let tolerations = pod.tolerations.as_ref().unwrap();
        assert!(
            tolerations
                .iter()
                .any(|it| it.key.as_deref() == Some(taint)),
            "{taint}"
        );
    }
    let line = understood(&arguments());
    assert_eq!(
        line.options.election.resource_name,
        "cloud-controller-manager"
    );
    assert_eq!(line.options.election.resource_namespace, SYSTEM);
}

#[test]
fn cloudscale_defect_d24_the_container_has_limits_and_no_privilege() {
    let container = container();
    let resources = container.resources.unwrap();
    for amounts in [resources.requests.unwrap(), resources.limits.unwrap()] {
        let named: Vec<&str> = amounts.keys().map(String::as_str).collect();
        assert_eq!(named, ["cpu", "memory"]);
    }
    let security = container.security_context.unwrap();
    assert_eq!(security.allow_privilege_escalation, Some(false));
    assert_eq!(security.read_only_root_filesystem, Some(true));
    let capabilities = security.capabilities.unwrap();
    assert_eq!(capabilities.drop.unwrap(), ["ALL"]);
    assert_eq!(capabilities.add, None);
    let security = pod().security_context.unwrap();
    assert_eq!(security.run_as_non_root, Some(true));
    assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
}

#[test]
fn cloudscale_defect_d24_the_account_has_the_rights_that_are_used_and_no_other() {
    // deploy/rbac.yaml is what the scenarios of rights run under; only the names differ.
    let shipped = file("deploy/rbac.yaml").replace("name: bowline", &format!("name: {ORIGINAL}"));
    let account = format!("kind: ServiceAccount\nmetadata:\n  name: {ORIGINAL}");
    assert!(shipped.contains(&account));
    let mut wanted: Vec<Value> = serde_saphyr::from_multiple(&shipped).unwrap();
    let name = json!("cloud-controller-manager");
    for object in &mut wanted {
        if object["kind"] == "ServiceAccount" {
            object["metadata"]["name"] = name.clone();
        }
        for subject in object
            .get_mut("subjects")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            subject["name"] = name.clone();
        }
    }
    assert_eq!(rights(&manifest()), wanted);
}

/// The port and path of a probe, for the container's ports.
fn target(probe: Option<Probe>) -> (i32, String) {
    let get = probe.expect("a probe").http_get.expect("an HTTP probe");
    assert_eq!(get.scheme.as_deref(), Some("HTTPS"));
    let port = match get.port {
        IntOrString::Int(port) => port,
        IntOrString::String(name) => {
            let ports = container().ports.unwrap();
            let mut named = ports.iter().filter(|it| it.name.as_ref() == Some(&name));
            named.next().expect("the probe's port").container_port
        }
    };
    (port, get.path.unwrap())
}

fn probes() -> [(i32, String); 3] {
    let container = container();
    [
        target(container.startup_probe),
        target(container.liveness_probe),
        target(container.readiness_probe),
    ]
}

/// What processes work on: the manifest's account, and the simulated cloud.
struct Stage {
    world: World,
    cluster: Cluster,
    cloud_url: String,
    fleet: Fleet,
    machine: String,
    folder: tempfile::TempDir,
    _server: Server,
}

impl Stage {
    async fn new() -> Self {
        let world = World::real();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let cluster = Cluster::on_socket(&world, any).await.unwrap();
        cluster.install(rights(&manifest())).unwrap();
        let cloud = Cloudscale::new(&world, Config::default());
        let machine = cloud.add_server(&MachineSpec::named("worker-1")).unwrap();
        let server = Server::builder(&world, cloud).plain(any).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let account = pod().service_account_name.unwrap();
        let text = cluster.account_kubeconfig(SYSTEM, &account).unwrap();
        std::fs::write(folder.path().join("kubeconfig"), text).unwrap();
        Self {
            fleet: Fleet::new(&world, cluster.admin().unwrap(), fleet::Settings::default()),
            machine: format!("cloudscale://{machine}"),
            cloud_url: format!("http://{}", server.local_addr().unwrap()),
            world,
            cluster,
            folder,
            _server: server,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The container's process: its arguments and variables, and what a test changes.
    fn start(&self, port: u16) -> Running {
        let link = self.path(&container().command.unwrap()[0]);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bowline"), &link).unwrap();
        let mut command = program(&link, &[]);
        command
            .args(arguments())
            .arg(format!(
                "--kubeconfig={}",
                self.path("kubeconfig").display()
            ))
            .args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")]);
        for variable in container().env.unwrap() {
            let value = match variable.name.as_str() {
                "CLOUDSCALE_API_URL" => self.cloud_url.clone(),
                "CLOUDSCALE_ACCESS_TOKEN" => DEFAULT_TOKEN.to_owned(),
                _ => variable.value.unwrap(),
            };
            command.env(variable.name, value);
        }
        Running::start(command)
    }

    async fn join(&self) {
        let kubelet = Kubelet {
            node_name: "worker-1".to_owned(),
            machine_id: self.machine.clone(),
            ..Kubelet::default()
        };
        self.fleet.join(kubelet).unwrap();
        let nodes: Api<Node> = Api::all(self.cluster.admin().unwrap());
        let initialized = |node: Option<&Node>| {
            let spec = node.and_then(|node| node.spec.as_ref());
            spec.is_some_and(|spec| spec.provider_id.is_some())
        };
        let waiting = await_condition(nodes, "worker-1", initialized);
        tokio::time::timeout(PATIENCE, waiting)
            .await
            .unwrap()
            .unwrap();
    }
}

/// As a kubelet asks: the certificate does not matter.
async fn answered(port: u16, path: &str) -> String {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.accept_invalid_certs = true;
    let client = Client::try_from(config).unwrap();
    let asking = async {
        loop {
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            match client.request_text(request).await {
                Ok(text) => return text,
                // Not yet; a kubelet asks again as well.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| panic!("{path} is not answered"))
}

#[tokio::test]
async fn cloudscale_defect_d24_the_started_program_works_and_answers_the_probes() {
    let served = understood(&arguments()).options.serving.port;
    let stage = Stage::new().await;
    // On the machine of a test the real port may be in use.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let running = stage.start(port);
    stage.join().await;
    for (wanted, path) in probes() {
        assert_eq!(i64::from(wanted), served);
        assert_eq!(answered(port, &path).await, "ok", "{path}");
    }
    running.signal("TERM");
    let ended = spawn_blocking(|| running.end()).await.unwrap();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let refused = Filter::any().server("kubernetes").status(403);
    assert_eq!(stage.world.journal.count(&refused), 0, "{}", ended.stderr);
}

#[test]
fn cloudscale_defect_d24_chart_manifest_and_program_have_one_version() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = &documents("charts/bowline/Chart.yaml")[0];
    assert_eq!(chart["version"], version);
    assert_eq!(chart["appVersion"], version);
    let image = container().image.unwrap();
    assert_eq!(image.rsplit_once(':').unwrap().1, version, "{image}");
}

#[test]
fn cloudscale_defect_d24_the_chart_offers_the_clouds_that_the_program_has() {
    let help = run(bowline(&["--help"])).stdout;
    let line = help
        .lines()
        .find_map(|it| it.strip_prefix("Clouds (--cloud-provider): "));
    let clouds: Vec<&str> = line.unwrap().split(", ").collect();
    let schema: Value = serde_json::from_str(&file("charts/bowline/values.schema.json")).unwrap();
    // Not set is for the template to complain about.
    let mut offered = vec![""];
    offered.extend(clouds);
    assert_eq!(schema["properties"]["provider"]["enum"], json!(offered));
}
