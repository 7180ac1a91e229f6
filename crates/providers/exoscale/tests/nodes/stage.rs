//! The provider before a simulated cloud: the instance and the keys of the specification's cases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    Cloud, CloudError, CloudName, Evidence, Instance, Lookup, Node, PROVIDED_NODE_IP, Ready, Taint,
    UNINITIALIZED_TAINT,
};
use bowline_exoscale::{Config, Surroundings, build};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::serve::Server;
use bowline_simulator_exoscale::{
    DEFAULT_KEY, DEFAULT_SECRET, Exoscale, Fixture, InstanceSpec, NetworkSpec,
};
use serde_json::{Value, json};

/// Where the simulated API listens in the pipes.
const AUTHORITY: &str = "exoscale.localhost:80";
/// The instance of the cases.
pub(crate) const I1: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
/// An instance that never was.
pub(crate) const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

/// The provider, its simulated cloud and the world around both.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) sim: Arc<Exoscale>,
    pub(crate) cloud: Arc<dyn Cloud>,
    /// Serves as long as it lives.
    _server: Server,
}

impl Stage {
    /// With instance I1 in zone ch-gva-2.
    pub(crate) async fn new() -> Self {
        Self::with(&[], "").await
    }

    /// The same with this cloud config.
    pub(crate) async fn configured(file: &str) -> Self {
        Self::with(&[], file).await
    }

    /// The same with further variables.
    pub(crate) async fn with(environment: &[(&str, &str)], file: &str) -> Self {
        let world = World::simulated(7);
        let sim = Exoscale::from_fixture(&world, Fixture::default()).unwrap();
        let server = Server::builder(&world, sim.clone()).pipe(AUTHORITY);
        let network = NetworkSpec {
            name: "inside".to_owned(),
            ..NetworkSpec::default()
        };
        sim.add_private_network(&network).unwrap();
        let i1 = InstanceSpec::named("Pool-a1b2c-xyz").id(I1);
        sim.add_instance(&i1.public_ip("198.51.100.21".parse().unwrap()))
            .unwrap();
        let surroundings = Surroundings {
            name: CloudName::parse("exoscale").unwrap(),
            connector: Connector::simulated(world.pipes.clone()),
            clock: world.clock.clone(),
            random: world.random.fork(),
            metrics: None,
        };
        let config = config(environment, file);
        let cloud = build(&config, surroundings).await.unwrap();
        world.journal.clear();
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
        let rule = Rule::new(action).named("fault").on("*", path);
        self.world.faults.add(rule).unwrap();
    }

    /// Changes members of an instance's JSON.
    pub(crate) fn deform(&self, id: &str, members: &Value) {
        self.sim.deform(id, members.as_object().cloned().unwrap());
    }

    /// Lets time pass.
    pub(crate) async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Makes instances of that type, and returns their nodes, initialised long ago.
    pub(crate) fn fleet(&self, name: &str, count: u32, kind: &str) -> Vec<Node> {
        let mut spec = InstanceSpec::named(name).kind(kind);
        spec.count = Some(count);
        let ids = self.sim.add_instances(&spec).unwrap();
        let named = ids.iter().enumerate();
        named
            .map(|(at, id)| known(&format!("{name}-{at}"), &format!("exoscale://{id}")))
            .collect()
    }
}

/// What the provider is told: the default key and zone, and these variables and file.
pub(crate) fn config(environment: &[(&str, &str)], file: &str) -> Config {
    let endpoint = format!("http://{AUTHORITY}/v2");
    let mut variables = BTreeMap::from([
        ("EXOSCALE_API_ENDPOINT", endpoint.as_str()),
        ("EXOSCALE_API_ZONE", "ch-gva-2"),
        ("EXOSCALE_API_KEY", DEFAULT_KEY),
        ("EXOSCALE_API_SECRET", DEFAULT_SECRET),
    ]);
    variables.extend(environment.iter().copied());
    let environment = |name: &str| variables.get(name).map(ToString::to_string);
    Config::read(environment, Some(file)).unwrap()
}

/// A node that was initialised long ago and is silent now.
pub(crate) fn known(name: &str, provider_id: &str) -> Node {
    Node {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "1".to_owned(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        provider_id: (!provider_id.is_empty()).then(|| provider_id.to_owned()),
        taints: Vec::new(),
        addresses: Vec::new(),
        ready: Ready::False,
        network: None,
        pod_cidrs: Vec::new(),
        system_uuid: String::new(),
        os_image: String::new(),
    }
}

/// A node that has just registered, on that machine.
pub(crate) fn fresh(name: &str, system_uuid: &str) -> Node {
    Node {
        taints: vec![Taint::new(UNINITIALIZED_TAINT, "true", "NoSchedule")],
        system_uuid: system_uuid.to_owned(),
        os_image: String::new(),
        ..known(name, "")
    }
}

/// The same with `--node-ip`.
pub(crate) fn told(node: Node, address: &str) -> Node {
    let mut node = node;
    let key = PROVIDED_NODE_IP.to_owned();
    node.annotations.insert(key, address.to_owned());
    node
}

/// The instance of an answer.
#[track_caller]
pub(crate) fn found(answer: Lookup) -> Instance {
    match answer {
        Lookup::Found(instance) => *instance,
        other => panic!("not found: {other:?}"),
    }
}

/// The evidence of an answer.
#[track_caller]
pub(crate) fn gone(answer: Lookup) -> Evidence {
    match answer {
        Lookup::Gone(evidence) => evidence,
        other => panic!("not gone: {other:?}"),
    }
}

/// The error of an answer.
#[track_caller]
pub(crate) fn cannot_tell(answer: Lookup) -> String {
    match answer {
        Lookup::CannotTell(error) => error.chain(),
        other => panic!("an answer: {other:?}"),
    }
}

/// Addresses as `Type:value`.
pub(crate) fn addresses(instance: &Instance) -> Vec<String> {
    let all = instance.addresses.iter();
    all.map(ToString::to_string).collect()
}

/// An answer of that status.
pub(crate) fn status(code: u16) -> Action {
    answer(code, json!({ "message": "because" }))
}

/// An answer of that status and body.
pub(crate) fn answer(code: u16, body: Value) -> Action {
    Action::Status {
        code,
        headers: BTreeMap::new(),
        body: Some(body),
    }
}
