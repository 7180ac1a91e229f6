//! The test bench: a simulated cluster on pipes, scripted clouds and the real manager between
//! them, under a paused clock.

use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::clients::{Agent, Clients, Connection, Limits};
use bowline_controllers::manager::{Manager, ManagerError, Reviews};
use bowline_controllers::metrics::Metrics;
use bowline_controllers::options::{self, Request};
use bowline_controllers::{StopHandle, stop_signal};
use bowline_core::{Cloud, GuardPolicy};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::cluster::Cluster;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use bowline_simulator::kubernetes::auth::User;
use bowline_simulator::kubernetes::kinds::{self, Kind};
use futures::future::select_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::cloud::ScriptedCloud;
use crate::objects::{is_uninitialized, ready};

/// Who the manager is in the journal.
pub(crate) const MANAGER: &str = "bowline";
/// Simulated time after which a wait is given up: far above every period and back-off.
const PATIENCE: Duration = Duration::from_secs(2 * 3600);

pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) cluster: Cluster,
    pub(crate) clouds: Vec<Arc<ScriptedCloud>>,
    /// Of the manager that was started last.
    pub(crate) metrics: Arc<Metrics>,
    admin: kube::Client,
    config: kube::Config,
    flags: Vec<String>,
    running: Option<(StopHandle, JoinHandle<Result<(), ManagerError>>)>,
}

impl Bench {
    /// A running manager with the cloud `demo` and default flags.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// A running manager with the cloud `demo` and these flags.
    pub(crate) fn with(flags: &[&str]) -> Self {
        let mut bench = Self::idle(7, &[("demo", "demo")], flags);
        bench.start();
        bench
    }

    /// Everything but the manager, for [`Bench::start`]; clouds are names and schemes.
    pub(crate) fn idle(seed: u64, clouds: &[(&str, &'static str)], flags: &[&str]) -> Self {
        let world = World::simulated(seed);
        let cluster = Cluster::on_pipe(&world).unwrap();
        let admin = cluster.admin().unwrap();
        let config = cluster
            .config_of(User::new(MANAGER, &["system:masters"]))
            .unwrap();
        let clouds = clouds
            .iter()
            .map(|(name, scheme)| ScriptedCloud::new(name, scheme, &world));
        Self {
            clouds: clouds.collect(),
            metrics: Metrics::new(),
            admin,
            config,
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            running: None,
            cluster,
            world,
        }
    }

    /// The only cloud.
    pub(crate) fn cloud(&self) -> &ScriptedCloud {
        &self.clouds[0]
    }

    /// Starts a manager, as a new process would.
    pub(crate) fn start(&mut self) {
        let basis = ["--secure-port=0", "--leader-elect=false"].map(str::to_owned);
        let flags: Vec<String> = basis.into_iter().chain(self.flags.clone()).collect();
        let Ok(Request::Run(line)) = options::parse("bowline", Some("demo"), &flags) else {
            panic!("the flags are wrong: {flags:?}");
        };
        let options = line.options;
        options.validate().unwrap();
        let connector = Connector::simulated(self.world.pipes.clone());
        let agent = Agent {
            program: "bowline".into(),
            version: "v0".into(),
            commit: "test".into(),
        };
        self.metrics = Metrics::new();
        let manager = Manager {
            clients: Clients::new(
                Connection::over(&self.config, connector).unwrap(),
                agent,
                Limits::from(&options.client),
                self.world.clock.clone(),
                self.metrics.clone(),
                false,
            ),
            options,
            clouds: self
                .clouds
                .iter()
                .map(|cloud| cloud.clone() as Arc<dyn Cloud>)
                .collect(),
            reviews: Reviews::default(),
            metrics: self.metrics.clone(),
            clock: self.world.clock.clone(),
            random: self.world.random.fork(),
            guard: GuardPolicy::default(),
            set_verbosity: Arc::new(|_| Ok(())),
        };
        let (handle, stop) = stop_signal();
        self.running = Some((handle, tokio::spawn(manager.run(stop))));
    }

    /// Stops the manager the way a signal does.
    pub(crate) async fn stop(&mut self) {
        let (handle, task) = self.running.take().unwrap();
        handle.stop();
        task.await.unwrap().unwrap();
    }

    /// Kills the manager in the middle of whatever it does.
    pub(crate) async fn kill(&mut self) {
        let (handle, task) = self.running.take().unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        // Its detached tasks see the dropped handle as the signal.
        drop(handle);
    }

    /// Whether the manager still works.
    pub(crate) fn is_running(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|(_, task)| !task.is_finished())
    }

    /// A client that may do everything.
    pub(crate) fn admin(&self) -> kube::Client {
        self.admin.clone()
    }

    // Nodes.

    /// Creates a node through the API, as its kubelet would.
    pub(crate) async fn create(&self, node: Value) {
        let node: Node = serde_json::from_value(node).unwrap();
        let api: Api<Node> = Api::all(self.admin.clone());
        api.create(&PostParams::default(), &node).await.unwrap();
    }

    /// Stores a node as it is, that many seconds old.
    pub(crate) fn put_aged(&self, mut node: Value, seconds: i64) {
        let created = self.world.clock.now().as_second() - seconds;
        let created = Timestamp::from_second(created).unwrap();
        node["metadata"]["creationTimestamp"] = created.to_string().into();
        self.cluster.api().put(kind("Node"), node);
    }

    /// Stores a node as it is, one hour old.
    pub(crate) fn put(&self, node: Value) {
        self.put_aged(node, 3600);
    }

    /// Changes a node as somebody else would, without a call in the journal.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = self.node(name);
        change(&mut node);
        self.cluster.api().put(kind("Node"), node);
    }

    pub(crate) fn set_ready(&self, name: &str, status: &str) {
        self.change(name, |node| {
            node["status"]["conditions"] = [ready(status)].into();
        });
    }

    /// What a kubelet does every few minutes: the same status with a new time.
    pub(crate) fn heartbeat(&self, name: &str) {
        let now = self.world.clock.now().to_string();
        self.change(name, |node| {
            node["status"]["conditions"][0]["lastHeartbeatTime"] = now.into();
        });
    }

    /// Deletes a node as somebody else would.
    pub(crate) fn delete(&self, name: &str) {
        assert!(self.cluster.api().delete(kind("Node"), "", name));
    }

    pub(crate) fn node(&self, name: &str) -> Value {
        self.find(name)
            .unwrap_or_else(|| panic!("there is no node {name}"))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Value> {
        self.cluster.api().get(kind("Node"), "", name)
    }

    pub(crate) fn is_initialized(&self, name: &str) -> bool {
        self.find(name).is_some_and(|node| !is_uninitialized(&node))
    }

    /// Every version that node ever had, oldest first.
    pub(crate) fn versions(&self, name: &str) -> Vec<Value> {
        let changes = self
            .cluster
            .api()
            .store()
            .with(|state| state.changes(kind("Node"), 0, usize::MAX));
        let own = changes.into_iter().filter(|change| change.path == name);
        own.filter_map(|change| change.after)
            .map(|node| (*node).clone())
            .collect()
    }

    /// The events about a node: `Type Reason source: message (count)`.
    pub(crate) fn events(&self, name: &str) -> Vec<String> {
        let all = self.cluster.api().list(kind("Event"), Some("default"));
        let about = all
            .into_iter()
            .filter(|it| it["involvedObject"]["name"] == name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        about
            .map(|it| {
                let (kind, reason) = (text(&it["type"]), text(&it["reason"]));
                let (source, message) = (text(&it["source"]["component"]), text(&it["message"]));
                format!("{kind} {reason} {source}: {message} ({})", it["count"])
            })
            .collect()
    }

    /// The counts of that reason's events about a node.
    pub(crate) fn told(&self, name: &str, reason: &str) -> usize {
        let all = self.cluster.api().list(kind("Event"), Some("default"));
        let meant = |it: &&Value| it["involvedObject"]["name"] == name && it["reason"] == reason;
        let counts = all
            .iter()
            .filter(meant)
            .map(|it| it["count"].as_u64().unwrap());
        usize::try_from(counts.sum::<u64>()).unwrap()
    }

    // Calls.

    /// The manager's calls about that node (calls that a fault struck have no caller).
    pub(crate) fn calls(&self, name: &str) -> Vec<Entry> {
        let path = format!("/api/v1/nodes/{name}");
        let status = format!("{path}/status");
        let entries = self.world.journal.entries().into_iter();
        let meant = |it: &Entry| it.path == path || it.path == status;
        let ours = |it: &Entry| it.caller == MANAGER || it.caller.is_empty();
        entries.filter(|it| meant(it) && ours(it)).collect()
    }

    /// The manager's writes of that node, also those that failed.
    pub(crate) fn writes(&self, name: &str) -> Vec<Entry> {
        self.calls(name)
            .into_iter()
            .filter(Entry::is_mutating)
            .collect()
    }

    /// Its writes as `METHOD path -> status`, the path from the node's name on.
    pub(crate) fn written(&self, name: &str) -> Vec<String> {
        let writes = self.writes(name).into_iter();
        writes
            .map(|it| {
                let path = it.path.trim_start_matches("/api/v1/nodes/").to_owned();
                format!("{} {path} -> {}", it.method, it.status)
            })
            .collect()
    }

    /// The manager's deletions of that node, also those that failed.
    pub(crate) fn deletions(&self, name: &str) -> Vec<Entry> {
        self.writes(name)
            .into_iter()
            .filter(|it| it.method == "DELETE")
            .collect()
    }

    /// All writes of nodes by the manager.
    pub(crate) fn node_writes(&self) -> Vec<String> {
        let entries = self.world.journal.entries().into_iter();
        entries
            .filter(|it| it.caller == MANAGER && it.is_mutating())
            .filter(|it| it.path.starts_with("/api/v1/nodes/"))
            .map(|it| format!("{} {} {} {}", it.time, it.method, it.path, it.body))
            .collect()
    }

    /// All calls by the manager that are no watch and no health check.
    pub(crate) fn all_calls(&self) -> Vec<String> {
        let entries = self.world.journal.entries().into_iter();
        entries
            .filter(|it| it.caller == MANAGER && !it.query.contains("watch="))
            .filter(|it| it.path != "/healthz")
            .map(|it| format!("{} {}", it.method, it.path))
            .collect()
    }

    pub(crate) fn fault(&self, rule: Rule) {
        self.world.faults.add(rule).unwrap();
    }

    /// The value of a series, by its exact name with labels; none if it is not there.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics.text();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        lines
            .find(|(name, _)| *name == series)
            .map(|(_, value)| value.parse().unwrap())
    }

    // Time.

    /// Waits until a call was made or a cloud was asked after which `done` holds.
    pub(crate) async fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let mut calls = self.world.journal.subscribe();
        let mut looks: Vec<_> = self.clouds.iter().map(|cloud| cloud.subscribe()).collect();
        let wait = async {
            loop {
                calls.mark_unchanged();
                looks
                    .iter_mut()
                    .for_each(tokio::sync::watch::Receiver::mark_unchanged);
                if done(self) {
                    return;
                }
                let asked = select_all(looks.iter_mut().map(|it| Box::pin(it.changed())));
                tokio::select! {
                    biased;
                    _ = calls.changed() => {}
                    _ = asked => {}
                }
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            let transcript = self.world.journal.transcript();
            let lines: Vec<&str> = transcript.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            panic!("it never came to this: {what}; the last calls were\n{last}");
        }
    }

    pub(crate) async fn until_initialized(&self, name: &str) {
        let what = format!("node {name} is initialised and that is told");
        self.until(&what, |bench| {
            bench.is_initialized(name) && bench.told(name, "Synced") > 0
        })
        .await;
    }

    pub(crate) async fn until_deleted(&self, name: &str) {
        self.until(&format!("node {name} is deleted"), |bench| {
            bench.find(name).is_none()
        })
        .await;
    }

    /// Lets simulated time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) async fn seconds(&self, seconds: u64) {
        self.pass(Duration::from_secs(seconds)).await;
    }

    /// Time since then.
    pub(crate) fn since(&self, then: Timestamp) -> Duration {
        self.world.clock.since(then)
    }
}

pub(crate) fn kind(name: &str) -> &'static Kind {
    kinds::by_kind("", "v1", name).unwrap()
}

/// A rule on the API server that answers with that status.
pub(crate) fn refuse(code: u16, method: &str, path: &str) -> Rule {
    let (headers, body) = Default::default();
    Rule::new(Action::Status {
        code,
        headers,
        body,
    })
    .server("kubernetes")
    .on(method, path)
}

/// A rule on the API server that lets calls wait for one second before they are handled.
pub(crate) fn slow(method: &str, path: &str) -> Rule {
    let second = Duration::from_secs(1);
    let action = Action::Delay {
        least: second,
        most: second,
    };
    Rule::new(action).server("kubernetes").on(method, path)
}
