//! Clients of the Kubernetes API.
//!
//! One [`Connection`] to the API server is shared; every identity gets a [`kube::Client`] of its own
//! on top of it, with its user agent, its rate limit and its deadlines:
//!
//! ```text
//!  kube::Client ─ agent, token ─ bucket, writes in flight ─ fence, deadline, Retry-After ─ metrics ─▶ Connection
//! ```
//!
//! A controller's client changes nothing without a valid lease: whatever uses it, a write that is
//! due after the lease ran out (of a node, an event, an account) fails here, unsent.
//! With `--use-service-account-credentials` the controllers' clients speak as service accounts.

mod accounts;
mod bucket;
mod call;
mod connection;
mod health;
mod in_flight;
mod server_names;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bowline_http::Clock;
use http::HeaderValue;
use kube::Client;
use tokio::sync::Notify;

use crate::kube::election::Fence;
use crate::metrics::Metrics;
use crate::options::ClientOptions;

pub use accounts::AccountError;
pub use call::{CALL_DEADLINE, DeadlineExceeded};
pub use connection::{Connection, ConnectionError, load_config};
pub use health::{HEALTH_PATIENCE, Unhealthy, wait_until_healthy};
pub(crate) use in_flight::MOST_IN_FLIGHT;
pub use server_names::ServerNames;

use bucket::bucket;
use call::Calls;
use connection::ApiService;
use in_flight::WritesInFlight;

/// Identity of the watches and of the API server's health poll.
pub const INFORMERS: &str = "shared-informers";
/// Identity of the Lease.
pub const LEADER_ELECTION: &str = "leader-election";
/// Identity of the events about leadership.
pub const LEADER_EVENTS: &str = "cloud-controller-manager";

/// Who we say we are, apart from the identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Name of the program.
    pub program: String,
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
}

impl Agent {
    /// The user agent of an identity.
    pub fn text(&self, identity: &str) -> String {
        let (program, version, commit) = (&self.program, &self.version, &self.commit);
        // Go's names for the same machines, which is what people filter audit logs by.
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            other => other,
        };
        let system = std::env::consts::OS;
        format!("{program}/{version} ({system}/{architecture}) kubernetes/{commit}/{identity}")
    }
}

/// Requests per second, and at once, that one client may make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// `--kube-api-qps`: negative for no limit, 0 for the default of 5.
    pub qps: f32,
    /// `--kube-api-burst`.
    pub burst: i32,
}

impl From<&ClientOptions> for Limits {
    fn from(options: &ClientOptions) -> Self {
        Self {
            qps: options.qps,
            burst: options.burst,
        }
    }
}

/// Makes clients, one for each use.
#[derive(Clone)]
pub struct Clients {
    connection: Connection,
    agent: Agent,
    limits: Limits,
    clock: Clock,
    metrics: Arc<Metrics>,
    service_accounts: bool,
    writes: WritesInFlight,
    restored: Arc<Notify>,
}

impl Clients {
    /// Clients over that connection; with `service_accounts`, controllers get one each.
    pub fn new(
        connection: Connection,
        agent: Agent,
        limits: Limits,
        clock: Clock,
        metrics: Arc<Metrics>,
        service_accounts: bool,
    ) -> Self {
        Self {
            connection,
            agent,
            limits,
            clock,
            metrics,
            service_accounts,
            writes: WritesInFlight::default(),
            restored: Arc::default(),
        }
    }

    /// Whether the number of controllers' writes in flight adapts to what the API server takes. If not, their workers
    /// limit it.
    pub fn adapt_writes(&self, adapt: bool) {
        self.writes.adapt(adapt);
    }

    /// Wakes all stores when somebody notices that the API server was restored to an earlier state.
    pub(crate) fn restored(&self) -> Arc<Notify> {
        self.restored.clone()
    }

    /// The API server, as `host:port`.
    pub fn host(&self) -> &str {
        self.connection.host()
    }

    /// What the API server is called.
    pub fn server_names(&self) -> ServerNames {
        self.connection.server_names().clone()
    }

    /// A client with the connection's own credentials: for watches, the Lease, leader events. Every
    /// call makes one with a bucket of its own.
    pub fn root(&self, identity: &str) -> Client {
        self.client(self.connection.root(), identity, None, None)
    }

    /// A client for a controller that always has the connection's own credentials, since nobody grants
    /// rights to an account of its name; it refuses to change anything once `fence` is shut.
    pub fn with_own_rights(&self, identity: &str, fence: &Fence) -> Client {
        self.client(self.connection.root(), identity, None, Some(fence))
    }

    /// A client for a controller, which refuses to change anything once `fence` is shut: a service
    /// account's if that was asked for, else with the connection's own credentials.
    pub async fn for_controller(
        &self,
        identity: &str,
        fence: &Fence,
    ) -> Result<Client, AccountError> {
        let own = self.client(self.connection.root(), identity, None, Some(fence));
        // Signing in makes accounts and tokens, which an observer does not.
        if !self.service_accounts || fence.is_observing() {
            return Ok(own);
        }
        let token = accounts::sign_in(own, identity, &self.clock).await?;
        let account = format!("system:serviceaccount:{}:{identity}", accounts::NAMESPACE);
        Ok(self.client(self.connection.bare(), &account, Some(token), Some(fence)))
    }

    fn client(
        &self,
        connection: &ApiService,
        identity: &str,
        token: Option<Arc<accounts::Token>>,
        fence: Option<&Fence>,
    ) -> Client {
        let agent = self.agent.text(identity);
        let calls = Calls {
            connection: connection.clone(),
            agent: HeaderValue::from_str(&agent)
                .unwrap_or_else(|_| HeaderValue::from_static("bowline")),
            token,
            bucket: bucket(self.limits).map(Arc::new),
            writes: fence.map(|_| self.writes.clone()),
            fence: fence.cloned().unwrap_or_else(Fence::open),
            host: self.connection.host().to_owned(),
            metrics: Arc::clone(&self.metrics),
        };
        Client::new(calls, self.connection.namespace())
    }
}
