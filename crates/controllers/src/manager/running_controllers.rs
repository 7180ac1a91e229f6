//! The controllers that run with one active configuration, from their start to their end.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Cloud, error_chain};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use super::ManagerError;
use super::placement::placed;
use super::registry::{CONTROLLERS, ControllerParts, Started};
use super::supervisor::Supervisor;
use crate::clouds::accounts::{AccountWatch, AccountWatchParts};
use crate::clouds::owners::OwnerDiscovery;
use crate::clouds::resolver::OwnershipResolver;
use crate::clouds::unowned_report;
use crate::kube::events::Recorder;
use crate::kube::write::NodeWriter;
use crate::loops::provider_events;
use crate::manager::active_config::ActiveConfig;
use crate::options::KnownController;

/// The pause between two tries to sign a controller in after a change of configuration: each makes several requests.
const SIGN_IN_PAUSE: Duration = Duration::from_secs(5);
/// How long the last events may take to be written when they end.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// What the controllers of one active configuration are made of.
pub(super) struct RunningControllers<'a> {
    pub(super) supervisor: &'a Supervisor<'a>,
    pub(super) active_config: Arc<ActiveConfig>,
    pub(super) resolver: OwnershipResolver,
    /// When the leader is to end.
    pub(super) stop: CancellationToken,
}

/// Controllers that run.
pub(super) struct Running {
    pub(super) active_config: Arc<ActiveConfig>,
    stop: DropGuard,
    tasks: JoinSet<()>,
    recorders: Vec<Recorder>,
    pub(super) names: Vec<&'static KnownController>,
}

impl Running {
    /// Whether a controller works in it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.name == name)
    }

    /// Begins nothing further, and ends when everything under way is finished.
    pub(super) async fn end(self) {
        drop(self.stop);
        let mut tasks = self.tasks;
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                warn!(%error, "a controller did not end well");
            }
        }
        for recorder in self.recorders {
            recorder.flush(FLUSH_LIMIT).await;
        }
    }
}

impl RunningControllers<'_> {
    /// Starts the controllers one after another.
    pub(super) async fn start(&self, stop: &CancellationToken) -> Result<Running, ManagerError> {
        let stop = &stop.child_token();
        let owners = self.owners(stop);
        let mut tasks = JoinSet::new();
        let nodes = self.supervisor.nodes.clone();
        tasks.spawn(owners.clone().keep_settling(nodes, stop.clone()));
        let (nodes, metrics) = (
            self.supervisor.nodes.clone(),
            self.supervisor.manager.metrics.clone(),
        );
        let reporting = unowned_report::report(self.resolver.clone(), nodes, metrics, stop.clone());
        tasks.spawn(reporting);
        let mut recorders = self.write_events(&mut tasks, stop);
        recorders.extend(self.keep_accounts(&owners, &mut tasks, stop));
        let mut names = Vec::new();
        let manager = self.supervisor.manager;
        let adapts = self
            .active_config
            .options
            .controllers
            .node_syncs()
            .is_none();
        manager.clients.adapt_writes(adapts);
        for known in placed(&self.active_config, self.supervisor.place) {
            self.pause(stop).await;
            let Some(started) = self.start_one(known, &owners, stop).await? else {
                continue;
            };
            let alias = started.known.alias;
            manager.metrics.controllers.running(alias, true);
            info!(controller = started.known.name, "started");
            tasks.spawn(started.run);
            recorders.push(started.recorder);
            names.push(started.known);
        }
        Ok(Running {
            active_config: self.active_config.clone(),
            stop: stop.clone().drop_guard(),
            tasks,
            recorders,
            names,
        })
    }

    /// Writes the events that clouds raise; gives what writes them. The rights are the deployment's own.
    fn write_events(&self, running: &mut JoinSet<()>, stop: &CancellationToken) -> Vec<Recorder> {
        let (supervisor, mut recorders) = (&self.supervisor, Vec::new());
        for cloud in &self.active_config.clouds {
            let name = cloud.provider();
            let recorder = self.recorder_of_its_own(name, name);
            let clients = &supervisor.manager.clients;
            let writers = provider_events::Writers {
                recorder: recorder.clone(),
                lease: supervisor.lease(),
                client: (!supervisor.fence.is_observing())
                    .then(|| clients.with_own_rights(name, &supervisor.fence)),
                clock: supervisor.manager.clock.clone(),
            };
            let writing = provider_events::write_all(cloud.clone(), writers, stop.clone());
            running.spawn(writing);
            recorders.push(recorder);
        }
        recorders
    }

    /// Looks at the accounts of clouds until they are proven; gives what writes about them.
    fn keep_accounts(
        &self,
        owners: &OwnerDiscovery,
        running: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Vec<Recorder> {
        if !self.supervisor.place.speaks_for_the_manager() {
            return Vec::new();
        }
        let manager = self.supervisor.manager;
        let clouds = self.active_config.clouds.iter();
        let keep = |cloud: &Arc<dyn Cloud>| {
            let mut all = owners.all().iter();
            let recorder = self.recorder_of_its_own(cloud.provider(), "bowline");
            let watch = AccountWatch::new(AccountWatchParts {
                cloud: cloud.clone(),
                batcher: all.find(|it| it.cloud().name() == cloud.name()).cloned(),
                resolver: self.resolver.clone(),
                nodes: self.supervisor.nodes.clone(),
                accounts: manager.metrics.accounts.clone(),
                cloud_health: manager.metrics.cloud_health.clone(),
                recorder: recorder.clone(),
                random: manager.random.fork(),
                lease: self.supervisor.lease(),
            });
            running.spawn(watch.run(stop.clone()));
            recorder
        };
        clouds
            .filter(|it| it.account().is_some())
            .map(keep)
            .collect()
    }

    fn owners(&self, stop: &CancellationToken) -> OwnerDiscovery {
        let cloud_health = &self.supervisor.manager.metrics.cloud_health;
        let accounts = &self.supervisor.manager.metrics.accounts;
        OwnerDiscovery::asking(
            &self.resolver,
            cloud_health,
            accounts,
            &self.supervisor.fence,
            stop,
        )
    }

    /// Starts one controller; none if it has nothing to work with.
    async fn start_one(
        &self,
        known: &'static KnownController,
        owners: &OwnerDiscovery,
        stop: &CancellationToken,
    ) -> Result<Option<Started>, ManagerError> {
        let start = CONTROLLERS.iter().find(|(name, _)| *name == known.name);
        let Some((_, start)) = start else {
            return Ok(None);
        };
        let parts = ControllerParts {
            running: self,
            known,
            owners,
        };
        start(&parts, stop).await
    }

    pub(super) async fn node_writer(
        &self,
        known: &KnownController,
    ) -> Result<NodeWriter, ManagerError> {
        let (client, random) = (
            self.client(known).await?,
            self.supervisor.manager.random.fork(),
        );
        Ok(if self.supervisor.fence.is_observing() {
            NodeWriter::observing(client, random)
        } else {
            NodeWriter::new(client, random)
        })
    }

    /// Whether the command line starts that controller, and not only a cloud's configuration.
    pub(super) fn is_named(&self, known: &KnownController) -> bool {
        self.active_config
            .options
            .controllers
            .set()
            .enabled(known.name)
    }

    /// A client with the rights of the deployment: nobody binds roles to an account of this name.
    pub(super) fn client_of_its_own(&self, identity: &'static str) -> kube::Client {
        let clients = &self.supervisor.manager.clients;
        clients.with_own_rights(identity, &self.supervisor.fence)
    }

    /// Events, likewise.
    pub(super) fn recorder_of_its_own(
        &self,
        identity: &'static str,
        component: &'static str,
    ) -> Recorder {
        let context = self.supervisor.manager.event_context();
        if self.supervisor.fence.is_observing() {
            return Recorder::observing(component, &context);
        }
        Recorder::new(self.client_of_its_own(identity), component, &context)
    }

    /// Another client than that of the writes, so that events never use up their rate.
    pub(super) async fn recorder(
        &self,
        known: &KnownController,
        component: &'static str,
    ) -> Result<Recorder, ManagerError> {
        let context = self.supervisor.manager.event_context();
        if self.supervisor.fence.is_observing() {
            return Ok(Recorder::observing(component, &context));
        }
        let client = self.client(known).await?;
        Ok(Recorder::new(client, component, &context))
    }

    pub(super) async fn client(
        &self,
        known: &KnownController,
    ) -> Result<kube::Client, ManagerError> {
        let clients = &self.supervisor.manager.clients;
        loop {
            let made = clients.for_controller(known.identity, &self.supervisor.fence);
            match made.await {
                // A manager that starts says what is wrong, and ends. One that leads goes on.
                Err(error) if self.active_config.generation > 1 && !self.stop.is_cancelled() => {
                    let error = error_chain(&error);
                    warn!(
                        controller = known.name,
                        error, "signing in failed; trying again"
                    );
                    let pause = tokio::time::sleep(SIGN_IN_PAUSE);
                    self.stop.run_until_cancelled(pause).await;
                }
                made => return Ok(made?),
            }
        }
    }

    /// The pause before each start: `--controller-start-interval`, jittered.
    async fn pause(&self, stop: &CancellationToken) {
        let interval = self.active_config.options.controllers.start_interval;
        if !interval.is_zero() {
            let pause = self.supervisor.manager.random.jitter(interval, 1.0);
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }
}
