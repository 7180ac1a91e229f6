//! What a leader does: watch, start the controllers, stop them again.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::Cloud;
use bowline_core::routes::cluster_ranges;
use bowline_core::shown::Showing;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::{Manager, ManagerError};
use crate::certificates::{CertificateController, CertificateParts};
use crate::chores::{ChoresController, ChoresParts};
use crate::clients::{HEALTH_PATIENCE, INFORMERS, wait_until_healthy};
use crate::election::Fence;
use crate::endpoints::Slices;
use crate::events::Recorder;
use crate::ipam::{self, IpamController, IpamParts};
use crate::labels::{LabelController, LabelOptions};
use crate::lifecycle::{LifecycleController, LifecycleOptions};
use crate::lookups::Lookups;
use crate::news;
use crate::node::{NodeController, NodeOptions};
use crate::nodes::Nodes;
use crate::options::{
    CERTIFICATES, CHORES, CLOUD_NODE, CLOUD_NODE_LIFECYCLE, KnownController, LABEL_SYNC, NODE_IPAM,
    ROUTES, SERVICE, ShowOwners,
};
use crate::owners::Owners;
use crate::referee::Referee;
use crate::requests::CertificateRequests;
use crate::routes::{self, RouteController, RouteOptions, RouteParts};
use crate::service::{ServiceController, ServiceOptions, ServiceParts};
use crate::services::Services;
use crate::serving::Health;
use crate::shown::Shown;
use crate::stop::Stop;
use crate::store::{Store, Stored};
use crate::trouble;
use crate::write::{CertificateWriter, NodeWriter, ServiceWriter};

/// How long the last events may take to be written when the process stops.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// The controllers of one lease.
pub(super) struct Work<'a> {
    manager: &'a Manager,
    health: &'a Health,
    controllers: Vec<&'static KnownController>,
    fence: Fence,
    nodes: Nodes,
    services: Services,
    slices: Slices,
    requests: CertificateRequests,
    referee: Referee,
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
            services: Services::default(),
            slices: Slices::default(),
            requests: CertificateRequests::default(),
            referee: Referee::new(&manager.clouds, Arc::new(manager.rules.clone())),
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
        running.spawn(
            owners
                .clone()
                .keep_settling(self.nodes.clone(), stop.clone()),
        );
        self.tell_troubles(&mut running, &stop);
        let mut recorders = self.tell_news(&mut running, &stop);
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
        self.report_sync(&mut running, "nodes-synced", &self.nodes, &stop);
        let is_started = |name| names.iter().any(|known| known.name == name);
        if is_started(SERVICE) {
            self.follow(&mut running, "services-synced", &self.services, &stop);
            if self.needs_endpoints() {
                self.follow(&mut running, "endpoints-synced", &self.slices, &stop);
            }
        }
        if is_started(CERTIFICATES) {
            let name = "certificate-requests-synced";
            self.follow(&mut running, name, &self.requests, &stop);
        }
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

    /// Tells what clouds want people to hear of. The rights are the deployment's own.
    fn tell_troubles(&self, running: &mut JoinSet<()>, stop: &Stop) {
        for cloud in &self.manager.clouds {
            let clients = &self.manager.clients;
            let client = (!self.fence.is_observing())
                .then(|| clients.with_own_rights(cloud.provider(), &self.fence));
            let clock = self.manager.clock.clone();
            running.spawn(trouble::tell(cloud.clone(), client, clock, stop.clone()));
        }
    }

    /// Tells the news of clouds, likewise; gives what writes them.
    fn tell_news(&self, running: &mut JoinSet<()>, stop: &Stop) -> Vec<Recorder> {
        let manager = self.manager;
        let context = manager.event_context();
        let lease = self.lease();
        let tell = |cloud: &Arc<dyn Cloud>| {
            let name = cloud.provider();
            let recorder = if self.fence.is_observing() {
                Recorder::observing(name, &context)
            } else {
                let client = manager.clients.with_own_rights(name, &self.fence);
                Recorder::new(client, name, &context)
            };
            let (cloud, stop) = (Arc::clone(cloud), stop.clone());
            running.spawn(news::tell(cloud, recorder.clone(), lease.clone(), stop));
            recorder
        };
        manager.clouds.iter().map(tell).collect()
    }

    /// The manager's lease, by namespace and name.
    fn lease(&self) -> (String, String) {
        let election = &self.manager.options.election;
        (
            election.resource_namespace.clone(),
            election.resource_name.clone(),
        )
    }

    fn owners(&self, stop: &Stop) -> Owners {
        let knowing = self
            .manager
            .clouds
            .iter()
            .filter(|cloud| cloud.instances().is_some());
        let fence = self.questions();
        let lookups = knowing.map(|cloud| Lookups::start(cloud.clone(), fence.clone(), stop));
        Owners::new(lookups, self.referee.clone())
    }

    /// The fence in front of questions to clouds: an observer may ask as much as it likes.
    fn questions(&self) -> Fence {
        if self.fence.is_observing() {
            Fence::open()
        } else {
            self.fence.clone()
        }
    }

    /// Keeps a store in step with the API server, and is ready when its first list has arrived.
    fn follow<T: Stored>(
        &self,
        running: &mut JoinSet<()>,
        name: &'static str,
        store: &Store<T>,
        stop: &Stop,
    ) {
        self.report_sync(running, name, store, stop);
        let (store, random) = (store.clone(), self.manager.random.fork());
        let (client, stop) = (self.manager.clients.root(INFORMERS), stop.clone());
        running.spawn(async move { store.follow(client, random, stop).await });
    }

    /// Is ready when the first list has arrived.
    fn report_sync<T: Stored>(
        &self,
        running: &mut JoinSet<()>,
        name: &'static str,
        store: &Store<T>,
        stop: &Stop,
    ) {
        let readiness = self.health.add_readiness(name);
        let (store, stop) = (store.clone(), stop.clone());
        running.spawn(async move {
            if stop.unless_given(store.synced()).await.is_some() {
                readiness.ready();
            }
        });
    }

    /// Starts one controller; none if it has nothing to work with.
    async fn start(
        &self,
        known: &'static KnownController,
        owners: &Owners,
        stop: &Stop,
    ) -> Result<Option<Started>, ManagerError> {
        match known.name {
            CLOUD_NODE | CLOUD_NODE_LIFECYCLE if owners.all().is_empty() => {
                not_supported(known);
                Ok(None)
            }
            CLOUD_NODE | CLOUD_NODE_LIFECYCLE => {
                self.start_for_nodes(known, owners, stop).await.map(Some)
            }
            SERVICE
                if self
                    .manager
                    .clouds
                    .iter()
                    .any(|it| it.balancers().is_some()) =>
            {
                self.start_for_services(known, stop).await.map(Some)
            }
            LABEL_SYNC if LabelController::has_work(owners) => {
                self.start_label_sync(known, owners, stop).await.map(Some)
            }
            NODE_IPAM if self.manager.options.ipam.allocate => {
                self.start_ipam(known, owners, stop).await.map(Some)
            }
            NODE_IPAM => {
                info!("{NODE_IPAM} not started: --allocate-node-cidrs is off");
                Ok(None)
            }
            ROUTES if !self.manager.options.controllers.configure_routes => {
                info!("{ROUTES} not started: --configure-cloud-routes is off");
                Ok(None)
            }
            ROUTES if RouteController::has_work(&self.manager.clouds) => {
                self.start_for_routes(known, stop).await
            }
            CERTIFICATES
                if CertificateController::has_work(&self.manager.clouds, self.is_named(known)) =>
            {
                Ok(Some(self.start_for_certificates(known, stop)))
            }
            CHORES if ChoresController::has_work(&self.manager.clouds) => {
                Ok(Some(self.start_chores(known, stop)))
            }
            _ => {
                not_supported(known);
                Ok(None)
            }
        }
    }

    async fn start_for_nodes(
        &self,
        known: &'static KnownController,
        owners: &Owners,
        stop: &Stop,
    ) -> Result<Started, ManagerError> {
        let manager = self.manager;
        let recorder = self.recorder(known, known.name).await?;
        let writer = self.node_writer(known).await?;
        let (owners, stop) = (owners.clone(), stop.clone());
        let run: BoxFuture<'static, ()> = if known.name == CLOUD_NODE {
            let shown = self.shown(&owners, &writer);
            let controller = NodeController::new(
                self.nodes.clone(),
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
                self.nodes.clone(),
                owners,
                writer,
                recorder.clone(),
                manager.metrics.clone(),
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
    fn shown(&self, owners: &Owners, writer: &NodeWriter) -> Shown {
        let options = &self.manager.options.controllers;
        let showing = match options.show_owners {
            ShowOwners::Known(showing) => showing,
            // Refused before anything starts.
            ShowOwners::Unknown(_) => Showing::default(),
        };
        let (nodes, workers) = (self.nodes.clone(), at_least_one(options.node_syncs));
        Shown::new(nodes, owners.clone(), writer.clone(), showing, workers)
    }

    async fn start_label_sync(
        &self,
        known: &'static KnownController,
        owners: &Owners,
        stop: &Stop,
    ) -> Result<Started, ManagerError> {
        let recorder = self.recorder(known, known.name).await?;
        let options = &self.manager.options.controllers;
        let controller = LabelController::new(
            self.nodes.clone(),
            owners.clone(),
            self.node_writer(known).await?,
            recorder.clone(),
            &self.manager.metrics,
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
        owners: &Owners,
        stop: &Stop,
    ) -> Result<Started, ManagerError> {
        let manager = self.manager;
        let recorder = self.recorder(known, ipam::COMPONENT).await?;
        let controller = IpamController::new(IpamParts {
            nodes: self.nodes.clone(),
            owners: owners.clone(),
            clouds: manager.clouds.clone(),
            fence: self.questions(),
            may_follow_unfinished_writes: self.fence.may_follow_unfinished_writes(),
            writer: self.node_writer(known).await?,
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            readiness: self.health.add_readiness(known.name),
            flags: manager.options.ipam_flags(),
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
        let manager = self.manager;
        let options = &manager.options;
        let readiness = self.health.add_readiness(known.name);
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
            nodes: self.nodes.clone(),
            referee: self.referee.clone(),
            questions: self.questions(),
            fence: self.fence.clone(),
            writer: self.node_writer(known).await?,
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            clock: manager.clock.clone(),
            random: manager.random.fork(),
            readiness,
        };
        let options = RouteOptions {
            cluster_name: options.cloud.cluster_name.clone(),
            ranges,
            period: options.controllers.route_reconciliation_period,
            rules: manager.rules.clone(),
        };
        let controller = RouteController::new(parts, options);
        Ok(Some(Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        }))
    }

    async fn node_writer(&self, known: &KnownController) -> Result<NodeWriter, ManagerError> {
        let (client, random) = (self.client(known).await?, self.manager.random.fork());
        Ok(if self.fence.is_observing() {
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
        let manager = self.manager;
        // The originals' name of the component, which people filter events by.
        let recorder = self.recorder(known, known.identity).await?;
        let client = self.client(known).await?;
        let parts = ServiceParts {
            services: self.services.clone(),
            nodes: self.nodes.clone(),
            slices: self.slices.clone(),
            writer: ServiceWriter::new(client.clone()),
            client,
            reader: manager.clients.root(INFORMERS),
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            clock: manager.clock.clone(),
            random: manager.random.fork(),
        };
        let controller = ServiceController::new(
            parts,
            &self.referee,
            self.fence.clone(),
            self.service_options(),
        );
        Ok(Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        })
    }

    /// Whether some cloud's load balancers depend on where endpoints are: otherwise nobody reads them, and
    /// no right for that is needed.
    fn needs_endpoints(&self) -> bool {
        let mut balancers = self.manager.clouds.iter().filter_map(|it| it.balancers());
        balancers.any(|it| it.needs().endpoints)
    }

    fn start_for_certificates(&self, known: &'static KnownController, stop: &Stop) -> Started {
        let manager = self.manager;
        // The rights are the deployment's own: nobody binds roles to an account of this name.
        let client = || manager.clients.with_own_rights(known.identity, &self.fence);
        let context = manager.event_context();
        let (recorder, writer) = if self.fence.is_observing() {
            let recorder = Recorder::observing(known.name, &context);
            (recorder, CertificateWriter::observing(client()))
        } else {
            let recorder = Recorder::new(client(), known.name, &context);
            (recorder, CertificateWriter::new(client()))
        };
        let parts = CertificateParts {
            requests: self.requests.clone(),
            nodes: self.nodes.clone(),
            writer,
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            clock: manager.clock.clone(),
        };
        let is_named = self.is_named(known);
        let controller =
            CertificateController::new(parts, &self.referee, is_named, self.fence.clone());
        Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        }
    }

    fn start_chores(&self, known: &'static KnownController, stop: &Stop) -> Started {
        let manager = self.manager;
        // The rights are the deployment's own: nobody binds roles to an account of this name.
        let client = || manager.clients.with_own_rights(known.identity, &self.fence);
        let context = manager.event_context();
        let is_observing = self.fence.is_observing();
        let recorder = if is_observing {
            Recorder::observing(known.name, &context)
        } else {
            Recorder::new(client(), known.name, &context)
        };
        let options = &manager.options;
        // Where the program's other object is: the deployment has rights there.
        let namespace = options.election.resource_namespace.clone();
        let port = options.serving.port;
        let parts = ChoresParts {
            // The chart's Service.
            address: format!("https://bowline-metrics.{namespace}.svc:{port}"),
            lease: self.lease(),
            namespace,
            nodes: self.nodes.clone(),
            client: client(),
            recorder: recorder.clone(),
            questions: self.questions(),
            is_observing,
            cluster_name: options.cloud.cluster_name.clone(),
        };
        let controller = ChoresController::new(parts, &self.referee);
        Started {
            known,
            run: Box::pin(controller.run(stop.clone())),
            recorder,
        }
    }

    /// Whether the command line starts that controller, and not only a cloud's configuration.
    fn is_named(&self, known: &KnownController) -> bool {
        self.manager.options.controllers.set().enabled(known.name)
    }

    /// Another client than that of the writes, so that events never use up their rate.
    async fn recorder(
        &self,
        known: &KnownController,
        component: &'static str,
    ) -> Result<Recorder, ManagerError> {
        let context = self.manager.event_context();
        if self.fence.is_observing() {
            return Ok(Recorder::observing(component, &context));
        }
        let client = self.client(known).await?;
        Ok(Recorder::new(client, component, &context))
    }

    async fn client(&self, known: &KnownController) -> Result<kube::Client, ManagerError> {
        let clients = &self.manager.clients;
        Ok(clients.for_controller(known.identity, &self.fence).await?)
    }

    fn service_options(&self) -> ServiceOptions {
        let options = &self.manager.options;
        ServiceOptions {
            concurrent_syncs: at_least_one(options.controllers.service_syncs),
            cluster_name: options.cloud.cluster_name.clone(),
            remove_orphans: options.controllers.remove_orphans,
            lease: self.lease(),
        }
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
            rules: self.manager.rules.clone(),
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

/// Tells that no configured cloud offers what a controller needs, in the words of the framework, which
/// people and test suites look for.
fn not_supported(known: &KnownController) {
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
        ROUTES => warn!(
            controller,
            "--configure-cloud-routes is set, but no configured cloud has routes; none are made"
        ),
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
