//! The test bench: a cluster, scripted clouds and the real manager between them.

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
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use futures::FutureExt as _;
use futures::future::select_all;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;

use crate::cloud::ScriptedCloud;
use crate::cluster::{Cluster, Sharing};
use crate::objects::{is_uninitialized, ready};
use crate::play::is_real;

/// Who the manager is in the journal.
pub const MANAGER: &str = "bowline";
/// Simulated time after which a wait is given up: far above every period and back-off.
const PATIENCE: Duration = Duration::from_secs(2 * 3600);
/// The same on the real clock. No scenario waits for anything that takes more than a minute, and
/// many share two cores.
const REAL_PATIENCE: Duration = Duration::from_secs(180);
/// How long nothing is watched to happen on the real clock. What Bowline does by itself it does
/// within a minute, but for the address round, whose period a scenario sets.
const LONG_ENOUGH: Duration = Duration::from_secs(70);
/// How much later than promised something may be on the real clock, where many share two cores.
const SLACK: Duration = Duration::from_secs(20);

/// What a bench starts from.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Of the simulated world.
    pub seed: u64,
    /// Names and schemes of provider ids.
    pub clouds: &'a [(&'a str, &'a str)],
    /// Of the manager.
    pub flags: &'a [&'a str],
    /// Whether it can share a real server.
    pub sharing: Sharing,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            seed: 7,
            clouds: &[("demo", "demo")],
            flags: &[],
            sharing: Sharing::Shared,
        }
    }
}

/// The bench of one scenario.
pub struct Bench {
    /// The cluster.
    pub cluster: Cluster,
    /// Its world: clock, randomness, journal, faults, machines.
    pub world: World,
    /// The clouds that the manager has.
    pub clouds: Vec<Arc<ScriptedCloud>>,
    /// Of the manager that was started last.
    pub metrics: Arc<Metrics>,
    config: kube::Config,
    flags: Vec<String>,
    running: Option<(StopHandle, JoinHandle<Result<(), ManagerError>>)>,
}

impl Bench {
    /// A running manager with the cloud `demo` and default flags.
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// A running manager with the cloud `demo` and these flags.
    pub async fn with(flags: &[&str]) -> Self {
        let mut bench = Self::idle(flags).await;
        bench.start();
        bench
    }

    /// Everything but the manager, for [`Bench::start`], with the cloud `demo` and these flags.
    pub async fn idle(flags: &[&str]) -> Self {
        let setup = Setup {
            flags,
            ..Setup::default()
        };
        Self::set_up(setup).await
    }

    /// Everything but the manager, for [`Bench::start`].
    pub async fn set_up(setup: Setup<'_>) -> Self {
        let cluster = Cluster::start(setup.seed, setup.sharing).await;
        let config = cluster.manager(MANAGER).await;
        let clouds = setup.clouds.iter();
        let clouds = clouds
            .map(|(name, scheme)| ScriptedCloud::new(name, scheme, cluster.names(), &cluster.world))
            .collect();
        Self {
            clouds,
            metrics: Metrics::new(),
            config,
            flags: setup.flags.iter().map(|&flag| flag.to_owned()).collect(),
            running: None,
            world: cluster.world.clone(),
            cluster,
        }
    }

    /// The manager calls as somebody else from its next start on.
    pub fn act_as(&mut self, config: kube::Config) {
        self.config = config;
    }

    /// The only cloud.
    pub fn cloud(&self) -> &ScriptedCloud {
        &self.clouds[0]
    }

    /// Starts a manager, as a new process would.
    pub fn start(&mut self) {
        let lease = self.cluster.names().own("cloud-controller-manager");
        let basis = [
            "--secure-port=0".to_owned(),
            "--leader-elect=false".to_owned(),
            format!("--leader-elect-resource-name={lease}"),
        ];
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
    pub async fn stop(&mut self) {
        let (handle, task) = self.running.take().unwrap();
        handle.stop();
        task.await.unwrap().unwrap();
        self.cluster.catch_up().await;
    }

    /// Kills the manager in the middle of whatever it does.
    pub async fn kill(&mut self) {
        let (handle, task) = self.running.take().unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        // Its detached tasks see the dropped handle as the signal.
        drop(handle);
        self.cluster.catch_up().await;
    }

    /// Whether the manager still works.
    pub fn is_running(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|(_, task)| !task.is_finished())
    }

    /// A client that may do everything.
    pub fn admin(&self) -> kube::Client {
        self.cluster.admin()
    }

    // Nodes.

    /// Creates a node through the API, as its kubelet would.
    pub async fn create(&self, node: Value) {
        self.cluster.create(node).await;
    }

    /// Stores a node as it is, that many seconds old.
    pub async fn put_aged(&self, node: Value, seconds: i64) {
        self.cluster.put_aged(node, seconds).await;
    }

    /// Stores a node as it is, one hour old.
    pub async fn put(&self, node: Value) {
        self.put_aged(node, 3600).await;
    }

    /// Changes a node as somebody else would, without a call in the journal.
    pub async fn change(&self, name: &str, change: impl FnMut(&mut Value)) {
        self.cluster.change(name, change).await;
    }

    /// Gives a node that condition `Ready` and no other.
    pub async fn set_ready(&self, name: &str, status: &str) {
        self.change(name, |node| {
            node["status"]["conditions"] = [ready(status)].into();
        })
        .await;
    }

    /// What a kubelet does every few minutes: the same status with a new time.
    pub async fn heartbeat(&self, name: &str) {
        let now = self.world.clock.now().as_second();
        self.change(name, |node| {
            let last = &mut node["status"]["conditions"][0]["lastHeartbeatTime"];
            let before: Timestamp = last.as_str().unwrap().parse().unwrap();
            // Kubernetes keeps whole seconds, and the same time again would be no change.
            let time = Timestamp::from_second(now.max(before.as_second() + 1)).unwrap();
            *last = time.to_string().into();
        })
        .await;
    }

    /// Deletes a node as somebody else would.
    pub async fn delete(&self, name: &str) {
        self.cluster.delete(name).await;
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Value {
        self.cluster.node(name)
    }

    /// The node of that name, if there is one.
    pub fn find(&self, name: &str) -> Option<Value> {
        self.cluster.find(name)
    }

    /// Whether there is such a node, and its taint has gone.
    pub fn is_initialized(&self, name: &str) -> bool {
        self.find(name).is_some_and(|node| !is_uninitialized(&node))
    }

    /// Every version that node ever had, oldest first.
    pub fn versions(&self, name: &str) -> Vec<Value> {
        self.cluster.versions(name)
    }

    /// The events about a node: `Type Reason source: message (count)`.
    pub fn events(&self, name: &str) -> Vec<String> {
        let about = self.cluster.events(name).into_iter();
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
    pub fn told(&self, name: &str, reason: &str) -> usize {
        let about = self.cluster.events(name).into_iter();
        let counts = about
            .filter(|it| it["reason"] == reason)
            .map(|it| it["count"].as_u64().unwrap());
        usize::try_from(counts.sum::<u64>()).unwrap()
    }

    // Calls.

    /// The journal. On a real server only what managers called is in it.
    pub fn entries(&self) -> Vec<Entry> {
        let entries = self.world.journal.entries().into_iter();
        entries.map(|it| self.cluster.names().entry(it)).collect()
    }

    /// The manager's calls about that node (calls that a fault struck have no caller).
    pub fn calls(&self, name: &str) -> Vec<Entry> {
        let path = format!("/api/v1/nodes/{name}");
        let status = format!("{path}/status");
        let entries = self.entries().into_iter();
        let meant = |it: &Entry| it.path == path || it.path == status;
        let ours = |it: &Entry| it.caller == MANAGER || it.caller.is_empty();
        entries.filter(|it| meant(it) && ours(it)).collect()
    }

    /// The manager's writes of that node, also those that failed.
    pub fn writes(&self, name: &str) -> Vec<Entry> {
        self.calls(name)
            .into_iter()
            .filter(Entry::is_mutating)
            .collect()
    }

    /// Its writes as `METHOD path -> status`, the path from the node's name on.
    pub fn written(&self, name: &str) -> Vec<String> {
        let writes = self.writes(name).into_iter();
        writes
            .map(|it| {
                let path = it.path.trim_start_matches("/api/v1/nodes/").to_owned();
                format!("{} {path} -> {}", it.method, it.status)
            })
            .collect()
    }

    /// The manager's deletions of that node, also those that failed.
    pub fn deletions(&self, name: &str) -> Vec<Entry> {
        self.writes(name)
            .into_iter()
            .filter(|it| it.method == "DELETE")
            .collect()
    }

    /// All writes of nodes by the manager.
    pub fn node_writes(&self) -> Vec<String> {
        let entries = self.entries().into_iter();
        entries
            .filter(|it| it.caller == MANAGER && it.is_mutating())
            .filter(|it| it.path.starts_with("/api/v1/nodes/"))
            .map(|it| format!("{} {} {} {}", it.time, it.method, it.path, it.body))
            .collect()
    }

    /// All calls by the manager that are no watch and no health check.
    pub fn all_calls(&self) -> Vec<String> {
        let entries = self.entries().into_iter();
        entries
            .filter(|it| it.caller == MANAGER && !it.query.contains("watch="))
            .filter(|it| it.path != "/healthz")
            .map(|it| format!("{} {}", it.method, it.path))
            .collect()
    }

    /// Lets calls go wrong. On a real server only the manager's can.
    pub fn fault(&self, rule: Rule) -> Fault<'_> {
        let rule = self.cluster.names().rule(rule);
        Fault(self, self.world.faults.add(rule).unwrap())
    }

    /// The value of a series, by its exact name with labels; none if it is not there.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics.text();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        lines
            .find(|(name, _)| *name == series)
            .map(|(_, value)| value.parse().unwrap())
    }

    // Time.

    /// Waits until `done` holds: it is asked after every call, every question to a cloud, and, on
    /// a real server, every change of a node or event.
    pub async fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let wait = async {
            loop {
                self.until_noticed(&mut done).await;
                // A journal that tells of a write is ahead of the watch that tells of the node.
                self.cluster.catch_up().await;
                if !is_real() || done(self) {
                    return;
                }
            }
        };
        let patience = if is_real() { REAL_PATIENCE } else { PATIENCE };
        if tokio::time::timeout(patience, wait).await.is_err() {
            let transcript = self.world.journal.transcript();
            let lines: Vec<&str> = transcript.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            panic!("it never came to this: {what}; the last calls were\n{last}");
        }
    }

    async fn until_noticed(&self, done: &mut impl FnMut(&Self) -> bool) {
        let mut calls = self.world.journal.subscribe();
        let mut changes = self.cluster.subscribe();
        let mut looks: Vec<_> = self.clouds.iter().map(|cloud| cloud.subscribe()).collect();
        loop {
            calls.mark_unchanged();
            changes.as_mut().map(Receiver::mark_unchanged);
            looks.iter_mut().for_each(Receiver::mark_unchanged);
            if done(self) {
                return;
            }
            let asked = select_all(looks.iter_mut().map(|it| Box::pin(it.changed())));
            let changed = match &mut changes {
                Some(changes) => changes.changed().map(|_| ()).boxed(),
                None => std::future::pending().boxed(),
            };
            tokio::select! {
                biased;
                _ = calls.changed() => {}
                _ = asked => {}
                () = changed => {}
            }
        }
    }

    /// Waits until a node is initialised and people are told.
    pub async fn until_initialized(&self, name: &str) {
        let what = format!("node {name} is initialised and that is told");
        self.until(&what, |bench| {
            bench.is_initialized(name) && bench.told(name, "Synced") > 0
        })
        .await;
    }

    /// Waits until there is no such node.
    pub async fn until_deleted(&self, name: &str) {
        self.until(&format!("node {name} is deleted"), |bench| {
            bench.find(name).is_none()
        })
        .await;
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.cluster.catch_up().await;
    }

    /// Lets seconds pass.
    pub async fn seconds(&self, seconds: u64) {
        self.pass(Duration::from_secs(seconds)).await;
    }

    /// Lets a long time pass in which nothing should happen. On the real clock it is cut down to a
    /// bit more than a minute, since there is nothing that Bowline would begin by itself later.
    pub async fn long(&self, seconds: u64) {
        let time = Duration::from_secs(seconds);
        let time = if is_real() {
            time.min(LONG_ENOUGH)
        } else {
            time
        };
        self.pass(time).await;
    }

    /// Lets a node live on: so many reports of an unchanged status, five minutes apart. On the real
    /// clock it is a few seconds, which is the same to whoever watches.
    pub async fn live(&self, name: &str, reports: usize) {
        for _ in 0..reports {
            self.seconds(if is_real() { 6 } else { 300 }).await;
            self.heartbeat(name).await;
        }
    }

    /// How much later than promised something may be: not at all under the paused clock.
    pub fn slack(&self) -> Duration {
        if is_real() { SLACK } else { Duration::ZERO }
    }

    /// Time since then.
    pub fn since(&self, then: Timestamp) -> Duration {
        self.world.clock.since(then)
    }
}

/// A fault on the bench.
pub struct Fault<'a>(&'a Bench, String);

impl Fault<'_> {
    /// Waits until it has struck so many calls; a slow one is on its way then, and not written down.
    pub async fn struck(&self, times: u64) {
        let Self(bench, name) = self;
        let patience = if is_real() { REAL_PATIENCE } else { PATIENCE };
        let struck = bench.world.faults.struck(name, times);
        let is_struck = tokio::time::timeout(patience, struck).await.is_ok();
        assert!(
            is_struck,
            "there were never {times} calls for the fault {name}"
        );
    }
}

/// A rule on the API server that answers with that status.
pub fn refuse(code: u16, method: &str, path: &str) -> Rule {
    let (headers, body) = Default::default();
    Rule::new(Action::Status {
        code,
        headers,
        body,
    })
    .server("kubernetes")
    .on(method, path)
}

/// A rule on the API server that lets calls wait before they are handled, long enough for
/// something else to happen meanwhile.
pub fn slow(method: &str, path: &str) -> Rule {
    let wait = Duration::from_secs(if is_real() { 4 } else { 1 });
    let action = Action::Delay {
        least: wait,
        most: wait,
    };
    Rule::new(action).server("kubernetes").on(method, path)
}
