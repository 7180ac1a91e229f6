//! The provider before a simulated cloud: the servers and networks of the specification's cases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_cloudscale::{Config, Surroundings, build};
use bowline_core::{
    AddressKind, Cloud, CloudError, CloudName, Evidence, Instance, Lookup, Node, NodeAddress,
    Ready, Taint, UNINITIALIZED_TAINT,
};
use bowline_http::{CallMetrics, Connector};
use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::serve::Server;
use bowline_simulator_cloudscale::{Cloudscale, DEFAULT_TOKEN, Fixture, MachineSpec};

/// Where the simulated API listens in the pipes.
pub(crate) const AUTHORITY: &str = "cloudscale.sim:80";
/// Server `worker-a` of the cases.
pub(crate) const A: &str = "3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";
/// Server `worker-b` of the cases.
pub(crate) const B: &str = "b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58";
/// A server that never was.
pub(crate) const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

const FIXTURE: &str = "
tokens:
- value: simulated-token
- {value: other-token-of-the-project}
- {value: token-of-another-project, project: elsewhere}
networks:
- name: k8s
  subnets:
  - {cidr: 10.20.0.0/24, uuid: 7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d}
- name: storage
  subnets:
  - {cidr: 10.30.0.0/24, uuid: c0a80101-77aa-4b1e-9f10-2d3e4f5a6b7c}
- name: far
  zone: lpg1
  subnets:
  - {cidr: 10.40.0.0/24, uuid: d1b20101-77aa-4b1e-9f10-2d3e4f5a6b7c}
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
floating_ips:
- {address: 203.0.113.77, region: rma}
- {address: '2001:db8:f::77', region: rma}
";

/// The provider, its simulated cloud and the world around both.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) sim: Arc<Cloudscale>,
    pub(crate) cloud: Arc<dyn Cloud>,
    /// Serves as long as it lives.
    _server: Server,
}

impl Stage {
    /// Over pipes, with servers A and B.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// The same with further variables in the provider's environment.
    pub(crate) fn with(environment: &[(&str, &str)]) -> Self {
        Self::measured(environment, None)
    }

    /// The same with metrics.
    pub(crate) fn measured(environment: &[(&str, &str)], metrics: Option<CallMetrics>) -> Self {
        Self::seeded(7, environment, metrics)
    }

    /// The same with other chances.
    pub(crate) fn seeded(
        seed: u64,
        environment: &[(&str, &str)],
        metrics: Option<CallMetrics>,
    ) -> Self {
        let world = World::simulated(seed);
        let sim = simulated(&world);
        let server = Server::builder(&world, sim.clone()).pipe(AUTHORITY);
        let url = format!("http://{AUTHORITY}/v1/");
        let config = config(&url, environment);
        let cloud = build(&config, surroundings(&world, metrics)).unwrap();
        Self {
            world,
            sim,
            cloud,
            _server: server,
        }
    }

    /// Over a real socket, in real time.
    pub(crate) async fn on_a_socket() -> Self {
        let world = World::real();
        let sim = simulated(&world);
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Server::builder(&world, sim.clone())
            .plain(address)
            .await
            .unwrap();
        let url = format!("http://{}/v1/", server.local_addr().unwrap());
        let tls = bowline_http::Tls::new().build().unwrap();
        let surroundings = Surroundings {
            connector: Connector::real(tls, bowline_http::ProxyRules::default()),
            ..surroundings(&world, None)
        };
        let cloud = build(&config(&url, &[]), surroundings).unwrap();
        Self {
            world,
            sim,
            cloud,
            _server: server,
        }
    }

    /// The answers about several nodes.
    pub(crate) async fn ask(&self, nodes: &[Node]) -> Vec<Lookup> {
        let nodes: Vec<Arc<Node>> = nodes.iter().cloned().map(Arc::new).collect();
        let answers = self.cloud.instances().unwrap().lookup(&nodes).await;
        assert_eq!(answers.len(), nodes.len());
        answers
    }

    /// The answer about one node.
    pub(crate) async fn ask_one(&self, node: &Node) -> Lookup {
        self.ask(std::slice::from_ref(node)).await.remove(0)
    }

    /// What tells the account in use from others.
    pub(crate) fn account(&self) -> bowline_core::Secret {
        self.cloud.account().unwrap()
    }

    /// The canary's word.
    pub(crate) async fn canary(&self) -> Result<(), CloudError> {
        self.cloud.instances().unwrap().canary().await
    }

    /// The calls since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = self.world.journal.entries();
        self.world.journal.clear();
        calls
            .iter()
            .map(|call| format!("{} {} {}", call.method, call.path, call.status))
            .collect()
    }

    /// Makes calls go wrong, instead of what went wrong before.
    pub(crate) fn fault(&self, path: &str, action: Action) {
        let rule = Rule::new(action).on("GET", path).named("fault");
        self.world.faults.add(rule).unwrap();
    }

    /// Adds servers `<name>-1` to `<name>-<count>` and returns their nodes.
    pub(crate) fn fleet(&self, name: &str, count: u32) -> Vec<Node> {
        let mut spec = MachineSpec::named(name);
        spec.count = Some(count);
        let uuids = self.sim.add_servers(&spec).unwrap();
        let named = uuids.iter().zip(1..);
        named
            .map(|(uuid, n)| node(&format!("{name}-{n}"), Some(uuid)))
            .collect()
    }

    /// Lets that much simulated time pass.
    pub(crate) async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

fn simulated(world: &World) -> Arc<Cloudscale> {
    let scene: Fixture = bowline_simulator::fixture::parse("cases", FIXTURE).unwrap();
    Cloudscale::from_fixture(world, scene).unwrap()
}

/// A checked configuration with the simulated token.
pub(crate) fn config(url: &str, environment: &[(&str, &str)]) -> Config {
    let mut map: BTreeMap<&str, &str> = BTreeMap::new();
    map.insert("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN);
    map.insert("CLOUDSCALE_API_URL", url);
    map.extend(environment.iter().copied());
    Config::read(|name| map.get(name).map(|value| (*value).to_owned())).unwrap()
}

/// The world's network, time and chance.
pub(crate) fn surroundings(world: &World, metrics: Option<CallMetrics>) -> Surroundings {
    Surroundings {
        name: CloudName::parse("cloudscale").unwrap(),
        connector: Connector::simulated(world.pipes.clone()),
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics,
    }
}

/// A node as its kubelet registers it; with the uuid of a server it has its provider id.
pub(crate) fn node(name: &str, uuid: Option<&str>) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-{name}"),
        resource_version: "1".into(),
        created: "2026-01-01T00:00:00Z".parse().unwrap(),
        deleting: false,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        provider_id: uuid.map(|uuid| format!("cloudscale://{uuid}")),
        taints: vec![Taint::new(UNINITIALIZED_TAINT, "true", "NoSchedule")],
        addresses: vec![NodeAddress::new(AddressKind::Hostname, name)],
        ready: Ready::False,
        network: None,
        pod_cidrs: Vec::new(),
        system_uuid: String::new(),
        os_image: String::new(),
    }
}

#[track_caller]
pub(crate) fn found(answer: Lookup) -> Instance {
    match answer {
        Lookup::Found(instance) => *instance,
        other => panic!("not found: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn gone(answer: Lookup) -> Evidence {
    match answer {
        Lookup::Gone(evidence) => evidence,
        other => panic!("not gone: {other:?}"),
    }
}

/// The error of an answer that concludes nothing, with its causes.
#[track_caller]
pub(crate) fn cannot_tell(answer: Lookup) -> String {
    match answer {
        Lookup::CannotTell(error) => error.chain(),
        other => panic!("a conclusion: {other:?}"),
    }
}

/// `Type:value`, in order.
pub(crate) fn addresses(list: &[NodeAddress]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}
