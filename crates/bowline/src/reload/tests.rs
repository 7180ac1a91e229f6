//! A hundred changes of the configuration, good and bad ones, under a manager that has work to do.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may"
)]

mod placeholder_cloud;
mod renamed;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::clients::{Agent, Clients, Connection, Limits};
use bowline_controllers::manager::{Manager, ManagerError};
use bowline_controllers::metrics::Metrics;
use bowline_http::{Connector, Random};
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
use bowline_simulator::{KubeletSpec, World};
use bowline_simulator_cloudscale::{Cloudscale, DEFAULT_TOKEN, Fixture, MachineSpec};
use bowline_simulator_kubernetes::auth::User;
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::fleet::{Fleet, Settings};
use bowline_simulator_kubernetes::kinds;
use bowline_simulator_kubernetes::monitor::{self, Monitor};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::run::Outside;

/// Three accounts of one kind: their provider ids do not tell whose a node is.
const CLOUDS: [&str; 3] = ["a", "b", "c"];
/// Who the manager is in the journal.
const MANAGER: &str = "bowline";
/// How long calls to a cloud may go on after it has left the configuration: a handover, and a call under way.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// Long enough for all deletions that the guards' budgets allow one after another: three in ten minutes.
const A_LONG_TIME: Duration = Duration::from_secs(3600);
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
const UUID: &str = "k8s.cloudscale.ch/loadbalancer-uuid";

/// What a configuration says.
#[derive(Clone)]
struct Plan {
    clouds: BTreeSet<&'static str>,
    /// Which of its token files each cloud has.
    tokens: BTreeMap<&'static str, &'static str>,
    default_cloud: Option<&'static str>,
    percent: u32,
    syncs: u32,
    monitor_period: u32,
    remark: u32,
}

impl Plan {
    fn new() -> Self {
        Self {
            clouds: CLOUDS.into(),
            tokens: CLOUDS.map(|name| (name, "token")).into(),
            default_cloud: None,
            percent: 10,
            syncs: 2,
            monitor_period: 5,
            remark: 0,
        }
    }

    /// The same with one thing changed.
    fn changed(&self, random: &Random) -> Self {
        let mut plan = self.clone();
        let cloud = pick(random, &CLOUDS);
        match below(random, 8) {
            0..=2 if plan.clouds.contains(cloud) && plan.clouds.len() > 1 => {
                plan.clouds.remove(cloud);
                plan.default_cloud = plan.default_cloud.filter(|it| *it != cloud);
            }
            0..=2 => {
                plan.clouds.insert(cloud);
            }
            3 => {
                let token = pick(random, &["token", "other-token", "wrong-token"]);
                plan.tokens.insert(cloud, token);
            }
            4 => plan.percent = 10 + below(random, 5),
            5 => plan.syncs = 1 + below(random, 4),
            6 => plan.monitor_period = 3 + below(random, 4),
            _ => plan.default_cloud = plan.clouds.contains(cloud).then_some(cloud),
        }
        plan.remark += below(random, 2);
        plan
    }

    fn text(&self, folder: &Path) -> String {
        let mut text = format!("# Remark {}\nclouds:\n", self.remark);
        for name in &self.clouds {
            let file = folder.join(self.tokens[name]);
            let _ = write!(
                text,
                "- name: {name}\n  provider: cloudscale\n  settings:\n    accessToken: {{file: {}}}\n    \
                 apiUrl: http://{name}.sim/\n  guard: {{budgetPercent: {}}}\n",
                file.display(),
                self.percent
            );
        }
        let default = self.default_cloud.unwrap_or("none");
        let _ = write!(
            text,
            "services: {{defaultCloud: {default}}}\nmanager:\n  concurrent-service-syncs: {}\n  \
             node-monitor-period: {}s\n",
            self.syncs, self.monitor_period
        );
        text
    }

    /// A text that cannot be used, made from it.
    fn spoiled(&self, random: &Random, folder: &Path) -> String {
        let text = self.text(folder);
        match below(random, 7) {
            0 => format!("{text}]"),
            1 => format!("{text}surprise: 1\n"),
            2 => text.replace("manager:\n", "manager:\n  kube-api-qps: 33\n"),
            3 => text.replace("token}", "token-that-is-not-there}"),
            4 => "clouds: []\n".to_owned(),
            5 => text.replace("provider: cloudscale", "provider: clodscale"),
            _ => text.replace("node-monitor-period: ", "node-monitor-period: soon "),
        }
    }
}

fn below(random: &Random, limit: u32) -> u32 {
    (random.unit() * f64::from(limit)) as u32
}

fn pick<'a>(random: &Random, from: &[&'a str]) -> &'a str {
    from[below(random, u32::try_from(from.len()).unwrap()) as usize]
}

struct Harness {
    world: World,
    random: Random,
    cluster: Cluster,
    clouds: BTreeMap<&'static str, Arc<Cloudscale>>,
    _servers: Vec<Server>,
    fleet: Fleet,
    _monitor: Monitor,
    folder: TempDir,
    reload: Reload,
    metrics: Arc<Metrics>,
    manager: JoinHandle<Result<(), ManagerError>>,
    stop: CancellationToken,
    /// Servers that are there, by node: their cloud and uuid.
    servers: BTreeMap<String, (&'static str, String)>,
    /// Nodes whose servers are gone.
    destroyed: BTreeSet<String>,
    /// Services that are there, each with its cloud.
    services: BTreeMap<String, &'static str>,
    /// Since when clouds are not configured.
    absent: BTreeMap<&'static str, Timestamp>,
    made: u32,
}

/// They report half as often as usual, so that most of the calls are the manager's.
fn kubelets() -> Settings {
    Settings {
        renew_interval: Duration::from_secs(20),
        ..Settings::default()
    }
}

impl Harness {
    async fn new(seed: u64, plan: &Plan) -> Self {
        let world = World::simulated(seed);
        let cluster = Cluster::on_pipe(&world).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, token) in [
            ("token", DEFAULT_TOKEN),
            ("other-token", "another"),
            ("wrong-token", "wrong"),
        ] {
            std::fs::write(folder.path().join(name), token).unwrap();
        }
        let scene = format!(
            "tokens: [{{value: {DEFAULT_TOKEN}}}, {{value: another}}]\n\
             networks: [{{name: k8s, subnets: [{{cidr: 10.20.0.0/24}}]}}]"
        );
        let mut clouds = BTreeMap::new();
        let mut listening = Vec::new();
        for name in CLOUDS {
            let scene: Fixture = bowline_simulator::fixture::parse("scene", &scene).unwrap();
            let cloud = Cloudscale::from_fixture(&world, scene).unwrap();
            let server = Server::builder(&world, cloud.clone()).named(name);
            listening.push(server.pipe(&format!("{name}.sim:80")));
            clouds.insert(name, cloud);
        }
        let path = folder.path().join("bowline.yaml");
        std::fs::write(&path, plan.text(folder.path())).unwrap();
        let (manager, reload, metrics) = start(&world, &cluster, &path).await;
        let stop = CancellationToken::new();
        Self {
            random: Random::seeded(seed ^ 0x5eed),
            fleet: Fleet::new(&world, cluster.admin().unwrap(), kubelets()),
            _monitor: Monitor::start(
                &world,
                cluster.admin().unwrap(),
                monitor::Settings::default(),
            ),
            clouds,
            _servers: listening,
            folder,
            reload,
            metrics,
            manager: tokio::spawn(manager.run(stop.clone())),
            stop,
            servers: BTreeMap::new(),
            destroyed: BTreeSet::new(),
            services: BTreeMap::new(),
            absent: BTreeMap::new(),
            made: 0,
            world,
            cluster,
        }
    }

    /// Nodes and Services of each cloud, and nodes of nobody's.
    async fn populate(&mut self) {
        let nodes = [
            foreign("foreign-1", Some("aws:///eu-1/i-1")),
            foreign("foreign-2", None),
        ];
        self.cluster.install(nodes).unwrap();
        for cloud in CLOUDS {
            self.add_server(cloud);
            self.add_server(cloud);
            self.add_service(cloud);
        }
        sleep(Duration::from_secs(60)).await;
    }

    fn add_server(&mut self, cloud: &'static str) {
        self.made += 1;
        let name = format!("{cloud}-{}", self.made);
        let spec = MachineSpec::named(&name).interface("public", None);
        let spec = spec.interface("k8s", None);
        let uuid = self.clouds[cloud].add_server(&spec);
        let uuid = uuid.unwrap();
        let kubelet = KubeletSpec {
            node_name: name.clone(),
            machine_id: format!("cloudscale://{uuid}"),
            ..KubeletSpec::default()
        };
        self.fleet.join(kubelet).unwrap();
        self.servers.insert(name, (cloud, uuid));
    }

    fn destroy_server(&mut self) {
        let Some(name) = self.servers.keys().next().cloned() else {
            return;
        };
        let (cloud, uuid) = self.servers.remove(&name).unwrap();
        self.clouds[cloud].destroy(&uuid).unwrap();
        self.destroyed.insert(name);
    }

    fn add_service(&mut self, cloud: &'static str) {
        self.made += 1;
        let name = format!("s{}", self.made);
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "namespace": "default", "name": name, "uid": self.world.random.uuid() },
            "spec": {
                "type": "LoadBalancer",
                "loadBalancerClass": format!("bowline.dev/{cloud}"),
                "ports": [{ "name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080,
                            "nodePort": 30_000 + self.made }],
            },
        });
        self.cluster.install([service]).unwrap();
        self.services.insert(name, cloud);
    }

    async fn delete_service(&mut self) {
        use k8s_openapi::api::core::v1::Service;
        let Some(name) = self.services.keys().next().cloned() else {
            return;
        };
        self.services.remove(&name);
        let api: kube::Api<Service> =
            kube::Api::namespaced(self.cluster.admin().unwrap(), "default");
        api.delete(&name, &kube::api::DeleteParams::default())
            .await
            .unwrap();
    }

    /// Something happens in the world.
    async fn live(&mut self) {
        let cloud = pick(&self.random, &CLOUDS);
        match below(&self.random, 6) {
            0 | 1 => self.add_server(cloud),
            2 if self.servers.len() > 4 => self.destroy_server(),
            3 => self.add_service(cloud),
            4 if self.services.len() > 3 => self.delete_service().await,
            _ => {}
        }
    }

    /// Writes a configuration as an editor does, and lets it be looked at.
    async fn write(&mut self, text: &str) -> Looked {
        let (path, next) = (
            self.folder.path().join("bowline.yaml"),
            self.folder.path().join("next"),
        );
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, path).unwrap();
        self.reload.look(true).await
    }

    /// Notes which clouds are configured from now on.
    fn note(&mut self, clouds: &BTreeSet<&'static str>) {
        let now = self.world.clock.now();
        for name in CLOUDS {
            if clouds.contains(name) {
                self.absent.remove(name);
            } else {
                self.absent.entry(name).or_insert(now);
            }
        }
    }

    fn object(&self, kind: &str, name: &str) -> Option<Value> {
        let namespace = if kind == "Service" { "default" } else { "" };
        let kind = kinds::by_kind("", "v1", kind).unwrap();
        self.cluster.api().get(kind, namespace, name)
    }

    /// Nothing was done since the last look that should not have been.
    fn check(&self) {
        assert!(!self.manager.is_finished(), "the manager has ended");
        let deletions = Filter::any().server("kubernetes").method("DELETE");
        for entry in self.world.journal.matching(&deletions.caller(MANAGER)) {
            let Some(name) = entry.path.strip_prefix("/api/v1/nodes/") else {
                continue;
            };
            assert!(self.destroyed.contains(name), "node {name} was deleted");
        }
        let foreign = Filter::any().path("/api/v1/nodes/foreign-*").mutating();
        let touched = self.world.journal.matching(&foreign.caller(MANAGER));
        assert!(touched.is_empty(), "{touched:?}");
        for (name, since) in &self.absent {
            let calls = self.world.journal.matching(&Filter::any().server(name));
            let late = calls.iter().find(|it| {
                it.arrived.duration_since(*since).unsigned_abs() > LAST_CALLS && it.arrived > *since
            });
            assert!(
                late.is_none(),
                "{name} is not configured since {since}: {late:?}"
            );
        }
        self.world.journal.clear();
        for (name, cloud) in &self.services {
            let Some(service) = self.object("Service", name) else {
                panic!("Service {name} is gone");
            };
            let balancers = self.clouds[cloud].balancers();
            let uid = service["metadata"]["uid"].as_str().unwrap();
            let own = format!("k8s-service-{uid}");
            let made = balancers.iter().filter(|it| it.name == own).count();
            assert!(made <= 1, "Service {name} has {made} load balancers");
            if let Some(uuid) = service["metadata"]["annotations"][UUID].as_str() {
                let there = balancers.iter().any(|it| it.uuid == uuid);
                assert!(there, "the load balancer of Service {name} is gone");
            }
        }
    }

    /// Everything is as it should be, long after the last change.
    fn check_all(&self) {
        for (name, (_, uuid)) in &self.servers {
            let node = self.object("Node", name).unwrap();
            let id = format!("cloudscale://{uuid}");
            assert_eq!(node["spec"]["providerID"], json!(id), "{name}");
            let taints = node["spec"]["taints"].to_string();
            assert!(!taints.contains(UNINITIALIZED), "{name}: {taints}");
        }
        // Whose settings changed, or who was away, just when a server went, nobody knows any more: its node is left
        // alone, and counted.
        let left = self
            .destroyed
            .iter()
            .filter_map(|name| self.object("Node", name));
        let (new, left): (Vec<Value>, Vec<Value>) =
            left.partition(|node| node["spec"]["providerID"].is_null());
        let contested = self.metric("bowline_nodes_left_alone{why=\"contested\"}");
        assert_eq!(left.len() as u64, contested, "{left:?}");
        let few = self.destroyed.len() / 3;
        assert!(new.len() + left.len() <= few, "{new:?} {left:?}");
        for (name, cloud) in &self.services {
            let service = self.object("Service", name).unwrap();
            let ingress = &service["status"]["loadBalancer"]["ingress"];
            assert!(ingress.is_array(), "Service {name} of {cloud}: {service:#}");
            assert_eq!(service["metadata"]["finalizers"], json!([CLEANUP]));
        }
        for (name, cloud) in &self.clouds {
            let wanted = self.services.values().filter(|it| *it == name).count();
            assert_eq!(cloud.balancers().len(), wanted, "load balancers of {name}");
        }
    }

    fn metric(&self, name: &str) -> u64 {
        let text = self.metrics.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value: f64 = line.map_or(0.0, |it| it.trim().parse().unwrap());
        value as u64
    }
}

/// A manager of the configuration in that file, and what follows it.
async fn start(world: &World, cluster: &Cluster, path: &Path) -> (Manager, Reload, Arc<Metrics>) {
    let arguments = [
        format!("--config={}", path.display()),
        "--secure-port=0".to_owned(),
        "--leader-elect=false".to_owned(),
    ];
    let metrics = Metrics::new();
    let user = User::new(MANAGER, &["system:masters"]);
    let config = cluster.config_of(user).unwrap();
    let connector = Connector::simulated(world.pipes.clone());
    let clients = Clients::new(
        Connection::over(&config, connector.clone()).unwrap(),
        Agent {
            program: "bowline".into(),
            version: "v0".into(),
            commit: "test".into(),
        },
        Limits {
            qps: -1.0,
            burst: 0,
        },
        world.clock.clone(),
        metrics.clone(),
        false,
    );
    let outside = Outside {
        environment: Arc::new(|_| None),
        clients,
        connector,
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: metrics.clone(),
    };
    let (manager, reload) = run::build_in(outside, &arguments).await.unwrap();
    (manager, reload.unwrap(), metrics)
}

fn foreign(name: &str, provider_id: Option<&str>) -> Value {
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name },
        "spec": {},
        "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] },
    });
    if let Some(id) = provider_id {
        node["spec"]["providerID"] = id.into();
    }
    node
}

#[tokio::test(start_paused = true)]
async fn a_hundred_changes_good_and_bad_restart_nothing_and_do_nothing_wrong() {
    let mut plan = Plan::new();
    let mut test = Harness::new(1, &plan).await;
    test.populate().await;
    let (mut generation, mut refused, mut same) = (1, 0, 0);
    for step in 0..100 {
        test.live().await;
        if below(&test.random, 3) == 0 {
            let text = plan.spoiled(&test.random, test.folder.path());
            // What is wrong is reported once.
            let before = test.reload.refused.as_ref().map(|it| it.why.clone());
            assert_eq!(test.write(&text).await, Looked::Refused, "{step}:\n{text}");
            let after = test.reload.refused.as_ref().map(|it| it.why.clone());
            refused += u64::from(before != after);
        } else {
            plan = plan.changed(&test.random);
            let text = plan.text(test.folder.path());
            match test.write(&text).await {
                Looked::Changed => generation += 1,
                Looked::Same => same += 1,
                Looked::Refused => panic!("{step}: refused:\n{text}"),
            }
            test.note(&plan.clouds);
        }
        let pause = Duration::from_secs(1 + u64::from(below(&test.random, 30)));
        sleep(pause).await;
        test.check();
        assert_eq!(test.metric("bowline_configuration_generation"), generation);
    }
    assert_eq!(test.metric("bowline_configuration_refused_total"), refused);
    assert!(
        generation > 30 && refused > 10 && same < 40,
        "{generation} {refused} {same}"
    );
    // In the end all is well, and all that was asked for meanwhile is done.
    plan = Plan::new();
    plan.syncs = 7;
    let text = plan.text(test.folder.path());
    assert_eq!(test.write(&text).await, Looked::Changed);
    test.note(&plan.clouds);
    sleep(A_LONG_TIME).await;
    test.check();
    test.check_all();
    test.stop.cancel();
    test.manager.await.unwrap().unwrap();
}
