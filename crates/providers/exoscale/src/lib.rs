//! The Exoscale provider: one zone of a European cloud.
//!
//! # The cloud
//!
//! Zones (`ch-gva-2`, `at-vie-1`, …) that share an account and nothing else: each has an API host
//! of its own, and the same path on two hosts shows two different sets of objects. Load balancers
//! are network load balancers (NLB) of one public IPv4 address, whose listeners ("services") each
//! send to one instance pool; the NLB follows the members of the pool by itself.
//!
//! # Its API, and what to know about it
//!
//! - Every request is signed (EXO2-HMAC-SHA256) over method, path, body, query values and an expiry
//!   ten minutes ahead: a clock that is wrong by more makes every call fail.
//! - Lists come whole, without pages, in an object under a key of their own. An empty list may be
//!   left out. Every field of every object may be missing.
//! - Every write answers with an operation, which is done some time later, mostly in seconds. It is
//!   asked for under its id. It may have failed in the very first answer.
//! - The operation on a service of an NLB refers to the NLB: a new service has to be found by reading
//!   the NLB again.
//! - NLB names are unique per zone; a second one of a name is a 409. Instance names are not unique.
//! - Empty texts are refused, and what is absent from a PUT stays: a description is emptied by a
//!   DELETE of that field.
//! - The health check of a service is replaced as a whole. The pool of a service cannot change.
//! - 403 is a wrong signature, a role that does not allow the call, a quota, or a locked resource.
//!   A role written for the original controller must stay enough: what that did not call, ours can do
//!   without.
//! - The list of zones is public; signed, it needs the role's permission like any other call.
//! - The SMBIOS uuid that a kubelet reports is the id of its instance.
//!
//! # The parts
//!
//! ```text
//!  config ─ file and environment, checked ─┐
//!  zone ─ which zone, where its API is ────┼─▶ build ─▶ Cloud ─▶ instances ─┬─▶ api ─▶ bowline-http
//!  credentials ─ given, or from a file ────┘              └────▶ balancer ──┘
//!                                                                  └─▶ operation: how to wait
//!
//!  id: what a provider id means; certificates: which addresses a kubelet may show one for
//! ```

mod api;
mod balancer;
mod certificates;
pub mod config;
mod credentials;
pub mod id;
mod instances;
mod kind;
mod operation;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod zone;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_core::{
    Balancers, Cloud, CloudName, Instances, Node, NodeMatch, Secret, ServingCertificates,
    account_identity,
};
pub use bowline_http::Seams;
use bowline_http::{BaseUrl, CallMetrics, DEFAULT_BUCKETS, HttpClient};
use http::HeaderValue;
pub use kind::KIND;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tracing::{info, warn};

use api::Api;
use balancer::LoadBalancers;
use certificates::Certificates;
use config::{CredentialSource, InstanceConfig};
use credentials::CredentialsFile;
use instances::Machines;
use zone::Machine;

pub use balancer::record::RECORD;
pub use balancer::settings::table as annotations;
pub use config::{Config, ConfigErrors};
pub use credentials::{CREDENTIALS_POLL, KeyPair};
pub use instances::{CONFIRMATIONS, FEW, LIST_AGE};
pub use zone::ZoneError;

/// The provider's name, as in `--cloud-provider`.
pub const PROVIDER: &str = "exoscale";

#[derive(Debug, Error)]
pub enum BuildError {
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

/// Registers the metrics of all clouds of this kind, once per process: `exoscale_requests_total`,
/// `exoscale_request_duration_seconds`, `exoscale_in_flight_requests`, and the framework's
/// `cloudprovider_exoscale_api_request_…`.
pub fn register_metrics(registry: &mut Registry) -> CallMetrics {
    CallMetrics::register(registry, PROVIDER, PROVIDER, &DEFAULT_BUCKETS)
}

/// The cloud. Finds its zone, which may ask the machine for it, and where the zone's API is, which
/// asks a configured API for it; tries the credentials of a file, if there is one, and begins to
/// follow it. Needs a tokio runtime.
pub async fn build(config: &Config, seams: Seams) -> Result<Arc<dyn Cloud>, BuildError> {
    for warning in &config.warnings {
        warn!(cloud = seams.name.as_str(), "{warning}");
    }
    let machine = Machine::new(&seams.connector);
    let zone = zone::find(config, &machine).await?;
    let client = |base| client(config, &seams, base);
    let base = zone::endpoint(&config.endpoint, &zone, client).await?;
    info!(cloud = seams.name.as_str(), zone, api = %base, "serving one zone");
    let account = Account {
        endpoint_and_zone: [base.to_string(), zone.clone()],
        key: Arc::default(),
    };
    let http = client(base);
    let machines = Arc::new(Machines::new(
        Api::new(http.clone()),
        seams.clock.clone(),
        zone,
        config.instances.clone(),
    ));
    let settings = &config.load_balancer;
    let balancers = (!settings.disabled)
        .then(|| Arc::new(LoadBalancers::new(Api::new(http.clone()), settings)));
    let credentials = match &config.credentials {
        CredentialSource::Given(pair) => {
            http.set_auth(pair.clone());
            account.has_key(&pair.key);
            None
        }
        CredentialSource::File(path) => {
            let followers = (Arc::downgrade(&machines), balancers.clone());
            let followed = account.clone();
            let changed = move |key: &str| {
                followed.has_key(key);
                if let Some(machines) = followers.0.upgrade() {
                    machines.credentials_changed();
                }
                if let Some(balancers) = &followers.1 {
                    balancers.credentials_changed();
                }
            };
            let following = CredentialsFile::follow(path.clone(), http.clone(), changed);
            Some(Box::pin(following).await)
        }
    };
    Ok(Arc::new(Exoscale {
        name: seams.name,
        config: config.instances.clone(),
        certificates: Certificates::new(machines.clone(), config.node_csr_validation),
        machines,
        balancers,
        account,
        credentials,
    }))
}

/// A client of the API at `base`, without credentials.
fn client(config: &Config, seams: &Seams, base: BaseUrl) -> HttpClient {
    let agent = concat!("bowline/", env!("CARGO_PKG_VERSION"), " (exoscale)");
    seams
        .client(base)
        .user_agent(HeaderValue::from_static(agent))
        .request_timeout(api::REQUEST_TIMEOUT)
        .call_deadline(api::CALL_DEADLINE)
        .retry(api::retry_policy())
        .error_text(api::error_text)
        .trace(config.trace)
        .build()
}

/// One zone of Exoscale.
struct Exoscale {
    name: CloudName,
    config: InstanceConfig,
    machines: Arc<Machines>,
    /// None if they are switched off.
    balancers: Option<Arc<LoadBalancers>>,
    certificates: Certificates,
    /// Ends with the cloud.
    credentials: Option<CredentialsFile>,
    account: Account,
}

/// Which organisation is seen, and where. A key belongs to one organisation for ever, and no secret
/// is needed to tell it from others. A new key of the same organisation has to show that it is.
#[derive(Clone)]
struct Account {
    /// The endpoint and the zone.
    endpoint_and_zone: [String; 2],
    /// The key in use; empty as long as there is none.
    key: Arc<Mutex<String>>,
}

impl Account {
    fn has_key(&self, key: &str) {
        key.clone_into(&mut self.key());
    }

    fn key(&self) -> MutexGuard<'_, String> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn identity(&self) -> Secret {
        let [endpoint, zone] = &self.endpoint_and_zone;
        account_identity([PROVIDER, endpoint, zone, &self.key()])
    }
}

impl Cloud for Exoscale {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn match_node(&self, node: &Node) -> NodeMatch {
        NodeMatch {
            other_account: self.machines.is_elsewhere(node),
            ..id::claim(node, &self.config).into()
        }
    }

    /// `--allow-untagged-cloud` is taken and not needed.
    fn has_cluster_id(&self) -> bool {
        true
    }

    fn balancers(&self) -> Option<&dyn Balancers> {
        self.balancers.as_deref().map(|it| it as _)
    }

    fn account(&self) -> Option<Secret> {
        Some(self.account.identity())
    }

    fn ready(&self) -> Result<(), String> {
        match &self.credentials {
            Some(file) => file.ready(),
            None => Ok(()),
        }
    }

    fn instances(&self) -> Option<&dyn Instances> {
        (!self.config.disabled).then_some(&*self.machines as &dyn Instances)
    }

    fn serving_certificates(&self) -> Option<&dyn ServingCertificates> {
        Some(&self.certificates)
    }
}
