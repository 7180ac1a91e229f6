//! What a leader does: watch, start the controllers, stop them again.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::{Manager, ManagerError};
use crate::clients::{HEALTH_PATIENCE, INFORMERS, wait_until_healthy};
use crate::election::Fence;
use crate::events::Recorder;
use crate::lifecycle::{LifecycleController, LifecycleOptions};
use crate::lookups::Lookups;
use crate::node::{NodeController, NodeOptions};
use crate::nodes::Nodes;
use crate::options::{CLOUD_NODE, CLOUD_NODE_LIFECYCLE, KnownController};
use crate::owners::Owners;
use crate::serving::Health;
use crate::stop::Stop;
use crate::write::NodeWriter;

/// How long the last events may take to be written when the process stops.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// The controllers of one lease.
pub(super) struct Work<'a> {
    manager: &'a Manager,
    health: &'a Health,
    controllers: Vec<&'static KnownController>,
    fence: Fence,
    nodes: Nodes,
}

/// A controller that was started: what runs it, and where its events go.
struct Started {
    known: &'static KnownController,
    run: BoxFuture<'static, ()>,
    recorder: Recorder,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        manager: &'a Manager,
        health: &'a Health,
        controllers: Vec<&'static KnownController>,
        fence: Fence,
    ) -> Self {
        Self {
            manager,
            health,
            controllers,
            fence,
            nodes: Nodes::default(),
        }
    }

    /// Works until `stop`, then lets every controller finish.
    pub(super) async fn run(self, stop: Stop) -> Result<(), ManagerError> {
        let manager = self.manager;
        let informers = manager.clients.root(INFORMERS);
        let healthy = wait_until_healthy(&informers, manager.clients.host(), HEALTH_PATIENCE);
        let Some(healthy) = stop.unless_given(healthy).await else {
            return Ok(());
        };
        healthy?;
        let owners = self.owners(&stop);
        let mut running = JoinSet::new();
        let mut recorders = Vec::new();
        let mut names = Vec::new();
        for known in &self.controllers {
            self.pause(&stop).await;
            let Some(started) = self.start(known, &owners, &stop).await? else {
                continue;
            };
            manager
                .metrics
                .controllers
                .running(started.known.alias, true);
            info!(controller = started.known.name, "started");
            running.spawn(started.run);
            recorders.push(started.recorder);
            names.push(started.known);
        }
        for known in &names {
            self.health.add_controller(known.name);
        }
        let readiness = self.health.add_readiness("nodes-synced");
        running.spawn({
            let (nodes, stop) = (self.nodes.clone(), stop.clone());
            async move {
                if stop.unless_given(nodes.synced()).await.is_some() {
                    readiness.ready();
                }
            }
        });
        self.nodes
            .follow(informers, manager.random.fork(), stop.clone())
            .await;
        // The node watch only ends when it is time to stop.
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended {
                warn!(%error, "a controller did not end well");
            }
        }
        for known in names {
            manager.metrics.controllers.running(known.alias, false);
            self.health.remove(known.name);
        }
        for recorder in recorders {
            recorder.flush(FLUSH_LIMIT).await;
        }
        Ok(())
    }

    fn owners(&self, stop: &Stop) -> Owners {
        let knowing = self
            .manager
            .clouds
            .iter()
            .filter(|cloud| cloud.instances().is_some());
        // An observer may ask as much as it likes.
        let fence = if self.fence.is_observing() {
            Fence::open()
        } else {
            self.fence.clone()
        };
        Owners::new(knowing.map(|cloud| Lookups::start(cloud.clone(), fence.clone(), stop.clone())))
    }

    /// Starts one controller; none if it has nothing to work with.
    async fn start(
        &self,
        known: &'static KnownController,
        owners: &Owners,
        stop: &Stop,
    ) -> Result<Option<Started>, ManagerError> {
        let is_node_controller = matches!(known.name, CLOUD_NODE | CLOUD_NODE_LIFECYCLE);
        if !is_node_controller {
            info!(
                controller = known.name,
                "not started: no configured cloud offers what it needs"
            );
            return Ok(None);
        }
        if owners.all().is_empty() {
            warn!(
                controller = known.name,
                "not started: no configured cloud knows machines"
            );
            return Ok(None);
        }
        let manager = self.manager;
        // Two clients, so that events never use up the rate of the writes they tell about.
        let client = async || {
            manager
                .clients
                .for_controller(known.identity, &self.fence)
                .await
        };
        let (context, random) = (manager.event_context(), manager.random.fork());
        let (recorder, writer) = if self.fence.is_observing() {
            let writer = NodeWriter::observing(client().await?, random);
            (Recorder::observing(known.name, &context), writer)
        } else {
            let recorder = Recorder::new(client().await?, known.name, &context);
            (recorder, NodeWriter::new(client().await?, random))
        };
        let (owners, stop) = (owners.clone(), stop.clone());
        let run: BoxFuture<'static, ()> = if known.name == CLOUD_NODE {
            let controller = NodeController::new(
                self.nodes.clone(),
                owners,
                writer,
                recorder.clone(),
                manager.metrics.clone(),
                manager.clock.clone(),
                self.node_options(),
            );
            Box::pin(controller.run(stop))
        } else {
            let controller = LifecycleController::new(
                self.nodes.clone(),
                owners,
                writer,
                recorder.clone(),
                manager.metrics.clone(),
                self.lifecycle_options(),
            );
            Box::pin(controller.run(stop))
        };
        Ok(Some(Started {
            known,
            run,
            recorder,
        }))
    }

    fn node_options(&self) -> NodeOptions {
        let options = &self.manager.options.controllers;
        NodeOptions {
            concurrent_syncs: at_least_one(options.node_syncs),
            concurrent_status_updates: at_least_one(options.status_updates()),
            status_update_frequency: options.node_status_update_frequency,
        }
    }

    fn lifecycle_options(&self) -> LifecycleOptions {
        let options = &self.manager.options.controllers;
        LifecycleOptions {
            monitor_period: options.node_monitor_period,
            concurrent_syncs: at_least_one(options.lifecycle_syncs),
            guard: self.manager.guard.clone(),
        }
    }

    /// The pause before each start: `--controller-start-interval`, jittered.
    async fn pause(&self, stop: &Stop) {
        let interval = self.manager.options.controllers.start_interval;
        if !interval.is_zero() {
            let pause = self.manager.random.jitter(interval, 1.0);
            stop.unless_given(tokio::time::sleep(pause)).await;
        }
    }
}

/// Numbers of workers were validated to be positive.
fn at_least_one(workers: i32) -> usize {
    usize::try_from(workers).unwrap_or(1).max(1)
}
