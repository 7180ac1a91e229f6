//! A cluster and managers on it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::clients::{Agent, Clients, Connection, Limits};
use bowline_controllers::manager::{CloudRules, Manager, ManagerError, Reviews};
use bowline_controllers::metrics::Metrics;
use bowline_controllers::options::{self, Options, Request};
use bowline_controllers::{ActiveConfig, ActiveConfigs};
use bowline_core::Cloud;
use bowline_http::{Connector, ProxyRules};
use bowline_simulator::World;
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator_kubernetes::auth::{User, original};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::kinds::{self, Kind};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::cloud::Demo;

/// How long a condition is waited for: simulated time, or far more than a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(900);

pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
pub(crate) const LEASE: &str = "cloud-controller-manager";

/// A cluster, a cloud, and everything that was called.
pub(crate) struct Harness {
    pub(crate) world: World,
    pub(crate) cluster: Cluster,
    pub(crate) cloud: Arc<Demo>,
    /// Further clouds of managers that are started from now on.
    pub(crate) others: Vec<Arc<Demo>>,
}

/// One running manager.
pub(crate) struct Replica {
    pub(crate) metrics: Arc<Metrics>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Harness {
    /// For a paused clock.
    pub(crate) fn on_pipe(seed: u64) -> Self {
        let world = World::simulated(seed);
        let cluster = Cluster::on_pipe(&world).unwrap();
        let cloud = Demo::new(&world.clock);
        Self {
            world,
            cluster,
            cloud,
            others: Vec::new(),
        }
    }

    /// On a TLS socket and the real clock.
    pub(crate) async fn on_socket() -> Self {
        let world = World::real();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let cluster = Cluster::on_socket(&world, address).await.unwrap();
        let cloud = Demo::new(&world.clock);
        Self {
            world,
            cluster,
            cloud,
            others: Vec::new(),
        }
    }

    /// A configuration of somebody who may do everything, by that name.
    pub(crate) fn administrator(&self, name: &str) -> kube::Config {
        let user = User::new(name, &["system:masters"]);
        self.cluster.config_of(user).unwrap()
    }

    /// Installs an original's manifest and gives its account's configuration.
    pub(crate) fn original_account(&self) -> kube::Config {
        self.cluster.install(original()).unwrap();
        self.account("cloud-controller-manager")
    }

    /// A service account of kube-system.
    pub(crate) fn account(&self, name: &str) -> kube::Config {
        let token = self.cluster.account_token("kube-system", name).unwrap();
        self.cluster.config_with(&token).unwrap()
    }

    fn clouds(&self) -> Vec<Arc<dyn Cloud>> {
        let all = [&self.cloud].into_iter().chain(&self.others);
        all.map(|cloud| cloud.clone() as Arc<dyn Cloud>).collect()
    }

    /// A manager that has not started.
    pub(crate) fn manager(&self, config: &kube::Config, arguments: &[&str]) -> Manager {
        let options = parse(arguments);
        options.validate().unwrap();
        let connection = if self.cluster.url().starts_with("https") {
            Connection::open(config, ProxyRules::from_environment(|_| None).unwrap())
        } else {
            Connection::over(config, Connector::simulated(self.world.pipes.clone()))
        };
        let connection = connection.unwrap();
        let metrics = Metrics::new();
        let clients = |limits| {
            Clients::new(
                connection.clone(),
                agent(),
                limits,
                self.world.clock.clone(),
                metrics.clone(),
                options.client.use_service_account_credentials,
            )
        };
        let reviews = clients(Limits {
            qps: 200.0,
            burst: 400,
        });
        Manager {
            clients: clients(Limits::from(&options.client)),
            reviews: Reviews {
                authentication: Some(reviews.root("authentication")),
                authorization: Some(reviews.root("authorization")),
            },
            active_configs: ActiveConfigs::only(ActiveConfig::first(
                options,
                self.clouds(),
                CloudRules::default(),
            )),
            metrics: metrics.clone(),
            clock: self.world.clock.clone(),
            random: self.world.random.fork(),
            set_verbosity: Arc::new(|_| Ok(())),
        }
    }

    /// Starts a manager as an administrator of that name.
    pub(crate) fn start(&self, name: &str, arguments: &[&str]) -> Replica {
        self.start_as(&self.administrator(name), arguments)
    }

    /// Starts a manager with that configuration.
    pub(crate) fn start_as(&self, config: &kube::Config, arguments: &[&str]) -> Replica {
        Replica::of(self.manager(config, arguments))
    }

    /// Waits until `look` finds something; it looks again after every call and every change.
    pub(crate) async fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let mut calls = self.world.journal.subscribe();
        let mut changes = self.cluster.api().store().subscribe();
        let waiting = async {
            loop {
                calls.mark_unchanged();
                changes.mark_unchanged();
                if let Some(found) = look() {
                    return found;
                }
                tokio::select! {
                    biased;
                    _ = calls.changed() => {}
                    _ = changes.changed() => {}
                }
            }
        };
        let found = timeout(PATIENCE, waiting).await;
        found.unwrap_or_else(|_| panic!("{what} did not happen:\n{}", self.last_calls()))
    }

    /// The end of the journal, without the many renewals.
    fn last_calls(&self) -> String {
        let entries = self.world.journal.entries();
        let calls = entries
            .iter()
            .rev()
            .filter(|call| call.method != "PUT")
            .take(20);
        let lines = calls.map(|call| {
            let (method, path, query) = (&call.method, &call.path, &call.query);
            format!("{} {method} {path}?{query} -> {}", call.time, call.status)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Waits for a call.
    pub(crate) async fn until_called(&self, what: &str, filter: &Filter) -> Entry {
        let found = || self.world.journal.matching(filter).pop();
        self.until(what, found).await
    }

    /// The calls of that user, from that entry of the journal on.
    pub(crate) fn calls_of(&self, user: &str, from: usize) -> Vec<Entry> {
        let all = self.world.journal.entries().into_iter().skip(from);
        all.filter(|call| call.caller == user).collect()
    }

    pub(crate) fn put(&self, object: Value) {
        self.cluster.install([object]).unwrap();
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.cluster.api().get(kind("Node"), "", name)
    }

    /// Changes a node as somebody else would.
    pub(crate) fn change_node(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = self.node(name).unwrap();
        change(&mut node);
        self.put(node);
    }

    /// A node as a kubelet registers it; old enough for anything.
    pub(crate) fn join(&self, name: &str) {
        let born = self.world.clock.now() - Duration::from_secs(3600);
        self.put(json!({
            "kind": "Node", "apiVersion": "v1",
            "metadata": {
                "name": name, "labels": { "kubernetes.io/hostname": name },
                "creationTimestamp": born.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            },
            "spec": { "taints": [
                { "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" },
            ] },
            "status": {
                "addresses": [{ "type": "Hostname", "address": name }],
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        }));
    }

    pub(crate) async fn until_initialized(&self, name: &str) {
        let done = || {
            let node = self.node(name)?;
            (!has_taint(&node, UNINITIALIZED)).then_some(())
        };
        self.until(&format!("{name} initialised"), done).await;
    }

    /// The spec of a lease in kube-system; null if there is none.
    pub(crate) fn lease(&self, name: &str) -> Value {
        let lease = self.cluster.api().get(kind("Lease"), "kube-system", name);
        lease.map_or(Value::Null, |lease| lease["spec"].clone())
    }

    pub(crate) fn holder(&self, name: &str) -> String {
        let spec = self.lease(name);
        spec["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until somebody else than `before` holds the lease, and says who.
    pub(crate) async fn until_held(&self, lease: &str, before: &str) -> String {
        let held = || {
            let holder = self.holder(lease);
            (!holder.is_empty() && holder != before).then_some(holder)
        };
        self.until(&format!("{lease} held by another than {before:?}"), held)
            .await
    }

    /// Makes somebody else the holder of the lease.
    pub(crate) fn give_lease(&self, lease: &str, holder: &str) {
        let now = self.world.clock.now().to_string();
        self.put(json!({
            "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
            "metadata": { "namespace": "kube-system", "name": lease },
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3,
                "acquireTime": now, "renewTime": now,
            },
        }));
    }
}

impl Replica {
    pub(crate) fn of(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        Self {
            metrics: manager.metrics.clone(),
            task: tokio::spawn(manager.run(stop.clone())),
            stop,
        }
    }

    /// What SIGTERM does.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.cancel();
    }

    /// Asks it to stop, and how long that took.
    pub(crate) async fn stop(self) -> (Result<(), ManagerError>, Duration) {
        let from = Instant::now();
        self.ask_to_stop();
        let ended = self.ended().await;
        (ended, from.elapsed())
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(self) -> Result<(), ManagerError> {
        let ended = timeout(PATIENCE, self.task).await;
        ended.expect("it ends").expect("it does not panic")
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

pub(crate) fn parse(arguments: &[&str]) -> Options {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    match options::parse(
        options::Table::default(),
        "bowline",
        Some("demo"),
        &arguments,
    ) {
        Ok(Request::Run(line)) => line.options,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn agent() -> Agent {
    Agent {
        program: "bowline".to_owned(),
        version: "v0".to_owned(),
        commit: "unknown".to_owned(),
    }
}

pub(crate) fn kind(name: &str) -> &'static Kind {
    let group = match name {
        "Lease" => "coordination.k8s.io",
        _ => "",
    };
    kinds::by_kind(group, "v1", name).unwrap()
}

pub(crate) fn has_taint(node: &Value, key: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.is_some_and(|taints| taints.iter().any(|taint| taint["key"] == key))
}

/// Sets the Ready condition.
pub(crate) fn set_ready(node: &mut Value, status: &str) {
    node["status"]["conditions"] = json!([{ "type": "Ready", "status": status }]);
}

/// Simulated time goes by.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
