//! What flags, the Secret, the environment and the file say, checked before anything is asked.
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

/// What a file says, in either of its forms: texts by section and key, as the original's form has them.
pub fn file_values(text: &str) -> Result<BTreeMap<(table::Section, &'static str), String>, String> {
    Ok(file::FileContent::read(text)?.values)
}

/// The checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// How CloudAPI is reached.
    pub connection: Connection,
    /// The data center's name, where CloudAPI is not to be asked for it.
    pub datacenter: Option<String>,
    /// The region of its nodes, where it is not the data center's name.
    pub region: Option<String>,
    /// Likewise the zone.
    pub zone: Option<String>,
    /// What all calls have in common.
    pub calls: CallConfig,
    /// The cluster's name, in names of machines and groups.
    pub cluster_name: String,
    /// Whether the change feed is followed.
    pub changefeed: bool,
    /// How often all machines are listed.
    pub resync: Duration,
    /// About nodes.
    pub nodes: NodeConfig,
    /// About Services.
    pub load_balancer: LoadBalancerConfig,
    /// About routes.
    pub routes: RouteConfig,
    /// About metrics of machines.
    pub metrics: MetricsConfig,
    /// What is odd but does not stop the start.
    pub warnings: Vec<String>,
}

/// How CloudAPI is reached, and as whom.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Where it is.
    pub endpoint: BaseUrl,
    /// Whose key it is.
    pub owner: Owner,
    /// The account whose machines are meant, where it is not the key's.
    pub act_as: Option<String>,
    /// Roles to ask for.
    pub roles: Vec<String>,
    pub key: Arc<PrivateKey>,
    /// What the key was read from.
    pub key_text: Secret,
    /// Certificates are not checked.
    pub insecure: bool,
    /// Further authorities.
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

/// Certificates of authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorities {
    /// Where they were given.
    pub origin: String,
    /// In PEM form.
    pub pem: String,
}

/// What all calls have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallConfig {
    /// `Accept-Version`.
    pub api_version: String,
    /// The limit for one request.
    pub request_timeout: Duration,
    /// Requests per second.
    pub qps: u32,
    /// Requests at once.
    pub burst: u32,
    /// Whether method and path are signed.
    pub sign_request_target: bool,
}

/// What is said about nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Whether machines are found by names and the like.
    pub name_match: bool,
    /// Keys of tags that become labels.
    pub labels_from_tags: Vec<String>,
}

/// How Services are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalancerMode {
    /// By a DNS name of all nodes.
    Cns,
    /// By load balancer machines.
    Clb,
    /// Not at all, unless they say it.
    None,
}

/// How the DNS names of Services are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelStyle {
    /// `<service>.<namespace>`.
    Dotted,
    /// Without dots.
    Flat,
}

/// What is said about Services.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own that has nothing to do with the others"
)]
pub struct LoadBalancerConfig {
    /// The mode of Services that name none.
    pub mode: BalancerMode,
    /// Network outside, by id or name.
    pub public_network: Option<String>,
    /// Network inside, by id or name.
    pub private_network: Option<String>,
    /// DNS zone outside.
    pub cns_suffix_public: Option<String>,
    /// DNS zone inside.
    pub cns_suffix_private: Option<String>,
    /// How names are made.
    pub cns_label_style: LabelStyle,
    /// Whether machines of the other controller are taken over.
    pub adopt_legacy: bool,
    /// Whether the name service may be switched on.
    pub cns_enable_account: bool,
    /// Whether firewall rules are kept.
    pub firewall: bool,
    /// Image of load balancer machines, by id or name.
    pub clb_image: String,
    /// Package of load balancer machines, by id or name.
    pub clb_package: Option<String>,
    /// Machines of each Service.
    pub clb_replicas: u8,
    /// Images beside that one that Services may ask for.
    pub allowed_images: Vec<String>,
    /// Packages beside that one that Services may ask for.
    pub allowed_packages: Vec<String>,
    /// The most machines that a Service may ask for.
    pub max_replicas: u8,
    /// How long a machine may take to run.
    pub provision_timeout: Duration,
    /// How long a machine may take to be gone.
    pub delete_timeout: Duration,
    /// Whether machines are protected.
    pub clb_deletion_protection: bool,
}

/// What is said about routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// Whether there are any.
    pub enabled: bool,
    /// Fabric networks by id or name; empty: those that nodes are on.
    pub networks: Vec<String>,
}

/// What is done about metrics of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsMode {
    /// Nothing.
    Off,
    /// Prometheus is led to them.
    Discovery,
    /// They are fetched and shown.
    Export,
}

/// What is said about metrics of machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// What is done.
    pub mode: MetricsMode,
    /// Where the metrics service is; none: what CloudAPI says.
    pub cmon_endpoint: Option<BaseUrl>,
}

/// One value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A value that must be there is not.
    #[error("{what} is missing: give {names}")]
    Missing {
        what: &'static str,
        /// Where it can be given.
        names: String,
    },
    /// The file cannot be read.
    #[error("the cloud config file cannot be read: {reason}")]
    File {
        /// Why, and where.
        reason: String,
    },
    /// A file that a value names cannot be read.
    #[error("{origin}: the file {path} cannot be read: {reason}")]
    Unreadable {
        /// Which value.
        origin: String,
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The private key cannot be used.
    #[error("{origin}: {source}")]
    Key {
        /// Which value.
        origin: String,
        /// Why.
        source: KeyError,
    },
    /// The key id is none.
    #[error("{origin}: {source}")]
    KeyId {
        /// Which value.
        origin: String,
        /// Why.
        source: KeyIdError,
    },
    /// The key id is another key's.
    #[error("{origin} is {configured}, but the private key ({key_origin}) is {key}")]
    OtherKey {
        /// Where the id was given.
        origin: String,
        /// The id.
        configured: String,
        /// Where the key was given.
        key_origin: String,
        /// The key's own fingerprints.
        key: String,
    },
    /// The URL cannot be used. It is not shown: it may hold a password.
    #[error("{origin}: {reason}")]
    Url {
        /// Which value.
        origin: String,
        /// Why.
        reason: String,
    },
    /// A sub-user's key can only be used in its own account.
    #[error(
        "triton-user ({user}) and triton-act-as ({act_as}) exclude each other: with the key of a \
         sub-user the server ignores the account in the path"
    )]
    UserAndActAs {
        /// Where the user was given.
        user: String,
        /// Where the account was given.
        act_as: String,
    },
    /// The file has several data centers.
    #[error(
        "profiles: a Triton cloud is one data center; write each of them as a cloud of its own in \
         bowline.yaml (--config)"
    )]
    Profiles,
    /// Another value.
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
