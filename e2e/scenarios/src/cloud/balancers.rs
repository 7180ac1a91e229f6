//! The load balancers of a scripted cloud. It plans and carries out like a real one, every answer
//! can be scripted, and it writes down every call.
//!
//! Names in calls and members are the scenario's own, whatever the API server calls them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, IpMode, Needs};
use bowline_http::Clock;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::names::Names;

/// The annotation with a load balancer's id.
pub const ID: &str = "demo.test/id";
/// A setting with one wrong value: `bad`.
pub const SIZE: &str = "demo.test/size";
/// `key=value` that nodes must carry.
pub const SELECTOR: &str = "demo.test/node-selector";

/// What the cloud says instead of its usual answer to a look.
#[derive(Clone, Debug)]
pub enum Look {
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
pub enum Trouble {
    /// Nothing is done.
    Error(&'static str),
    /// It is done, but nobody hears of it.
    Lost,
    /// It cannot be done.
    Skip(&'static str),
}

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Balancer {
    /// `lb-1`, `lb-2` and so on.
    pub id: String,
    /// Where it can be reached.
    pub address: String,
    /// The name of the cluster in its mark.
    pub cluster: Option<String>,
    /// The uid of the cluster, if the cloud needs it.
    pub cluster_uid: Option<String>,
    /// `TCP/80`.
    pub ports: BTreeSet<String>,
    /// Name, provider id and addresses of nodes.
    pub members: BTreeSet<String>,
    /// By the annotation that asks for it.
    pub settings: BTreeMap<String, String>,
    /// When it is built; none if it is.
    pub ready_at: Option<Timestamp>,
}

#[derive(Default)]
pub(super) struct State {
    /// By uid of the Service.
    pub(super) balancers: BTreeMap<String, Balancer>,
    looks: VecDeque<Look>,
    troubles: Vec<(&'static str, Trouble, u64)>,
    calls: Vec<(Timestamp, String)>,
    busy: BTreeSet<String>,
    pub(super) made: u32,
    latency: Duration,
    pub(super) building: Duration,
    pub(super) ip_mode: Option<IpMode>,
    audit: Option<Duration>,
    again: Option<Duration>,
    needs: Needs,
}

/// The load balancers of one cloud. Clones share them.
#[derive(Clone)]
pub struct ScriptedBalancers(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) names: Names,
    pub(super) clock: Clock,
    state: Mutex<State>,
    asked: watch::Sender<usize>,
}

impl ScriptedBalancers {
    /// No load balancer yet; `asked` changes with every call, and when it is done.
    pub(super) fn new(names: &Names, clock: &Clock, asked: &watch::Sender<usize>) -> Self {
        Self(Arc::new(Inner {
            names: names.clone(),
            clock: clock.clone(),
            state: Mutex::default(),
            asked: asked.clone(),
        }))
    }

    /// These answers to the next looks; then as usual again.
    pub fn say(&self, looks: impl IntoIterator<Item = Look>) {
        self.state().looks.extend(looks);
    }

    /// The next `times` steps whose text contains that end so.
    pub fn fail(&self, step: &'static str, trouble: Trouble, times: u64) {
        self.state().troubles.push((step, trouble, times));
    }

    /// From now on all goes as usual.
    pub fn calm_down(&self) {
        let mut state = self.state();
        state.troubles.clear();
        state.looks.clear();
    }

    /// Every look and every step takes that long.
    pub fn take(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// A new load balancer is ready after that time.
    pub fn build_for(&self, time: Duration) {
        self.state().building = time;
    }

    /// Addresses are published with that mode.
    pub fn publish_as(&self, mode: IpMode) {
        self.state().ip_mode = Some(mode);
    }

    /// Services are compared that often.
    pub fn audit_every(&self, period: Duration) {
        self.state().audit = Some(period);
    }

    /// From the next start of a manager on it needs to know that. Where it counts, only nodes are members
    /// that are Ready, or have endpoints.
    pub fn need(&self, needs: Needs) {
        self.state().needs = needs;
    }

    /// When all is done, it wants to be looked at again after so long.
    pub fn look_again(&self, after: Option<Duration>) {
        self.state().again = after;
    }

    /// Every call: `look at shop/web (n1 n2)`, `create load balancer shop/web`.
    pub fn calls(&self) -> Vec<String> {
        let state = self.state();
        state.calls.iter().map(|(_, call)| call.clone()).collect()
    }

    /// When calls that contain that text were made.
    pub fn times(&self, text: &str) -> Vec<Timestamp> {
        let state = self.state();
        let meant = state.calls.iter().filter(|(_, call)| call.contains(text));
        meant.map(|(at, _)| *at).collect()
    }

    /// How many calls contain that text.
    pub fn count(&self, text: &str) -> usize {
        self.times(text).len()
    }

    /// Those calls that write.
    pub fn writes(&self) -> Vec<String> {
        let mut calls = self.calls();
        calls.retain(|call| !call.starts_with("look") && !call.starts_with("list"));
        calls
    }

    /// Forgets the calls so far.
    pub fn clear(&self) {
        self.state().calls.clear();
    }

    /// The load balancers.
    pub fn all(&self) -> Vec<Balancer> {
        self.state().balancers.values().cloned().collect()
    }

    /// The names of the members of the only load balancer.
    pub fn members(&self) -> Vec<String> {
        let balancers = self.all();
        assert_eq!(balancers.len(), 1, "{balancers:?}");
        let name = |member: &String| member.split(' ').next().unwrap().to_owned();
        balancers[0].members.iter().map(name).collect()
    }

    /// Changes something behind everybody's back; load balancers are found by the uid of their
    /// Service.
    pub fn tamper(&self, change: impl FnOnce(&mut BTreeMap<String, Balancer>)) {
        change(&mut self.state().balancers);
        self.0.notice();
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
        self.notice();
    }

    /// Wakes whoever waits for something to happen here.
    pub(super) fn notice(&self) {
        self.asked.send_modify(|asked| *asked += 1);
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

    pub(super) fn next_trouble(&self, step: &str) -> Option<Trouble> {
        let mut state = self.state();
        let meant = |(text, _, times): &&mut (&'static str, Trouble, u64)| {
            *times > 0 && step.contains(*text)
        };
        let (_, trouble, times) = state.troubles.iter_mut().find(meant)?;
        *times -= 1;
        Some(trouble.clone())
    }

    pub(super) fn audit(&self) -> Option<Duration> {
        self.state().audit
    }

    pub(super) fn again(&self) -> Option<Duration> {
        self.state().again
    }

    pub(super) fn needs(&self) -> Needs {
        self.state().needs
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
