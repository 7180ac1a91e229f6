//! The cloud-node-lifecycle controller: taints nodes whose machines are off, and deletes nodes
//! whose machines are proven to be gone.
//!
//! One round every few seconds. Ready nodes cost no call; the others of one cloud are asked about
//! together. Clouds do not wait for each other. What the [guard](bowline_core::Guard) holds back
//! is told once.

mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::{CloudName, Guard};
use futures::future::join_all;
use tokio::time::Instant;

use crate::events::Recorder;
use crate::lookups::Lookups;
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::owners::Owners;
use crate::referee::CloudRules;
use crate::stop::Stop;
use crate::write::NodeWriter;

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
    owners: Owners,
    writer: NodeWriter,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    options: LifecycleOptions,
    clouds: BTreeMap<CloudName, Mutex<CloudState>>,
}

/// What is remembered about one cloud between rounds.
#[derive(Debug, Default)]
struct CloudState {
    guard: Guard,
    /// Nodes (by uid) whose deletion was announced.
    announced: BTreeSet<String>,
}

impl LifecycleController {
    /// A controller that has not started.
    pub fn new(
        nodes: Nodes,
        owners: Owners,
        writer: NodeWriter,
        recorder: Recorder,
        metrics: Arc<Metrics>,
        options: LifecycleOptions,
    ) -> Self {
        let clouds = owners
            .all()
            .iter()
            .map(|it| {
                let policy = options.rules.guard_of(it.cloud().name());
                let guard = Guard::new(policy.clone());
                (
                    it.cloud().name().clone(),
                    Mutex::new(CloudState {
                        guard,
                        ..Default::default()
                    }),
                )
            })
            .collect();
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
    pub async fn run(self, stop: Stop) {
        let this = &self;
        let rounds = this.owners.all().iter().map(|cloud| {
            let stop = stop.clone();
            async move {
                if stop.unless_given(this.nodes.synced()).await.is_none() {
                    return;
                }
                // Apart, so that a slow cloud does not hold up nodes that need no answer from it.
                tokio::join!(
                    this.keep_ready_clear(cloud, &stop),
                    this.keep_looking(cloud, &stop)
                );
            }
        });
        join_all(rounds).await;
    }

    async fn keep_ready_clear(&self, cloud: &Lookups, stop: &Stop) {
        loop {
            self.clear_ready(cloud, stop).await;
            if self.pause(stop).await.is_none() {
                return;
            }
        }
    }

    async fn keep_looking(&self, cloud: &Lookups, stop: &Stop) {
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
    async fn pause(&self, stop: &Stop) -> Option<()> {
        stop.unless_given(tokio::time::sleep(self.options.monitor_period))
            .await
    }
}
