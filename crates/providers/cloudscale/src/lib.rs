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
//! - A region is a zone without its number. The API does not say it otherwise.
//! - A server is `running`, `stopped`, or `changing` for some seconds. Only `stopped` is off.
//! - An object that does not exist is a 404 whose body is empty or a JSON object. A 404 with a page
//!   in it comes from something in between, or from a wrong URL, and proves nothing.
//! - Errors are flat objects of texts, by field: `{"name": "This field may not be blank."}`.
//! - `CLOUDSCALE_API_URL` holds the version (`/v1`) for some of the vendor's tools and not for
//!   others; both are taken.
//! - The SMBIOS uuid that a kubelet reports is not the uuid of its server: never match on it.
//! - A PATCH carries one attribute. Two are refused, so every change is a call of its own.
//! - A load balancer is `changing` while it is made and for a moment after each write. Before it has
//!   been ready once it takes no children; later it does, whatever its state. `error` only says that
//!   its members are down, which is no reason to leave it alone.
//! - A child that was deleted holds its place (port, pool, address) for some seconds. There is no way
//!   to see the end of that but to try again: the POST that takes the place is a 400 until then.
//! - Pools cannot be changed at all, members and listeners in little, and a floating IP cannot be
//!   unassigned, only moved.
//! - Names of load balancers are not unique, and tags are all that says whose one is:
//!   `k8s-service-uid`, and `k8s-cluster-name` where the cluster has a name.
//!
//! # The parts
//!
//! ```text
//!  config ─ environment, checked ─┐              ┌─▶ instances ─┐
//!                                 ├─▶ build ─▶ Cloud   ▲        ├─▶ api ─▶ bowline-http
//!  Surroundings ─ network, time ──┘              └─▶ balancer ──┘
//!
//!  id: what a provider id means      annotations: what Services may say
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
pub use bowline_http::Surroundings;
use bowline_http::{Background, Bearer, CallMetrics, DEFAULT_BUCKETS, HttpClient, RetryPolicy};
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
pub fn build(config: &Config, surroundings: Surroundings) -> Result<Arc<dyn Cloud>, BuildError> {
    let Surroundings {
        name,
        connector,
        clock,
        random,
        metrics,
    } = surroundings;
    for warning in &config.warnings {
        warn!(cloud = name.as_str(), "{warning}");
    }
    let token = Token::first(&config.token)?;
    let timeout = config.timeout.value;
    let http = HttpClient::builder(name.as_str(), config.api_url.value.clone(), connector)
        .clock(clock.clone())
        .random(random)
        .auth(Bearer(token.value.clone()))
        .request_timeout(timeout)
        .call_deadline(api::call_deadline(timeout))
        .retry(RetryPolicy::default())
        .error_text(api::error_text);
    let http = match metrics {
        Some(metrics) => http.metrics(metrics).build(),
        None => http.build(),
    };
    let match_by_address = config.match_by_address.value;
    let servers = Arc::new(Servers::new(
        Api::new(http.clone()),
        clock,
        match_by_address,
    ));
    let api = Api::new(http.clone());
    let balancers = Arc::new(LoadBalancers::new(api, Arc::clone(&servers), config));
    let url = config.api_url.value.to_string();
    let project = Arc::new(Project {
        url,
        token: Mutex::new(token.value.clone()),
    });
    let follower = Arc::clone(&project);
    let watch = token.follow(&config.token, http, &servers, &balancers, follower);
    Ok(Arc::new(Cloudscale {
        name,
        servers,
        balancers,
        project,
        _watch: watch,
    }))
}

struct Token {
    value: Secret,
    from_file: bool,
}

impl Token {
    fn first(source: &TokenSource) -> Result<Self, BuildError> {
        let (path, fallback) = match source {
            TokenSource::Given(token) => {
                return Ok(Self {
                    value: token.clone(),
                    from_file: false,
                });
            }
            TokenSource::File { path, fallback } => (path, fallback),
        };
        match (token::read_now(path), fallback) {
            (Ok(value), _) => Ok(Self {
                value,
                from_file: true,
            }),
            (Err(error), Some(fallback)) => {
                let variable = config::ACCESS_TOKEN.name;
                warn!(
                    error = error.text(),
                    "beginning with the token of {variable}"
                );
                Ok(Self {
                    value: fallback.clone(),
                    from_file: false,
                })
            }
            (Err(error), None) => Err(error.into()),
        }
    }

    fn follow(
        self,
        source: &TokenSource,
        http: HttpClient,
        servers: &Arc<Servers>,
        balancers: &Arc<LoadBalancers>,
        project: Arc<Project>,
    ) -> Option<Background> {
        let TokenSource::File { path, .. } = source else {
            return None;
        };
        let current = self.from_file.then_some(self.value);
        let (servers, balancers) = (Arc::downgrade(servers), Arc::downgrade(balancers));
        let watch = token::follow(path.clone(), current, move |token| {
            http.set_auth(Bearer(token.clone()));
            project.has_token(token);
            if let Some(servers) = servers.upgrade() {
                servers.token_changed();
            }
            if let Some(balancers) = balancers.upgrade() {
                balancers.token_changed();
            }
        });
        Some(watch)
    }
}

/// What is known of a project. The API does not say which one a token belongs to, but a token never changes it.
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
