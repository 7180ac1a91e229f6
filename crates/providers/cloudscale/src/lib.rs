//! The cloudscale.ch provider: one project of a small Swiss cloud.
//!
//! # The cloud
//!
//! Two regions (`rma`, `lpg`) of one zone each (`rma1`, `lpg1`); servers, networks, load balancers
//! and floating IPs over one JSON API for all of them. A token belongs to one project and sees
//! nothing else.
//!
//! # Its API, and what to know about it
//!
//! - Lists are bare arrays, whole, without pages: one call shows every server.
//! - Names are not unique, and a server can be renamed to any text; the guest's host name does not
//!   follow. So a name finds the server of a new node only if exactly one server has it, and from
//!   then on the provider id counts: `cloudscale://<uuid>`.
//! - A region is a zone without its number. The API has no other word for it.
//! - A server is `running`, `stopped`, or `changing` for some seconds. Only `stopped` is off.
//! - An object that does not exist is a 404 whose body is empty or a JSON object. A 404 with a page
//!   in it comes from something in between, or from a wrong URL, and proves nothing.
//! - Errors are flat objects of texts, by field: `{"name": "This field may not be blank."}`.
//! - `CLOUDSCALE_API_URL` holds the version (`/v1`) for some of the vendor's tools and not for
//!   others; both are taken.
//! - The SMBIOS uuid that a kubelet reports is not the uuid of its server: never match on it.
//! - A PATCH carries one attribute. Two are refused, so every change is a call of its own.
//! - A load balancer is `changing` while it is made and for a moment after each write. Before it has
//!   been ready once it takes no children; later it does, whatever its state. `error` only means that
//!   its members are down, which is no reason not to change it.
//! - A child that was deleted still occupies its port, pool or address for some seconds. There is no way
//!   to see the end of that but to try again: a POST for the same is a 400 until then.
//! - Pools cannot be changed at all, members and listeners in little, and a floating IP cannot be
//!   unassigned, only moved.
//! - Names of load balancers are not unique, and only tags show the owner:
//!   `k8s-service-uid`, and `k8s-cluster-name` where the cluster has a name.
//!
//! # The parts
//!
//! ```text
//!  config ─ environment, checked ─┐              ┌─▶ instances ─┐
//!                                 ├─▶ build ─▶ Cloud   ▲        ├─▶ api ─▶ bowline-http
//!  Seams ─ network, time ──┘              └─▶ balancer ──┘
//!
//!  id: what a provider id means      annotations: the settings of Services
//! ```

mod api;
mod balancer;
pub mod config;
pub mod id;
mod instances;
mod kind;
mod token;

use std::sync::{Arc, Mutex, PoisonError};

use bowline_core::{
    Balancers, Claim, Cloud, CloudName, Instances, Node, NodeMatch, Secret, account_identity,
};
pub use bowline_http::Seams;
use bowline_http::{Background, Bearer, CallMetrics, DEFAULT_BUCKETS, RetryPolicy};
pub use kind::KIND;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tracing::warn;

use api::Api;
use balancer::LoadBalancers;
use config::TokenSource;
use instances::Servers;

pub use balancer::SNAPSHOT_AGE;
pub use balancer::settings::table as annotations;
pub use config::{Config, ConfigErrors};
pub use instances::{CONFIRMATIONS, FEW, LIST_AGE};
pub use token::{TOKEN_POLL, TokenFileError};

/// The provider's name, as in `--cloud-provider`.
pub const PROVIDER: &str = "cloudscale";

#[derive(Debug, Error)]
pub enum BuildError {
    /// The token file gives none, and there is no other.
    #[error("{} gives no token", config::ACCESS_TOKEN_FILE.name)]
    Token(#[from] TokenFileError),
}

/// Registers the metrics of all clouds of this kind, once per process: `cloudscale_requests_total`,
/// `cloudscale_request_duration_seconds`, `cloudscale_in_flight_requests`, and the framework's
/// `cloudprovider_cloudscale_api_request_…`.
pub fn register_metrics(registry: &mut Registry) -> CallMetrics {
    CallMetrics::register(registry, PROVIDER, PROVIDER, &DEFAULT_BUCKETS)
}

/// The cloud. Makes no call yet, but reads the token file, if there is one, and begins to follow
/// it; that needs a tokio runtime.
pub fn build(config: &Config, seams: Seams) -> Result<Arc<dyn Cloud>, BuildError> {
    for warning in &config.warnings {
        warn!(cloud = seams.name.as_str(), "{warning}");
    }
    let (token, from_file) = first_token(&config.token)?;
    let timeout = config.timeout.value;
    let http = seams
        .client(config.api_url.value.clone())
        .auth(Bearer(token.clone()))
        .request_timeout(timeout)
        .call_deadline(api::call_deadline(timeout))
        .retry(RetryPolicy::default())
        .error_text(api::error_text)
        .build();
    let match_by_address = config.match_by_address.value;
    let (api, Seams { name, clock, .. }) = (Api::new(http.clone()), seams);
    let servers = Arc::new(Servers::new(api.clone(), clock, match_by_address));
    let balancers = Arc::new(LoadBalancers::new(api, Arc::clone(&servers), config));
    let url = config.api_url.value.to_string();
    let project = Arc::new(Project {
        url,
        token: Mutex::new(token.clone()),
    });
    let followers = (Arc::downgrade(&servers), Arc::downgrade(&balancers));
    let followed = Arc::clone(&project);
    let changed = move |token: Secret| {
        http.set_auth(Bearer(token.clone()));
        followed.has_token(token);
        if let Some(servers) = followers.0.upgrade() {
            servers.token_changed();
        }
        if let Some(balancers) = followers.1.upgrade() {
            balancers.token_changed();
        }
    };
    let watch = match &config.token {
        TokenSource::Given(_) => None,
        TokenSource::File { path, .. } => {
            Some(token::follow(path.clone(), (token, from_file), changed))
        }
    };
    Ok(Arc::new(Cloudscale {
        name,
        servers,
        balancers,
        project,
        _watch: watch,
    }))
}

/// The token to begin with, and whether it is what the file holds.
fn first_token(source: &TokenSource) -> Result<(Secret, bool), BuildError> {
    let (path, fallback) = match source {
        TokenSource::Given(token) => return Ok((token.clone(), false)),
        TokenSource::File { path, fallback } => (path, fallback),
    };
    match (token::read_now(path), fallback) {
        (Ok(token), _) => Ok((token, true)),
        (Err(error), Some(fallback)) => {
            let variable = config::ACCESS_TOKEN.name;
            warn!(%error, "beginning with the token of {variable}");
            Ok((fallback.clone(), false))
        }
        (Err(error), None) => Err(error.into()),
    }
}

/// What is known of a project. The API does not show which one a token belongs to, but a token
/// never changes it.
struct Project {
    url: String,
    token: Mutex<Secret>,
}

impl Project {
    fn has_token(&self, token: Secret) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    fn identity(&self) -> Secret {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        account_identity([PROVIDER, &self.url, token.reveal()])
    }
}

/// One project at cloudscale.ch.
struct Cloudscale {
    name: CloudName,
    servers: Arc<Servers>,
    balancers: Arc<LoadBalancers>,
    project: Arc<Project>,
    /// Ends with the cloud.
    _watch: Option<Background>,
}

impl Cloud for Cloudscale {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn match_node(&self, node: &Node) -> NodeMatch {
        let id = node.provider_id.as_deref();
        id.map_or(Claim::Foreign, id::claim).into()
    }

    /// `--allow-untagged-cloud` is taken and not needed.
    fn has_cluster_id(&self) -> bool {
        true
    }

    /// The token with its endpoint: a new one of the same project has to show that it is.
    fn account(&self) -> Option<Secret> {
        Some(self.project.identity())
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&*self.servers)
    }

    fn balancers(&self) -> Option<&dyn Balancers> {
        Some(&*self.balancers)
    }
}
