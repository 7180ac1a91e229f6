//! The registry of controllers: what each needs, and how it is built.

use bowline_core::owner_annotation::Showing;
use bowline_core::routes::cluster_ranges;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::ManagerError;
use super::running_controllers::RunningControllers;
use crate::clouds::caller::CloudCaller;
use crate::clouds::owners::OwnerDiscovery;
use crate::kube::clients::{INFORMERS, MOST_IN_FLIGHT};
use crate::kube::events::Recorder;
use crate::kube::write::{CertificateWriter, ServiceWriter};
use crate::loops::certificates::{CertificateController, CertificateParts};
use crate::loops::chores::{ChoresController, ChoresParts};
use crate::loops::ipam::{self, IpamController, IpamParts};
use crate::loops::labels::{LabelController, LabelOptions};
use crate::loops::lifecycle::{LifecycleController, LifecycleOptions};
use crate::loops::node::{NodeController, NodeOptions};
use crate::loops::owner_annotation::Shown;
use crate::loops::routes::{self, RouteController, RouteOptions, RouteParts};
use crate::loops::service::{ServiceController, ServiceOptions, ServiceParts};
use crate::options::{
    CERTIFICATES, CHORES, CLOUD_NODE, CLOUD_NODE_LIFECYCLE, KnownController, LABEL_SYNC, NODE_IPAM,
    Options, ROUTES, SERVICE, ShowOwners,
};

/// How each controller is started, by its name.
pub(super) const CONTROLLERS: [(&str, Start); 8] = [
    registered::<NodeController>(),
    registered::<LifecycleController>(),
    registered::<ServiceController>(),
    registered::<RouteController>(),
    registered::<IpamController>(),
    registered::<CertificateController>(),
    registered::<LabelController>(),
    registered::<ChoresController>(),
];

type Start = for<'a> fn(&'a ControllerParts<'a>, &'a CancellationToken) -> BoxFuture<'a, Starting>;

type Starting = Result<Option<Started>, ManagerError>;

/// What a controller is made of.
pub(super) struct ControllerParts<'a> {
    pub(super) running: &'a RunningControllers<'a>,
    pub(super) known: &'static KnownController,
    pub(super) owners: &'a OwnerDiscovery,
}

/// A controller that was started: what runs it, and where its events go.
pub(super) struct Started {
    pub(super) known: &'static KnownController,
    pub(super) run: BoxFuture<'static, ()>,
    pub(super) recorder: Recorder,
}

/// A controller of the manager.
trait Controller {
    const NAME: &'static str;

    /// Whether any cloud offers what it needs, and nothing switches it off. If not, it says so in the log.
    fn is_needed(parts: &ControllerParts<'_>) -> bool;

    /// What runs it until `stop`; none if its settings cannot be used, which concerns it alone.
    fn start(
        parts: &ControllerParts<'_>,
        stop: CancellationToken,
    ) -> impl Future<Output = Starting> + Send;
}

const fn registered<C: Controller>() -> (&'static str, Start) {
    let start: Start = |parts, stop| {
        Box::pin(async {
            if !C::is_needed(parts) {
                return Ok(None);
            }
            C::start(parts, stop.clone()).await
        })
    };
    (C::NAME, start)
}

impl ControllerParts<'_> {
    fn options(&self) -> &Options {
        &self.running.active_config.options
    }

    fn started(
        &self,
        recorder: Recorder,
        run: impl Future<Output = ()> + Send + 'static,
    ) -> Started {
        Started {
            known: self.known,
            run: Box::pin(run),
            recorder,
        }
    }

    /// Whether some cloud has what the framework's controllers need; if not, it warns in the framework's words, which
    /// people and test suites look for.
    fn supported(&self, is_supported: bool, what: &str) -> bool {
        if !is_supported {
            warn!(controller = self.known.name, "failed to start {what}");
        }
        is_supported
    }

    /// Whether some cloud offers what is needed; if not, that is logged.
    fn offered(&self, is_offered: bool) -> bool {
        if !is_offered {
            let controller = self.known.name;
            info!(
                controller,
                "not started: no configured cloud offers what it needs"
            );
        }
        is_offered
    }
}

impl Controller for NodeController {
    const NAME: &'static str = CLOUD_NODE;

    fn is_needed(parts: &ControllerParts<'_>) -> bool {
        let what = "cloud node controller: cloud provider does not support instances";
        parts.supported(!parts.owners.all().is_empty(), what)
    }

    async fn start(parts: &ControllerParts<'_>, stop: CancellationToken) -> Starting {
        let (running, known) = (parts.running, parts.known);
        let (supervisor, options) = (running.supervisor, &parts.options().controllers);
        let recorder = running.recorder(known, known.name).await?;
        let writer = running.node_writer(known).await?;
        let showing = match options.show_owners {
            ShowOwners::Known(showing) => showing,
            // Refused before anything starts.
            ShowOwners::Unknown(_) => Showing::default(),
        };
        let shown = Shown::new(
            supervisor.nodes.clone(),
            parts.owners.clone(),
            writer.clone(),
            showing,
            writers(options.node_syncs),
        );
        let controller = Self::new(
            supervisor.nodes.clone(),
            parts.owners.clone(),
            writer,
            recorder.clone(),
            supervisor.manager.metrics.clone(),
            supervisor.manager.clock.clone(),
            NodeOptions {
                concurrent_syncs: writers(options.node_syncs),
                concurrent_status_updates: writers(options.status_updates()),
                status_update_frequency: options.node_status_update_frequency,
            },
        );
        Ok(Some(parts.started(recorder, async move {
            tokio::join!(controller.run(stop.clone()), shown.run(stop));
        })))
    }
}

impl Controller for LifecycleController {
    const NAME: &'static str = CLOUD_NODE_LIFECYCLE;

    fn is_needed(parts: &ControllerParts<'_>) -> bool {
        let what = "cloud node lifecycle controller: cloud provider does not support instances";
        parts.supported(!parts.owners.all().is_empty(), what)
    }

    async fn start(parts: &ControllerParts<'_>, stop: CancellationToken) -> Starting {
        let (running, known) = (parts.running, parts.known);
        let (supervisor, options) = (running.supervisor, &parts.options().controllers);
        let recorder = running.recorder(known, known.name).await?;
        let controller = Self::new(
            supervisor.nodes.clone(),
            parts.owners.clone(),
            running.node_writer(known).await?,
            recorder.clone(),
            supervisor.manager.metrics.clone(),
            &supervisor.guards,
            LifecycleOptions {
                monitor_period: options.node_monitor_period,
                concurrent_syncs: at_least_one(options.lifecycle_syncs),
                rules: running.active_config.rules.clone(),
            },
        );
        Ok(Some(parts.started(recorder, controller.run(stop))))
    }
}

impl Controller for ServiceController {
    const NAME: &'static str = SERVICE;

    fn is_needed(parts: &ControllerParts<'_>) -> bool {
        let mut clouds = parts.running.active_config.clouds.iter();
        let what =
            "service controller: the cloud provider does not support external load balancers";
        parts.supported(clouds.any(|cloud| cloud.balancers().is_some()), what)
    }

    async fn start(parts: &ControllerParts<'_>, stop: CancellationToken) -> Starting {
        let (running, known, options) = (parts.running, parts.known, parts.options());
        let (supervisor, manager) = (running.supervisor, running.supervisor.manager);
        // The originals' name of the component, which people filter events by.
        let recorder = running.recorder(known, known.identity).await?;
        let client = running.client(known).await?;
        let service_parts = ServiceParts {
            services: supervisor.services.clone(),
            nodes: supervisor.nodes.clone(),
            slices: supervisor.slices.clone(),
            writer: ServiceWriter::new(client.clone()),
            client,
            reader: manager.clients.root(INFORMERS),
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            clock: manager.clock.clone(),
            random: manager.random.fork(),
            locks: supervisor.locks.clone(),
            targets: supervisor.targets.clone(),
        };
        let options = ServiceOptions {
            concurrent_syncs: at_least_one(options.controllers.service_syncs),
            cluster_name: options.cloud.cluster_name.clone(),
            cluster_uid: options.cloud.cluster_uid().map(str::to_owned),
            remove_orphans: options.controllers.remove_orphans,
            lease: supervisor.lease(),
        };
        let fence = supervisor.fence.clone();
        let controller = Self::new(service_parts, &running.resolver, fence, options);
        Ok(Some(parts.started(recorder, controller.run(stop))))
    }
}

impl Controller for RouteController {
    const NAME: &'static str = ROUTES;

    fn is_needed(parts: &ControllerParts<'_>) -> bool {
        let options = &parts.options().controllers;
        if !options.configure_routes {
            info!("{ROUTES} not started: --configure-cloud-routes is off");
            return false;
        }
        let is_needed = Self::has_work(&parts.running.active_config.clouds);
        if !is_needed && options.routes_asked_for {
            warn!(
                controller = ROUTES,
                "--configure-cloud-routes is set, but no configured cloud has routes; none are made"
            );
        } else if !is_needed {
            // It is on by default, and nobody misses it.
            debug!(
                controller = ROUTES,
                "not started: no configured cloud has routes"
            );
        }
        is_needed
    }

    async fn start(parts: &ControllerParts<'_>, stop: CancellationToken) -> Starting {
        let (running, known, options) = (parts.running, parts.known, parts.options());
        let (supervisor, manager) = (running.supervisor, running.supervisor.manager);
        let readiness = supervisor.health.add_readiness(known.name);
        let ranges = match cluster_ranges(&options.cloud.cluster_cidr) {
            Ok(ranges) => ranges,
            Err(problem) => {
                error!("{ROUTES} not started: {problem}");
                readiness.not_ready(problem.to_string());
                return Ok(None);
            }
        };
        let recorder = running.recorder(known, routes::COMPONENT).await?;
        let route_parts = RouteParts {
            nodes: supervisor.nodes.clone(),
            resolver: running.resolver.clone(),
            caller: CloudCaller::new(supervisor.fence.clone()),
            writer: running.node_writer(known).await?,
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            clock: manager.clock.clone(),
            random: manager.random.fork(),
            readiness,
            allowances: supervisor.allowances.clone(),
            locks: supervisor.locks.clone(),
        };
        let options = RouteOptions {
            cluster_name: options.cloud.cluster_name.clone(),
            ranges,
            period: options.controllers.route_reconciliation_period,
            rules: running.active_config.rules.clone(),
        };
        let controller = Self::new(route_parts, options);
        Ok(Some(parts.started(recorder, controller.run(stop))))
    }
}

impl Controller for IpamController {
    const NAME: &'static str = NODE_IPAM;

    fn is_needed(parts: &ControllerParts<'_>) -> bool {
        let is_needed = parts.options().ipam.allocate;
        if !is_needed {
            info!("{NODE_IPAM} not started: --allocate-node-cidrs is off");
        }
        is_needed
    }

    async fn start(parts: &ControllerParts<'_>, stop: CancellationToken) -> Starting {
        let (running, known) = (parts.running, parts.known);
        let (supervisor, manager) = (running.supervisor, running.supervisor.manager);
        let recorder = running.recorder(known, ipam::COMPONENT).await?;
        let controller = Self::new(IpamParts {
            nodes: supervisor.nodes.clone(),
            owners: parts.owners.clone(),
            clouds: running.active_config.clouds.clone(),
            fence: supervisor.fence.clone(),
            may_follow_unfinished_writes: supervisor.fence.may_follow_unfinished_writes(),
            writer: running.node_writer(known).await?,
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            readiness: supervisor.health.add_readiness(known.name),
            flags: parts.options().ipam_flags(),
            locks: supervisor.locks.clone(),
        });
        Ok(Some(parts.started(recorder, controller.run(stop))))
    }
}

impl Controller for CertificateController {
    const NAME: &'static str = CERTIFICATES;

    fn is_needed(parts: &ControllerParts<'_>) -> bool {
        let is_named = parts.running.is_named(parts.known);
        parts.offered(Self::has_work(
            &parts.running.active_config.clouds,
            is_named,
        ))
    }

    async fn start(parts: &ControllerParts<'_>, stop: CancellationToken) -> Starting {
        let (running, known) = (parts.running, parts.known);
        let (supervisor, manager) = (running.supervisor, running.supervisor.manager);
        let recorder = running.recorder_of_its_own(known.identity, known.name);
        let client = running.client_of_its_own(known.identity);
        let writer = if supervisor.fence.is_observing() {
            CertificateWriter::observing(client)
        } else {
            CertificateWriter::new(client)
        };
        let certificate_parts = CertificateParts {
            requests: supervisor.requests.clone(),
            nodes: supervisor.nodes.clone(),
            reader: manager.clients.root(INFORMERS),
            server: manager.clients.server_names(),
            reserved: parts.options().controllers.reserved_names.clone(),
            writer,
            recorder: recorder.clone(),
            metrics: manager.metrics.clone(),
            clock: manager.clock.clone(),
        };
        let (is_named, fence) = (running.is_named(known), supervisor.fence.clone());
        let controller = Self::new(certificate_parts, &running.resolver, is_named, fence);
        Ok(Some(parts.started(recorder, controller.run(stop))))
    }
}

impl Controller for LabelController {
    const NAME: &'static str = LABEL_SYNC;

    fn is_needed(parts: &ControllerParts<'_>) -> bool {
        parts.offered(Self::has_work(parts.owners))
    }

    async fn start(parts: &ControllerParts<'_>, stop: CancellationToken) -> Starting {
        let (running, known) = (parts.running, parts.known);
        let options = &parts.options().controllers;
        let recorder = running.recorder(known, known.name).await?;
        let controller = Self::new(
            running.supervisor.nodes.clone(),
            parts.owners.clone(),
            running.node_writer(known).await?,
            recorder.clone(),
            &running.supervisor.manager.metrics,
            LabelOptions {
                period: options.node_status_update_frequency,
                concurrent_syncs: writers(options.node_syncs),
            },
        );
        Ok(Some(parts.started(recorder, controller.run(stop))))
    }
}

impl Controller for ChoresController {
    const NAME: &'static str = CHORES;

    fn is_needed(parts: &ControllerParts<'_>) -> bool {
        parts.offered(Self::has_work(&parts.running.active_config.clouds))
    }

    async fn start(parts: &ControllerParts<'_>, stop: CancellationToken) -> Starting {
        let (running, known, options) = (parts.running, parts.known, parts.options());
        let supervisor = running.supervisor;
        let recorder = running.recorder_of_its_own(known.identity, known.name);
        // Where the program's other object is: the deployment has permissions there.
        let namespace = options.election.resource_namespace.clone();
        let port = options.serving.port;
        let chores_parts = ChoresParts {
            // The chart's Service.
            address: format!("https://bowline-metrics.{namespace}.svc:{port}"),
            lease: supervisor.lease(),
            namespace,
            nodes: supervisor.nodes.clone(),
            client: running.client_of_its_own(known.identity),
            recorder: recorder.clone(),
            caller: CloudCaller::new(supervisor.fence.clone()),
            is_observing: supervisor.fence.is_observing(),
            cluster_name: options.cloud.cluster_name.clone(),
        };
        let controller = Self::new(chores_parts, &running.resolver);
        Ok(Some(parts.started(recorder, controller.run(stop))))
    }
}

/// Writers of nodes: as many as were given, or as many as may be in flight at most.
fn writers(given: i32) -> usize {
    usize::try_from(given).map_or(MOST_IN_FLIGHT, |number| number.max(1))
}

/// Numbers of workers were validated to be positive.
fn at_least_one(workers: i32) -> usize {
    usize::try_from(workers).unwrap_or(1).max(1)
}
