//! A cluster, a cloud, and the manager at work between them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_cloudscale::{Config, PROVIDER};
use bowline_controllers::clients::{Agent, Clients, Connection, Limits};
use bowline_controllers::manager::{Manager, ManagerError, Reviews};
use bowline_controllers::metrics::Metrics;
use bowline_controllers::options::{self, Options, Request};
use bowline_controllers::{Stop, StopHandle, stop_signal};
use bowline_core::{Cloud, CloudName, GuardPolicy, SHUTDOWN_TAINT, UNINITIALIZED_TAINT};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::cloudscale::{Cloudscale, DEFAULT_TOKEN, Scene};
use bowline_simulator::cluster::Cluster;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::fleet::{self, Fleet, Kubelet};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator::kubernetes::auth::originals;
use bowline_simulator::kubernetes::kinds::{self, Kind};
use bowline_simulator::monitor::{self, Monitor};
use bowline_simulator::serve::Server;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Server `worker-a` of the cases.
pub(crate) const A: &str = "3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";
/// Server `worker-b` of the cases.
pub(crate) const B: &str = "b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58";
/// A server that never was.
pub(crate) const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
/// Where the cloud listens in the pipes.
const CLOUD: &str = "cloudscale.sim:80";
/// Who the manager is: the service account of the original's manifest.
const ACCOUNT: (&str, &str) = ("kube-system", "cloud-controller-manager");
const CALLER: &str = "system:serviceaccount:kube-system:cloud-controller-manager";
/// Longer than anything here takes; what has not happened by then does not happen.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The fixture F of the cases.
const FIXTURE: &str = "
networks:
- name: k8s
  subnets:
  - {cidr: 10.20.0.0/24, uuid: 7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d}
machines:
- name: worker-a
  uuid: 3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.11, '2001:db8:1:1101::11']}
  - {network: k8s, addresses: [10.20.0.11]}
- name: worker-b
  uuid: b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.12, '2001:db8:1:1101::12']}
  - {network: k8s, addresses: [10.20.0.12]}
";

/// Everything that is up.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) cluster: Cluster,
    pub(crate) cloud: Arc<Cloudscale>,
    pub(crate) fleet: Fleet,
    _monitor: Monitor,
    _server: Server,
    stop: StopHandle,
    manager: JoinHandle<Result<(), ManagerError>>,
}

impl Stage {
    /// With servers A and B, the command line of the original's manifest, and its environment.
    pub(crate) fn new() -> Self {
        Self::with(&[], &[])
    }

    /// The same with further variables and arguments.
    pub(crate) fn with(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let world = World::simulated(7);
        let scene: Scene = bowline_simulator::fixture::parse("cases", FIXTURE).unwrap();
        let cloud = Cloudscale::from_fixture(&world, scene).unwrap();
        let server = Server::builder(&world, cloud.clone()).pipe(CLOUD);
        let cluster = Cluster::on_pipe(&world).unwrap();
        cluster.install(originals::cloudscale()).unwrap();
        let admin = cluster.admin().unwrap();
        let fleet = Fleet::new(&world, admin.clone(), fleet::Settings::default());
        let monitor = Monitor::start(&world, admin, monitor::Settings::default());
        let (stop, stopped) = stop_signal();
        let manager = start_manager(&world, &cluster, environment, arguments, stopped);
        Self {
            world,
            cluster,
            cloud,
            fleet,
            _monitor: monitor,
            _server: server,
            stop,
            manager,
        }
    }

    /// A kubelet on that server, as the node of that name.
    pub(crate) fn join(&self, name: &str, uuid: &str) {
        self.join_as(Kubelet {
            node_name: name.to_owned(),
            machine_id: format!("cloudscale://{uuid}"),
            ..Kubelet::default()
        });
    }

    /// A kubelet with settings of its own.
    pub(crate) fn join_as(&self, kubelet: Kubelet) {
        self.fleet.join(kubelet).unwrap();
    }

    /// Puts a Node there whose kubelet is silent: not Ready, and initialised long ago.
    pub(crate) fn silent_node(&self, name: &str, provider_id: Option<&str>) {
        self.cluster.api().put(
            kind("Node"),
            json!({
                "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
                "spec": provider_id.map_or(json!({}), |id| json!({ "providerID": id })),
                "status": {
                    "addresses": [{ "type": "Hostname", "address": name }],
                    "conditions": [{ "type": "Ready", "status": "False", "reason": "KubeletNotReady" }],
                },
            }),
        );
    }

    /// The Node of that name now.
    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.cluster.api().get(kind("Node"), "", name)
    }

    /// Everything about a Node that a controller could have written.
    pub(crate) fn content(&self, name: &str) -> Value {
        let node = self.node(name).unwrap_or_else(|| panic!("{name} is gone"));
        let mut taints = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        // These follow from conditions and are the node monitor's.
        taints.retain(|taint| !text(&taint["key"]).starts_with("node.kubernetes.io/"));
        json!({
            "providerID": node["spec"]["providerID"],
            "labels": node["metadata"]["labels"],
            "annotations": node["metadata"]["annotations"],
            "taints": taints,
            "addresses": node["status"]["addresses"],
        })
    }

    /// Waits until the cluster's state gives something.
    pub(crate) async fn until<T>(&self, what: &str, find: impl Fn(&Self) -> Option<T>) -> T {
        let mut writes = self.cluster.api().store().subscribe();
        let waiting = async {
            loop {
                writes.mark_unchanged();
                if let Some(found) = find(self) {
                    return found;
                }
                writes.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("{what}: not within {PATIENCE:?}\n{}", self.last_calls()),
        }
    }

    /// Waits until that node is initialised, and returns it.
    pub(crate) async fn initialized(&self, name: &str) -> Value {
        self.until(&format!("{name} is initialised"), |stage| {
            stage
                .node(name)
                .filter(|node| !has_taint(node, UNINITIALIZED_TAINT))
        })
        .await
    }

    /// Waits until that node's Ready condition has this status.
    pub(crate) async fn ready(&self, name: &str, status: &str) {
        self.until(&format!("{name} has Ready={status}"), |stage| {
            stage
                .node(name)
                .filter(|node| ready(node) == status)
                .map(drop)
        })
        .await;
    }

    /// Waits until that node has the shutdown taint, or has it no more.
    pub(crate) async fn shutdown_taint(&self, name: &str, there: bool) {
        self.until(&format!("the shutdown taint of {name}: {there}"), |stage| {
            let node = stage.node(name)?;
            (has_taint(&node, SHUTDOWN_TAINT) == there).then_some(())
        })
        .await;
    }

    /// Waits until that node is gone.
    pub(crate) async fn gone(&self, name: &str) {
        self.until(&format!("{name} is gone"), |stage| {
            stage.node(name).is_none().then_some(())
        })
        .await;
    }

    /// Waits for an event of that reason about that node, and returns its message.
    pub(crate) async fn event(&self, name: &str, reason: &str) -> String {
        self.until(&format!("event {reason} about {name}"), |stage| {
            stage.events(name, reason).into_iter().next()
        })
        .await
    }

    /// The messages of the events of that reason about that node.
    pub(crate) fn events(&self, name: &str, reason: &str) -> Vec<String> {
        let events = self.cluster.api().list(kind("Event"), None).into_iter();
        events
            .filter(|event| event["involvedObject"]["name"] == name && event["reason"] == reason)
            .map(|event| text(&event["message"]).to_owned())
            .collect()
    }

    /// The manager's calls that could have changed this object.
    pub(crate) fn writes(&self, path: &str) -> Vec<Entry> {
        let filter = Filter::any().server("kubernetes").caller(CALLER).mutating();
        self.world.journal.matching(&filter.path(path))
    }

    /// The calls to the cloud whose path fits.
    pub(crate) fn cloud_calls(&self, path: &str) -> Vec<Entry> {
        let filter = Filter::any().server("cloudscale").path(path);
        self.world.journal.matching(&filter)
    }

    /// Waits for so many calls to the cloud whose path fits.
    pub(crate) async fn cloud_calls_until(&self, path: &str, count: usize) {
        let filter = Filter::any().server("cloudscale").path(path);
        let seen = self.world.journal.wait_for(&filter, count);
        tokio::time::timeout(PATIENCE, seen).await.unwrap();
    }

    /// Makes the cloud go wrong, instead of what went wrong before.
    pub(crate) fn fault(&self, path: &str, action: Action) {
        let rule = Rule::new(action)
            .server("cloudscale")
            .on("*", path)
            .named("fault");
        self.world.faults.add(rule).unwrap();
    }

    /// Lets simulated time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Stops the manager, which must end well, and checks that nobody refused it anything: the
    /// original's role was enough.
    pub(crate) async fn end(self) {
        self.stop.stop();
        let ended = tokio::time::timeout(PATIENCE, self.manager).await;
        ended.expect("the manager does not end").unwrap().unwrap();
        for status in [401, 403] {
            let filter = Filter::any()
                .server("kubernetes")
                .caller(CALLER)
                .status(status);
            let refused = self.world.journal.matching(&filter);
            assert!(refused.is_empty(), "refused: {refused:?}");
        }
        let lease = self
            .cluster
            .api()
            .get(kind("Lease"), ACCOUNT.0, ACCOUNT.1)
            .unwrap();
        assert_eq!(
            text(&lease["spec"]["holderIdentity"]),
            "",
            "the lease is released"
        );
    }

    fn last_calls(&self) -> String {
        let transcript = self.world.journal.transcript();
        let lines: Vec<&str> = transcript
            .lines()
            .filter(|line| !line.contains("/leases/"))
            .collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

fn start_manager(
    world: &World,
    cluster: &Cluster,
    environment: &[(&str, &str)],
    arguments: &[&str],
    stop: Stop,
) -> JoinHandle<Result<(), ManagerError>> {
    let options = command_line(arguments);
    let token = cluster.account_token(ACCOUNT.0, ACCOUNT.1).unwrap();
    let config = cluster.config_with(&token).unwrap();
    let connector = Connector::simulated(world.pipes.clone());
    let metrics = Metrics::new();
    let clients = Clients::new(
        Connection::over(&config, connector.clone()).unwrap(),
        Agent {
            program: "cloudscale-cloud-controller-manager".into(),
            version: "v0".into(),
            commit: "unknown".into(),
        },
        Limits::from(&options.client),
        world.clock.clone(),
        metrics.clone(),
        false,
    );
    let manager = Manager {
        options,
        clouds: vec![provider(world, environment, connector, &metrics)],
        clients,
        reviews: Reviews::default(),
        metrics,
        clock: world.clock.clone(),
        random: world.random.fork(),
        guard: GuardPolicy::default(),
        set_verbosity: Arc::new(|_| Ok(())),
    };
    tokio::spawn(manager.run(stop))
}

/// The original's command line, without a socket.
fn command_line(arguments: &[&str]) -> Options {
    let line = [
        "--allow-untagged-cloud",
        "--v=3",
        "--concurrent-service-syncs=2",
        "--secure-port=0",
    ];
    let line: Vec<String> = line
        .iter()
        .chain(arguments)
        .map(ToString::to_string)
        .collect();
    let program = "cloudscale-cloud-controller-manager";
    let Request::Run(line) = options::parse(program, Some(PROVIDER), &line).unwrap() else {
        panic!("this command line runs a manager");
    };
    line.options.validate().unwrap();
    line.options
}

fn provider(
    world: &World,
    environment: &[(&str, &str)],
    connector: Connector,
    metrics: &Arc<Metrics>,
) -> Arc<dyn Cloud> {
    let url = format!("http://{CLOUD}/");
    let mut variables = BTreeMap::from([("CLOUDSCALE_API_URL", url.as_str())]);
    variables.insert("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN);
    variables.extend(environment.iter().copied());
    let config = Config::read(|name| variables.get(name).map(ToString::to_string)).unwrap();
    let surroundings = bowline_cloudscale::Surroundings {
        name: CloudName::parse(PROVIDER).unwrap(),
        connector,
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: Some(metrics.register(bowline_cloudscale::register_metrics)),
    };
    bowline_cloudscale::build(&config, surroundings).unwrap()
}

fn kind(name: &str) -> &'static Kind {
    let group = if name == "Lease" {
        "coordination.k8s.io"
    } else {
        ""
    };
    kinds::by_kind(group, "v1", name).unwrap()
}

/// A JSON text; empty if it is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a Node has a taint of that key.
pub(crate) fn has_taint(node: &Value, key: &str) -> bool {
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.any(|taint| taint["key"] == key)
}

/// The status of a Node's Ready condition.
pub(crate) fn ready(node: &Value) -> &str {
    let mut conditions = node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    ready.map_or("", |condition| text(&condition["status"]))
}

/// `Type:value`, in order.
pub(crate) fn addresses(node: &Value) -> Vec<String> {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    addresses
        .map(|address| format!("{}:{}", text(&address["type"]), text(&address["address"])))
        .collect()
}

/// One answer of that status.
pub(crate) fn status(code: u16) -> Action {
    Action::Status {
        code,
        headers: BTreeMap::new(),
        body: None,
    }
}
