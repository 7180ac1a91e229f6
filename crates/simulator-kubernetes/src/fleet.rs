//! A fleet of simulated kubelets, one per machine, as clients of an API server.
//!
//! Each kubelet registers its Node the way `--cloud-provider=external` does, renews its lease,
//! reports its status, and falls silent when the world says that its machine does not run. They
//! share one watch of the Nodes and a limit on calls under way, so that thousands can join at
//! once. The API server may be the simulated one or a real one.

mod agent;
pub(crate) mod caller;
mod kubelet;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_simulator::machines::Machines;
use bowline_simulator::{KubeletSpec, World};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use agent::{Agent, View};
use caller::{Caller, SteadyPause};
use kubelet::{Kubelet, Seen};

pub use kubelet::{KubeletError, PROVIDED_NODE_IP, UNINITIALIZED};

/// The Node that a kubelet registers, whose network is there from the start.
pub fn registration(kubelet: &KubeletSpec, now: Timestamp) -> Result<Value, KubeletError> {
    let kubelet = Kubelet(kubelet.clone());
    kubelet.check()?;
    Ok(kubelet.node(&kubelet.system_uuid, true, now))
}

/// When a kubelet's network is there, and with it `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// From the start: the Node registers as ready.
    AtOnce,
    /// So long after the cloud controller manager has initialised the Node: the network plugin's
    /// pods do not start before.
    AfterInitialization(Duration),
}

/// How kubelets behave; the defaults are a kubelet's own.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Between renewals of a lease.
    pub renew_interval: Duration,
    /// Between reports of an unchanged status.
    pub report_interval: Duration,
    /// Between looks whether the status has changed.
    pub check_interval: Duration,
    /// When the network comes up.
    pub network: Network,
    /// Calls are made as `system:node:<name>`, so that node authorization applies and the journal
    /// tells who called. The client has to be allowed to impersonate.
    pub impersonate: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            renew_interval: Duration::from_secs(10),
            report_interval: Duration::from_secs(300),
            check_interval: Duration::from_secs(10),
            network: Network::AfterInitialization(Duration::from_secs(2)),
            impersonate: true,
        }
    }
}

/// The kubelets of a world. Dropping it ends them all.
pub struct Fleet {
    world: World,
    caller: Caller,
    settings: Settings,
    roll: Arc<Mutex<Roll>>,
    dispatcher: JoinHandle<()>,
}

/// Who is in the fleet, and what is known about Nodes.
#[derive(Default)]
struct Roll {
    members: BTreeMap<String, Member>,
    nodes: BTreeMap<String, Seen>,
}

struct Member {
    machine: String,
    view: watch::Sender<View>,
    task: AbortHandle,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.dispatcher.abort();
        lock(&self.roll).members.clear();
    }
}

fn lock(roll: &Mutex<Roll>) -> MutexGuard<'_, Roll> {
    roll.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    /// An empty fleet. Needs a tokio runtime.
    pub fn new(world: &World, client: kube::Client, settings: Settings) -> Self {
        let roll = Arc::new(Mutex::new(Roll::default()));
        let dispatcher = tokio::spawn(dispatch(
            Arc::clone(&roll),
            world.machines.clone(),
            client.clone(),
        ));
        Self {
            world: world.clone(),
            caller: Caller::new(client),
            settings,
            roll,
            dispatcher,
        }
    }

    /// Installs a kubelet. It starts when its machine runs.
    pub fn join(&self, kubelet: KubeletSpec) -> Result<(), KubeletError> {
        let kubelet = Kubelet(kubelet);
        kubelet.check()?;
        let mut roll = lock(&self.roll);
        let name = kubelet.node_name.clone();
        if roll.members.contains_key(&name) {
            return Err(KubeletError::Joined(name));
        }
        let machine = kubelet.machine_id.clone();
        let view = watch::Sender::new(View {
            power: self.world.machines.power(&machine),
            node: roll.nodes.get(&name).cloned(),
            restarts: 0,
        });
        let agent = Agent {
            kubelet,
            view: view.subscribe(),
            caller: self.caller.clone(),
            settings: self.settings,
            clock: self.world.clock.clone(),
            random: self.world.random.fork(),
        };
        let task = tokio::spawn(agent.run()).abort_handle();
        let member = Member {
            machine,
            view,
            task,
        };
        roll.members.insert(name, member);
        Ok(())
    }

    /// Restarts a kubelet: it registers again, which creates the Node if it is gone. False if
    /// there is no such kubelet.
    pub fn restart(&self, node_name: &str) -> bool {
        let roll = lock(&self.roll);
        let member = roll.members.get(node_name);
        if let Some(member) = member {
            member.view.send_modify(|view| view.restarts += 1);
        }
        member.is_some()
    }

    /// Uninstalls a kubelet. Its Node stays. False if there is no such kubelet.
    pub fn leave(&self, node_name: &str) -> bool {
        lock(&self.roll).members.remove(node_name).is_some()
    }

    /// Names of the installed kubelets.
    pub fn names(&self) -> Vec<String> {
        lock(&self.roll).members.keys().cloned().collect()
    }
}

/// Tells every kubelet what concerns it: its machine's power and its Node.
async fn dispatch(roll: Arc<Mutex<Roll>>, machines: Machines, client: kube::Client) {
    let nodes = watcher(Api::<Node>::all(client), watcher::Config::default());
    let mut nodes = std::pin::pin!(nodes.backoff(SteadyPause));
    let mut power = machines.subscribe();
    let mut fresh = BTreeMap::new();
    power.mark_changed();
    loop {
        tokio::select! {
            biased;
            changed = power.changed() => {
                if changed.is_err() {
                    return;
                }
                power.mark_unchanged();
                lock(&roll).tell_power(&machines);
            }
            event = nodes.next() => match event {
                Some(Ok(event)) => lock(&roll).tell_node(event, &mut fresh),
                Some(Err(error)) => tracing::debug!(%error, "the fleet's watch of nodes broke"),
                None => return,
            }
        }
    }
}

impl Roll {
    fn tell_power(&mut self, machines: &Machines) {
        for member in self.members.values() {
            let power = machines.power(&member.machine);
            member.view.send_if_modified(|view| {
                let changed = view.power != power;
                view.power = power;
                changed
            });
        }
    }

    fn tell_node(&mut self, event: watcher::Event<Node>, fresh: &mut BTreeMap<String, Seen>) {
        let entry = |node: &Node| {
            (
                node.metadata.name.clone().unwrap_or_default(),
                Seen::of(node),
            )
        };
        match event {
            watcher::Event::Apply(node) => {
                let (name, seen) = entry(&node);
                self.set(&name, Some(seen));
            }
            watcher::Event::Delete(node) => self.set(&entry(&node).0, None),
            watcher::Event::Init => fresh.clear(),
            watcher::Event::InitApply(node) => {
                fresh.extend([entry(&node)]);
            }
            watcher::Event::InitDone => {
                let gone: Vec<String> = self
                    .nodes
                    .keys()
                    .filter(|name| !fresh.contains_key(*name))
                    .cloned()
                    .collect();
                for name in gone {
                    self.set(&name, None);
                }
                for (name, seen) in std::mem::take(fresh) {
                    self.set(&name, Some(seen));
                }
            }
        }
    }

    fn set(&mut self, name: &str, seen: Option<Seen>) {
        if let Some(member) = self.members.get(name) {
            member.view.send_if_modified(|view| {
                let changed = view.node != seen;
                view.node.clone_from(&seen);
                changed
            });
        }
        match seen {
            Some(seen) => self.nodes.insert(name.to_owned(), seen),
            None => self.nodes.remove(name),
        };
    }
}
