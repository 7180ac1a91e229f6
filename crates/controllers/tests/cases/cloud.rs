//! A cloud whose every answer is scripted by the test, and which writes down every question.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_core::{
    AddressKind, BoxFuture, Claim, Cloud, CloudError, CloudErrorKind, CloudName, Evidence,
    Instance, Instances, Lookup, Node, NodeAddress, Power, ProviderId,
};
use bowline_http::Clock;
use jiff::Timestamp;

/// What the cloud says about one node.
#[derive(Clone, Debug)]
pub enum Script {
    /// Its machine.
    Machine(Instance),
    /// It does not exist.
    Gone,
    /// "None": leave it alone.
    None,
    /// An error of that text.
    Error(&'static str),
}

/// The machine `demo://m-1` in zone z1 with these addresses (`Type:value`).
pub fn machine(id: &str, addresses: &[&str]) -> Instance {
    Instance {
        provider_id: ProviderId::parse(id).ok(),
        instance_type: "c2".into(),
        zone: "z1".into(),
        region: "r1".into(),
        addresses: addresses
            .iter()
            .map(|text| {
                let (kind, address) = text.split_once(':').unwrap();
                NodeAddress::new(AddressKind::from(kind), address)
            })
            .collect(),
        power: Power::On,
        extra_labels: BTreeMap::new(),
    }
}

#[derive(Default)]
struct State {
    scripts: BTreeMap<String, VecDeque<Script>>,
    latency: Duration,
    canary_fails: bool,
    calls: Vec<(Timestamp, Vec<String>)>,
    canaries: usize,
}

/// The scripted cloud: scheme `demo`.
pub struct ScriptedCloud {
    name: CloudName,
    scheme: &'static str,
    clock: Clock,
    state: Mutex<State>,
}

impl ScriptedCloud {
    pub fn new(name: &str, scheme: &'static str, clock: Clock) -> Arc<Self> {
        let name = CloudName::parse(name).unwrap();
        Arc::new(Self { name, scheme, clock, state: Mutex::default() })
    }

    /// From now on, this about that node.
    pub fn say(&self, node: &str, script: Script) {
        self.say_in_turn(node, [script]);
    }

    /// These answers one after the other; the last one stays.
    pub fn say_in_turn(&self, node: &str, scripts: impl IntoIterator<Item = Script>) {
        self.state().scripts.insert(node.to_owned(), scripts.into_iter().collect());
    }

    /// Every look-up takes that long.
    pub fn take(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// Whether check reads fail.
    pub fn fail_canaries(&self, fail: bool) {
        self.state().canary_fails = fail;
    }

    /// How often it was asked, about whomever.
    pub fn calls(&self) -> usize {
        self.state().calls.len()
    }

    /// When it was asked about that node.
    pub fn asked_about(&self, node: &str) -> Vec<Timestamp> {
        let state = self.state();
        let about = |(_, names): &&(Timestamp, Vec<String>)| names.iter().any(|name| name == node);
        state.calls.iter().filter(about).map(|(at, _)| *at).collect()
    }

    /// How many check reads were made.
    pub fn canaries(&self) -> usize {
        self.state().canaries
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn answer(&self, node: &Node) -> Lookup {
        let mut state = self.state();
        let Some(scripts) = state.scripts.get_mut(&node.name) else { return Lookup::NotMine };
        let script = match scripts.len() {
            0 => return Lookup::NotMine,
            1 => scripts[0].clone(),
            _ => scripts.pop_front().unwrap(),
        };
        match script {
            Script::Machine(instance) => Lookup::Found(Box::new(instance)),
            Script::None => Lookup::NotMine,
            Script::Gone => Lookup::Gone(Evidence {
                text: format!("machine of {} answered 404", node.name),
                at: self.clock.now(),
            }),
            Script::Error(text) => {
                Lookup::CannotTell(CloudError::new(CloudErrorKind::Unavailable, text))
            }
        }
    }
}

impl Cloud for ScriptedCloud {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        "demo"
    }

    fn claim(&self, provider_id: &str) -> Claim {
        match provider_id.split_once("://") {
            Some((scheme, "")) if scheme == self.scheme => Claim::Malformed("it is empty".into()),
            Some((scheme, _)) if scheme == self.scheme => Claim::Mine,
            _ => Claim::Foreign,
        }
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(self)
    }
}

impl Instances for ScriptedCloud {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(async move {
            let names = nodes.iter().map(|node| node.name.clone()).collect();
            let latency = {
                let mut state = self.state();
                state.calls.push((self.clock.now(), names));
                state.latency
            };
            tokio::time::sleep(latency).await;
            nodes.iter().map(|node| self.answer(node)).collect()
        })
    }

    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        Box::pin(async move {
            let mut state = self.state();
            state.canaries += 1;
            if state.canary_fails {
                return Err(CloudError::new(CloudErrorKind::Unavailable, "check read"));
            }
            Ok(())
        })
    }
}
