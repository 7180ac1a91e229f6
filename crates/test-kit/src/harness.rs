//! A simulated server in a world, and a provider before it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Cloud, CloudError, CloudName, Lookup, Node, Secret};
use bowline_http::{Connector, Seams};
use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use bowline_simulator::serve::{Api, Server};
use serde_json::Value;

use crate::objects::cannot_tell;

/// A world with a simulated server in it.
pub struct Simulation<S> {
    pub world: World,
    pub sim: Arc<S>,
    /// Serves as long as it lives.
    _server: Server,
}

impl<S: Api> Simulation<S> {
    /// Over pipes, in simulated time.
    pub fn new(seed: u64, authority: &str, make: impl FnOnce(&World) -> Arc<S>) -> Self {
        let world = World::simulated(seed);
        let sim = make(&world);
        let server = Server::builder(&world, sim.clone()).pipe(authority);
        Self {
            world,
            sim,
            _server: server,
        }
    }

    /// Over a real socket, in real time; with the address.
    pub async fn on_a_socket(make: impl FnOnce(&World) -> Arc<S>) -> (Self, String) {
        let world = World::real();
        let sim = make(&world);
        let server = Server::builder(&world, sim.clone());
        let server = server.plain("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        let simulation = Self {
            world,
            sim,
            _server: server,
        };
        (simulation, address)
    }
}

impl<S> Simulation<S> {
    pub fn with<C: ?Sized>(self, cloud: Arc<C>) -> Harness<S, C> {
        Harness {
            simulation: self,
            cloud,
        }
    }

    pub fn seams(&self, name: &str) -> Seams {
        seams(&self.world, name)
    }

    /// The calls since the last time this was asked.
    pub fn entries(&self) -> Vec<Entry> {
        let entries = self.world.journal.entries();
        self.world.journal.clear();
        entries
    }

    /// The same: `METHOD path status`.
    pub fn calls(&self) -> Vec<String> {
        let lines = self.lines();
        self.world.journal.clear();
        lines
    }

    /// `METHOD path status` of every call so far.
    pub fn lines(&self) -> Vec<String> {
        let line = |it: &Entry| format!("{} {} {}", it.method, it.path, it.status);
        self.world.journal.entries().iter().map(line).collect()
    }

    /// How many calls so far have that in their line.
    pub fn count(&self, words: &str) -> usize {
        let lines = self.lines();
        lines.iter().filter(|line| line.contains(words)).count()
    }

    /// Makes calls go wrong, instead of what went wrong before.
    pub fn fault(&self, path: &str, action: Action) {
        let rule = Rule::new(action).named("fault").on("*", path);
        self.world.faults.add(rule).unwrap();
    }

    /// Lets time pass.
    pub async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// A provider before its simulated cloud.
pub struct Harness<S, C: ?Sized = dyn Cloud> {
    simulation: Simulation<S>,
    pub cloud: Arc<C>,
}

impl<S, C: ?Sized> std::ops::Deref for Harness<S, C> {
    type Target = Simulation<S>;

    fn deref(&self) -> &Self::Target {
        &self.simulation
    }
}

impl<S, C: Cloud + ?Sized> Harness<S, C> {
    /// The answers about several nodes.
    pub async fn ask(&self, nodes: &[Node]) -> Vec<Lookup> {
        lookups(&self.cloud, nodes).await
    }

    /// The answer about one node.
    pub async fn ask_one(&self, node: &Node) -> Lookup {
        self.ask(std::slice::from_ref(node)).await.remove(0)
    }

    /// The answer about one node on which its life depends.
    pub async fn presence(&self, node: &Node) -> Lookup {
        let nodes = std::slice::from_ref(node);
        presence(&self.cloud, nodes).await.remove(0)
    }

    /// The names of those that are gone for sure. All are, and of the others it says these words.
    pub async fn confirmed(&self, fleet: &[Node], too_many: &str) -> BTreeSet<String> {
        let answers = self.ask(fleet).await;
        let mut confirmed = BTreeSet::new();
        for (node, answer) in fleet.iter().zip(answers) {
            if matches!(answer, Lookup::Gone(_)) {
                confirmed.insert(node.name.clone());
            } else {
                let text = cannot_tell(answer);
                assert!(text.contains(too_many), "{text}");
            }
        }
        confirmed
    }

    /// Asks about a fleet that shrinks, while calls are slow and fail; returns everything that could be seen of it.
    pub async fn shrink(&self, fleet: &[Node], destroy: impl Fn(&Node)) -> String {
        let (least, most) = (Duration::from_millis(10), Duration::from_secs(2));
        let slow = Rule::new(Action::Delay { least, most });
        self.world.faults.add(slow).unwrap();
        let flaky = Rule::new(Action::Reset).probability(0.3);
        self.world.faults.add(flaky).unwrap();
        let mut answers = String::new();
        for round in 0..10 {
            destroy(&fleet[round * 3]);
            for answer in self.ask(fleet).await {
                writeln!(answers, "{answer:?}").unwrap();
            }
            self.wait(Duration::from_secs(5)).await;
        }
        self.world.journal.transcript() + &answers
    }

    /// What tells the account in use from others.
    pub fn account(&self) -> Secret {
        self.cloud.account().unwrap()
    }

    pub async fn canary(&self) -> Result<(), CloudError> {
        self.cloud.instances().unwrap().canary().await
    }
}

/// The world's network, time and chance for a cloud of that name.
pub fn seams(world: &World, name: &str) -> Seams {
    Seams {
        name: CloudName::parse(name).unwrap(),
        connector: Connector::simulated(world.pipes.clone()),
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: None,
    }
}

/// The answers about several nodes.
pub async fn lookups<C: Cloud + ?Sized>(cloud: &Arc<C>, nodes: &[Node]) -> Vec<Lookup> {
    let nodes: Vec<Arc<Node>> = nodes.iter().cloned().map(Arc::new).collect();
    let answers = cloud.instances().unwrap().lookup(&nodes).await;
    assert_eq!(answers.len(), nodes.len());
    answers
}

/// The same on which the nodes' life depends.
pub async fn presence<C: Cloud + ?Sized>(cloud: &Arc<C>, nodes: &[Node]) -> Vec<Lookup> {
    let nodes: Vec<Arc<Node>> = nodes.iter().cloned().map(Arc::new).collect();
    cloud.instances().unwrap().presence(&nodes).await
}

/// An answer of that status without a body.
pub fn status(code: u16) -> Action {
    Action::Status {
        code,
        headers: BTreeMap::new(),
        body: None,
    }
}

/// An answer of that status and body.
pub fn answer(code: u16, body: Value) -> Action {
    Action::Status {
        code,
        headers: BTreeMap::new(),
        body: Some(body),
    }
}

/// An answer that takes just so long.
pub fn delay(time: Duration) -> Action {
    Action::Delay {
        least: time,
        most: time,
    }
}

/// What a run shows must be the same each time, with answers and without.
pub fn same_transcript(run: impl AsyncFn() -> String) {
    let once = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(run())
    };
    let first = once();
    assert!(first == once(), "two runs of one seed differ");
    for seen in ["-> 404", "-> 0"] {
        assert!(first.contains(seen), "{first}");
    }
}
