//! The life of one kubelet: register, renew, report, fall silent with its machine.

use std::time::Duration;

use bowline_http::{Clock, Random};
use bowline_simulator::machines::Power;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::caller::{Call, CallError, Caller, STRATEGIC};
use super::kubelet::{Kubelet, LEASE_NAMESPACE, Seen, renewed};
use super::{Network, Settings};

const NODES: &str = "/api/v1/nodes";
/// Pauses between tries to register: doubling from the first to the last, as a kubelet does.
const REGISTER_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(7));
/// Renewals are spread by up to this part of their interval.
const RENEW_JITTER: f64 = 0.04;

/// What the outside tells a kubelet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct View {
    pub(super) power: Option<Power>,
    /// Its Node, as far as the fleet's watch has seen.
    pub(super) node: Option<Seen>,
    /// Grows when somebody restarts the kubelet.
    pub(super) restarts: u64,
}

/// One kubelet at work.
pub(super) struct Agent {
    pub(super) kubelet: Kubelet,
    pub(super) view: watch::Receiver<View>,
    pub(super) caller: Caller,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) random: Random,
}

/// What a kubelet holds in memory between start and stop.
struct Life {
    boot_id: String,
    node: Option<Seen>,
    /// What the fleet's watch last told: only a Node that was seen can be seen to go.
    watched: bool,
    lease: Option<Value>,
    network: Option<Instant>,
    renew: Instant,
    reported: Instant,
    /// Whether it last told to be ready; none before its first report.
    told: Option<bool>,
}

impl Agent {
    /// Lives until the fleet drops it.
    pub(super) async fn run(mut self) {
        loop {
            let running = |view: &View| view.power == Some(Power::Running);
            let Ok(view) = self.view.wait_for(running).await.map(|view| view.clone()) else {
                return;
            };
            self.live(view.restarts).await;
        }
    }

    /// From start to the machine's end or a restart.
    async fn live(&mut self, restarts: u64) {
        let boot_id = self.random.uuid();
        let Some(node) = self.register(restarts, &boot_id).await else {
            return;
        };
        let now = Instant::now();
        let mut life = Life {
            boot_id,
            node: Some(node),
            watched: false,
            lease: None,
            network: None,
            renew: now,
            reported: now,
            told: None,
        };
        while !self.is_over(restarts) {
            self.notice(&mut life);
            let now = Instant::now();
            if life.renew <= now {
                self.renew(&mut life).await;
            } else if self.report_due(&life, now) <= now {
                self.report(&mut life).await;
            } else if self.rest(&life).await.is_err() {
                return;
            }
        }
    }

    /// Whether this life has ended.
    fn is_over(&self, restarts: u64) -> bool {
        let view = self.view.borrow();
        view.power != Some(Power::Running) || view.restarts != restarts
    }

    /// Takes in what the outside tells.
    fn notice(&mut self, life: &mut Life) {
        let view = self.view.borrow_and_update();
        if view.node.is_some() {
            life.watched = true;
            life.node.clone_from(&view.node);
        } else if life.watched {
            life.node = None;
        }
        drop(view);
        let initialized = life.node.as_ref().is_some_and(|node| !node.uninitialized);
        if life.network.is_none() && initialized {
            life.network = match self.settings.network {
                Network::AtOnce => None,
                Network::AfterInitialization(delay) => Some(Instant::now() + delay),
            };
        }
    }

    /// Whether the network is there.
    fn ready(&self, now: Instant, network: Option<Instant>) -> bool {
        match self.settings.network {
            Network::AtOnce => true,
            Network::AfterInitialization(_) => network.is_some_and(|from| from <= now),
        }
    }

    /// When the next report is due; far away while there is no Node.
    fn report_due(&self, life: &Life, now: Instant) -> Instant {
        let Some(node) = &life.node else {
            return now + self.settings.report_interval;
        };
        let ready = self.ready(now, life.network);
        let mut due = life.reported + self.settings.report_interval;
        if self.kubelet.differs(node, ready) {
            // Its own news it tells at once; what others changed it puts right at the next look.
            due = if life.told == Some(ready) {
                due.min(life.reported + self.settings.check_interval)
            } else {
                now
            };
        }
        match life.network {
            Some(from) if from > now => due.min(from),
            _ => due,
        }
    }

    /// Waits for the next thing to do; an error if the fleet is gone.
    async fn rest(&mut self, life: &Life) -> Result<(), watch::error::RecvError> {
        let due = life.renew.min(self.report_due(life, Instant::now()));
        tokio::select! {
            biased;
            changed = self.view.changed() => changed,
            () = sleep_until(due) => Ok(()),
        }
    }

    fn identity(&self) -> Option<&str> {
        self.settings
            .impersonate
            .then_some(self.kubelet.node_name.as_str())
    }

    async fn make(&self, call: Call) -> Result<Value, CallError> {
        self.caller.make(call, self.identity()).await
    }

    fn path(&self, suffix: &str) -> String {
        format!("{NODES}/{}{suffix}", self.kubelet.node_name)
    }

    /// Creates the Node, or takes the one that exists; none if this life ended before.
    async fn register(&mut self, restarts: u64, boot_id: &str) -> Option<Seen> {
        let mut pause = REGISTER_PAUSE.0;
        while !self.is_over(restarts) {
            match self.try_register(boot_id).await {
                Ok(node) => return Some(node),
                Err(error) => {
                    tracing::debug!(node = self.kubelet.node_name, %error, "registering failed");
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(REGISTER_PAUSE.1);
        }
        None
    }

    async fn try_register(&self, boot_id: &str) -> Result<Seen, CallError> {
        let ready = self.ready(Instant::now(), None);
        let node = self.kubelet.node(boot_id, ready, self.clock.now());
        match self.make(Call::create(NODES, node)).await {
            Ok(node) => Ok(seen(node)),
            Err(error) if error.already_exists() => {
                let node = seen(self.make(Call::get(self.path(""))).await?);
                match self.kubelet.relabel(&node) {
                    Some(patch) => {
                        let call = Call::patch(self.path(""), STRATEGIC, patch);
                        Ok(seen(self.make(call).await?))
                    }
                    None => Ok(node),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn report(&self, life: &mut Life) {
        life.reported = Instant::now();
        let Some(node) = &life.node else {
            return;
        };
        let ready = self.ready(life.reported, life.network);
        life.told = Some(ready);
        let patch = self
            .kubelet
            .status(node, &life.boot_id, ready, self.clock.now());
        let call = Call::patch(self.path("/status"), STRATEGIC, patch);
        match self.make(call).await {
            Ok(node) => life.node = Some(seen(node)),
            Err(error) => {
                tracing::debug!(node = self.kubelet.node_name, %error, "reporting failed");
            }
        }
    }

    async fn renew(&self, life: &mut Life) {
        let interval = self.settings.renew_interval;
        life.renew = Instant::now() + self.random.jitter(interval, RENEW_JITTER);
        match self.try_renew(life).await {
            Ok(lease) => life.lease = lease,
            Err(error) => {
                // Gone or changed by somebody else: look again next time.
                life.lease = None;
                tracing::debug!(node = self.kubelet.node_name, %error, "renewing failed");
            }
        }
    }

    async fn try_renew(&self, life: &Life) -> Result<Option<Value>, CallError> {
        const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces";
        let all = format!("{LEASES}/{LEASE_NAMESPACE}/leases");
        let own = format!("{all}/{}", self.kubelet.node_name);
        let known = match (&life.lease, &life.node) {
            (Some(lease), _) => lease.clone(),
            (None, Some(node)) => {
                let lease = self.kubelet.lease(node, self.clock.now());
                match self.make(Call::create(&all, lease)).await {
                    Err(error) if error.already_exists() => {
                        self.make(Call::get(own.clone())).await?
                    }
                    created => return created.map(Some),
                }
            }
            // Without a Node there is nobody to own a new lease.
            (None, None) => return Ok(None),
        };
        let lease = renewed(known, self.clock.now());
        self.make(Call::replace(own, lease)).await.map(Some)
    }
}

/// What an answer says about the Node. One that cannot be read counts as an empty Node.
fn seen(node: Value) -> Seen {
    serde_json::from_value::<Node>(node)
        .map(|node| Seen::of(&node))
        .unwrap_or_default()
}
