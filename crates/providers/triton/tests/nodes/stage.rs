//! A data center, the provider, and a way to ask it about nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{AddressKind, Cloud, CloudName, Instance, Lookup, Node, NodeAddress, Ready};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::serve::Server;
use bowline_simulator_triton::{DEFAULT_PRIVATE_KEY, Fixture, MachineSpec, Triton as Simulated};
use bowline_triton::{
    SecretContent, SecretSource, Sources, Surroundings, Triton, TritonMetrics, build,
};
use tokio::sync::watch;

pub(crate) const AUTHORITY: &str = "cloudapi.sim:80";
pub(crate) const ENDPOINT: &str = "http://cloudapi.sim";

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) cloud: Arc<Simulated>,
    _server: Server,
}

/// The id of the machine with that number.
pub(crate) fn id(number: u32) -> String {
    format!("5b1e2d3c-0000-4000-8000-{number:012}")
}

impl Stage {
    /// With machines `k8s-1` to `k8s-<count>`.
    pub(crate) fn new(count: u32) -> Self {
        let world = World::simulated(7);
        let cloud = Simulated::from_fixture(&world, Fixture::default()).unwrap();
        cloud.set_throttle(None);
        for number in 1..=count {
            let machine = MachineSpec::named(&format!("k8s-{number}")).id(&id(number));
            cloud.add_machine(&machine).unwrap();
        }
        let server = Server::builder(&world, cloud.clone()).pipe(AUTHORITY);
        Self {
            world,
            cloud,
            _server: server,
        }
    }

    pub(crate) fn sources(further: &[(&str, &str)]) -> Sources {
        let variables: BTreeMap<String, String> = [
            ("SDC_ENDPOINT", ENDPOINT),
            ("SDC_ACCOUNT", "acme"),
            ("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY),
        ]
        .into_iter()
        .chain(further.iter().copied())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        Sources {
            flags: BTreeMap::new(),
            environment: Arc::new(move |name| variables.get(name).cloned()),
            file: None,
            text: None,
            secret: None,
            cluster_name: "kubernetes".to_owned(),
        }
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings {
            name: CloudName::parse("triton").unwrap(),
            connector: Connector::simulated(self.world.pipes.clone()),
            clock: self.world.clock.clone(),
            random: self.world.random.fork(),
            metrics: None,
        }
    }

    pub(crate) fn provider_of(&self, sources: Sources) -> Arc<Triton> {
        build(sources, &self.surroundings(), &TritonMetrics::default()).unwrap()
    }

    pub(crate) fn provider(&self) -> Arc<Triton> {
        self.provider_of(Self::sources(&[]))
    }

    /// The provider with a cloud config file of that text.
    pub(crate) fn provider_with_file(&self, text: &str) -> (Arc<Triton>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cloud.conf");
        std::fs::write(&path, text).unwrap();
        let mut sources = Self::sources(&[]);
        sources.file = Some(path);
        (self.provider_of(sources), folder)
    }

    /// The provider with a Secret, and the Secret.
    pub(crate) fn provider_with_secret(
        &self,
        content: SecretContent,
    ) -> (Arc<Triton>, watch::Sender<Option<SecretContent>>) {
        let (sender, receiver) = watch::channel(Some(content));
        let mut sources = Self::sources(&[]);
        sources.secret = Some(SecretSource {
            namespace: "kube-system".to_owned(),
            name: "triton-credentials".to_owned(),
            content: receiver,
        });
        (self.provider_of(sources), sender)
    }

    /// `METHOD path status` of every call so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let entries = self.world.journal.entries();
        let line = |it: &bowline_simulator::journal::Entry| {
            format!("{} {} {}", it.method, it.path, it.status)
        };
        entries.iter().map(line).collect()
    }

    /// How many calls so far have that in their line.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.calls()
            .iter()
            .filter(|line| line.contains(words))
            .count()
    }
}

/// A node of that name with that provider id; empty for none.
pub(crate) fn node(name: &str, provider_id: &str) -> Node {
    Node {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "1".to_owned(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        provider_id: (!provider_id.is_empty()).then(|| provider_id.to_owned()),
        pod_cidrs: Vec::new(),
        taints: Vec::new(),
        addresses: vec![NodeAddress::new(AddressKind::Hostname, name)],
        ready: Ready::False,
        network: None,
        system_uuid: String::new(),
        os_image: String::new(),
    }
}

/// The node of the machine with that number, by provider id.
pub(crate) fn known(number: u32) -> Node {
    node(
        &format!("k8s-{number}"),
        &format!("triton://{}", id(number)),
    )
}

pub(crate) async fn lookups(cloud: &Triton, nodes: &[Node]) -> Vec<Lookup> {
    let nodes: Vec<Arc<Node>> = nodes.iter().cloned().map(Arc::new).collect();
    cloud.instances().unwrap().lookup(&nodes).await
}

pub(crate) async fn lookup(cloud: &Triton, node: &Node) -> Lookup {
    lookups(cloud, std::slice::from_ref(node)).await.remove(0)
}

pub(crate) async fn presence(cloud: &Triton, nodes: &[Node]) -> Vec<Lookup> {
    let nodes: Vec<Arc<Node>> = nodes.iter().cloned().map(Arc::new).collect();
    cloud.instances().unwrap().presence(&nodes).await
}

#[track_caller]
pub(crate) fn found(lookup: Lookup) -> Instance {
    match lookup {
        Lookup::Found(instance) => *instance,
        other => panic!("not found: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn unclear(lookup: Lookup) -> String {
    match lookup {
        Lookup::CannotTell(error) => error.chain(),
        other => panic!("it can tell: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn gone(lookup: Lookup) -> String {
    match lookup {
        Lookup::Gone(evidence) => evidence.text,
        other => panic!("not gone: {other:?}"),
    }
}
