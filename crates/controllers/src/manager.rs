//! The manager: one process from start to end.
//!
//! ```text
//!  serve ─▶ compete for the lease ─▶ take others' leases ─▶ API server healthy? ─▶ start controllers ─▶ work
//!    │         (standbys stop here,    (--hold-leases)                                                 │
//!    │          and answer probes)                             SIGTERM: stop taking work, finish,      ◀┤
//!    ◀──────────────────────────────────────────────────────── release the leases, exit 0               │
//!                                                              a lease lost: drop everything, exit 1    ◀
//! ```

pub(crate) mod active_config;
mod leading;
mod placement;
mod registry;
mod running_controllers;
mod serving;
mod supervisor;

use std::sync::Arc;
use std::time::Duration;

use bowline_core::CloudName;
use bowline_http::{Clock, Random};
use tracing::{info, warn};

use crate::kube::clients::{AccountError, Clients, Unhealthy};
use crate::kube::election::{BadMigration, Fence, LeaseName, Lost, Migration};
use crate::kube::events::EventContext;
use crate::manager::active_config::{ActiveConfigs, ReloadNotice};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::serving::{Health, Pages, Parts, Server, ServingError};
use placement::LeaseControllers;
use supervisor::Supervisor;
use tokio_util::sync::CancellationToken;

/// How long work that is under way may take when the process is asked to stop.
const GRACE: Duration = Duration::from_secs(10);
/// The same for work under the second lease: it is part of the work under the first one, and giving
/// the second lease back has to fit in as well.
const SECOND_GRACE: Duration = Duration::from_secs(5);

pub use crate::clouds::resolver::{CloudRules, DefaultCloud};

/// Sets the verbosity of the running program.
pub type SetVerbosity = Arc<dyn Fn(i32) -> Result<(), String> + Send + Sync>;

/// Everything a manager is made of.
pub struct Manager {
    /// What it works with, and how that changes.
    pub active_configs: ActiveConfigs,
    /// Its way to the API server.
    pub clients: Clients,
    /// For token reviews and access reviews of the serving port.
    pub reviews: Reviews,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// The time of day.
    pub clock: Clock,
    /// Jitter and identities.
    pub random: Random,
    /// `PUT /debug/flags/v`.
    pub set_verbosity: SetVerbosity,
}

/// Clients for delegated authentication and authorization; none where there is no way to ask.
#[derive(Clone, Default)]
pub struct Reviews {
    /// Token reviews and the authentication ConfigMap.
    pub authentication: Option<kube::Client>,
    /// Access reviews.
    pub authorization: Option<kube::Client>,
}

/// Why the manager ended other than by being asked to.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The HTTPS server.
    #[error("starting the HTTPS server")]
    Serving(#[from] ServingError),
    /// A cloud cannot distinguish clusters.
    #[error(
        "no ClusterID found. A ClusterID is required for the cloud provider to function properly. \
         This check can be bypassed by setting the allow-untagged-cloud option (cloud {0})"
    )]
    NoClusterId(String),
    /// The leader-migration file.
    #[error(transparent)]
    Migration(#[from] BadMigration),
    /// One lease has two purposes.
    #[error(
        "--hold-leases names {0}, which is the second lease of --enable-leader-migration already: name it in one place"
    )]
    HeldTwice(LeaseName),
    /// The lease is gone.
    #[error("leaderelection lost")]
    Lost(#[from] Lost),
    /// The API server.
    #[error(transparent)]
    Unhealthy(#[from] Unhealthy),
    /// A controller's service account.
    #[error(transparent)]
    Account(#[from] AccountError),
}

impl Manager {
    /// Runs until `stop` (then all is well) or until it cannot go on.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ManagerError> {
        self.check_cluster_ids()?;
        let migration = self.migration()?;
        placement::log_elsewhere(self.active_configs.first(), migration.as_ref());
        let health = Health::default();
        self.watch_clouds(&health);
        let options = serving::options(self.options())?;
        let serving = CancellationToken::new();
        let serving_ends = serving.clone().drop_guard();
        let binding = Server::bind(options, self.serving_parts(&health, migration.as_ref()));
        let Some(server) = stop.run_until_cancelled(Box::pin(binding)).await else {
            return Ok(());
        };
        let server = server?.map(|server| {
            if let Ok(address) = server.address() {
                info!(%address, "serving health, metrics and configuration");
            }
            tokio::spawn(async move { server.run(serving.cancelled_owned()).await })
        });
        let ended = tokio::select! {
            biased;
            ended = Box::pin(self.lead_or_work(&health, migration, &stop)) => ended,
            never = self.follow_configurations(&health) => match never {},
        };
        drop(serving_ends);
        if let Some(server) = server {
            let _ = server.await;
        }
        ended
    }

    /// Keeps health and metrics in step with the active configuration, also while another one leads.
    async fn follow_configurations(&self, health: &Health) -> std::convert::Infallible {
        let mut active_configs = self.active_configs.clone();
        let metrics = &self.metrics.configuration;
        let mut shown = active_configs.take();
        metrics.uses(shown.generation);
        loop {
            match active_configs.notice().await {
                ReloadNotice::Refused(_) => metrics.refused(),
                ReloadNotice::Changed => {
                    for cloud in &shown.clouds {
                        health.remove(&check_name(cloud.name()));
                    }
                    shown = active_configs.take();
                    self.watch_clouds(health);
                    metrics.uses(shown.generation);
                }
            }
        }
    }

    /// A standby whose clouds could not work is no good standby: they count from the start.
    fn watch_clouds(&self, health: &Health) {
        let active_config = self.active_configs.present();
        self.metrics.cloud_health.watch(&active_config.clouds);
        for cloud in &active_config.clouds {
            let (name, cloud_health) = (cloud.name().clone(), self.metrics.cloud_health.clone());
            health.add_cloud(check_name(&name), Arc::new(move || cloud_health.of(&name)));
        }
    }

    /// The settings of the process itself.
    fn options(&self) -> &Options {
        &self.active_configs.first().options
    }

    async fn lead_or_work(
        &self,
        health: &Health,
        migration: Option<Migration>,
        stop: &CancellationToken,
    ) -> Result<(), ManagerError> {
        let migration = migration.as_ref();
        let election = &self.options().election;
        let observing = self.active_configs.first().is_observing();
        if observing {
            warn!(
                "observing: no lease is taken and nothing is written; the log shows what would be done"
            );
        }
        if observing || !election.enabled {
            let fence = if observing {
                Fence::observing()
            } else {
                Fence::open()
            };
            let work = Supervisor::new(self, health, LeaseControllers::Only(migration), fence);
            return finish(work.run(stop.clone()), stop).await;
        }
        let term = self.main_term(health, GRACE);
        let fence = term.leases.fence();
        health.add_watchdog("leaderElection", Arc::new(move || watchdog(&fence)));
        let leading = self.lead(term, stop, async |fence: Fence, stop: CancellationToken| {
            let work = Supervisor::new(
                self,
                health,
                LeaseControllers::Main(migration),
                fence.clone(),
            );
            let second = |it: &&Migration| {
                let place = LeaseControllers::Migrated(it);
                !placement::placed(self.active_configs.first(), place).is_empty()
            };
            let Some(migration) = migration.filter(second) else {
                return Box::pin(work.run(stop)).await;
            };
            let second = self.second_term(migration, SECOND_GRACE);
            let moved = self.lead(
                second,
                &stop,
                async |own: Fence, stop: CancellationToken| {
                    let work = Supervisor::new(
                        self,
                        health,
                        LeaseControllers::Migrated(migration),
                        fence.and(&own),
                    );
                    Box::pin(work.run(stop)).await
                },
            );
            futures::future::try_join(Box::pin(work.run(stop.clone())), Box::pin(moved))
                .await
                .map(|_| ())
        });
        Box::pin(leading).await
    }

    fn event_context(&self) -> EventContext {
        EventContext::new(
            self.clock.clone(),
            self.random.clone(),
            self.metrics.clone(),
        )
    }

    fn serving_parts(&self, health: &Health, migration: Option<&Migration>) -> Parts {
        let migration = migration.and_then(|migration| serde_json::to_value(migration).ok());
        let active_configs = self.active_configs.clone();
        Parts {
            metrics: self.metrics.clone(),
            health: health.clone(),
            configz: Arc::new(move || active_configs.present().options.configz(migration.clone())),
            pages: self.pages(),
            set_verbosity: self.set_verbosity.clone(),
            authentication: self.reviews.authentication.clone(),
            authorization: self.reviews.authorization.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
        }
    }

    /// The pages of all clouds.
    fn pages(&self) -> Pages {
        let active_configs = self.active_configs.clone();
        Arc::new(move |path| {
            let active_config = active_configs.present();
            active_config
                .clouds
                .iter()
                .find_map(|cloud| cloud.chores()?.page(path))
        })
    }

    fn check_cluster_ids(&self) -> Result<(), ManagerError> {
        let first = self.active_configs.first();
        if let Some(cloud) = first.untagged() {
            return Err(ManagerError::NoClusterId(cloud.name().to_string()));
        }
        for cloud in first.clouds.iter().filter(|it| !it.has_cluster_id()) {
            warn!(cloud = %cloud.name(), "no ClusterID: one cluster in this account only");
        }
        Ok(())
    }

    fn migration(&self) -> Result<Option<Migration>, ManagerError> {
        let election = &self.options().election;
        let migration = match (election.migration, election.migration_file.as_str()) {
            (false, _) => return Ok(None),
            (true, "") => Migration::default(),
            (true, file) => Migration::load(file)?,
        };
        let second = self.second_lease(&migration);
        if election.held_leases().contains(&second) {
            // It would wait for itself.
            return Err(ManagerError::HeldTwice(second));
        }
        Ok(Some(migration))
    }
}

/// Lets work end by itself; after `stop` only for so long.
async fn finish(
    work: impl Future<Output = Result<(), ManagerError>>,
    stop: &CancellationToken,
) -> Result<(), ManagerError> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        ended = &mut work => ended,
        () = async { stop.cancelled().await; tokio::time::sleep(GRACE).await } => {
            warn!(grace = ?GRACE, "work under way was abandoned");
            Ok(())
        }
    }
}

/// The readiness check of a cloud.
fn check_name(cloud: &CloudName) -> String {
    format!("cloud-{cloud}")
}

fn watchdog(fence: &Fence) -> Result<(), String> {
    fence.health().map_err(|fenced| fenced.to_string())
}
