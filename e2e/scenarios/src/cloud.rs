//! A cloud whose every answer is scripted by the test, and which writes down every question.

mod balancers;
mod certificates;
mod chores;
mod drafts;
mod labels;
mod networks;
mod routes;
mod voices;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_core::ipam::Networks;
use bowline_core::routes::Routes;
use bowline_core::{
    AddressKind, Balancers, BoxFuture, Chores, Claim, Cloud, CloudError, CloudName, Evidence,
    Instance, Instances, LabelSync, Lookup, Node, NodeAddress, NodeMatch, NodeMetadata, Power,
    ProviderId, ServingCertificates,
};
use bowline_http::{Clock, Random};
use bowline_simulator::World;
use bowline_simulator::machines::{self, Machines};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::names::Names;
use balancers::unavailable;
pub use balancers::{Balancer, ID, Look, SELECTOR, SIZE, ScriptedBalancers, Trouble};
pub use chores::NOT_KEPT;
pub use networks::ScriptedNetworks;
pub use routes::{ScriptedRoutes, route, route_by};

/// What the cloud says about one node.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a script is short, and tests write it as they think of it"
)]
pub enum Script {
    Machine(Instance),
    /// It does not exist.
    Gone,
    /// "None": leave it alone.
    None,
    /// An error of that text.
    Error(&'static str),
    /// No answer, ever.
    Hang,
}

/// A machine of type c2 in zone z1 of region r1 with these addresses (`Type:value`).
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
        marks: NodeMetadata::default(),
    }
}

/// The machine of that node, running under that address.
pub fn runs(node: &str, address: &str) -> Script {
    let address = format!("InternalIP:{address}");
    Script::Machine(machine(&format!("demo://{node}"), &[&address]))
}

/// The same machine, powered off.
pub fn stopped(id: &str) -> Instance {
    Instance {
        power: Power::Off,
        ..machine(id, &["InternalIP:10.0.0.5"])
    }
}

/// What the cloud is asked about machines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Metadata,
    Presence,
}

#[derive(Default)]
struct State {
    scripts: BTreeMap<String, VecDeque<Script>>,
    machines: Option<Machines>,
    latency: Duration,
    canary_fails: bool,
    is_untagged: bool,
    has_balancers: bool,
    /// The chance that a whole call fails.
    trouble: f64,
    calls: Vec<(Timestamp, Vec<String>)>,
    duties: voices::Duties,
    canaries: Vec<Timestamp>,
}

/// The scripted cloud of one scheme.
pub struct ScriptedCloud {
    name: CloudName,
    scheme: String,
    names: Names,
    clock: Clock,
    random: Random,
    state: Mutex<State>,
    balancers: ScriptedBalancers,
    networks: ScriptedNetworks,
    routes: ScriptedRoutes,
    approval: certificates::Approval,
    following: labels::LabelRule,
    errands: chores::Errands,
    asked: watch::Sender<usize>,
}

impl ScriptedCloud {
    /// A cloud that knows no machine yet.
    pub fn new(name: &str, scheme: &str, names: &Names, world: &World) -> Arc<Self> {
        let asked = watch::Sender::new(0);
        Arc::new(Self {
            name: CloudName::parse(name).unwrap(),
            scheme: scheme.to_owned(),
            names: names.clone(),
            clock: world.clock.clone(),
            random: world.random.fork(),
            state: Mutex::default(),
            balancers: ScriptedBalancers::new(names, &world.clock, &asked),
            networks: ScriptedNetworks::new(names, &asked),
            routes: ScriptedRoutes::new(names, &world.clock, &asked),
            approval: certificates::Approval::default(),
            following: labels::LabelRule::default(),
            errands: chores::Errands::default(),
            asked,
        })
    }

    /// The same account under another name: its load balancers are the same, and it knows no machine yet.
    #[must_use]
    pub fn renamed(&self, name: &str, world: &World) -> Arc<Self> {
        let mut other = Self::new(name, &self.scheme, &self.names, world);
        if let Some(it) = Arc::get_mut(&mut other) {
            it.balancers = self.balancers.clone();
        }
        other.offer_balancers();
        other
    }

    /// From the next start of a manager on it has load balancers, too.
    pub fn offer_balancers(&self) {
        self.state().has_balancers = true;
    }

    /// Its load balancers, whether they are offered or not.
    pub fn balancers(&self) -> &ScriptedBalancers {
        &self.balancers
    }

    /// From the next start of a manager on it knows networks, too.
    pub fn offer_networks(&self) -> &ScriptedNetworks {
        self.networks.offer();
        &self.networks
    }

    /// Its networks, whether they are offered or not.
    pub fn networks(&self) -> &ScriptedNetworks {
        &self.networks
    }

    /// From the next start of a manager on it has routes, too.
    pub fn offer_routes(&self) -> &ScriptedRoutes {
        self.routes.offer();
        &self.routes
    }

    /// Its routes, whether they are offered or not.
    pub fn routes(&self) -> &ScriptedRoutes {
        &self.routes
    }

    /// From now on, this about that node.
    pub fn say(&self, node: &str, script: Script) {
        self.say_in_turn(node, [script]);
    }

    /// These answers one after the other; the last one stays.
    pub fn say_in_turn(&self, node: &str, scripts: impl IntoIterator<Item = Script>) {
        self.state()
            .scripts
            .insert(node.to_owned(), scripts.into_iter().collect());
    }

    /// About nodes without a script it says what the world's register of machines says: the
    /// machine of node `n` is `<scheme>://n`.
    pub fn follow(&self, machines: &Machines) {
        self.state().machines = Some(machines.clone());
    }

    /// Every look-up takes that long.
    pub fn take(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// Whether check reads fail.
    pub fn fail_canaries(&self, fail: bool) {
        self.state().canary_fails = fail;
    }

    /// It cannot tell clusters apart.
    pub fn forget_cluster_id(&self) {
        self.state().is_untagged = true;
    }

    /// Calls fail with that chance.
    pub fn fail_with(&self, chance: f64) {
        self.state().trouble = chance;
    }

    /// How often it was asked, about whomever.
    pub fn calls(&self) -> usize {
        self.state().calls.len()
    }

    /// When it was asked about that node.
    pub fn asked_about(&self, node: &str) -> Vec<Timestamp> {
        let state = self.state();
        let about = |(_, names): &&(Timestamp, Vec<String>)| names.iter().any(|name| name == node);
        state
            .calls
            .iter()
            .filter(about)
            .map(|(at, _)| *at)
            .collect()
    }

    /// How many check reads were made.
    pub fn canaries(&self) -> usize {
        self.state().canaries.len()
    }

    /// When it was called last, for whatever.
    pub fn last_call(&self) -> Option<Timestamp> {
        let state = self.state();
        let looks = state.calls.iter().map(|(at, _)| *at);
        looks.chain(state.canaries.iter().copied()).max()
    }

    /// Changes with every question, every check read and every call for a load balancer.
    pub fn subscribe(&self) -> watch::Receiver<usize> {
        self.asked.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The script of the node of that name, if it has one.
    fn scripted(&self, name: &str) -> Option<Script> {
        let mut state = self.state();
        let scripts = state.scripts.get_mut(name)?;
        Some(match scripts.len() {
            0 | 1 => scripts.front().cloned().unwrap_or(Script::None),
            _ => scripts.pop_front().unwrap(),
        })
    }

    fn script(&self, node: &Node, question: Question) -> Script {
        let name = self.names.plain(&node.name);
        if question == Question::Presence
            && let Some(script) = self.presence_of(&name)
        {
            return script;
        }
        if let Some(script) = self.scripted(&name) {
            return script;
        }
        let state = self.state();
        let Some(machines) = &state.machines else {
            return Script::None;
        };
        let id = format!("{}://{name}", self.scheme);
        let number: u32 = name.bytes().map(u32::from).sum();
        let address = format!("InternalIP:10.0.{}.{}", number / 250, number % 250 + 1);
        let found = |power| {
            Script::Machine(Instance {
                power,
                marks: state.duties.marks.clone(),
                ..machine(&id, &[&address])
            })
        };
        match (machines.power(&id), &node.provider_id) {
            (Some(machines::Power::Running), _) => found(Power::On),
            (Some(machines::Power::Off), _) => found(Power::Off),
            (None, Some(_)) => Script::Gone,
            (None, None) => Script::None,
        }
    }

    async fn answer(&self, node: &Node, question: Question) -> Lookup {
        match self.script(node, question) {
            Script::Machine(instance) => Lookup::Found(Box::new(instance)),
            Script::Hang => std::future::pending().await,
            Script::None => Lookup::NotMine,
            Script::Gone => Lookup::Gone(Evidence {
                text: format!("machine of {} answered 404", node.name),
                at: self.clock.now(),
            }),
            Script::Error(text) => Lookup::CannotTell(unavailable(text)),
        }
    }

    async fn answers(&self, nodes: &[Arc<Node>], question: Question) -> Vec<Lookup> {
        let names = nodes.iter().map(|node| self.names.plain(&node.name));
        let names = names.collect();
        let latency = {
            let mut state = self.state();
            state.calls.push((self.clock.now(), names));
            state.latency
        };
        self.asked.send_modify(|asked| *asked += 1);
        tokio::time::sleep(latency).await;
        if self.is_in_trouble() {
            let failed = |_| Lookup::CannotTell(unavailable("trouble"));
            return nodes.iter().map(failed).collect();
        }
        let mut answers = Vec::with_capacity(nodes.len());
        for node in nodes {
            answers.push(self.answer(node, question).await);
        }
        answers
    }

    /// Draws whether this call fails; draws nothing while there is no trouble.
    fn is_in_trouble(&self) -> bool {
        let trouble = self.state().trouble;
        trouble > 0.0 && self.random.unit() < trouble
    }
}

impl Cloud for ScriptedCloud {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        "demo"
    }

    fn match_node(&self, node: &Node) -> NodeMatch {
        let provider_id = node.provider_id.as_deref().unwrap_or_default();
        let claim = match provider_id.split_once("://") {
            Some((scheme, "")) if scheme == self.scheme => Claim::Malformed("it is empty".into()),
            Some((scheme, _)) if scheme == self.scheme => Claim::Mine,
            _ if self.state().duties.takes_leftovers && node.provider_id.is_some() => {
                Claim::Fallback
            }
            _ => Claim::Foreign,
        };
        NodeMatch {
            describes: self.voice_about(&self.names.plain(&node.name)),
            ..claim.into()
        }
    }

    fn has_cluster_id(&self) -> bool {
        !self.state().is_untagged
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(self)
    }

    fn balancers(&self) -> Option<&dyn Balancers> {
        let offered = self.state().has_balancers;
        offered.then_some(&self.balancers as &dyn Balancers)
    }

    fn networks(&self) -> Option<&dyn Networks> {
        let offered = self.networks.is_offered();
        offered.then_some(&self.networks as &dyn Networks)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        let offered = self.routes.is_offered();
        offered.then_some(&self.routes as &dyn Routes)
    }

    fn label_sync(&self) -> Option<&dyn LabelSync> {
        let offered = self.following.is_offered();
        offered.then_some(self as &dyn LabelSync)
    }

    fn serving_certificates(&self) -> Option<&dyn ServingCertificates> {
        let offered = self.approval.is_offered();
        offered.then_some(self as &dyn ServingCertificates)
    }

    fn chores(&self) -> Option<&dyn Chores> {
        let offered = self.errands.is_offered();
        offered.then_some(self as &dyn Chores)
    }
}

impl Instances for ScriptedCloud {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(self.answers(nodes, Question::Metadata))
    }

    fn presence<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(self.answers(nodes, Question::Presence))
    }

    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        Box::pin(async move {
            let fails = {
                let mut state = self.state();
                state.canaries.push(self.clock.now());
                state.canary_fails
            };
            self.asked.send_modify(|asked| *asked += 1);
            if fails || self.is_in_trouble() {
                return Err(unavailable("check read"));
            }
            Ok(())
        })
    }
}
