//! One shift: the controllers that work with one line-up, from their start to their end.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::owner_annotation::Showing;
use bowline_core::routes::cluster_ranges;
use bowline_core::{Cloud, error_chain};
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tracing::{debug, error, info, warn};

use super::ManagerError;
use super::placement::placed;
use super::supervisor::Supervisor;
use crate::clouds::accounts::{Keeper, KeeperParts};
use crate::clouds::owners::OwnerDiscovery;
use crate::clouds::resolver::OwnershipResolver;
use crate::clouds::unowned_report;
use crate::kube::clients::INFORMERS;
use crate::kube::election::Fence;
use crate::kube::events::Recorder;
use crate::kube::write::{CertificateWriter, NodeWriter, ServiceWriter};
use crate::loops::certificates::{CertificateController, CertificateParts};
use crate::loops::chores::{ChoresController, ChoresParts};
use crate::loops::ipam::{self, IpamController, IpamParts};
use crate::loops::labels::{LabelController, LabelOptions};
use crate::loops::lifecycle::{LifecycleController, LifecycleOptions};
use crate::loops::node::{NodeController, NodeOptions};
use crate::loops::owner_annotation::Shown;
use crate::loops::provider_events;
use crate::loops::routes::{self, RouteController, RouteOptions, RouteParts};
use crate::loops::service::{ServiceController, ServiceOptions, ServiceParts};
use crate::manager::active_config::ActiveConfig;
use crate::options::{
    CERTIFICATES, CHORES, CLOUD_NODE, CLOUD_NODE_LIFECYCLE, ControllerOptions, KnownController,
    LABEL_SYNC, NODE_IPAM, ROUTES, SERVICE, ShowOwners,
};
use crate::stop::{Stop, StopHandle};

/// The pause between two tries to sign a controller in after a change of configuration: each makes several requests.
const SIGN_IN_PAUSE: Duration = Duration::from_secs(5);
/// How long the last events may take to be written when a shift ends.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// What the controllers of one shift are made of.
pub(super) struct RunningControllers<'a> {
    pub(super) work: &'a Supervisor<'a>,
    pub(super) active_config: Arc<ActiveConfig>,
    pub(super) resolver: OwnershipResolver,
    /// When the leader is to end.
    pub(super) stop: Stop,
}

/// A shift that works.
pub(super) struct Running {
    pub(super) active_config: Arc<ActiveConfig>,
    stop: StopHandle,
    tasks: JoinSet<()>,
    recorders: Vec<Recorder>,
    pub(super) names: Vec<&'static KnownController>,
}

/// A controller that was started: what runs it, and where its events go.
struct Started {
    known: &'static KnownController,
    run: BoxFuture<'static, ()>,
    recorder: Recorder,
}

impl Running {
    /// Whether a controller works in it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.name == name)
    }

    /// Begins nothing further, and ends when everything under way is finished.
    pub(super) async fn end(mut self) {
        self.stop.stop();
        while let Some(ended) = self.tasks.join_next().await {
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
    pub(super) async fn start(&self, stop: &Stop) -> Result<Running, ManagerError> {
        let (handle, stop) = stop.part();
        let stop = &stop;
        let owners = self.owners(stop);
        let mut tasks = JoinSet::new();
        let nodes = self.work.nodes.clone();
        tasks.spawn(owners.clone().keep_settling(nodes, stop.clone()));
        let (nodes, metrics) = (self.work.nodes.clone(), self.work.manager.metrics.clone());
        let reporting = unowned_report::report(self.resolver.clone(), nodes, metrics, stop.clone());
        tasks.spawn(reporting);
        let mut recorders = self.write_events(&mut tasks, stop);
        recorders.extend(self.keep_accounts(&owners, &mut tasks, stop));
        let mut names = Vec::new();
        let manager = self.work.manager;
        for known in placed(&self.active_config, self.work.place) {
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
            stop: handle,
            tasks,
            recorders,
            names,
        })
    }

    /// Writes the events that clouds raise; gives what writes them. The rights are the deployment's own.
    fn write_events(&self, running: &mut JoinSet<()>, stop: &Stop) -> Vec<Recorder> {
        let (work, mut recorders) = (&self.work, Vec::new());
        for cloud in &self.active_config.clouds {
            let name = cloud.provider();
            let recorder = self.recorder_of_its_own(name, name);
            let clients = &work.manager.clients;
            let writers = provider_events::Writers {
                recorder: recorder.clone(),
                lease: work.lease(),
                client: (!work.fence.is_observing())
                    .then(|| clients.with_own_rights(name, &work.fence)),
                clock: work.manager.clock.clone(),
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
        stop: &Stop,
    ) -> Vec<Recorder> {
        if !self.work.place.speaks_for_the_manager() {
            return Vec::new();
        }
        let manager = self.work.manager;
        let clouds = self.active_config.clouds.iter();
        let keep = |cloud: &Arc<dyn Cloud>| {
            let mut all = owners.all().iter();
            let recorder = self.recorder_of_its_own(cloud.provider(), "bowline");
            let keeper = Keeper::new(KeeperParts {
                cloud: cloud.clone(),
                batcher: all.find(|it| it.cloud().name() == cloud.name()).cloned(),
                resolver: self.resolver.clone(),
                nodes: self.work.nodes.clone(),
                accounts: manager.metrics.accounts.clone(),
                cloud_health: manager.metrics.cloud_health.clone(),
                recorder: recorder.clone(),
                random: manager.random.fork(),
                lease: self.work.lease(),
            });
            running.spawn(keeper.run(stop.clone()));
            recorder
        };
        clouds
            .filter(|it| it.account().is_some())
            .map(keep)
            .collect()
    }

    fn owners(&self, stop: &Stop) -> OwnerDiscovery {
        let cloud_health = &self.work.manager.metrics.cloud_health;
        let accounts = &self.work.manager.metrics.accounts;
        OwnerDiscovery::asking(
            &self.resolver,
            cloud_health,
            accounts,
            &self.questions(),
            stop,
        )
    }

    /// The fence in front of questions to clouds: an observer may ask as much as it likes.
    fn questions(&self) -> Fence {
        if self.work.fence.is_observing() {
            Fence::open()
        } else {
            self.work.fence.clone()
        }
    }

    /// Starts one controller; none if it has nothing to work with.
    async fn start_one(
        &self,
        known: &'static KnownController,
        owners: &OwnerDiscovery,
        stop: &Stop,
    ) -> Result<Option<Started>, ManagerError> {
        match known.name {
            CLOUD_NODE | CLOUD_NODE_LIFECYCLE if owners.all().is_empty() => {
                not_supported(known, &self.active_config.options.controllers);
                Ok(None)
            }
            CLOUD_NODE | CLOUD_NODE_LIFECYCLE => {
                self.start_for_nodes(known, owners, stop).await.map(Some)
            }
            SERVICE
                if self
                    .active_config
                    .clouds
                    .iter()
                    .any(|it| it.balancers().is_some()) =>
            {
                self.start_for_services(known, stop).await.map(Some)
            }
            LABEL_SYNC if LabelController::has_work(owners) => {
                self.start_label_sync(known, owners, stop).await.map(Some)
            }
            NODE_IPAM if self.active_config.options.ipam.allocate => {
                self.start_ipam(known, owners, stop).await.map(Some)
            }
            NODE_IPAM => {
                info!("{NODE_IPAM} not started: --allocate-node-cidrs is off");
                Ok(None)
            }
            ROUTES if !self.active_config.options.controllers.configure_routes => {
                info!("{ROUTES} not started: --configure-cloud-routes is off");
                Ok(None)
            }
            ROUTES if RouteController::has_work(&self.active_config.clouds) => {
                self.start_for_routes(known, stop).await
            }
            CERTIFICATES
                if CertificateController::has_work(
                    &self.active_config.clouds,
                    self.is_named(known),
                ) =>
            {
                Ok(Some(self.start_for_certificates(known, stop)))
            }
            CHORES if ChoresController::has_work(&self.active_config.clouds) => {
                Ok(Some(self.start_chores(known, stop)))
            }
            _ => {
                not_supported(known, &self.active_config.options.controllers);
                Ok(None)
            }
        }
    }

    async fn start_for_nodes(
        &self,
        known: &'static KnownController,
        owners: &OwnerDiscovery,
        stop: &Stop,
    ) -> Result<Started, ManagerError> {
        let manager = self.work.manager;
        let recorder = self.recorder(known, known.name).await?;
        let writer = self.node_writer(known).await?;
        let (owners, stop) = (owners.clone(), stop.clone());
        let run: BoxFuture<'static, ()> = if known.name == CLOUD_NODE {
            let shown = self.shown(&owners, &writer);
            let controller = NodeController::new(
                self.work.nodes.clone(),
                owners,
                writer,
                recorder.clone(),
                manager.metrics.clone(),
                manager.clock.clone(),
                self.node_options(),
            );
            Box::pin(async move {
                tokio::join!(controller.run(stop.clone()), shown.run(stop));
            })
        } else {
            let controller = LifecycleController::new(
                self.work.nodes.clone(),
                owners,
                writer,
                recorder.clone(),
                manager.metrics.clone(),
                &self.work.guards,
                self.lifecycle_options(),
            );
            Box::pin(controller.run(stop))
        };
        Ok(Started {
            known,
            run,
            recorder,
        })
    }

    /// What shows on nodes whose they are, or takes it back.
    fn shown(&self, owners: &OwnerDiscovery, writer: &NodeWriter) -> Shown {
        let options = &self.active_config.options.controllers;
        let showing = match options.show_owners {
            ShowOwners::Known(showing) => showing,
            // Refused before anything starts.
            ShowOwners::Unknown(_) => Showing::default(),
        };
        let (nodes, workers) = (self.work.nodes.clone(), at_least_one(options.node_syncs));
        Shown::new(nodes, owners.clone(), writer.clone(), showing, workers)
    }

    async fn start_label_sync(
        &self,
        known: &'static KnownController,
        owners: &OwnerDiscovery,
        stop: &Stop,
    ) -> Result<Started, ManagerError> {
        let recorder = self.recorder(known, known.name).await?;
        let options = &self.active_config.options.controllers;
        let controller = LabelController::new(
            self.work.nodes.clone(),
            owners.clone(),
            self.node_writer(known).await?,
            recorder.clone(),
            &self.work.manager.metrics,
            LabelOptions {
                period: options.node_status_update_frequency,
                concurrent_syncs: at_least_one(options.node_syncs),
            },
        );
        Ok(Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        })
    }

    async fn start_ipam(
        &self,
        known: &'static KnownController,
        owners: &OwnerDiscovery,
        stop: &Stop,
    ) -> Result<Started, ManagerError> {
        let manager = self.work.manager;
        let recorder = self.recorder(known, ipam::COMPONENT).await?;
        let controller = IpamController::new(IpamParts {
            nodes: self.work.nodes.clone(),
            owners: owners.clone(),
            clouds: self.active_config.clouds.clone(),
            fence: self.questions(),
            may_follow_unfinished_writes: self.work.fence.may_follow_unfinished_writes(),
            writer: self.node_writer(known).await?,
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            readiness: self.work.health.add_readiness(known.name),
            flags: self.active_config.options.ipam_flags(),
            turns: self.work.turns.clone(),
        });
        Ok(Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        })
    }

    /// None without the ranges of pods; that concerns this controller alone.
    async fn start_for_routes(
        &self,
        known: &'static KnownController,
        stop: &Stop,
    ) -> Result<Option<Started>, ManagerError> {
        let manager = self.work.manager;
        let options = &self.active_config.options;
        let readiness = self.work.health.add_readiness(known.name);
        let ranges = match cluster_ranges(&options.cloud.cluster_cidr) {
            Ok(ranges) => ranges,
            Err(problem) => {
                error!("{ROUTES} not started: {problem}");
                readiness.not_ready(problem.to_string());
                return Ok(None);
            }
        };
        let recorder = self.recorder(known, routes::COMPONENT).await?;
        let parts = RouteParts {
            nodes: self.work.nodes.clone(),
            resolver: self.resolver.clone(),
            questions: self.questions(),
            fence: self.work.fence.clone(),
            writer: self.node_writer(known).await?,
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            clock: manager.clock.clone(),
            random: manager.random.fork(),
            readiness,
            allowances: self.work.allowances.clone(),
            turns: self.work.turns.clone(),
        };
        let options = RouteOptions {
            cluster_name: options.cloud.cluster_name.clone(),
            ranges,
            period: options.controllers.route_reconciliation_period,
            rules: self.active_config.rules.clone(),
        };
        let controller = RouteController::new(parts, options);
        Ok(Some(Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        }))
    }

    async fn node_writer(&self, known: &KnownController) -> Result<NodeWriter, ManagerError> {
        let (client, random) = (self.client(known).await?, self.work.manager.random.fork());
        Ok(if self.work.fence.is_observing() {
            NodeWriter::observing(client, random)
        } else {
            NodeWriter::new(client, random)
        })
    }

    async fn start_for_services(
        &self,
        known: &'static KnownController,
        stop: &Stop,
    ) -> Result<Started, ManagerError> {
        let manager = self.work.manager;
        // The originals' name of the component, which people filter events by.
        let recorder = self.recorder(known, known.identity).await?;
        let client = self.client(known).await?;
        let parts = ServiceParts {
            services: self.work.services.clone(),
            nodes: self.work.nodes.clone(),
            slices: self.work.slices.clone(),
            writer: ServiceWriter::new(client.clone()),
            client,
            reader: manager.clients.root(INFORMERS),
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            clock: manager.clock.clone(),
            random: manager.random.fork(),
            turns: self.work.turns.clone(),
            targets: self.work.targets.clone(),
        };
        let controller = ServiceController::new(
            parts,
            &self.resolver,
            self.work.fence.clone(),
            self.service_options(),
        );
        Ok(Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        })
    }

    fn start_for_certificates(&self, known: &'static KnownController, stop: &Stop) -> Started {
        let manager = self.work.manager;
        let recorder = self.recorder_of_its_own(known.identity, known.name);
        let client = self.client_of_its_own(known.identity);
        let writer = if self.work.fence.is_observing() {
            CertificateWriter::observing(client)
        } else {
            CertificateWriter::new(client)
        };
        let parts = CertificateParts {
            requests: self.work.requests.clone(),
            nodes: self.work.nodes.clone(),
            reader: manager.clients.root(INFORMERS),
            server: manager.clients.server_names(),
            reserved: self
                .active_config
                .options
                .controllers
                .reserved_names
                .clone(),
            writer,
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            clock: manager.clock.clone(),
        };
        let is_named = self.is_named(known);
        let controller =
            CertificateController::new(parts, &self.resolver, is_named, self.work.fence.clone());
        Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        }
    }

    fn start_chores(&self, known: &'static KnownController, stop: &Stop) -> Started {
        let recorder = self.recorder_of_its_own(known.identity, known.name);
        let is_observing = self.work.fence.is_observing();
        let options = &self.active_config.options;
        // Where the program's other object is: the deployment has rights there.
        let namespace = options.election.resource_namespace.clone();
        let port = options.serving.port;
        let parts = ChoresParts {
            // The chart's Service.
            address: format!("https://bowline-metrics.{namespace}.svc:{port}"),
            lease: self.work.lease(),
            namespace,
            nodes: self.work.nodes.clone(),
            client: self.client_of_its_own(known.identity),
            recorder: recorder.clone(),
            questions: self.questions(),
            is_observing,
            cluster_name: options.cloud.cluster_name.clone(),
        };
        let controller = ChoresController::new(parts, &self.resolver);
        Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        }
    }

    /// Whether the command line starts that controller, and not only a cloud's configuration.
    fn is_named(&self, known: &KnownController) -> bool {
        self.active_config
            .options
            .controllers
            .set()
            .enabled(known.name)
    }

    /// A client with the rights of the deployment: nobody binds roles to an account of this name.
    fn client_of_its_own(&self, identity: &'static str) -> kube::Client {
        let clients = &self.work.manager.clients;
        clients.with_own_rights(identity, &self.work.fence)
    }

    /// Events, likewise.
    fn recorder_of_its_own(&self, identity: &'static str, component: &'static str) -> Recorder {
        let context = self.work.manager.event_context();
        if self.work.fence.is_observing() {
            return Recorder::observing(component, &context);
        }
        Recorder::new(self.client_of_its_own(identity), component, &context)
    }

    /// Another client than that of the writes, so that events never use up their rate.
    async fn recorder(
        &self,
        known: &KnownController,
        component: &'static str,
    ) -> Result<Recorder, ManagerError> {
        let context = self.work.manager.event_context();
        if self.work.fence.is_observing() {
            return Ok(Recorder::observing(component, &context));
        }
        let client = self.client(known).await?;
        Ok(Recorder::new(client, component, &context))
    }

    async fn client(&self, known: &KnownController) -> Result<kube::Client, ManagerError> {
        let clients = &self.work.manager.clients;
        loop {
            let made = clients.for_controller(known.identity, &self.work.fence);
            match made.await {
                // A manager that starts says what is wrong, and ends. One that leads goes on.
                Err(error) if self.active_config.generation > 1 && !self.stop.is_given() => {
                    let error = error_chain(&error);
                    warn!(
                        controller = known.name,
                        error, "signing in failed; trying again"
                    );
                    let pause = tokio::time::sleep(SIGN_IN_PAUSE);
                    self.stop.unless_given(pause).await;
                }
                made => return Ok(made?),
            }
        }
    }

    fn service_options(&self) -> ServiceOptions {
        let options = &self.active_config.options;
        ServiceOptions {
            concurrent_syncs: at_least_one(options.controllers.service_syncs),
            cluster_name: options.cloud.cluster_name.clone(),
            cluster_uid: options.cloud.cluster_uid().map(str::to_owned),
            remove_orphans: options.controllers.remove_orphans,
            lease: self.work.lease(),
        }
    }

    fn node_options(&self) -> NodeOptions {
        let options = &self.active_config.options.controllers;
        NodeOptions {
            concurrent_syncs: at_least_one(options.node_syncs),
            concurrent_status_updates: at_least_one(options.status_updates()),
            status_update_frequency: options.node_status_update_frequency,
        }
    }

    fn lifecycle_options(&self) -> LifecycleOptions {
        let options = &self.active_config.options.controllers;
        LifecycleOptions {
            monitor_period: options.node_monitor_period,
            concurrent_syncs: at_least_one(options.lifecycle_syncs),
            rules: self.active_config.rules.clone(),
        }
    }

    /// The pause before each start: `--controller-start-interval`, jittered.
    async fn pause(&self, stop: &Stop) {
        let interval = self.active_config.options.controllers.start_interval;
        if !interval.is_zero() {
            let pause = self.work.manager.random.jitter(interval, 1.0);
            stop.unless_given(tokio::time::sleep(pause)).await;
        }
    }
}

/// Tells that no configured cloud offers what a controller needs, in the words of the framework, which
/// people and test suites look for.
fn not_supported(known: &KnownController, options: &ControllerOptions) {
    let controller = known.name;
    match controller {
        CLOUD_NODE => warn!(
            controller,
            "failed to start cloud node controller: cloud provider does not support instances"
        ),
        CLOUD_NODE_LIFECYCLE => warn!(
            controller,
            "failed to start cloud node lifecycle controller: cloud provider does not support \
             instances"
        ),
        SERVICE => warn!(
            controller,
            "failed to start service controller: the cloud provider does not support external \
             load balancers"
        ),
        ROUTES if options.routes_asked_for => warn!(
            controller,
            "--configure-cloud-routes is set, but no configured cloud has routes; none are made"
        ),
        // It is on by default, and nobody misses it.
        ROUTES => debug!(controller, "not started: no configured cloud has routes"),
        _ => info!(
            controller,
            "not started: no configured cloud offers what it needs"
        ),
    }
}

/// Numbers of workers were validated to be positive.
fn at_least_one(workers: i32) -> usize {
    usize::try_from(workers).unwrap_or(1).max(1)
}
