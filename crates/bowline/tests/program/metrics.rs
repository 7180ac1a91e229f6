//! What the program shows of machines' metrics, as Prometheus itself reads it: the manager as a process, a simulated
//! Triton as another.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use bowline_http::{BaseUrl, Connector, HttpClient, ProxyRules, RetryPolicy, Route, Tls};
use bowline_simulator::World;
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_triton::DEFAULT_PRIVATE_KEY;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::process::{Running, bowline};

/// No wait on the program is longer. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "kube-system";

fn id(number: u32) -> String {
    format!("5b1e2d3c-0000-4000-8000-{number:012}")
}

struct Setup {
    cluster: Cluster,
    folder: TempDir,
    /// Where the manager serves.
    address: SocketAddr,
    _triton: Running,
    _manager: Running,
}

impl Setup {
    async fn new() -> Self {
        let world = World::real();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let cluster = Cluster::on_socket(&world, any).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("kubeconfig"), cluster.admin_kubeconfig().unwrap()).unwrap();
        let machines: Vec<Value> = (1..=3)
            .map(|number| json!({"name": format!("k8s-{number}"), "id": id(number)}))
            .collect();
        let scene = json!({"machines": machines, "timings": {"job": "100ms"}});
        std::fs::write(path("scene.yaml"), scene.to_string()).unwrap();
        let (triton, cloudapi, cmon) = simulated(&path("scene.yaml"));
        // As a private installation would have it, whose certificate nobody knows.
        let config =
            format!("[Metrics]\nmode = export\ncmon-endpoint = https://localhost:{cmon}\n");
        std::fs::write(path("cloud.conf"), config).unwrap();
        for number in 1..=3 {
            add_node(&cluster, number).await;
        }
        let (manager, address) = manager(folder.path(), &cloudapi);
        Self {
            cluster,
            folder,
            address,
            _triton: triton,
            _manager: manager,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A page of the manager, once it is as wanted.
    async fn page(&self, path: &'static str, is_whole: impl Fn(&str) -> bool) -> String {
        let tls = Tls::new().insecure(true).build().unwrap();
        let base = BaseUrl::parse(&format!("https://{}", self.address)).unwrap();
        let connector = Connector::real(tls, ProxyRules::default());
        let client = HttpClient::builder("manager", base, connector)
            .retry(RetryPolicy::never())
            .build();
        let fetched = async {
            loop {
                if let Ok(reply) = client.get(Route::new(path)).send().await {
                    let text = String::from_utf8(reply.bytes().to_vec()).unwrap();
                    if is_whole(&text) {
                        return text;
                    }
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let fetched = tokio::time::timeout(PATIENCE, fetched).await;
        fetched.unwrap_or_else(|_| panic!("/{path} never is as wanted"))
    }

    /// What the manager has written into the cluster: certificate files, and configurations that name them.
    async fn configurations(&self) -> BTreeMap<String, PathBuf> {
        let client = self.cluster.admin().unwrap();
        let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
        let secret = secrets.get("triton-cmon-client").await.unwrap();
        let folder = self.path("triton-cmon-client");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, content) in secret.data.unwrap() {
            std::fs::write(folder.join(name), content.0).unwrap();
        }
        std::fs::write(self.path("token"), "nobody asks").unwrap();
        let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let map = maps.get("triton-cmon-scrape").await.unwrap();
        let here = self.folder.path().to_str().unwrap();
        let port = self.address.port();
        let mut written = BTreeMap::new();
        for (name, text) in map.data.unwrap() {
            // What is mounted and resolved in a cluster is elsewhere here.
            let text = text
                .replace("/etc/prometheus/secrets", here)
                .replace("/var/run/secrets/kubernetes.io/serviceaccount", here)
                .replace(
                    &format!("bowline-metrics.{NAMESPACE}.svc:{port}"),
                    &self.address.to_string(),
                );
            let path = self.path(&name);
            std::fs::write(&path, text).unwrap();
            written.insert(name, path);
        }
        written
    }
}

/// `bowline simulate triton`, where its API is, and the port of its metrics.
fn simulated(scene: &Path) -> (Running, String, u16) {
    let mut triton = Running::start(bowline(&[
        "simulate",
        "triton",
        "--listen=127.0.0.1:0",
        "--cmon=127.0.0.1:0",
        "--fixture",
        scene.to_str().unwrap(),
    ]));
    let greeting = triton.says("Triton, simulated, on http://");
    let (_, api) = greeting.split_once(" on ").unwrap();
    let api = api.trim().to_owned();
    let metrics = triton.says("/v1/discover");
    let (_, rest) = metrics.split_once("https://127.0.0.1:").unwrap();
    let port = rest.split('/').next().unwrap().parse().unwrap();
    (triton, api, port)
}

fn manager(folder: &Path, cloudapi: &str) -> (Running, SocketAddr) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let path = |name: &str| folder.join(name).display().to_string();
    let mut command = bowline(&[
        "--cloud-provider=triton",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--authorization-always-allow-paths=/sd/triton,/metrics/triton",
    ]);
    command
        .arg(format!("--cloud-config={}", path("cloud.conf")))
        .arg(format!("--kubeconfig={}", path("kubeconfig")))
        .arg(format!("--secure-port={}", address.port()))
        .env("SDC_URL", cloudapi)
        .env("SDC_ACCOUNT", "acme")
        .env("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY)
        .env("TRITON_TLS_INSECURE", "1");
    (Running::start(command), address)
}

async fn add_node(cluster: &Cluster, number: u32) {
    let api: Api<Node> = Api::all(cluster.admin().unwrap());
    let node = json!({
        "metadata": {"name": format!("k8s-{number}")},
        "spec": {"providerID": format!("triton://{}", id(number))},
    });
    let node = serde_json::from_value(node).unwrap();
    api.create(&PostParams::default(), &node).await.unwrap();
}

fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(std::env::var("PROMTOOL").unwrap())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn check_metrics(page: &str) {
    let output = promtool(&["check", "metrics"], page);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // The metrics service's own names, which stay as they are.
    let own = |line: &str| line.contains("counter metrics should have \"_total\" suffix");
    let counts = |line: &&str| !line.is_empty() && !own(line);
    let complaints: Vec<&str> = said.lines().filter(counts).collect();
    assert_eq!(complaints, [""; 0], "{page}");
    // 3: it is read, and something is complained of.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
}

/// The labels of what Prometheus finds with that configuration, by machine.
async fn found(config: &Path, job: &'static str) -> BTreeMap<String, BTreeMap<String, String>> {
    let config = config.to_owned();
    // The cluster is on this thread, and goes on meanwhile.
    spawn_blocking(move || discovered(&config, job))
        .await
        .unwrap()
}

fn discovered(config: &Path, job: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let config = config.to_str().unwrap();
    let output = promtool(&["check", "config", config], "");
    assert!(output.status.success(), "{output:?}");
    let output = promtool(
        &["check", "service-discovery", "--timeout=5s", config, job],
        "",
    );
    assert!(output.status.success(), "{output:?}");
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let labels = |it: &Value| {
        let labels: BTreeMap<String, String> =
            serde_json::from_value(it["labels"].clone()).unwrap();
        (labels["machine"].clone(), labels)
    };
    found.iter().map(labels).collect()
}

#[tokio::test]
#[ignore = "needs promtool: name it in PROMTOOL"]
async fn promtool_reads_the_metrics_of_machines_and_finds_them_in_both_ways() {
    let test = Setup::new().await;
    let all_up =
        |page: &str| page.matches("\ntriton_cmon_up{").count() == 3 && !page.contains("\"} 0\n");
    let page = test.page("metrics/triton", all_up).await;
    assert!(page.contains("\ntriton_mem_limit{"), "{page}");
    check_metrics(&page);

    let all = |page: &str| page.matches("\"targets\"").count() == 3;
    test.page("sd/triton", all).await;
    let configs = test.configurations().await;
    let ours = found(&configs["http-sd.yaml"], "triton-machines").await;
    assert_eq!(ours.len(), 3);
    let labels = &ours[&id(2)];
    let target = &labels["__address__"];
    assert!(
        target.starts_with(&format!("{}.localhost:", id(2))),
        "{target}"
    );
    assert_eq!(labels["node"], "k8s-2");
    assert_eq!((&*labels["role"], &*labels["brand"]), ("node", "bhyve"));

    // Prometheus' own code, with the certificate: only what is in the cluster's group is found.
    let theirs = found(&configs["triton-sd.yaml"], "triton").await;
    assert_eq!(theirs.len(), 3);
    assert_eq!(theirs[&id(2)]["__address__"], *target);
    assert_eq!(theirs[&id(2)]["alias"], "k8s-2");
}
