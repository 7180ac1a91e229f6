//! The Triton provider: one data center of Triton (once SmartDataCenter).
//!
//! # The cloud
//!
//! A data center is one installation with one API, CloudAPI: there are several, and each knows
//! nothing of the others. An account has machines (virtual machines and containers) with tags and
//! metadata, on public networks and on its own fabric. Triton has no load balancer service. [`balancer`]
//! makes load balancers of its name service (`cns`, driven by tags) or of machines with an appliance
//! (`clb`, driven by metadata).
//!
//! # Its API, and what to know about it
//!
//! - Every request is signed with an SSH key over method, path and date. The server knows no SHA-384,
//!   and refuses a date that is five minutes off.
//! - Names are found by prefix, lists come in pages that are no snapshot, and destroyed machines answer
//!   410 for a while. A 404 about a machine proves nothing: see [`instances`].
//! - Every call about one machine fails while the name service is down; the list does not.
//! - Tags and metadata are changed some time later, or never, if the physical server is down.
//! - Parameters of path, query and body are one: a tag named `machine` means another machine, and a role
//!   asked for in a query becomes a tag.
//! - The change feed only hints that something has changed, in any order and incompletely.
//!
//! # The parts
//!
//! ```text
//!  reload ─ flags, Secret, environment, file ─▶ config ─▶ keys, signature ─┐
//!                                                                          ▼
//!  Cloud ┬▶ instances ┬▶ data_center ┬─▶ machine_cache ◀─ feed: lists again ──┼─▶ api ─▶ bowline-http
//!        ├▶ routes ───┤              ├─▶ account, networks, its own name ─────┤
//!        ├▶ balancer ─┤              └─▶ tags: our tags on the machines ──────┘
//!        └▶ cmon ─────┘  (chores: metrics of machines, for Prometheus)
//!
//!  activity_gate: open while the controllers ask; a standby lists and follows nothing
//! ```

mod activity_gate;
pub mod api;
mod balancer;
pub mod cmon;
pub mod config;
mod context;
mod data_center;
mod feed;
pub mod id;
mod instances;
pub mod keys;
mod kind;
pub mod machine_cache;
mod metrics;
mod reload;
mod routes;
pub mod signature;
pub mod tags;
#[cfg(test)]
mod testing;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::routes::Routes;
use bowline_core::{
    Balancers, BoxFuture, Chores, Cloud, CloudName, Cluster, InstanceProperty, Instances,
    LabelHold, LabelRule, LabelSync, Node, NodeMatch, PageAnswer, ProviderEvent, Secret,
    account_identity,
};
use bowline_http::Background;
pub use bowline_http::Seams;
pub use kind::KIND;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;
use tracing::warn;

use api::ClientError;
use balancer::Balancing;
use cmon::Cmon;
use context::Context;
use instances::Machines;
use routes::FabricRoutes;

pub use balancer::table as annotations;
pub use bowline_provider::FollowedSecret as SecretSource;
pub use config::{Config, ConfigErrors, SecretContent};
pub use data_center::DataCenter;
pub use feed::{GATHER, PING, REFUSED};
pub use instances::{CONFIRMATIONS, INSTANCE_ID, NAMES_READ, PREFIX, dnsify};
pub use metrics::TritonMetrics;
pub use reload::{Environment, LOADED, POLL, REJECTED, SourceError, Sources};
pub use routes::{
    IPV6_IGNORED, MOST_ENTRIES, NEED_SPOOFING, NO_FABRIC_NIC, OUTSIDE_CLUSTER, OVERLAPS_SUBNET,
    SHARED, TOO_MANY,
};

/// The provider's name, as in `--cloud-provider`.
pub const PROVIDER: &str = "triton";
const LIMITS: Duration = Duration::from_secs(600);

#[derive(Debug, Error)]
pub enum BuildError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Builds the cloud and starts to follow the Secret and the file. Sends no request yet; needs a
/// tokio runtime.
pub fn build(
    sources: Sources,
    seams: &Seams,
    metrics: &TritonMetrics,
) -> Result<Arc<Triton>, BuildError> {
    let config = sources.read()?;
    for warning in &config.warnings {
        warn!(cloud = seams.name.as_str(), "{warning}");
    }
    let changed = Arc::new(Notify::new());
    let context = Context::new(config, &sources.environment, seams, metrics)?;
    let machines = Arc::new(Machines::new(&context));
    let follower = reload::Follower {
        sources,
        context: Arc::clone(&context),
        machines: Arc::clone(&machines),
    };
    let mut tasks = background(&context, seams);
    tasks.push(listen(&context.data_center, &changed));
    // Outside the fence: reads files and the Secret, and asks for the account.
    tasks.push(Background::start(follower.run()));
    let routes = context.config.routes.enabled;
    Ok(Arc::new(Triton {
        name: seams.name.clone(),
        cmon: Cmon::new(&context),
        machines,
        routes: routes.then(|| FabricRoutes::new(&context)),
        balancing: Balancing::new(&context),
        context,
        changed,
        _tasks: tasks,
    }))
}

/// No value behind these locks is ever left half changed, so that a panic elsewhere spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Inserts into a bounded map, which is emptied when it is full.
fn remember<K: Ord, V>(memory: &mut BTreeMap<K, V>, most: usize, key: K, value: V) {
    if memory.len() >= most {
        memory.clear();
    }
    memory.insert(key, value);
}

/// Wakes the label controller when machines have changed.
fn listen(data_center: &DataCenter, changed: &Arc<Notify>) -> Background {
    let (mut changes, changed) = (data_center.machines.changes(), Arc::clone(changed));
    // Outside the fence: calls nobody.
    Background::start(async move {
        loop {
            match changes.recv().await {
                Ok(_) | Err(RecvError::Lagged(_)) => changed.notify_one(),
                Err(RecvError::Closed) => return,
            }
        }
    })
}

/// Background reads, which rest while the activity gate is closed: on a standby, where nobody asks.
fn background(context: &Arc<Context>, seams: &Seams) -> Vec<Background> {
    // All outside the fence: they only read.
    let mut tasks = Vec::new();
    if context.config.changefeed {
        let follower = feed::Follower {
            context: Arc::clone(context),
            random: seams.random.fork(),
            connected: context.metrics.connected(),
        };
        tasks.push(Background::start(follower.run()));
    }
    let asked = Arc::clone(context);
    tasks.push(Background::start(async move {
        loop {
            asked.activity.wait().await;
            let resync = asked.config.resync;
            sleep(resync).await;
            // The next caller gets the error.
            let _ = asked.data_center.machines.recent(resync / 2).await;
        }
    }));
    let asked = Arc::clone(context);
    tasks.push(Background::start(async move {
        loop {
            asked.activity.wait().await;
            // Without permission to read limits there is nothing to show.
            if let Ok(limits) = asked.data_center.api.limits().await {
                asked.metrics.limits(&limits);
            }
            sleep(LIMITS).await;
        }
    }));
    tasks
}

pub struct Triton {
    name: CloudName,
    context: Arc<Context>,
    /// None: metrics of machines are switched off.
    cmon: Option<Cmon>,
    machines: Arc<Machines>,
    routes: Option<FabricRoutes>,
    balancing: Balancing,
    /// Machines have changed since labels were last synced.
    changed: Arc<Notify>,
    _tasks: Vec<Background>,
}

impl Triton {
    pub fn data_center(&self) -> &Arc<DataCenter> {
        &self.context.data_center
    }
}

impl Cloud for Triton {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn match_node(&self, node: &Node) -> NodeMatch {
        id::claim(node).into()
    }

    /// Login and endpoint, not the key: another key of the same account sees the same machines.
    fn account(&self) -> Option<Secret> {
        let client = self.context.data_center.api.client();
        let connection = client.connection();
        Some(account_identity([
            PROVIDER,
            &connection.endpoint.to_string(),
            connection.login(),
            connection.owner.user.as_deref().unwrap_or_default(),
            &connection.roles.join(" "),
        ]))
    }

    fn next_event(&self) -> BoxFuture<'_, ProviderEvent> {
        Box::pin(self.context.events.next())
    }

    fn malformed_reason(&self) -> &'static str {
        "InvalidProviderID"
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&*self.machines)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        let routes = self.routes.as_ref()?;
        Some(routes)
    }

    fn balancers(&self) -> Option<&dyn Balancers> {
        Some(&self.balancing)
    }

    fn label_sync(&self) -> Option<&dyn LabelSync> {
        Some(self)
    }

    fn chores(&self) -> Option<&dyn Chores> {
        Some(self)
    }
}

impl Chores for Triton {
    fn run<'a>(&'a self, cluster: &'a dyn Cluster) -> BoxFuture<'a, ()> {
        let metrics = async {
            if let Some(cmon) = &self.cmon {
                cmon.run(cluster).await;
            }
        };
        Box::pin(async move {
            tokio::join!(metrics, tags::sweep(&self.context.tags, cluster));
        })
    }

    fn page(&self, path: &str) -> Option<PageAnswer> {
        self.cmon.as_ref()?.page(path)
    }
}

impl LabelSync for Triton {
    fn holds(&self, key: &str) -> LabelHold {
        if instances::is_own_label(key) {
            LabelHold::Whole
        } else {
            LabelHold::Not
        }
    }

    /// A machine can be resized, but never moves to another data center.
    fn follows(&self, fact: InstanceProperty) -> Option<LabelRule> {
        match fact {
            InstanceProperty::Zone | InstanceProperty::Region => None,
            InstanceProperty::InstanceType => Some(LabelRule {
                first: None,
                is_warning: false,
                reason: "InstanceTypeChanged",
                words: "instance type changed",
            }),
        }
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }
}
