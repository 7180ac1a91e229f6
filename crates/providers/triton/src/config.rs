//! Reads and checks flags, the Secret, the environment and the file, before any request.
//!
//! ```text
//!  flags ─▶ Secret ─▶ environment ─▶ file      each value from the first that has it (sources)
//!                       │
//!                       ▼
//!         texts by row of the table ─▶ check ─▶ Config, or everything that is wrong with it
//! ```
//!
//! A provider sees no Kubernetes client: what the Secret holds is given to it from outside.

mod check;
mod file;
mod sources;
pub mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Secret, SettingError};
use bowline_http::BaseUrl;
use thiserror::Error;

use crate::keys::{KeyError, KeyIdError, PrivateKey};
use crate::signature::Owner;

pub use bowline_provider::SecretContent;
pub use sources::Given;
pub(crate) use sources::has_key;
pub use table::reference;

/// The content of a file, in either of its forms: texts by section and key, as in the original's
/// form.
pub fn file_values(text: &str) -> Result<BTreeMap<(table::Section, &'static str), String>, String> {
    Ok(file::FileContent::read(text)?.values)
}

#[derive(Clone, Debug)]
pub struct Config {
    pub connection: Connection,
    /// The data center's name, where CloudAPI is not to be asked for it.
    pub datacenter: Option<String>,
    /// The region of its nodes, where it is not the data center's name.
    pub region: Option<String>,
    /// Likewise the zone.
    pub zone: Option<String>,
    pub calls: CallConfig,
    pub cluster_name: String,
    pub changefeed: bool,
    pub resync: Duration,
    pub nodes: NodeConfig,
    pub load_balancer: LoadBalancerConfig,
    pub routes: RouteConfig,
    pub metrics: MetricsConfig,
    /// What is odd but does not stop the start.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Connection {
    pub endpoint: BaseUrl,
    pub owner: Owner,
    /// The account whose machines are meant, where it is not the key's.
    pub act_as: Option<String>,
    pub roles: Vec<String>,
    pub key: Arc<PrivateKey>,
    /// What the key was read from.
    pub key_text: Secret,
    pub insecure: bool,
    pub authorities: Option<Authorities>,
}

impl Connection {
    /// The login that stands in paths.
    pub fn login(&self) -> &str {
        self.act_as.as_deref().unwrap_or(&self.owner.account)
    }

    /// Whether another one reaches the same place as the same one.
    pub fn is_like(&self, other: &Self) -> bool {
        self.endpoint == other.endpoint
            && self.owner == other.owner
            && self.act_as == other.act_as
            && self.roles == other.roles
            && self.key.fingerprint() == other.key.fingerprint()
            && self.insecure == other.insecure
            && self.authorities == other.authorities
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorities {
    pub origin: String,
    pub pem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallConfig {
    pub api_version: String,
    pub request_timeout: Duration,
    pub qps: u32,
    pub burst: u32,
    pub sign_request_target: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    pub name_match: bool,
    pub labels_from_tags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalancerMode {
    Cns,
    Clb,
    /// Not at all, unless they say it.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelStyle {
    /// `<service>.<namespace>`.
    Dotted,
    Flat,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own that has nothing to do with the others"
)]
pub struct LoadBalancerConfig {
    pub mode: BalancerMode,
    pub public_network: Option<String>,
    pub private_network: Option<String>,
    pub cns_suffix_public: Option<String>,
    pub cns_suffix_private: Option<String>,
    pub cns_label_style: LabelStyle,
    pub adopt_legacy: bool,
    pub cns_enable_account: bool,
    pub firewall: bool,
    pub clb_image: String,
    pub clb_package: Option<String>,
    pub clb_replicas: u8,
    pub allowed_images: Vec<String>,
    pub allowed_packages: Vec<String>,
    pub max_replicas: u8,
    pub provision_timeout: Duration,
    pub delete_timeout: Duration,
    pub clb_deletion_protection: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    pub enabled: bool,
    /// Fabric networks by id or name; empty: those that nodes are on.
    pub networks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsMode {
    Off,
    Discovery,
    Export,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    pub mode: MetricsMode,
    /// Where the metrics service is; none: as CloudAPI answers.
    pub cmon_endpoint: Option<BaseUrl>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    #[error("{what} is missing: give {names}")]
    Missing { what: &'static str, names: String },
    #[error("the cloud config file cannot be read: {reason}")]
    File { reason: String },
    #[error("{origin}: the file {path} cannot be read: {reason}")]
    Unreadable {
        origin: String,
        path: String,
        reason: String,
    },
    #[error("{origin}: {source}")]
    Key { origin: String, source: KeyError },
    #[error("{origin}: {source}")]
    KeyId { origin: String, source: KeyIdError },
    #[error("{origin} is {configured}, but the private key ({key_origin}) is {key}")]
    OtherKey {
        origin: String,
        configured: String,
        key_origin: String,
        key: String,
    },
    /// The URL cannot be used. It is not shown: it may hold a password.
    #[error("{origin}: {reason}")]
    Url { origin: String, reason: String },
    #[error(
        "triton-user ({user}) and triton-act-as ({act_as}) exclude each other: with the key of a \
         sub-user the server ignores the account in the path"
    )]
    UserAndActAs { user: String, act_as: String },
    #[error(
        "profiles: a Triton cloud is one data center; write each of them as a cloud of its own in \
         bowline.yaml (--config)"
    )]
    Profiles,
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// Everything that is wrong, so that nobody has to correct one mistake at a time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join("; "))
    }
}
