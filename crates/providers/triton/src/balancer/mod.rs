//! Services of type `LoadBalancer`, in one of two modes: a DNS name of the nodes, or load balancer
//! machines before them.
//!
//! ```text
//!  Service ─▶ settings ─▶ mode? ─┬─ cns: members, naming ─▶ plan ─▶ tags of nodes ─▶ published? ─▶ status
//!  the API ─▶ scene ─────────────┤                          (pure)  (the keeper)
//!                                └─ clb: machines, port map, firewall ───────────────────────────▶ status
//! ```
//!
//! The mode of a Service may change: the other mode's things go when the new status is published.

pub(crate) mod clb;
mod cns;
#[cfg(test)]
mod examples;
pub(crate) mod firewall;
pub(crate) mod members;
pub(crate) mod naming;
pub(crate) mod scene;
pub(crate) mod settings;

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    Balancers, BoxFuture, CloudError, Draft, DraftError, Goal, Marked, Needs, Node, Service, Wish,
};

use crate::TritonMetrics;
use crate::config::{Config, LoadBalancerConfig};
use crate::site::Site;
use scene::Scene;
use settings::{CLB_CLASS, CNS_CLASS, Mode, Settings};

pub use settings::table;

/// The classes of Services that are ours by themselves.
const CLASSES: [&str; 2] = [CNS_CLASS, CLB_CLASS];
/// The annotations that are written back.
const OWN_ANNOTATIONS: [&str; 2] = [table::STATUS.key, table::INSTANCES.key];

/// What both modes work with for as long as the cloud lives.
pub(crate) struct Shared {
    /// The data center: load balancers are in the first one.
    pub(crate) site: Arc<Site>,
    pub(crate) config: LoadBalancerConfig,
    pub(crate) cluster_name: String,
    pub(crate) metrics: TritonMetrics,
}

/// Services of one account.
pub(crate) struct Balancing {
    shared: Arc<Shared>,
    resync: Duration,
}

impl Balancing {
    pub(crate) fn new(site: Arc<Site>, config: &Config, metrics: TritonMetrics) -> Self {
        Self {
            shared: Arc::new(Shared {
                site,
                config: config.load_balancer.clone(),
                cluster_name: config.cluster_name.clone(),
                metrics,
            }),
            resync: config.resync,
        }
    }

    async fn plan(&self, wish: &Wish) -> Result<Draft, DraftError> {
        let (settings, faults) = Settings::read(&wish.service, &self.shared.config);
        let mode = settings.mode_or(&self.shared.config);
        if wish.goal == Goal::Absent {
            let scene = Scene::look(&self.shared, wish, settings).await?;
            let _ = cns::removal(&scene);
            return clb::removal(&scene).await;
        }
        let Some(mode) = mode else {
            return Err(DraftError::Elsewhere);
        };
        let _ = faults;
        let scene = Scene::look(&self.shared, wish, settings).await?;
        match mode {
            Mode::Cns => cns::draft(&scene).await,
            Mode::Clb => clb::draft(&scene).await,
        }
    }
}

impl Balancers for Balancing {
    fn draft<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Draft, DraftError>> {
        Box::pin(self.plan(wish))
    }

    fn own_annotations(&self) -> &'static [&'static str] {
        &OWN_ANNOTATIONS
    }

    fn needs(&self) -> Needs {
        Needs {
            cluster_uid: true,
            endpoints: true,
            readiness: true,
        }
    }

    fn classes(&self) -> &'static [&'static str] {
        &CLASSES
    }

    fn serves(&self, service: &Service) -> bool {
        let (settings, faults) = Settings::read(service, &self.shared.config);
        !faults.is_empty() || settings.mode_or(&self.shared.config).is_some()
    }

    fn selects(&self, service: &Service, node: &Node) -> bool {
        let (settings, _) = Settings::read(service, &self.shared.config);
        settings.node_selector.matches(&node.labels)
    }

    fn audit_period(&self) -> Option<Duration> {
        Some(self.resync)
    }

    fn marked<'a>(
        &'a self,
        _: &'a str,
        _: &'a [Arc<Node>],
    ) -> BoxFuture<'a, Result<Vec<Marked>, CloudError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn remove_orphan<'a>(&'a self, _: &'a Marked) -> BoxFuture<'a, Result<(), CloudError>> {
        Box::pin(async { Ok(()) })
    }
}
