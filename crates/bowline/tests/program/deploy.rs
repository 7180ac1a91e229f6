//! What is deployed fits the program: the manifests of deploy/ and the chart that they are made from.
//! (That a manifest is what the chart gives, and that an API server takes it, is for `e2e/deploy`.)

mod rights;
mod several;
mod shipped;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use bowline_controllers::options::{self, CONTROLLERS, CommandLine, Request};
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
use bowline_simulator::{KubeletSpec, World};
use bowline_simulator_cloudscale::{Cloudscale, MachineSpec};
use bowline_simulator_exoscale::{DEFAULT_ZONE, Exoscale, InstanceSpec};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::fleet::{self, Fleet};
use bowline_simulator_triton::Triton;
use k8s_openapi::api::core::v1::{Container, Node, PodSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::process::{Running, bowline, program, run};
use rights::rights;
use shipped::{CLOUDSCALE, EXOSCALE, SHIPPED, Shipped, TALOS, TRITON, documents, file};

/// No wait is longer. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SYSTEM: &str = "kube-system";

fn understood(arguments: &[String]) -> CommandLine {
    match options::parse(crate::flags::table(), "bowline", None, arguments) {
        Ok(Request::Run(line)) => *line,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

#[test]
fn cloudscale_defect_d24_the_program_understands_the_arguments_and_variables() {
    for shipped in SHIPPED {
        let container = shipped.container();
        assert_eq!(container.command.unwrap(), ["bowline"]);
        let arguments = container.args.unwrap();
        let line = understood(&arguments);
        line.options.validate().unwrap();
        assert_eq!(line.warnings, shipped.warnings, "{}", shipped.path);
        assert_eq!(line.options.cloud.provider, shipped.provider);
        for flag in shipped.flags {
            assert!(arguments.iter().any(|it| it == flag), "{flag}");
        }
        let known = (shipped.variables)();
        for variable in container.env.unwrap() {
            assert!(known.contains(&variable.name.as_str()), "{variable:?}");
        }
    }
}

#[test]
fn proof_case_39_no_manifest_opens_metrics_to_everybody_on_the_host_s_network() {
    let several = file("deploy/several.yaml");
    let manifests = SHIPPED.iter().map(|shipped| file(shipped.path));
    for text in manifests.chain([several]) {
        assert!(text.contains("hostNetwork: true"));
        assert!(!text.contains("always-allow-paths"), "{text}");
    }
}

#[test]
fn cloudscale_defect_d24_the_credentials_come_from_the_originals_secret() {
    for shipped in SHIPPED {
        let env = shipped.container().env.unwrap();
        for secret in shipped.secrets {
            let variable = env.iter().find(|it| it.name == secret.variable);
            let source = variable.and_then(|it| it.value_from.clone()).unwrap();
            let key = source.secret_key_ref.unwrap();
            assert_eq!(
                (key.name.as_str(), key.key.as_str()),
                (secret.name, secret.key)
            );
            assert_ne!(key.optional, Some(true));
        }
        let sources = env.iter().filter_map(|it| it.value_from.as_ref());
        let from_secrets = sources.filter(|it| it.secret_key_ref.is_some());
        assert_eq!(from_secrets.count(), shipped.secrets.len());
        assert_eq!(mounted_secrets(&shipped.pod()), shipped.mounted);
    }
}

/// Which Secrets the container has, and where.
fn mounted_secrets(pod: &PodSpec) -> Vec<(&str, &str)> {
    let mounts = pod.containers[0].volume_mounts.iter().flatten();
    let secret = |name: &str| {
        let mut volumes = pod.volumes.iter().flatten();
        let volume = volumes.find(|it| it.name == name).expect("its volume");
        volume.secret.as_ref()?.secret_name.as_deref()
    };
    mounts
        .filter_map(|it| Some((secret(&it.name)?, it.mount_path.as_str())))
        .collect()
}

#[test]
fn at_talos_the_secret_is_the_one_that_talos_makes() {
    let mut asked = TALOS.objects();
    asked.retain(|it| it["apiVersion"] == "talos.dev/v1alpha1");
    let [asked] = asked.try_into().expect("one object of talos.dev");
    assert_eq!(asked["kind"], "ServiceAccount");
    assert_eq!(asked["metadata"]["namespace"], SYSTEM);
    assert_eq!(asked["metadata"]["name"], TALOS.mounted[0].0);
    assert_eq!(asked["spec"]["roles"], json!(["os:reader"]));
}

#[test]
fn cloudscale_defect_d24_applied_over_the_original_it_takes_its_place() {
    for shipped in SHIPPED {
        let workload = shipped.workload();
        assert_eq!(workload["metadata"]["name"], shipped.original);
        assert_eq!(workload["metadata"]["namespace"], SYSTEM);
        // The API server refuses to change it.
        let selector: BTreeMap<_, _> = shipped
            .labels
            .iter()
            .map(|label| (*label, shipped.original))
            .collect();
        let found = &workload["spec"]["selector"]["matchLabels"];
        assert_eq!(*found, json!(selector), "{}", shipped.path);
        let template = shipped.template();
        let labels = template.metadata.unwrap().labels.unwrap();
        for label in shipped.labels {
            assert_eq!(labels[*label], shipped.original);
        }
        let pod = template.spec.unwrap();
        assert_eq!(pod.service_account_name.as_deref(), Some(shipped.account));
        assert_eq!(pod.containers[0].name, shipped.original);
        assert_eq!(pod.host_network, Some(true));
        assert_eq!(pod.dns_policy.as_deref(), Some("Default"));
        let nodes = pod.node_selector.unwrap_or_default();
        assert_eq!(nodes.keys().collect::<Vec<_>>(), shipped.nodes);
        let tolerations = pod.tolerations.unwrap();
        for taint in shipped.taints {
            let mut keys = tolerations.iter().map(|it| it.key.as_deref());
            assert!(keys.any(|key| key == Some(taint)), "{taint}");
        }
        let election = understood(&shipped.arguments()).options.election;
        assert_eq!(election.resource_name, shipped.lease);
        assert_eq!(election.resource_namespace, SYSTEM);
    }
}

#[test]
fn cloudscale_defect_d24_the_container_has_limits_and_no_privilege() {
    for shipped in SHIPPED {
        let container = shipped.container();
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
        let security = shipped.pod().security_context.unwrap();
        assert_eq!(security.run_as_non_root, Some(true));
        assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
    }
}

#[test]
fn cloudscale_defect_d24_the_account_has_the_rights_that_are_used_and_no_other() {
    for shipped in SHIPPED {
        let found = rights(&shipped.objects());
        assert_eq!(found, rights::wanted(shipped), "{}", shipped.path);
    }
}

/// The port and path of a probe, for the container's ports.
fn target(container: &Container, probe: Option<&Probe>) -> (i32, String) {
    let get = probe.and_then(|it| it.http_get.clone());
    let get = get.expect("an HTTP probe");
    assert_eq!(get.scheme.as_deref(), Some("HTTPS"));
    let port = match get.port {
        IntOrString::Int(port) => port,
        IntOrString::String(name) => {
            let ports = container.ports.as_ref().unwrap();
            let mut named = ports.iter().filter(|it| it.name.as_ref() == Some(&name));
            named.next().expect("the probe's port").container_port
        }
    };
    (port, get.path.unwrap())
}

fn probes(container: &Container) -> [(i32, String); 3] {
    [
        &container.startup_probe,
        &container.liveness_probe,
        &container.readiness_probe,
    ]
    .map(|probe| target(container, probe.as_ref()))
}

/// What processes work on: the manifest's account, and the simulated cloud with one machine.
struct Setup {
    shipped: &'static Shipped,
    world: World,
    cluster: Cluster,
    /// What is not the same here as where the container runs: where the cloud is.
    seams: Vec<(&'static str, String)>,
    fleet: Fleet,
    kubelet: KubeletSpec,
    folder: tempfile::TempDir,
    _server: Server,
}

/// A machine's kubelet, the cloud's server, and what leads there.
type Cloud = (KubeletSpec, Server, Vec<(&'static str, String)>);

async fn cloudscale(world: &World, any: SocketAddr) -> Cloud {
    let cloud = Cloudscale::new(world, bowline_simulator_cloudscale::Config::default());
    let machine = cloud.add_server(&MachineSpec::named("worker-1")).unwrap();
    let kubelet = KubeletSpec {
        node_name: "worker-1".to_owned(),
        machine_id: format!("cloudscale://{machine}"),
        ..KubeletSpec::default()
    };
    let server = Server::builder(world, cloud).plain(any).await.unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    (kubelet, server, vec![("CLOUDSCALE_API_URL", url)])
}

async fn exoscale(world: &World, any: SocketAddr) -> Cloud {
    let cloud = Exoscale::new(world, bowline_simulator_exoscale::Config::default());
    let machine = cloud.add_instance(&InstanceSpec::named("worker-1"));
    let kubelet = cloud.kubelet(&machine.unwrap()).unwrap();
    let server = Server::builder(world, cloud).plain(any).await.unwrap();
    let url = format!("http://{}/v2", server.local_addr().unwrap());
    // On an instance, its metadata tell the zone.
    let zone = ("EXOSCALE_API_ZONE", DEFAULT_ZONE.to_owned());
    (kubelet, server, vec![("EXOSCALE_API_ENDPOINT", url), zone])
}

/// With the Secret that the manifest's account may follow.
async fn triton(world: &World, any: SocketAddr, cluster: &Cluster) -> Cloud {
    let cloud = Triton::from_fixture(world, bowline_simulator_triton::Fixture::default()).unwrap();
    let id = cloud
        .add_machine(&bowline_simulator_triton::MachineSpec::named("worker-1"))
        .unwrap();
    let kubelet = KubeletSpec {
        node_name: "worker-1".to_owned(),
        machine_id: format!("triton://{id}"),
        ..KubeletSpec::default()
    };
    let server = Server::builder(world, cloud).plain(any).await.unwrap();
    let secret = json!({
        "metadata": { "name": "triton-credentials" },
        "stringData": {
            "SDC_ENDPOINT": format!("http://{}", server.local_addr().unwrap()),
            "SDC_ACCOUNT": bowline_simulator_triton::DEFAULT_ACCOUNT,
            "SDC_PRIVATE_KEY": bowline_simulator_triton::DEFAULT_PRIVATE_KEY,
        },
    });
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(cluster.admin().unwrap(), SYSTEM);
    let secret = serde_json::from_value(secret).unwrap();
    secrets
        .create(&kube::api::PostParams::default(), &secret)
        .await
        .unwrap();
    (kubelet, server, Vec::new())
}

impl Setup {
    async fn new(shipped: &'static Shipped) -> Self {
        let world = World::real();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let cluster = Cluster::on_socket(&world, any).await.unwrap();
        cluster.install(rights(&shipped.objects())).unwrap();
        let (kubelet, server, seams) = match shipped.provider {
            "cloudscale" => cloudscale(&world, any).await,
            "exoscale" => exoscale(&world, any).await,
            "triton" => triton(&world, any, &cluster).await,
            other => panic!("{other} has no simulator here"),
        };
        let folder = tempfile::tempdir().unwrap();
        let account = shipped.pod().service_account_name.unwrap();
        let text = cluster.account_kubeconfig(SYSTEM, &account).unwrap();
        std::fs::write(folder.path().join("kubeconfig"), text).unwrap();
        Self {
            shipped,
            fleet: Fleet::new(&world, cluster.admin().unwrap(), fleet::Settings::default()),
            seams,
            kubelet,
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
        let container = self.shipped.container();
        let link = self.path(&container.command.unwrap()[0]);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bowline"), &link).unwrap();
        let mut command = program(&link, &[]);
        command
            .args(container.args.unwrap())
            .arg(format!(
                "--kubeconfig={}",
                self.path("kubeconfig").display()
            ))
            .args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")]);
        for variable in container.env.unwrap() {
            let mut secrets = self.shipped.secrets.iter();
            let secret = secrets.find(|it| it.variable == variable.name);
            let value = match secret {
                Some(secret) => secret.value.to_owned(),
                // What comes from the pod is nothing here.
                None => variable.value.unwrap_or_default(),
            };
            command.env(variable.name, value);
        }
        command.envs(self.seams.iter().cloned());
        Running::start(command)
    }

    async fn join(&self) {
        self.fleet.join(self.kubelet.clone()).unwrap();
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

async fn works_and_answers(shipped: &'static Shipped) {
    let served = understood(&shipped.arguments()).options.serving.port;
    let test = Setup::new(shipped).await;
    // On the machine of a test the real port may be in use.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let running = test.start(port);
    test.join().await;
    for (wanted, path) in probes(&shipped.container()) {
        assert_eq!(i64::from(wanted), served);
        assert_eq!(answered(port, &path).await, "ok", "{path}");
    }
    running.signal("TERM");
    let ended = spawn_blocking(|| running.end()).await.unwrap();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let refused = Filter::any().server("kubernetes").status(403);
    assert_eq!(test.world.journal.count(&refused), 0, "{}", ended.stderr);
}

#[tokio::test]
async fn cloudscale_defect_d24_the_started_program_works_and_answers_the_probes() {
    works_and_answers(&CLOUDSCALE).await;
}

#[tokio::test]
async fn at_exoscale_the_started_program_works_and_answers_the_probes() {
    works_and_answers(&EXOSCALE).await;
}

#[tokio::test]
async fn at_triton_the_started_program_works_and_answers_the_probes() {
    works_and_answers(&TRITON).await;
}

#[test]
fn cloudscale_defect_d24_chart_manifest_and_program_have_one_version() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = &documents("charts/bowline/Chart.yaml")[0];
    assert_eq!(chart["version"], version);
    assert_eq!(chart["appVersion"], version);
    for shipped in SHIPPED {
        let image = shipped.container().image.unwrap();
        assert_eq!(image.rsplit_once(':').unwrap().1, version, "{image}");
    }
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

#[test]
fn the_chart_offers_the_controllers_that_the_program_has() {
    let schema: Value = serde_json::from_str(&file("charts/bowline/values.schema.json")).unwrap();
    let mut offered = vec!["*".to_owned()];
    for name in CONTROLLERS.iter().flat_map(|it| [it.alias, it.name]) {
        offered.extend([name.to_owned(), format!("-{name}")]);
    }
    let found = &schema["properties"]["controllers"]["items"]["enum"];
    assert_eq!(*found, json!(offered));
}

#[test]
fn the_charts_cloud_config_knows_the_keys_of_the_program_but_those_of_credentials() {
    let schema: Value = serde_json::from_str(&file("charts/bowline/values.schema.json")).unwrap();
    let config = &schema["properties"]["exoscale"]["properties"]["cloudConfig"];
    // A ConfigMap is no place for them.
    let credentials = [
        "global.apiKey",
        "global.apiSecret",
        "global.apiCredentialsFile",
    ];
    for key in bowline_exoscale::config::KEYS {
        let path = key.name.replace("[]", "/items").replace('.', "/");
        let found = path.split('/').try_fold(config, |at, part| match part {
            "items" => at.get("items"),
            name => at.get("properties")?.get(name),
        });
        let wanted = !credentials.contains(&key.name);
        assert_eq!(found.is_some(), wanted, "{}", key.name);
    }
}

#[test]
fn the_charts_cloud_config_of_triton_knows_what_is_neither_secret_nor_has_a_value_of_its_own() {
    use bowline_triton::config::table::ROWS;

    let schema: Value = serde_json::from_str(&file("charts/bowline/values.schema.json")).unwrap();
    let values = &schema["properties"]["triton"]["properties"];
    let elsewhere = [
        ("global", "tritonEndpoint"),
        ("global", "tritonAccount"),
        ("global", "tritonUser"),
        ("global", "tritonKeyId"),
        ("global", "tritonPrivateKey"),
        ("global", "tritonKeyPassphrase"),
        ("global", "tritonDatacenter"),
        ("global", "clusterName"),
        ("loadBalancer", "mode"),
        ("loadBalancer", "publicNetwork"),
        ("loadBalancer", "privateNetwork"),
        ("loadBalancer", "firewall"),
        ("loadBalancer", "clbImage"),
        ("loadBalancer", "clbPackage"),
        ("loadBalancer", "clbReplicas"),
        ("routes", "enabled"),
        ("routes", "networks"),
        ("metrics", "mode"),
    ];
    for row in &ROWS {
        let (section, key) = (row.section.yaml(), row.yaml_key());
        let config = &values["cloudConfig"]["properties"][section]["properties"];
        let wanted = !elsewhere.contains(&(section, key.as_str()));
        assert_eq!(config.get(&key).is_some(), wanted, "{section}.{key}");
    }
}
