//! The test bench: a cluster, scripted clouds and the real manager between them.

mod calls;
mod faults;
mod leases;
mod time;

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
use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::cloud::ScriptedCloud;
use crate::cluster::{Cluster, Sharing};
use crate::objects::{is_uninitialized, ready};
use crate::replica::Replica;

pub use faults::{Fault, refuse, slow};

/// Who the manager is in the journal.
pub const MANAGER: &str = "bowline";
/// The lease that managers compete for.
pub const LEASE: &str = "cloud-controller-manager";
/// Simulated time after which a wait is given up: far above every period and back-off.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2 * 3600);
/// The same on the real clock. No scenario waits for anything that takes more than a minute, and
/// many share two cores.
pub(crate) const REAL_PATIENCE: Duration = Duration::from_secs(180);

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
        self.metrics = Metrics::new();
        let lease = self.cluster.names().own(LEASE);
        let basis = [
            "--secure-port=0".to_owned(),
            "--leader-elect=false".to_owned(),
            format!("--leader-elect-resource-name={lease}"),
        ];
        let flags: Vec<String> = basis.into_iter().chain(self.flags.clone()).collect();
        let manager = self.manager(&self.config, &flags, &self.metrics);
        let (handle, stop) = stop_signal();
        self.running = Some((handle, tokio::spawn(manager.run(stop))));
    }

    /// Starts one of several managers, which compete for a lease; `name` is its name in the journal.
    pub async fn replica(&self, name: &str, flags: &[&str]) -> Replica {
        let config = self.cluster.manager(name).await;
        let lease = self.cluster.names().own(LEASE);
        let mut all = vec![
            "--secure-port=0".to_owned(),
            format!("--leader-elect-resource-name={lease}"),
        ];
        all.extend(flags.iter().map(|&flag| flag.to_owned()));
        let metrics = Metrics::new();
        let manager = self.manager(&config, &all, &metrics);
        Replica::start(name, manager, metrics, self.cluster.names().clone())
    }

    fn manager(&self, config: &kube::Config, flags: &[String], metrics: &Arc<Metrics>) -> Manager {
        let Ok(Request::Run(line)) = options::parse("bowline", Some("demo"), flags) else {
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
        Manager {
            clients: Clients::new(
                Connection::over(config, connector).unwrap(),
                agent,
                Limits::from(&options.client),
                self.world.clock.clone(),
                metrics.clone(),
                false,
            ),
            options,
            clouds: self
                .clouds
                .iter()
                .map(|cloud| cloud.clone() as Arc<dyn Cloud>)
                .collect(),
            reviews: Reviews::default(),
            metrics: metrics.clone(),
            clock: self.world.clock.clone(),
            random: self.world.random.fork(),
            guard: GuardPolicy::default(),
            set_verbosity: Arc::new(|_| Ok(())),
        }
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

    /// The value of a series, by its exact name with labels; none if it is not there.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics.text();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        lines
            .find(|(name, _)| *name == series)
            .map(|(_, value)| value.parse().unwrap())
    }
}
