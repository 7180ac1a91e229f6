//! Metrics of machines: Prometheus is led to the metrics service (CMON), or gets them from here.
//!
//! ```text
//!  nodes, machines ─▶ View ─┬─▶ page /sd/<cloud>          what Prometheus' HTTP service discovery asks for
//!   (follow)                ├─▶ groups: tags of machines  what Prometheus' Triton discovery goes by
//!                           ├─▶ objects: Secret with a client certificate, ConfigMap with scrape_configs
//!                           └─▶ scrape, in mode `export` ─▶ page /metrics/<cloud>
//! ```
//!
//! In mode `discovery` the metrics service is never called: whether it answers is Prometheus'
//! concern.

pub mod certificate;
mod exposition;
mod groups;
mod objects;
mod scrape;
mod snippet;
mod targets;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::{
    BoxFuture, Chores, CloudError, Cluster, ClusterError, PageAnswer, ProviderEvent, Regarding,
    error_chain,
};
use bowline_http::{BaseUrl, CachedRead};
use futures::future::join4;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;

use crate::config::MetricsMode;
use crate::context::Context;
use crate::{lock, remember};
use certificate::ClientCertificate;
use targets::{Endpoint, Stray, Target, strays, targets};

pub use objects::{CONFIG_MAP, SECRET};
pub use scrape::{AT_ONCE, EVERY, PATIENCE};

/// Where the list of machines is found, before the name of the cloud.
pub const DISCOVERY_PAGE: &str = "/sd/";
/// Where their metrics are, before the name of the cloud.
pub const METRICS_PAGE: &str = "/metrics/";
/// How long the first word of a change waits for company.
const GATHER: Duration = Duration::from_secs(1);
/// When to look again after a failure. What failed has its own limits and retries.
const AGAIN: Duration = Duration::from_secs(15);
/// How often the metrics service is looked for: it does not move.
const ENDPOINT_AGE: Duration = Duration::from_secs(600);
/// Bound of remembered reports; the map is emptied when it is full.
const MOST_TOLD: usize = 10_000;

#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("the machines cannot be listed")]
    Machines(#[source] CloudError),
    #[error("the cluster's uid is not known")]
    Cluster(#[source] ClusterError),
}

#[derive(Clone, Debug, Default)]
struct View {
    cluster_uid: String,
    is_whole: bool,
    endpoint: Option<Endpoint>,
    targets: Vec<Target>,
    strays: Vec<Stray>,
}

struct Board {
    view: watch::Sender<Option<Arc<View>>>,
    certificate: watch::Sender<Option<ClientCertificate>>,
}

#[derive(Debug, Default)]
struct Shown {
    discovery: Option<String>,
    metrics: Option<String>,
}

pub(crate) struct Cmon {
    context: Arc<Context>,
    mode: MetricsMode,
    group: String,
    /// None: CloudAPI names none.
    endpoint: CachedRead<Option<Endpoint>>,
    shown: Mutex<Shown>,
    /// The last report about each object, so that it is reported once.
    reported: Mutex<BTreeMap<(String, &'static str), String>>,
}

impl Cmon {
    /// What the configuration asks for; none if nothing.
    pub(crate) fn new(context: &Arc<Context>) -> Option<Self> {
        let config = &context.config;
        (config.metrics.mode != MetricsMode::Off).then(|| Self {
            context: Arc::clone(context),
            mode: config.metrics.mode,
            group: targets::group(&config.cluster_name),
            endpoint: CachedRead::default(),
            shown: Mutex::default(),
            reported: Mutex::default(),
        })
    }

    pub(crate) fn page(&self, path: &str) -> Option<PageAnswer> {
        let shown = lock(&self.shown);
        if path.strip_prefix(DISCOVERY_PAGE) == Some(&*self.context.cloud) {
            // Whoever asks keeps what it had: an empty list would take all machines away.
            let nothing =
                "this process does not lead, or knows no machines and no metrics service yet";
            return Some(match &shown.discovery {
                Some(body) => PageAnswer::Shown {
                    content_type: "application/json",
                    body: body.clone(),
                },
                None => PageAnswer::NotNow(nothing.to_owned()),
            });
        }
        let is_metrics = path.strip_prefix(METRICS_PAGE) == Some(&*self.context.cloud);
        (is_metrics && self.mode == MetricsMode::Export).then(|| {
            // One of two replicas that has nothing to show is no target that is down.
            let nothing = "# This process does not lead, or has read no metrics yet.\n";
            let body = shown.metrics.clone();
            PageAnswer::Shown {
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: body.unwrap_or_else(|| nothing.to_owned()),
            }
        })
    }

    /// Keeps the view and the list of machines up to date.
    async fn follow(&self, cluster: &dyn Cluster, board: &Board) {
        let mut changes = self.context.data_center.machines.changes();
        loop {
            self.context.activity.record();
            let last = board.view.borrow().clone();
            let pause = match self.look(cluster, last.as_deref()).await {
                Ok(view) => {
                    self.show_machines(&view);
                    board.view.send_replace(Some(Arc::new(view)));
                    self.context.config.resync
                }
                Err(error) => {
                    let error = error_chain(&error);
                    warn!(
                        cloud = self.context.cloud,
                        error, "machines with metrics are not known"
                    );
                    AGAIN
                }
            };
            tokio::select! {
                biased;
                () = cluster.changed() => sleep(GATHER).await,
                // Who misses some looks at everything, as always.
                _ = changes.recv() => sleep(GATHER).await,
                () = sleep(pause) => {}
            }
        }
    }

    async fn look(&self, cluster: &dyn Cluster, last: Option<&View>) -> Result<View, LookError> {
        let cluster_uid = cluster.uid().await.map_err(LookError::Cluster)?;
        let is_whole = cluster.knows_all_nodes();
        let nodes = cluster.nodes();
        let machines = match (
            self.context
                .data_center
                .machines
                .recent(self.context.config.resync)
                .await,
            last,
        ) {
            (Ok(listing), _) => listing,
            (Err(error), Some(last)) => {
                let error = error.chain();
                warn!(
                    cloud = self.context.cloud,
                    error, "machines are as they were last known"
                );
                return Ok(View {
                    cluster_uid,
                    is_whole,
                    ..last.clone()
                });
            }
            (Err(error), None) => return Err(LookError::Machines(error)),
        };
        let targets = targets(&nodes, &machines.machines, &cluster_uid);
        Ok(View {
            endpoint: self.endpoint().await,
            strays: strays(&targets, &machines.machines, &cluster_uid),
            targets,
            cluster_uid,
            is_whole,
        })
    }

    /// Where the metrics service is: as configured, or as CloudAPI answers.
    async fn endpoint(&self) -> Option<Endpoint> {
        if let Some(configured) = &self.context.config.metrics.cmon_endpoint {
            return Endpoint::of(configured);
        }
        let last = self.endpoint.last().await;
        let known = last.map(|last| Option::clone(&last.value));
        let age = match known {
            Some(Some(_)) => ENDPOINT_AGE,
            _ => Duration::ZERO,
        };
        let read = async {
            let services = self.context.data_center.api.services().await?;
            let url = services.get("cmon").map(|url| BaseUrl::parse(url));
            let endpoint = url.and_then(Result::ok).and_then(|url| Endpoint::of(&url));
            if endpoint.is_none() && known.is_none() {
                warn!(
                    cloud = self.context.cloud,
                    "CloudAPI names no metrics service: set cmon-endpoint"
                );
            }
            Ok(endpoint)
        };
        match self.endpoint.recent(age, Box::pin(read)).await {
            Ok(found) => Option::clone(&found.value),
            Err(error) => {
                let error = error.chain();
                warn!(
                    cloud = self.context.cloud,
                    error, "the metrics service is not known"
                );
                known.flatten()
            }
        }
    }

    fn show_machines(&self, view: &View) {
        if let Some(endpoint) = &view.endpoint {
            lock(&self.shown).discovery = Some(targets::discovery(endpoint, &view.targets));
        }
    }
}

impl Cmon {
    fn tell(
        &self,
        cluster: &dyn Cluster,
        regarding: Regarding,
        reason: &'static str,
        message: String,
    ) {
        let object = format!(
            "{}/{}/{}",
            regarding.kind, regarding.namespace, regarding.name
        );
        let key = (object, reason);
        {
            let mut reported = lock(&self.reported);
            if reported.get(&key) == Some(&message) {
                return;
            }
            remember(&mut reported, MOST_TOLD, key, message.clone());
        }
        warn!(
            cloud = self.context.cloud,
            reason,
            object = regarding.name,
            "{message}"
        );
        cluster.tell(ProviderEvent::warning(regarding, reason, message));
    }

    /// It is well again: the next failure is reported.
    fn forget(&self, kind: &str, namespace: &str, name: &str, reasons: &[&'static str]) {
        let object = format!("{kind}/{namespace}/{name}");
        let mut reported = lock(&self.reported);
        for reason in reasons {
            reported.remove(&(object.clone(), *reason));
        }
    }
}

impl Chores for Cmon {
    fn run<'a>(&'a self, cluster: &'a dyn Cluster) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let board = Board {
                view: watch::Sender::new(None),
                certificate: watch::Sender::new(None),
            };
            let board = &board;
            let scraping = async {
                if self.mode == MetricsMode::Export {
                    self.scrape(cluster, board).await;
                }
            };
            join4(
                self.follow(cluster, board),
                self.keep_groups(cluster, board),
                self.keep_objects(cluster, board),
                scraping,
            )
            .await;
        })
    }
}
