//! The part of kube-controller-manager that watches over nodes: it notices silent kubelets, marks
//! their conditions unknown, and keeps the taints that follow from conditions.
//!
//! It works from two watches (Nodes and node leases) and one timer per node; nothing is polled.
//! Times are judged by tokio's clock from when a sign of life was seen, not by what it says.
//! Unlike the original it does not limit how fast it taints in a zone that fails as a whole.

mod decide;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_http::Clock;
use bowline_simulator::World;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::fleet::caller::{Call, CallError, Caller, SteadyPause};
use decide::{Facts, decide};

/// Where node leases are.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Writes that may wait for an answer at once; more wait for their turn.
const WRITES_IN_FLIGHT: usize = 64;
/// Pause after a refused write. Most are conflicts, and the watch brings the newer version.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Sleep while there is nothing to wait for; any event ends it.
const IDLE: Duration = Duration::from_secs(3600);

/// How patient it is; the defaults are kube-controller-manager's.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A node without a sign of life for this long is unreachable.
    pub grace_period: Duration,
    /// The same for a node that never told its status.
    pub startup_grace_period: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grace_period: Duration::from_secs(50),
            startup_grace_period: Duration::from_secs(60),
        }
    }
}

/// The running monitor. Dropping it ends it.
pub struct Monitor(JoinHandle<()>);

impl Drop for Monitor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Monitor {
    /// Starts to watch over the nodes. Needs a tokio runtime.
    pub fn start(world: &World, client: kube::Client, settings: Settings) -> Self {
        Self::start_for(None, world, client, settings)
    }

    /// The same for the nodes that a label selector means only.
    pub fn start_for(
        selector: Option<String>,
        world: &World,
        client: kube::Client,
        settings: Settings,
    ) -> Self {
        let watch = Watch::new(client, world.clock.clone(), settings);
        Self(tokio::spawn(watch.run(selector)))
    }
}

/// What is known of one node.
struct Record {
    facts: Facts,
    /// The last sign of life.
    heard: Instant,
    /// When to look at it again without an event.
    timer: Option<Instant>,
    /// A write is under way.
    busy: bool,
}

/// The node, the version that was changed, and the answer.
type Written = (String, String, Result<Value, CallError>);

struct Watch {
    client: kube::Client,
    caller: Caller,
    clock: Clock,
    settings: Settings,
    nodes: BTreeMap<String, Record>,
    /// Renewal times, also of leases whose Node is not seen yet.
    leases: BTreeMap<String, String>,
    timers: BTreeSet<(Instant, String)>,
    dirty: BTreeSet<String>,
    writes: FuturesUnordered<BoxFuture<'static, Written>>,
    /// Names met since a watch started over.
    fresh: BTreeSet<String>,
}

/// What woke the monitor.
enum Wake {
    Written(Written),
    Node(Box<Event<Node>>),
    Lease(Box<Event<Lease>>),
    Timer,
    Nothing,
}

impl Watch {
    fn new(client: kube::Client, clock: Clock, settings: Settings) -> Self {
        Self {
            caller: Caller::new(client.clone()),
            client,
            clock,
            settings,
            nodes: BTreeMap::new(),
            leases: BTreeMap::new(),
            timers: BTreeSet::new(),
            dirty: BTreeSet::new(),
            writes: FuturesUnordered::new(),
            fresh: BTreeSet::new(),
        }
    }

    async fn run(mut self, selector: Option<String>) {
        let meant = watcher::Config {
            label_selector: selector,
            ..watcher::Config::default()
        };
        let nodes = Api::<Node>::all(self.client.clone());
        let leases = Api::<Lease>::namespaced(self.client.clone(), LEASE_NAMESPACE);
        let mut nodes = std::pin::pin!(watcher(nodes, meant).backoff(SteadyPause));
        let mut leases =
            std::pin::pin!(watcher(leases, watcher::Config::default()).backoff(SteadyPause));
        loop {
            let now = Instant::now();
            let next = self.timers.first().map_or(now + IDLE, |(time, _)| *time);
            let wake = tokio::select! {
                biased;
                Some(written) = self.writes.next() => Wake::Written(written),
                event = nodes.next() => {
                    let event = heard("nodes", event);
                    event.map_or(Wake::Nothing, |event| Wake::Node(Box::new(event)))
                },
                event = leases.next() => {
                    let event = heard("leases", event);
                    event.map_or(Wake::Nothing, |event| Wake::Lease(Box::new(event)))
                },
                () = tokio::time::sleep_until(next) => Wake::Timer,
            };
            self.take(wake);
            self.work();
        }
    }

    fn take(&mut self, wake: Wake) {
        match wake {
            Wake::Written((name, version, answer)) => self.written(&name, &version, answer),
            Wake::Node(event) => self.node_event(*event),
            Wake::Lease(event) => self.lease_event(*event),
            Wake::Timer => self.ring(),
            Wake::Nothing => {}
        }
    }

    /// Moves what is due from the timers to the work.
    fn ring(&mut self) {
        let now = Instant::now();
        while let Some((time, name)) = self.timers.first().cloned()
            && time <= now
        {
            self.set_timer(&name, None);
            self.dirty.insert(name);
        }
    }

    fn set_timer(&mut self, name: &str, time: Option<Instant>) {
        let Some(record) = self.nodes.get_mut(name) else {
            return;
        };
        if let Some(old) = record.timer.take() {
            self.timers.remove(&(old, name.to_owned()));
        }
        record.timer = time;
        if let Some(time) = time {
            self.timers.insert((time, name.to_owned()));
        }
    }

    fn node_event(&mut self, event: Event<Node>) {
        match event {
            Event::Apply(node) => self.see(&node),
            Event::Delete(node) => self.forget(node.metadata.name.as_deref().unwrap_or("")),
            Event::Init => self.fresh.clear(),
            Event::InitApply(node) => {
                self.fresh.extend(node.metadata.name.clone());
                self.see(&node);
            }
            Event::InitDone => {
                let fresh = std::mem::take(&mut self.fresh);
                let gone: Vec<String> = self
                    .nodes
                    .keys()
                    .filter(|name| !fresh.contains(*name))
                    .cloned()
                    .collect();
                for name in gone {
                    self.forget(&name);
                }
            }
        }
    }

    fn see(&mut self, node: &Node) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let facts = Facts::of(node);
        let alive = if let Some(record) = self.nodes.get_mut(&name) {
            let alive = record.facts.is_new_life(&facts);
            record.facts = facts;
            alive
        } else {
            let record = Record {
                facts,
                heard: Instant::now(),
                timer: None,
                busy: false,
            };
            self.nodes.insert(name.clone(), record);
            true
        };
        if alive {
            self.alive(&name);
        }
        self.dirty.insert(name);
    }

    /// A sign of life: the timer starts anew.
    fn alive(&mut self, name: &str) {
        let Some(record) = self.nodes.get_mut(name) else {
            return;
        };
        record.heard = Instant::now();
        let patience = record.facts.patience(&self.settings);
        let due = record.heard + patience;
        self.set_timer(name, Some(due));
    }

    fn forget(&mut self, name: &str) {
        self.set_timer(name, None);
        self.nodes.remove(name);
        self.dirty.remove(name);
    }

    fn lease_event(&mut self, event: Event<Lease>) {
        let lease = match event {
            Event::Apply(lease) | Event::InitApply(lease) => lease,
            Event::Delete(lease) => {
                self.leases
                    .remove(lease.metadata.name.as_deref().unwrap_or(""));
                return;
            }
            Event::Init | Event::InitDone => return,
        };
        let name = lease.metadata.name.unwrap_or_default();
        let renewed = lease.spec.and_then(|spec| spec.renew_time);
        let Some(renewed) = renewed.map(|time| time.0.to_string()) else {
            return;
        };
        if self.leases.get(&name) != Some(&renewed) {
            self.alive(&name);
            self.leases.insert(name, renewed);
        }
    }

    fn written(&mut self, name: &str, version: &str, answer: Result<Value, CallError>) {
        let Some(record) = self.nodes.get_mut(name) else {
            return;
        };
        record.busy = false;
        match answer.map(serde_json::from_value::<Node>) {
            // Every write names the version it changes, so its answer follows that one directly.
            // If the watch has moved on meanwhile, it knows more than the answer does.
            Ok(Ok(node)) if record.facts.version == version => self.see(&node),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(node = name, %error, "an answer is no Node"),
            Err(error) => {
                tracing::debug!(node = name, %error, code = error.code(), "a write failed");
                let again = Instant::now() + RETRY_PAUSE;
                let sooner = record.timer.map_or(again, |timer| timer.min(again));
                self.set_timer(name, Some(sooner));
            }
        }
    }

    /// Starts the writes that are needed, as many as may be under way.
    fn work(&mut self) {
        let mut postponed = BTreeSet::new();
        while self.writes.len() < WRITES_IN_FLIGHT
            && let Some(name) = self.dirty.pop_first()
        {
            let Some(record) = self.nodes.get_mut(&name) else {
                continue;
            };
            if record.busy {
                postponed.insert(name);
                continue;
            }
            let now = Instant::now();
            let due = record.heard + record.facts.patience(&self.settings);
            if let Some(call) = decide(&name, &record.facts, due <= now, self.clock.now()) {
                record.busy = true;
                let version = record.facts.version.clone();
                self.write(name, version, call);
            } else if record.timer.is_none() && due > now {
                self.set_timer(&name, Some(due));
            }
        }
        self.dirty.append(&mut postponed);
    }

    fn write(&self, name: String, version: String, call: Call) {
        let caller = self.caller.clone();
        let write = async move {
            let answer = caller.make(call, None).await;
            (name, version, answer)
        };
        self.writes.push(write.boxed());
    }
}

/// The event of a watch, if it is one; errors end in the log and the watch starts over.
fn heard<K>(what: &str, event: Option<Result<Event<K>, watcher::Error>>) -> Option<Event<K>> {
    match event? {
        Ok(event) => Some(event),
        Err(error) => {
            tracing::debug!(%error, "the monitor's watch of {what} broke");
            None
        }
    }
}
