//! A cloud in memory: scheme `demo`, says what a test tells it to say, counts its questions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bowline_core::{
    AddressKind, ApprovalRules, BoxFuture, Claim, Cloud, CloudError, CloudName, Evidence, Instance,
    Instances, Lookup, MachineAnswer, Node, NodeAddress, NodeMatch, Power, ProviderId,
    ServingCertificates,
};
use bowline_http::Clock;
use jiff::Timestamp;

/// What the cloud says about one node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// Its machine has this address and runs.
    Runs(&'static str),
    /// Its machine has this address and is off.
    IsOff(&'static str),
    /// It does not exist.
    Gone,
}

/// The cloud. What it does not know is not its own.
pub(crate) struct Demo {
    name: CloudName,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answers: BTreeMap<String, Answer>,
    calls: Vec<Timestamp>,
    lacks: Option<String>,
}

impl Demo {
    pub(crate) fn new(clock: &Clock) -> Arc<Self> {
        Self::named("demo", clock)
    }

    pub(crate) fn named(name: &str, clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            name: CloudName::parse(name).unwrap(),
            clock: clock.clone(),
            state: Mutex::default(),
        })
    }

    pub(crate) fn say(&self, node: &str, answer: Answer) {
        self.state().answers.insert(node.to_owned(), answer);
    }

    /// What it lacks to be ready; none if nothing.
    pub(crate) fn lack(&self, what: Option<&str>) {
        self.state().lacks = what.map(str::to_owned);
    }

    /// When it was called, check reads included.
    pub(crate) fn calls(&self) -> Vec<Timestamp> {
        self.state().calls.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn called(&self) {
        let now = self.clock.now();
        self.state().calls.push(now);
    }

    fn lookup_of(&self, node: &Node, answer: Option<Answer>) -> Lookup {
        let machine = |address: &str, power| {
            Lookup::Found(Box::new(Instance {
                provider_id: ProviderId::parse(&format!("demo://{}", node.name)).ok(),
                instance_type: "c2".into(),
                zone: "z1".into(),
                region: "r1".into(),
                addresses: vec![NodeAddress::new(AddressKind::from("InternalIP"), address)],
                power,
                extra_labels: BTreeMap::new(),
                marks: bowline_core::NodeMetadata::default(),
            }))
        };
        match answer {
            Some(Answer::Runs(address)) => machine(address, Power::On),
            Some(Answer::IsOff(address)) => machine(address, Power::Off),
            Some(Answer::Gone) => Lookup::Gone(Evidence {
                text: format!("machine of {} answered 404", node.name),
                at: self.clock.now(),
            }),
            None => Lookup::NotMine,
        }
    }
}

impl Cloud for Demo {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        "demo"
    }

    fn match_node(&self, node: &Node) -> NodeMatch {
        let provider_id = node.provider_id.as_deref().unwrap_or_default();
        let claim = match provider_id.strip_prefix("demo://") {
            Some("") => Claim::Malformed("it is empty".to_owned()),
            Some(_) => Claim::Mine,
            None => Claim::Foreign,
        };
        claim.into()
    }

    fn has_cluster_id(&self) -> bool {
        true
    }

    fn ready(&self) -> Result<(), String> {
        self.state().lacks.clone().map_or(Ok(()), Err)
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(self)
    }

    fn serving_certificates(&self) -> Option<&dyn ServingCertificates> {
        Some(self)
    }
}

/// It has a word about certificates, though no machine.
impl ServingCertificates for Demo {
    fn rules(&self) -> ApprovalRules {
        ApprovalRules::default()
    }

    fn machine<'a>(&'a self, _: &'a str, _: Option<&'a Node>) -> BoxFuture<'a, MachineAnswer> {
        Box::pin(async { MachineAnswer::Unknown })
    }
}

impl Instances for Demo {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(async move {
            self.called();
            let answers: Vec<Option<Answer>> = {
                let state = self.state();
                nodes
                    .iter()
                    .map(|node| state.answers.get(&node.name).copied())
                    .collect()
            };
            nodes
                .iter()
                .zip(answers)
                .map(|(node, answer)| self.lookup_of(node, answer))
                .collect()
        })
    }

    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        self.called();
        Box::pin(async { Ok(()) })
    }
}
