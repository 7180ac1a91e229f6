//! Reads and checks the cloud config file and the environment, before any request.

mod overrides;
mod raw;
mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use bowline_core::{Origin, Secret, Setting, SettingError, Variable};
use bowline_http::BaseUrl;
use thiserror::Error;
use uuid::Uuid;

pub use overrides::{Override, Overrides};
pub use table::{
    API_CREDENTIALS_FILE, API_ENDPOINT, API_ENVIRONMENT, API_KEY, API_SECRET, API_ZONE, KEYS,
    SKS_AGENT_RUNNERS, TRACE, VARIABLES, ZONE, reference,
};

use crate::credentials::{KeyPair, key_problem};
use raw::{RawConfig, RawGlobal};

/// The environment that needs no name in the configuration.
const PRODUCTION: &str = "api";
/// The vendor's environment before production, which lists its zones at one place.
const PRE_PRODUCTION: &str = "ppapi";
const PRE_PRODUCTION_ENDPOINT: &str = "https://ppapi-ch-gva-2.exoscale.com/v2";
/// The only runner there is.
const NODE_CSR_VALIDATION: &str = "node-csr-validation";

#[derive(Clone, Debug)]
pub struct Config {
    pub credentials: CredentialSource,
    pub endpoint: Endpoint,
    /// The zone; none: reported by the machine.
    pub zone: Option<Setting<String>>,
    pub instances: InstanceConfig,
    pub load_balancer: LoadBalancerConfig,
    pub node_csr_validation: bool,
    pub trace: bool,
    /// What is odd but does not stop the start; [`crate::build`] logs it.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// Environment and file, as they are.
    Given(KeyPair),
    File(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The zone's own host in that environment (`api` is production).
    OfZone {
        /// The first part of the host's name.
        environment: String,
    },
    /// An API that lists the zones, each with its endpoint.
    Listing(BaseUrl),
}

#[derive(Clone, Debug, Default)]
pub struct InstanceConfig {
    /// Nodes are not managed.
    pub disabled: bool,
    /// The API is never asked about nodes.
    pub external_only: bool,
    pub overrides: Overrides,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerConfig {
    /// Services are not managed.
    pub disabled: bool,
    /// The pool where none is given and none can be inferred.
    pub default_instance_pool: Option<Uuid>,
    /// Health check of Services with `externalTrafficPolicy: Local` that set none.
    pub local_policy_health_check: LocalPolicyHealthCheck,
}

/// Health check of Services with `externalTrafficPolicy: Local` that set none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalPolicyHealthCheck {
    /// By a connection, as the original does: it succeeds on nodes without endpoints too.
    #[default]
    Tcp,
    /// By a request for `/healthz`, which shows where endpoints are.
    Http,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    #[error("could not create Exoscale client: incomplete or missing Exoscale API credentials")]
    NoCredentials,
    /// The key or secret cannot be used. Neither is shown.
    #[error("the API credentials cannot be used: {reason}")]
    Credentials { reason: &'static str },
    #[error("the cloud config file cannot be read: {reason}")]
    File { reason: String },
    /// The URL cannot be used. It is not shown: it may hold a password.
    #[error("{origin}: {reason}; allowed is {}", API_ENDPOINT.allowed)]
    Url { origin: Origin, reason: String },
    #[error("unsupported runner {item:?} ({})", SKS_AGENT_RUNNERS.name)]
    Runner { item: String },
    #[error("configuration instances.overrides[{number}] (name {name:?}): {key}: {reason}")]
    Override {
        /// Counted from 0.
        number: usize,
        name: String,
        key: String,
        reason: String,
    },
    #[error(transparent)]
    Setting(#[from] SettingError),
}

pub type ConfigErrors = bowline_provider::ConfigErrors<ConfigError>;

impl Config {
    /// Reads and checks the environment and the text of the cloud config file, if there is one.
    pub fn read(
        environment: impl Fn(&str) -> Option<String>,
        file: Option<&str>,
    ) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let raw = RawConfig::read(file.unwrap_or_default()).unwrap_or_else(|error| {
            errors.push(error);
            RawConfig::default()
        });
        let mut reader = Reader {
            environment: &environment,
            errors,
            warnings: Vec::new(),
        };
        let credentials = reader.credentials(&raw.global);
        let endpoint = reader.endpoint(&raw.global);
        let zone = reader.zone(&raw.global);
        let node_csr_validation = reader.runners();
        let trace = reader.variable(TRACE).is_some_and(|it| !it.is_empty());
        let instances = reader.instances(&raw.instances);
        let load_balancer = reader.load_balancer(&raw.load_balancer);
        let Reader {
            errors, warnings, ..
        } = reader;
        match (credentials, endpoint) {
            (Some(credentials), Some(endpoint)) if errors.is_empty() => Ok(Self {
                credentials,
                endpoint,
                zone,
                instances,
                load_balancer,
                node_csr_validation,
                trace,
                warnings,
            }),
            _ => Err(bowline_provider::ConfigErrors(errors)),
        }
    }
}

/// Reads setting after setting and collects what is wrong.
struct Reader<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    errors: Vec<ConfigError>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// The value without what surrounds it; none if the variable does not exist.
    fn variable(&self, variable: Variable) -> Option<String> {
        (self.environment)(variable.name).map(|value| value.trim().to_owned())
    }

    /// The variable, even an empty one, or else the key of the file.
    fn existing(&self, variable: Variable, in_file: &str) -> String {
        let value = self.variable(variable);
        value.unwrap_or_else(|| in_file.trim().to_owned())
    }

    fn credentials(&mut self, global: &RawGlobal) -> Option<CredentialSource> {
        let key = self.existing(API_KEY, &global.api_key);
        let in_file = global.api_secret.as_ref().map_or("", Secret::reveal);
        let secret = self.existing(API_SECRET, in_file);
        let path = self.existing(API_CREDENTIALS_FILE, &global.api_credentials_file);
        if !key.is_empty() && !secret.is_empty() {
            if let Some(reason) = key_problem(&key) {
                self.errors.push(ConfigError::Credentials { reason });
                return None;
            }
            let secret = Secret::new(secret);
            return Some(CredentialSource::Given(KeyPair { key, secret }));
        }
        if !path.is_empty() {
            return Some(CredentialSource::File(path.into()));
        }
        self.errors.push(ConfigError::NoCredentials);
        None
    }

    /// The first that is set: the endpoint of the environment (even if it is empty), its
    /// environment, the endpoint of the file, its environment.
    fn endpoint(&mut self, global: &RawGlobal) -> Option<Endpoint> {
        let variable = |it: Variable| Origin::Config(it.name.to_owned());
        let key = |it: &str| Origin::Config(it.to_owned());
        if let Some(url) = self.variable(API_ENDPOINT) {
            return if url.is_empty() {
                Some(of_zone(PRODUCTION))
            } else {
                self.listing(&url, variable(API_ENDPOINT))
            };
        }
        let environment = self.variable(API_ENVIRONMENT).unwrap_or_default();
        if !matches!(environment.as_str(), "" | PRODUCTION) {
            return self.environment(&environment, variable(API_ENVIRONMENT));
        }
        let in_file = global.api_endpoint.trim();
        if !in_file.is_empty() {
            return self.listing(in_file, key("global.apiEndpoint"));
        }
        let environment = match environment.as_str() {
            "" => global.api_environment.trim(),
            named => named,
        };
        self.environment(environment, key("global.apiEnvironment"))
    }

    fn listing(&mut self, url: &str, origin: Origin) -> Option<Endpoint> {
        match BaseUrl::parse(url) {
            Ok(url) => Some(Endpoint::Listing(url)),
            Err(error) => {
                let reason = error.to_string();
                self.errors.push(ConfigError::Url { origin, reason });
                None
            }
        }
    }

    fn environment(&mut self, name: &str, origin: Origin) -> Option<Endpoint> {
        match name {
            "" | PRODUCTION => Some(of_zone(PRODUCTION)),
            PRE_PRODUCTION => self.listing(PRE_PRODUCTION_ENDPOINT, origin),
            other => self.checked(other, origin, API_ENVIRONMENT.allowed, |text| {
                is_host_part(text).then(|| of_zone(text))
            }),
        }
    }

    fn zone(&mut self, global: &RawGlobal) -> Option<Setting<String>> {
        let named = |it: Variable| (it.name, self.variable(it).unwrap_or_default());
        let places = [
            named(API_ZONE),
            named(ZONE),
            ("global.zone", global.zone.trim().to_owned()),
        ];
        let (name, zone) = places.into_iter().find(|(_, zone)| !zone.is_empty())?;
        let origin = Origin::Config(name.to_owned());
        let value = self.checked(&zone, origin.clone(), API_ZONE.allowed, |text| {
            is_host_part(text).then(|| text.to_owned())
        })?;
        Some(Setting { value, origin })
    }

    /// Whether the one runner there is was asked for.
    fn runners(&mut self) -> bool {
        let list = (self.environment)(SKS_AGENT_RUNNERS.name).unwrap_or_default();
        if list.is_empty() {
            return false;
        }
        for item in list.split(',').filter(|item| *item != NODE_CSR_VALIDATION) {
            self.errors.push(ConfigError::Runner {
                item: item.to_owned(),
            });
        }
        list.split(',').any(|item| item == NODE_CSR_VALIDATION)
    }

    fn instances(&mut self, raw: &raw::RawInstances) -> InstanceConfig {
        InstanceConfig {
            disabled: raw.disabled,
            external_only: raw.external_only,
            overrides: Overrides::read(&raw.overrides, &mut self.errors, &mut self.warnings),
        }
    }

    fn load_balancer(&mut self, raw: &raw::RawLoadBalancer) -> LoadBalancerConfig {
        use LocalPolicyHealthCheck::{Http, Tcp};
        let key = |it: &str| Origin::Config(format!("loadBalancer.{it}"));
        let pool = raw.default_instance_pool.trim();
        let default_instance_pool = if pool.is_empty() {
            None
        } else {
            let origin = key("defaultInstancePoolID");
            self.checked(pool, origin, "a uuid", |text| Uuid::try_parse(text).ok())
        };
        let origin = key("localPolicyHealthCheck");
        let check = raw.local_policy_health_check.trim();
        let check = self.checked(check, origin, "tcp or http", |text| match text {
            "" | "tcp" => Some(Tcp),
            "http" => Some(Http),
            _ => None,
        });
        LoadBalancerConfig {
            disabled: raw.disabled,
            default_instance_pool,
            local_policy_health_check: check.unwrap_or_default(),
        }
    }

    fn checked<T>(
        &mut self,
        text: &str,
        origin: Origin,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        match Setting::read(text, origin, allowed, parse) {
            Ok(setting) => Some(setting.value),
            Err(error) => {
                self.errors.push(error.into());
                None
            }
        }
    }
}

fn of_zone(environment: &str) -> Endpoint {
    let environment = environment.to_owned();
    Endpoint::OfZone { environment }
}

/// Whether it can be part of the name of a host. New zones appear, so that no more is asked of one.
pub(crate) fn is_host_part(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}
