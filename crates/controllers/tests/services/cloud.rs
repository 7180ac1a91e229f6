//! A cloud with load balancers in memory. It plans and carries out like a real one, every answer
//! can be scripted, and it writes down every call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_core::{
    Balancers, Claim, Cloud, CloudError, CloudErrorKind, CloudName, Ingress, IpMode, Node, Notice,
    Service,
};
use bowline_http::Clock;
use bowline_simulator::World;
use jiff::Timestamp;
use tokio::sync::watch;

/// The annotation with a load balancer's id.
pub(crate) const ID: &str = "demo.test/id";
/// A setting with one wrong value: `bad`.
pub(crate) const SIZE: &str = "demo.test/size";
/// `key=value` that nodes must carry.
pub(crate) const SELECTOR: &str = "demo.test/node-selector";

/// What the cloud says instead of its usual answer to a look.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    /// It answers as usual.
    Usual,
    /// An error of that text.
    Error(&'static str),
    /// An error with the cloud's word about when to try again.
    Throttled(Duration),
    /// Another program serves it.
    Elsewhere,
    /// Not now.
    Later(&'static str, Duration),
}

/// What comes of a step instead of what usually does.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Nothing is done.
    Error(&'static str),
    /// It is done, but nobody hears of it.
    Lost,
    /// It cannot be done.
    Skip(&'static str),
}

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Balancer {
    pub(crate) id: String,
    pub(crate) address: String,
    pub(crate) cluster: Option<String>,
    pub(crate) ports: BTreeSet<String>,
    /// Name, provider id and addresses.
    pub(crate) members: BTreeSet<String>,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) ready_at: Option<Timestamp>,
}

#[derive(Default)]
pub(crate) struct State {
    /// By uid of the Service.
    pub(crate) balancers: BTreeMap<String, Balancer>,
    looks: VecDeque<Look>,
    pub(super) faults: Vec<(&'static str, Fault, u64)>,
    calls: Vec<(Timestamp, String)>,
    pub(super) busy: BTreeSet<String>,
    pub(super) made: u32,
    pub(super) latency: Duration,
    pub(super) building: Duration,
    pub(super) ip_mode: Option<IpMode>,
    audit: Option<Duration>,
}

/// The cloud of one scheme.
pub(crate) struct DemoCloud(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) name: CloudName,
    pub(super) clock: Clock,
    state: Mutex<State>,
    called: watch::Sender<usize>,
}

impl DemoCloud {
    pub(crate) fn new(name: &str, world: &World) -> Arc<Self> {
        Arc::new(Self(Arc::new(Inner {
            name: CloudName::parse(name).unwrap(),
            clock: world.clock.clone(),
            state: Mutex::default(),
            called: watch::Sender::new(0),
        })))
    }

    /// These answers to the next looks; then as usual again.
    pub(crate) fn say(&self, looks: impl IntoIterator<Item = Look>) {
        self.state().looks.extend(looks);
    }

    /// The next `times` steps whose text contains that end so.
    pub(crate) fn fault(&self, step: &'static str, fault: Fault, times: u64) {
        self.state().faults.push((step, fault, times));
    }

    /// From now on all goes as usual.
    pub(crate) fn calm_down(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.looks.clear();
    }

    /// Every look and every step takes that long.
    pub(crate) fn take(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// A new load balancer is ready after that time.
    pub(crate) fn build_for(&self, time: Duration) {
        self.state().building = time;
    }

    /// Addresses are published with that mode.
    pub(crate) fn publish_as(&self, mode: IpMode) {
        self.state().ip_mode = Some(mode);
    }

    /// Services are compared that often.
    pub(crate) fn audit_every(&self, period: Duration) {
        self.state().audit = Some(period);
    }

    /// Every call: `look at default/web (n1 n2)`, `create load balancer default/web`.
    pub(crate) fn calls(&self) -> Vec<String> {
        let state = self.state();
        state.calls.iter().map(|(_, call)| call.clone()).collect()
    }

    /// When calls that contain that text were made.
    pub(crate) fn times(&self, text: &str) -> Vec<Timestamp> {
        let state = self.state();
        let meant = state.calls.iter().filter(|(_, call)| call.contains(text));
        meant.map(|(at, _)| *at).collect()
    }

    /// How many calls contain that text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.times(text).len()
    }

    /// Those calls that write.
    pub(crate) fn writes(&self) -> Vec<String> {
        let mut calls = self.calls();
        calls.retain(|call| !call.starts_with("look") && !call.starts_with("list"));
        calls
    }

    /// Forgets the calls so far.
    pub(crate) fn clear(&self) {
        self.state().calls.clear();
    }

    /// Its load balancers.
    pub(crate) fn balancers(&self) -> Vec<Balancer> {
        self.state().balancers.values().cloned().collect()
    }

    /// The names of the members of its only load balancer.
    pub(crate) fn members(&self) -> Vec<String> {
        let balancers = self.balancers();
        assert_eq!(balancers.len(), 1, "{balancers:?}");
        let name = |member: &String| member.split(' ').next().unwrap().to_owned();
        balancers[0].members.iter().map(name).collect()
    }

    /// Changes something behind everybody's back.
    pub(crate) fn tamper(&self, change: impl FnOnce(&mut BTreeMap<String, Balancer>)) {
        change(&mut self.state().balancers);
    }

    /// Changes with every call.
    pub(crate) fn subscribe(&self) -> watch::Receiver<usize> {
        self.0.called.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state()
    }
}

impl Inner {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn record(&self, call: String) {
        self.state().calls.push((self.clock.now(), call));
        self.called.send_modify(|called| *called += 1);
    }

    /// Notes that a call for that Service is under way: there must never be two.
    pub(super) async fn busy(&self, uid: &str) {
        assert!(
            self.state().busy.insert(uid.to_owned()),
            "two calls for Service {uid} at once"
        );
        let _busy = Busy(self, uid);
        let latency = self.state().latency;
        tokio::time::sleep(latency).await;
    }

    pub(super) fn next_look(&self) -> Look {
        self.state().looks.pop_front().unwrap_or(Look::Usual)
    }

    pub(super) fn next_fault(&self, step: &str) -> Option<Fault> {
        let mut state = self.state();
        let meant =
            |(text, _, times): &&mut (&'static str, Fault, u64)| *times > 0 && step.contains(*text);
        let (_, fault, times) = state.faults.iter_mut().find(meant)?;
        *times -= 1;
        Some(fault.clone())
    }

    pub(super) fn audit(&self) -> Option<Duration> {
        self.state().audit
    }
}

/// A call that is under way, until it ends or its caller dies.
struct Busy<'a>(&'a Inner, &'a str);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.state().busy.remove(self.1);
    }
}

pub(super) fn unavailable(text: &str) -> CloudError {
    CloudError::new(CloudErrorKind::Unavailable, text)
}

pub(super) fn entrance(address: &str, ip_mode: Option<IpMode>) -> Ingress {
    Ingress {
        ip: Some(address.to_owned()),
        hostname: None,
        ip_mode,
    }
}

pub(super) fn skipped(text: &str) -> Notice {
    Notice {
        warning: true,
        reason: "NodeSkipped",
        message: text.to_owned(),
    }
}

pub(super) fn is_selected(service: &Service, node: &Node) -> bool {
    let Some((key, value)) = service
        .annotation(SELECTOR)
        .and_then(|it| it.split_once('='))
    else {
        return true;
    };
    node.labels.get(key).is_some_and(|it| it == value)
}

impl Cloud for DemoCloud {
    fn name(&self) -> &CloudName {
        &self.0.name
    }

    fn provider(&self) -> &'static str {
        "demo"
    }

    fn claim(&self, node: &Node) -> Claim {
        let provider_id = node.provider_id.as_deref().unwrap_or_default();
        match provider_id.split_once("://") {
            Some((scheme, _)) if scheme == self.0.name.as_str() => Claim::Mine,
            _ => Claim::Foreign,
        }
    }

    fn balancers(&self) -> Option<&dyn Balancers> {
        Some(self)
    }
}
