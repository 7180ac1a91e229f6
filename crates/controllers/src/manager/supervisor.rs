//! The supervisor of a leader: runs the watches, and the controllers of one active configuration after
//! another.
//!
//! ```text
//!  configuration 1 ──▶ controllers 1 ─── configuration 2 ──▶ finish what is under way
//!                                                       └──▶ controllers 2, with the same stores and deletion guards
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::TargetGuard;
use bowline_core::routes::Allowance;
use bowline_http::KeyedMutex;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

use super::placement::LeaseControllers;
use super::running_controllers::{Running, RunningControllers};
use super::{Manager, ManagerError};
use crate::clouds::machines::Machines;
use crate::clouds::per_cloud::PerCloud;
use crate::clouds::resolver::OwnershipResolver;
use crate::kube::clients::{HEALTH_PATIENCE, INFORMERS, wait_until_healthy};
use crate::kube::csr_store::CertificateRequests;
use crate::kube::election::Fence;
use crate::kube::endpoints::Slices;
use crate::kube::events::{Recorder, lease_reference};
use crate::kube::nodes::Nodes;
use crate::kube::services::Services;
use crate::kube::store::{Store, Stored};
use crate::loops::lifecycle::Guards;
use crate::manager::active_config::{ActiveConfigs, ReloadNotice};
use crate::options::{CERTIFICATES, CONTROLLERS, SERVICE};
use crate::report::Fact;
use crate::serving::Health;
use tokio_util::sync::CancellationToken;

/// How long the next controllers wait for those before. Whatever is still under way then belongs to a cloud that does not
/// answer; it goes on alone, and no other cloud waits for it.
const HANDOVER: Duration = Duration::from_secs(2);
/// How long the last events about active configurations may take to be written.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);
/// The component of events about active configurations.
const COMPONENT: &str = "bowline";

/// The controllers of one lease.
pub(super) struct Supervisor<'a> {
    pub(super) manager: &'a Manager,
    pub(super) health: &'a Health,
    pub(super) place: LeaseControllers<'a>,
    pub(super) fence: Fence,
    pub(super) nodes: Nodes,
    pub(super) services: Services,
    pub(super) slices: Slices,
    pub(super) requests: CertificateRequests,
    /// What was deleted lately in each cloud.
    pub(super) guards: Guards,
    /// The same for routes.
    pub(super) allowances: PerCloud<Allowance>,
    /// Which nodes have lost their owners, for the targets of load balancers.
    pub(super) targets: PerCloud<TargetGuard>,
    pub(super) locks: KeyedMutex<String>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        manager: &'a Manager,
        health: &'a Health,
        place: LeaseControllers<'a>,
        fence: Fence,
    ) -> Self {
        Self {
            manager,
            health,
            place,
            fence,
            nodes: Nodes::default(),
            services: Services::default(),
            slices: Slices::default(),
            requests: CertificateRequests::default(),
            guards: Guards::default(),
            allowances: PerCloud::default(),
            targets: PerCloud::default(),
            locks: KeyedMutex::default(),
        }
    }

    /// Works until `stop`, then lets every controller finish.
    pub(super) async fn run(self, stop: CancellationToken) -> Result<(), ManagerError> {
        let manager = self.manager;
        let informers = manager.clients.root(INFORMERS);
        let healthy = wait_until_healthy(&informers, manager.clients.host(), HEALTH_PATIENCE);
        let Some(healthy) = stop.run_until_cancelled(healthy).await else {
            return Ok(());
        };
        healthy?;
        let mut active_configs = manager.active_configs.clone();
        let mut resolver = OwnershipResolver::new(&[], Arc::default());
        let mut followers = Followers::default();
        let mut recorder = None;
        loop {
            let active_config = active_configs.take();
            let rules = Arc::new(active_config.rules.clone());
            // One that left and came back has another name than its nodes remember.
            let mut renamed = manager.metrics.accounts.renamed(&active_config.clouds);
            renamed.extend(active_config.renamed.clone());
            let renamed = &renamed;
            self.guards.rename(renamed);
            self.allowances.rename(renamed);
            self.targets.rename(renamed);
            // Before anybody else listens: whoever decides goes by it.
            let machines = Machines::following(&self.nodes);
            let nodes = self.nodes.all();
            let departed = manager.metrics.accounts.departed(&active_config.clouds);
            let seen = (machines, departed);
            resolver = resolver.followed_by(&active_config.clouds, rules, renamed, &nodes, seen);
            let controllers = RunningControllers {
                supervisor: &self,
                active_config,
                resolver: resolver.clone(),
                stop: stop.clone(),
            };
            let running = match controllers.start(&stop).await {
                // It could not begin before its time was over.
                Err(_) if stop.is_cancelled() => break,
                started => started?,
            };
            self.show(&running);
            self.follow_what_it_reads(&running, &mut followers, &stop);
            let waiting = self.wait_for_another(&mut active_configs, &mut recorder);
            let changed = stop.run_until_cancelled(waiting).await.is_some();
            self.hide(&running);
            if !changed {
                running.end().await;
                break;
            }
            self.hand_over(running, &mut followers.tasks).await;
        }
        followers.end().await;
        if let Some(recorder) = recorder {
            recorder.flush(FLUSH_LIMIT).await;
        }
        Ok(())
    }

    /// Ends when there is another configuration, which is reported.
    async fn wait_for_another(
        &self,
        active_configs: &mut ActiveConfigs,
        recorder: &mut Option<Recorder>,
    ) {
        loop {
            match active_configs.notice().await {
                ReloadNotice::Changed => {
                    let next = active_configs.present();
                    let text = format!("Generation {}: {}", next.generation, next.summary);
                    let fact = Fact::normal(self.lease(), "ConfigurationChanged", text);
                    self.emit(recorder, fact);
                    return;
                }
                ReloadNotice::Refused(why) => {
                    let text = format!("The configuration stays as it is: {why}");
                    let fact = Fact::warning(self.lease(), "ConfigurationRefused", text);
                    self.emit(recorder, fact);
                }
            }
        }
    }

    fn emit(&self, recorder: &mut Option<Recorder>, fact: Fact) {
        if !self.place.speaks_for_the_manager() {
            return;
        }
        let recorder = recorder.get_or_insert_with(|| {
            let context = self.manager.event_context();
            if self.fence.is_observing() {
                return Recorder::observing(COMPONENT, &context);
            }
            let client = self.manager.clients.with_own_rights(COMPONENT, &self.fence);
            Recorder::new(client, COMPONENT, &context)
        });
        recorder.emit(fact);
    }

    /// Lets controllers end, for a moment before the next ones begin and then beside them.
    async fn hand_over(&self, running: Running, tasks: &mut JoinSet<()>) {
        self.nodes.forget_listeners();
        self.services.forget_listeners();
        self.slices.forget_listeners();
        self.requests.forget_listeners();
        let generation = running.active_config.generation;
        let mut ending = Box::pin(running.end());
        if timeout(HANDOVER, &mut ending).await.is_err() {
            warn!(
                generation,
                "work of the configuration before is still under way"
            );
            tasks.spawn(async move {
                ending.await;
                info!(generation, "work of the configuration before is finished");
            });
        }
    }

    /// Lets health know what works.
    fn show(&self, running: &Running) {
        for known in &running.names {
            self.health.add_controller(known.name);
        }
    }

    /// The opposite.
    fn hide(&self, running: &Running) {
        for known in &running.names {
            let metrics = &self.manager.metrics.controllers;
            metrics.running(known.alias, false);
        }
        // Some wanted to start, and say in readiness why they could not.
        let placed = CONTROLLERS.iter().filter(|known| self.place.has(known));
        for known in placed {
            self.health.remove(known.name);
        }
    }

    /// The manager's lease: events about the manager as a whole are shown there.
    pub(super) fn lease(&self) -> ObjectReference {
        let election = &self.manager.options().election;
        lease_reference(&election.resource_namespace, &election.resource_name)
    }

    /// Begins to follow what these controllers read and none before did.
    fn follow_what_it_reads(
        &self,
        running: &Running,
        followers: &mut Followers,
        stop: &CancellationToken,
    ) {
        self.follow(followers, "nodes-synced", &self.nodes, stop);
        if running.has(SERVICE) {
            self.follow(followers, "services-synced", &self.services, stop);
            // Nobody else reads them, and no right for that is needed.
            let mut clouds = running.active_config.clouds.iter();
            if clouds.any(|it| it.balancers().is_some_and(|it| it.needs().endpoints)) {
                self.follow(followers, "endpoints-synced", &self.slices, stop);
            }
        }
        if running.has(CERTIFICATES) {
            let name = "certificate-requests-synced";
            self.follow(followers, name, &self.requests, stop);
        }
    }

    /// Keeps a store in step with the API server, and is ready when its first list has arrived.
    fn follow<T: Stored>(
        &self,
        followers: &mut Followers,
        name: &'static str,
        store: &Store<T>,
        stop: &CancellationToken,
    ) {
        if !followers.names.insert(name) {
            return;
        }
        let readiness = self.health.add_readiness(name);
        let (first, until) = (store.clone(), stop.clone());
        followers.tasks.spawn(async move {
            if until.run_until_cancelled(first.synced()).await.is_some() {
                readiness.ready();
            }
        });
        let (store, random) = (store.clone(), self.manager.random.fork());
        let (client, stop) = (self.manager.clients.root(INFORMERS), stop.clone());
        let metrics = self.manager.metrics.stores.clone();
        let restored = self.manager.clients.restored();
        followers.tasks.spawn(async move {
            store
                .follow(client, random, &metrics, &restored, stop)
                .await;
        });
    }
}

/// What outlasts a configuration: the watches, by what they are called in readiness, and controllers that take long to end.
#[derive(Default)]
struct Followers {
    names: BTreeSet<&'static str>,
    tasks: JoinSet<()>,
}

impl Followers {
    async fn end(mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                warn!(%error, "a watch did not end well");
            }
        }
    }
}
