//! The cloud-node-lifecycle controller: taints nodes whose machines are off, and deletes nodes
//! whose machines are proven to be gone.
//!
//! One round every few seconds. Ready nodes cost no call; the others of one cloud are asked about
//! together. Clouds do not wait for each other. What the [guard](bowline_core::Guard) holds back
//! is reported once.

mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bowline_core::{Cloud, CloudName, Guard, GuardPolicy};
use futures::future::join_all;
use tokio::time::Instant;

use crate::clouds::accounts::AccountKey;
use crate::clouds::batcher::InstanceBatcher;
use crate::clouds::owners::OwnerDiscovery;
use crate::clouds::per_cloud::PerCloud;
use crate::clouds::resolver::CloudRules;
use crate::kube::events::Recorder;
use crate::kube::nodes::{Nodes, REMEMBERED_NODES};
use crate::kube::write::NodeWriter;
use crate::metrics::Metrics;
use crate::report::Reported;
use tokio_util::sync::CancellationToken;

/// The settings of the controller.
#[derive(Clone, Debug)]
pub struct LifecycleOptions {
    /// The pause between two rounds (`--node-monitor-period`).
    pub monitor_period: Duration,
    /// Nodes that are written at the same time (`--concurrent-node-lifecycle-syncs`).
    pub concurrent_syncs: usize,
    /// What the clouds' deletion guards insist on.
    pub rules: CloudRules,
}

/// What the controller works with.
pub struct LifecycleController {
    nodes: Nodes,
    owners: OwnerDiscovery,
    writer: NodeWriter,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    options: LifecycleOptions,
    clouds: BTreeMap<CloudName, Arc<Mutex<CloudState>>>,
}

/// The deletion guards of all clouds: they outlast a configuration, so that no change of configuration gives anybody a new
/// budget.
pub type Guards = PerCloud<CloudState>;

/// What is remembered about one cloud between rounds.
#[derive(Debug)]
pub struct CloudState {
    guard: Guard,
    /// Whom the guard's looks were at.
    cloud: Weak<dyn Cloud>,
    /// With which credentials.
    account: Option<AccountKey>,
    /// When the guard's time began.
    begun: Instant,
    /// Nodes (by uid) whose deletion was announced.
    announced: Reported<String, ()>,
    /// Nodes (by uid) about which the cloud could not tell when it was last asked.
    silent: BTreeSet<String>,
}

impl CloudState {
    fn new(cloud: &Arc<dyn Cloud>) -> Self {
        Self {
            guard: Guard::default(),
            cloud: Arc::downgrade(cloud),
            account: AccountKey::of(cloud),
            begun: Instant::now(),
            announced: Reported::new(REMEMBERED_NODES),
            silent: BTreeSet::new(),
        }
    }

    /// From now on that cloud is looked at, and the guard insists on that.
    fn look_at(&mut self, cloud: &Arc<dyn Cloud>, policy: &GuardPolicy) {
        self.guard.insist_on(policy.clone());
        let cloud = Arc::downgrade(cloud);
        if !Weak::ptr_eq(&self.cloud, &cloud) {
            self.guard.forget_looks();
            self.cloud = cloud;
        }
    }

    /// These credentials are in use. What others did not see says nothing.
    fn look_with(&mut self, account: Option<AccountKey>) {
        if self.account != account {
            self.guard.forget_looks();
            self.account = account;
        }
    }
}

fn lock(state: &Mutex<CloudState>) -> MutexGuard<'_, CloudState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LifecycleController {
    /// A controller that has not started.
    pub fn new(
        nodes: Nodes,
        owners: OwnerDiscovery,
        writer: NodeWriter,
        recorder: Recorder,
        metrics: Arc<Metrics>,
        guards: &Guards,
        options: LifecycleOptions,
    ) -> Self {
        let state = |it: &InstanceBatcher| {
            let (cloud, name) = (it.cloud(), it.cloud().name());
            let policy = options.rules.guard_of(name);
            let state = guards.of(name, || CloudState::new(cloud));
            lock(&state).look_at(cloud, policy);
            (name.clone(), state)
        };
        let clouds = owners.all().iter().map(state).collect();
        Self {
            nodes,
            owners,
            writer,
            recorder,
            metrics,
            options,
            clouds,
        }
    }

    /// Works until `stop`. A write that is under way is finished, nothing further is begun.
    pub async fn run(self, stop: CancellationToken) {
        let this = &self;
        let rounds = this.owners.all().iter().map(|cloud| {
            let stop = stop.clone();
            async move {
                let Some(()) = stop.run_until_cancelled(this.nodes.synced()).await else {
                    return;
                };
                // Apart, so that a slow cloud does not hold up nodes that need no answer from it.
                tokio::join!(
                    this.keep_ready_clear(cloud, &stop),
                    this.keep_looking(cloud, &stop)
                );
            }
        });
        join_all(rounds).await;
    }

    async fn keep_ready_clear(&self, cloud: &InstanceBatcher, stop: &CancellationToken) {
        loop {
            self.clear_ready(cloud, stop).await;
            if self.pause(stop).await.is_none() {
                return;
            }
        }
    }

    async fn keep_looking(&self, cloud: &InstanceBatcher, stop: &CancellationToken) {
        loop {
            let begun = Instant::now();
            self.round(cloud, stop).await;
            let took = begun.elapsed().as_secs_f64();
            self.metrics.lifecycle.round.observe(took);
            if self.pause(stop).await.is_none() {
                return;
            }
        }
    }

    /// The time between two rounds; none if it is time to stop.
    async fn pause(&self, stop: &CancellationToken) -> Option<()> {
        stop.run_until_cancelled(tokio::time::sleep(self.options.monitor_period))
            .await
    }
}
