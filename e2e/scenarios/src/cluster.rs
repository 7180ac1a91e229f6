//! The cluster of a scenario: one handle on either kind of API server.
//!
//! Names are the scenario's own everywhere here; the handle translates them (see [`crate::names`]).

mod callers;
mod certificates;
mod endpoints;
mod leases;
mod remains;
mod server;
mod services;

use std::sync::{Arc, Mutex, MutexGuard};

use bowline_simulator::machines::Power;
use bowline_simulator::serve::Server;
use bowline_simulator::{KubeletSpec, World};
use bowline_simulator_kubernetes::auth::User;
use bowline_simulator_kubernetes::cluster::{Cluster as Simulated, client_over};
use bowline_simulator_kubernetes::fleet::{Fleet, Settings};
use bowline_simulator_kubernetes::kinds::{self, Kind};
use bowline_simulator_kubernetes::monitor::{self, Monitor};
use bowline_simulator_kubernetes::relay::Relay;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::Value;
use tokio::sync::watch;

use crate::mirror::{Mirror, version_of};
use crate::names::Names;
use crate::plane::ControlPlane;
use crate::run;
pub(crate) use certificates::REQUEST;
pub(crate) use remains::Remains;
pub use server::Backup;

/// Tries of a change that somebody else's changes come in between of.
const MOST_CONFLICTS: usize = 50;

/// Whether a scenario can live with others on one API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// It can: its names are its own, and it takes no notice of anything else.
    #[default]
    Shared,
    /// It needs a server of its own, because it restarts it, uses fixed names, or counts what all
    /// nodes together cause.
    Alone,
}

/// The cluster of one scenario.
pub struct Cluster {
    /// Its clock, randomness, pipes, journal, faults and machines.
    pub world: World,
    names: Names,
    admin: kube::Client,
    back: Back,
    /// Further doors, where some call.
    doors: Vec<Server>,
}

enum Back {
    Memory(Box<Simulated>),
    Real(Box<Real>),
}

struct Real {
    mirror: Mirror,
    /// In front of the server, one for each who calls through the journal.
    relays: Mutex<Vec<(Arc<Relay>, Server)>>,
    plane: Arc<ControlPlane>,
    /// While it has a server of its own.
    turn: Option<MutexGuard<'static, ()>>,
}

impl Cluster {
    /// A cluster for one scenario. `seed` is for the simulated one.
    pub async fn start(seed: u64, sharing: Sharing) -> Self {
        if run::is_real() {
            Self::real(sharing).await
        } else {
            Self::in_memory(seed)
        }
    }

    fn in_memory(seed: u64) -> Self {
        let world = World::simulated(seed);
        let cluster = Simulated::on_pipe(&world).unwrap();
        Self {
            admin: cluster.admin().unwrap(),
            names: Names::alone(),
            back: Back::Memory(Box::new(cluster)),
            doors: Vec::new(),
            world,
        }
    }

    /// Lets somebody call at a door of their own from now on, which has that name in the journal and in fault rules: what
    /// strikes other callers spares them. In memory alone.
    pub fn user_apart(&mut self, name: &str, door: &str) -> kube::Config {
        let Back::Memory(cluster) = &self.back else {
            panic!("a real server has one door");
        };
        let authority = format!("{door}.sim:80");
        let server = Server::builder(&self.world, cluster.api().clone()).named(door);
        self.doors.push(server.pipe(&authority));
        let user = User::new(name, &["system:masters"]);
        let mut config = cluster.config_of(user).unwrap();
        config.cluster_url = format!("http://{authority}").parse().unwrap();
        config
    }

    /// Lets users and kubelets call at such a door.
    pub fn let_users_call_apart(&mut self, door: &str) {
        let config = self.user_apart("kubernetes-admin", door);
        self.admin = self.client(config);
    }

    async fn real(sharing: Sharing) -> Self {
        let (names, turn, plane) = match sharing {
            Sharing::Shared => (Names::unique(), None, ControlPlane::shared()),
            Sharing::Alone => {
                let turn = ControlPlane::turn();
                (Names::alone(), Some(turn), ControlPlane::start())
            }
        };
        let admin = kube::Client::try_from(plane.admin().await).unwrap();
        if sharing == Sharing::Shared {
            run::remove_later(Remains {
                names: names.clone(),
                admin: admin.clone(),
            });
        }
        let real = Real {
            mirror: Mirror::start(admin.clone(), &names).await,
            relays: Mutex::default(),
            plane,
            turn,
        };
        Self {
            world: World::real(),
            names,
            admin,
            back: Back::Real(Box::new(real)),
            doors: Vec::new(),
        }
    }

    /// The simulated cluster, for what only that can do; none on a real server.
    pub fn simulated(&self) -> Option<&Simulated> {
        match &self.back {
            Back::Memory(cluster) => Some(cluster),
            Back::Real(_) => None,
        }
    }

    /// The real control plane, to restart servers or to compact; none in memory.
    pub fn plane(&self) -> Option<&Arc<ControlPlane>> {
        match &self.back {
            Back::Memory(_) => None,
            Back::Real(real) => Some(&real.plane),
        }
    }

    /// The names of the scenario.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// A client that may do everything. It does not translate names, nor is it in the journal of
    /// a real server.
    pub fn admin(&self) -> kube::Client {
        self.admin.clone()
    }

    /// A client with that configuration.
    pub fn client(&self, config: kube::Config) -> kube::Client {
        match &self.back {
            Back::Memory(cluster) => cluster.client(config).unwrap(),
            // Those that go through the journal are on a pipe.
            Back::Real(_) if config.cluster_url.scheme_str() == Some("http") => {
                client_over(&self.world, config).unwrap()
            }
            Back::Real(_) => kube::Client::try_from(config).unwrap(),
        }
    }

    // Nodes.

    /// Creates a node through the API, as its kubelet would.
    pub async fn create(&self, node: Value) {
        let node: Node = serde_json::from_value(self.names.outgoing(node)).unwrap();
        let api: Api<Node> = Api::all(self.admin.clone());
        let made = api.create(&PostParams::default(), &node).await.unwrap();
        self.seen(&made).await;
    }

    /// Stores a node as it is, that many seconds old, past the rules of the API.
    pub async fn put_aged(&self, mut node: Value, seconds: i64) {
        let created = self.world.clock.now().as_second() - seconds;
        let created = Timestamp::from_second(created).unwrap();
        node["metadata"]["creationTimestamp"] = created.to_string().into();
        match &self.back {
            Back::Memory(cluster) => {
                cluster.api().put(kind("Node"), node);
            }
            Back::Real(real) => {
                let mut node = self.names.outgoing(node);
                node["metadata"]["uid"] = self.world.random.uuid().into();
                real.store(&node).await;
            }
        }
    }

    /// Changes a node as somebody else would, without a call in the journal.
    pub async fn change(&self, name: &str, mut change: impl FnMut(&mut Value)) {
        let Back::Real(_) = &self.back else {
            let mut node = self.node(name);
            change(&mut node);
            self.simulated().unwrap().api().put(kind("Node"), node);
            return;
        };
        for _ in 0..MOST_CONFLICTS {
            match self.try_change(name, &mut change).await {
                Ok(()) => return,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("changing node {name}: {error}"),
            }
        }
        panic!("node {name} changes all the time");
    }

    async fn try_change(
        &self,
        name: &str,
        change: &mut impl FnMut(&mut Value),
    ) -> kube::Result<()> {
        let api: Api<Node> = Api::all(self.admin.clone());
        let own = self.names.own(name);
        let before = serde_json::to_value(api.get(&own).await?).unwrap();
        let before = self.names.incoming(before);
        let mut after = before.clone();
        change(&mut after);
        let (mut whole, mut status) = (after.clone(), after.clone());
        whole["status"] = before["status"].clone();
        let mut seen: Option<Node> = None;
        if whole != before {
            let node = serde_json::from_value(self.names.outgoing(whole)).unwrap();
            seen = Some(api.replace(&own, &PostParams::default(), &node).await?);
        }
        if after["status"] != before["status"] {
            if let Some(written) = &seen {
                let version = written.metadata.resource_version.clone();
                status["metadata"]["resourceVersion"] = version.into();
            }
            let node: Node = serde_json::from_value(self.names.outgoing(status)).unwrap();
            let options = PostParams::default();
            seen = Some(api.replace_status(&own, &options, &node).await?);
        }
        if let Some(node) = seen {
            self.seen(&node).await;
        }
        Ok(())
    }

    /// Deletes a node as somebody else would, without a call in the journal.
    pub async fn delete(&self, name: &str) {
        match &self.back {
            Back::Memory(cluster) => assert!(cluster.api().delete(kind("Node"), "", name)),
            Back::Real(real) => {
                let uid = self.node(name)["metadata"]["uid"].clone();
                let (api, own): (Api<Node>, _) =
                    (Api::all(self.admin.clone()), self.names.own(name));
                api.delete(&own, &DeleteParams::default()).await.unwrap();
                real.mirror.until_gone(&own, &uid).await;
            }
        }
    }

    /// Waits until a written node can be read.
    async fn seen(&self, node: &Node) {
        if let Back::Real(real) = &self.back {
            let node = serde_json::to_value(node).unwrap();
            let name = node["metadata"]["name"].as_str().unwrap();
            real.mirror.until_seen(name, version_of(&node)).await;
        }
    }

    pub fn node(&self, name: &str) -> Value {
        self.find(name)
            .unwrap_or_else(|| panic!("there is no node {name}"))
    }

    /// The node of that name, if there is one.
    pub fn find(&self, name: &str) -> Option<Value> {
        let found = match &self.back {
            Back::Memory(cluster) => cluster.api().get(kind("Node"), "", name),
            Back::Real(real) => real.mirror.node(&self.names.own(name)),
        };
        found.map(|node| self.names.incoming(node))
    }

    /// All nodes of the scenario.
    pub fn nodes(&self) -> Vec<Value> {
        let all = match &self.back {
            Back::Memory(cluster) => cluster.api().list(kind("Node"), None),
            Back::Real(real) => real.mirror.nodes(),
        };
        all.into_iter().map(|it| self.names.incoming(it)).collect()
    }

    /// Every version that node ever had, oldest first.
    pub fn versions(&self, name: &str) -> Vec<Value> {
        match &self.back {
            Back::Memory(cluster) => {
                let store = cluster.api().store();
                let changes = store.with(|state| state.changes(kind("Node"), 0, usize::MAX));
                let own = changes.into_iter().filter(|change| change.path == name);
                own.filter_map(|change| change.after)
                    .map(|node| (*node).clone())
                    .collect()
            }
            Back::Real(real) => {
                let all = real.mirror.versions(&self.names.own(name)).into_iter();
                all.map(|it| self.names.incoming(it)).collect()
            }
        }
    }

    /// The events about a node or lease of that name.
    pub fn events(&self, name: &str) -> Vec<Value> {
        let all = self.all_events().into_iter();
        all.filter(|it| it["involvedObject"]["name"] == name)
            .collect()
    }

    /// The events about nodes and leases.
    pub fn all_events(&self) -> Vec<Value> {
        let all = match &self.back {
            Back::Memory(cluster) => cluster.api().list(kind("Event"), None),
            Back::Real(real) => real.mirror.events(),
        };
        let all = all.into_iter().filter(|it| !is_of_the_server(it));
        all.map(|it| self.names.incoming(it)).collect()
    }

    // Machines and kubelets.

    /// A fleet of kubelets without members.
    pub fn fleet(&self, settings: Settings) -> Fleet {
        Fleet::new(&self.world, self.admin.clone(), settings)
    }

    /// Notes a running machine of that id, and starts a kubelet on it.
    pub fn join(&self, fleet: &Fleet, name: &str, machine: &str) {
        self.world.machines.set(machine, Power::Running);
        let kubelet = KubeletSpec {
            node_name: name.to_owned(),
            machine_id: machine.to_owned(),
            system_uuid: self.world.random.uuid(),
            ..KubeletSpec::default()
        };
        self.join_as(fleet, kubelet);
    }

    /// Starts a kubelet with settings of its own, under the scenario's name of it.
    pub fn join_as(&self, fleet: &Fleet, mut kubelet: KubeletSpec) {
        kubelet.node_name = self.names.own(&kubelet.node_name);
        kubelet.labels.extend(self.names.label());
        fleet.join(kubelet).unwrap();
    }

    /// Starts what watches over the nodes and taints those that fall silent.
    pub fn monitor(&self, settings: monitor::Settings) -> Monitor {
        let selector = self.names.selector();
        Monitor::start_for(selector, &self.world, self.admin.clone(), settings)
    }

    // Waiting.

    /// Changes when nodes or events do; in memory the journal tells.
    pub fn subscribe(&self) -> Option<watch::Receiver<()>> {
        match &self.back {
            Back::Memory(_) => None,
            Back::Real(real) => Some(real.mirror.subscribe()),
        }
    }

    /// Waits until what happened so far can be read: in nodes, Services, events and journal.
    pub async fn catch_up(&self) {
        let Back::Real(real) = &self.back else {
            return;
        };
        real.mirror.catch_up().await;
        let relays: Vec<Arc<Relay>> = {
            let relays = real.relays.lock().unwrap();
            relays.iter().map(|(relay, _)| relay.clone()).collect()
        };
        for relay in relays {
            relay.settled().await;
        }
    }
}

impl Real {
    /// The same account through a relay, with a journal and faults, and a view of the scenario's
    /// nodes alone.
    fn journaled(&self, cluster: &Cluster, mut config: kube::Config, caller: &str) -> kube::Config {
        let relay = Relay::narrowed(&config, caller, cluster.names.selector()).unwrap();
        let mut relays = self.relays.lock().unwrap();
        let name = format!("kubernetes-{}.real:80", relays.len());
        let server = Server::builder(&cluster.world, relay.clone()).pipe(&name);
        relays.push((relay, server));
        config.cluster_url = format!("http://{name}").parse().unwrap();
        config
    }

    /// Writes a node into etcd and waits until the server has noticed.
    async fn store(&self, node: &Value) {
        let name = node["metadata"]["name"].as_str().unwrap();
        let key = format!("/registry/minions/{name}");
        let uid = &node["metadata"]["uid"];
        self.plane.store(&key, node).await;
        self.mirror.until_made(name, uid).await;
    }
}

fn kind(name: &str) -> &'static Kind {
    let group = match name {
        "Lease" => "coordination.k8s.io",
        certificates::REQUEST => "certificates.k8s.io",
        _ => "",
    };
    kinds::by_kind(group, "v1", name).unwrap()
}

/// Whether the API server itself tells it: of addresses and ports of a new Service that one of its own
/// watches shows later than the Service.
fn is_of_the_server(event: &Value) -> bool {
    let teller = event["reportingComponent"].as_str().unwrap_or_default();
    teller.ends_with("allocator-repair-controller")
}
