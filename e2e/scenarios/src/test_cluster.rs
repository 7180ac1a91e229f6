//! The cluster of one scenario, with scripted clouds and the real manager between them.

mod calls;
mod certificates;
mod faults;
mod leases;
mod managers;
mod nodes;
mod services;
mod time;
mod visible;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::ActiveConfigChanger;
use bowline_controllers::manager::CloudRules;
use bowline_controllers::metrics::Metrics;
use bowline_http::PeerCertificates;
use bowline_simulator::World;
use jiff::Timestamp;
use serde_json::Value;

use crate::cloud::ScriptedCloud;
use crate::cluster::{Cluster, Sharing};
use crate::objects::{is_uninitialized, ready};
use crate::replica::Replica;

pub use faults::{Fault, refuse, slow, status};
pub use time::assert_not_later;

/// Who the manager is in the journal.
pub const MANAGER: &str = "bowline";
/// The lease that managers compete for.
pub const LEASE: &str = "cloud-controller-manager";
/// Simulated time after which a wait is given up: far above every period and back-off.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2 * 3600);
/// The same on the real clock. No scenario waits for anything that takes more than a minute, and
/// many share two cores.
pub(crate) const REAL_PATIENCE: Duration = Duration::from_secs(180);

/// What a test cluster starts from.
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
    /// The name under which managers are started, and the provider that it stands for.
    pub program: (&'static str, &'static str),
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            seed: 7,
            clouds: &[("demo", "demo")],
            flags: &[],
            sharing: Sharing::Shared,
            program: ("bowline", "demo"),
        }
    }
}

pub struct TestCluster {
    pub cluster: Cluster,
    /// Its world: clock, randomness, journal, faults, machines.
    pub world: World,
    /// The clouds that the manager has.
    pub clouds: Vec<Arc<ScriptedCloud>>,
    /// Of the manager that was started last.
    pub metrics: Arc<Metrics>,
    config: kube::Config,
    /// The certificates that the API server shows to managers.
    shown: PeerCertificates,
    flags: Vec<String>,
    rules: CloudRules,
    providers: Vec<managers::Provider>,
    program: (&'static str, &'static str),
    running: Option<Replica>,
    /// Of the manager that was started last.
    changer: RefCell<Option<ActiveConfigChanger>>,
}

impl TestCluster {
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

    /// Everything but the manager, for [`TestCluster::start`], with the cloud `demo` and these flags.
    pub async fn idle(flags: &[&str]) -> Self {
        let setup = Setup {
            flags,
            ..Setup::default()
        };
        Self::set_up(setup).await
    }

    /// A place for several managers, with the cloud `demo`: see [`TestCluster::replica`].
    pub async fn for_replicas(seed: u64) -> Self {
        let setup = Setup {
            seed,
            ..Setup::default()
        };
        Self::set_up(setup).await
    }

    /// Everything but the manager, for [`TestCluster::start`].
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
            shown: PeerCertificates::default(),
            flags: setup.flags.iter().map(|&flag| flag.to_owned()).collect(),
            rules: CloudRules::default(),
            providers: Vec::new(),
            program: setup.program,
            running: None,
            changer: RefCell::new(None),
            world: cluster.world.clone(),
            cluster,
        }
    }

    /// The manager calls as somebody else from its next start on.
    pub fn act_as(&mut self, config: kube::Config) {
        self.config = config;
    }

    /// The API server shows managers a certificate with these names and addresses. There is no TLS on pipes.
    pub fn api_server_shows(&self, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        self.shown.note(made.cert.der());
    }

    /// The manager has these flags from its next start on.
    pub fn use_flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    }

    /// The only cloud.
    pub fn cloud(&self) -> &ScriptedCloud {
        &self.clouds[0]
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

    /// All events of a reason, about nodes and leases.
    pub fn events_of(&self, reason: &str) -> Vec<Value> {
        let all = self.cluster.all_events().into_iter();
        all.filter(|event| event["reason"] == reason).collect()
    }

    /// The counts of that reason's events about a node.
    pub fn event_count(&self, name: &str, reason: &str) -> usize {
        let about = self.cluster.events(name).into_iter();
        let counts = about
            .filter(|it| it["reason"] == reason)
            .map(|it| it["count"].as_u64().unwrap());
        usize::try_from(counts.sum::<u64>()).unwrap()
    }

    /// The value of a series, by its exact name with labels; none if it is not there.
    pub fn metric(&self, series: &str) -> Option<f64> {
        crate::replica::metric(&self.metrics.text(), series)
    }
}
