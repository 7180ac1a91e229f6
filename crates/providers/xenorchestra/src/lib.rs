//! The Xen Orchestra provider: virtual machines of XCP-ng and XenServer pools.
//!
//! # The cloud
//!
//! Xen Orchestra is one server that manages many *pools*; a pool is a cluster of *hosts*
//! (hypervisors), and on them run the *VMs* that are nodes here. The pool is the region of a node,
//! the host its zone, so that a zone changes whenever a VM is migrated. There are no load balancers
//! and no routes.
//!
//! # Its API, and what to know about it
//!
//! - REST under `/rest/v0`, HTTP/1.1, often with a self-signed certificate, often behind a redirect from
//!   http to https, sometimes behind a proxy with a path of its own that the server does not know of.
//! - A token is a cookie. It lives at most half a year and is not prolonged by use. A user with a password
//!   gets one in different ways, depending on the age of the server.
//! - The server shows what it has in memory. A pool that is disconnected, or not loaded yet, is not there
//!   with all it has: a VM of it is `404 no such VM`, although it runs. See `proof`.
//! - Lists come whole; what a user may not read is left out of them without a word.
//! - `$container` is the host of a VM that runs. Of one that does not it is the pool, or a host that has a
//!   disk of it, and it may be missing.
//! - Guests with some firmware report their UUID in the other byte order.
//! - Events have no replay; those that a pool's disconnection sends look like deletions.
//!
//! # The parts
//!
//! ```text
//!  config ─ file or environment ─▶ build ─▶ Cloud ─▶ instances ─▶ server ─▶ api ─▶ session ─▶ bowline-http
//!     └─ read again: session/reload               │      │          ▲                └─ sign_in, rpc
//!                                                 │      └─ proof   └─ events
//!                                                 └─ check: does it answer?
//!
//!  id: what a provider id means; instances/{describe, addresses}, labels: what a node gets
//! ```

mod api;
mod check;
pub mod config;
mod events;
mod hash;
pub mod id;
mod instances;
mod kind;
pub mod labels;
mod metrics;
mod proof;
mod reporter;
mod server;
mod session;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use bowline_core::{
    BoxFuture, Cloud, CloudName, InstanceProperty, Instances, LabelHold, LabelRule, LabelSync,
    Node, NodeMatch, ProviderEvent, Secret, account_identity,
};
pub use bowline_http::Seams;
use bowline_http::{Background, Reloaded, TlsError};
pub use kind::KIND;
use thiserror::Error;
use tokio::sync::Notify;

use api::Api;
use check::Checks;
use instances::Machines;
use server::Server;
use session::Session;

pub use bowline_http::lookup::{CONFIRMATIONS, FEW, LIST_AGE};
pub use config::{Config, ConfigError};
pub use metrics::{Gauges, Metrics, register_metrics};
pub use reporter::Reporter;
pub use server::NAMES_AGE;

/// The provider's name, as in `--cloud-provider`.
pub const PROVIDER: &str = "xenorchestra";

#[derive(Debug, Error)]
pub enum BuildError {
    #[error("the connection to server {server} cannot be set up")]
    Tls { server: String, source: TlsError },
}

/// Builds the cloud, without a request: whether the servers answer is checked in the background and
/// reported by [`Cloud::ready`] and [`Cloud::next_event`]. Needs a tokio runtime.
pub fn build(
    config: &Config,
    seams: &Seams,
    gauges: &Gauges,
) -> Result<Arc<dyn Cloud>, BuildError> {
    let mut sessions = Vec::new();
    for server in &config.servers {
        let session = Session::new(server.clone(), seams.clone());
        let session = session.map_err(|source| BuildError::Tls {
            server: server.name.clone(),
            source,
        })?;
        sessions.push(Arc::new(session));
    }
    let reload = session::reload(config, sessions.clone());
    let changed = Arc::new(Notify::new());
    let known = sessions.clone();
    let servers: Vec<Arc<Server>> = sessions
        .into_iter()
        .map(|session| {
            let name = session.name();
            let api = Api::new(session, reload.clone());
            let clock = seams.clock.clone();
            Arc::new(Server::new(
                name,
                api,
                clock,
                gauges.clone(),
                changed.clone(),
            ))
        })
        .collect();
    let checks = Checks::new(&servers, config.reporter.clone());
    let mut tasks = Vec::new();
    for (number, server) in servers.iter().enumerate() {
        let random = seams.random.fork();
        let watching = check::watch(
            checks.clone(),
            server.clone(),
            number,
            random,
            gauges.clone(),
        );
        // Outside the fence: only reads.
        tasks.push(Background::start(watching));
    }
    tasks.extend(reload.iter().map(Reloaded::follow));
    let machines = Machines::new(
        servers,
        config.nodes.clone(),
        config.events,
        seams.clock.clone(),
        seams.random.fork(),
    );
    Ok(Arc::new(XenOrchestra {
        name: seams.name.clone(),
        machines,
        checks,
        changed,
        sessions: known,
        _tasks: tasks,
    }))
}

/// The servers of one configuration.
struct XenOrchestra {
    name: CloudName,
    machines: Machines,
    checks: Arc<Checks>,
    /// Told when a server's events say something new.
    changed: Arc<Notify>,
    sessions: Vec<Arc<Session>>,
    /// They end with the cloud.
    _tasks: Vec<Background>,
}

impl Cloud for XenOrchestra {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn match_node(&self, node: &Node) -> NodeMatch {
        id::claim(node).into()
    }

    fn recognises_by(&self) -> Option<&'static str> {
        Some(
            "Xen Orchestra recognises a VM by its UUID, which the kubelet reports as system UUID. Check that Xen \
             Orchestra shows a VM with that UUID, that its pool is connected, and that the user of the token may see \
             it; a VM that was copied or restored has another UUID",
        )
    }

    /// `--allow-untagged-cloud` is taken and not needed.
    fn has_cluster_id(&self) -> bool {
        true
    }

    fn account(&self) -> Option<Secret> {
        let parts = self.sessions.iter().flat_map(|it| it.identity());
        let parts: Vec<Secret> = parts.collect();
        let parts = parts.iter().map(Secret::reveal);
        Some(account_identity(std::iter::once(PROVIDER).chain(parts)))
    }

    fn ready(&self) -> Result<(), String> {
        self.checks.ready()
    }

    fn next_event(&self) -> BoxFuture<'_, ProviderEvent> {
        Box::pin(self.checks.next_event())
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.machines)
    }

    fn label_sync(&self) -> Option<&dyn LabelSync> {
        Some(self)
    }
}

impl LabelSync for XenOrchestra {
    /// Unreadable names and the host of a VM that does not run are unknown, and the labels stay.
    fn holds(&self, key: &str) -> LabelHold {
        if key.contains(labels::OWNED) {
            LabelHold::Value
        } else {
            LabelHold::Not
        }
    }

    fn follows(&self, fact: InstanceProperty) -> Option<LabelRule> {
        Some(labels::following(fact))
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }
}
