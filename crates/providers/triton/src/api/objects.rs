//! Everything else that CloudAPI shows: accounts, networks, firewall rules, images, packages, keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::machine::or_default;

/// Who and where the API is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ping {
    /// The data center's name, if the server says it.
    pub datacenter: Option<String>,
    /// The versions it speaks, ascending.
    pub versions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Account {
    /// Its id, which stands in DNS names.
    pub id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub login: String,
    /// Whether the name service names its machines.
    #[serde(default, deserialize_with = "or_default")]
    pub triton_cns_enabled: bool,
}

/// A limit of an account.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// `ram` (MiB), `quota` (GiB), or anything else for the number of machines.
    #[serde(deserialize_with = "or_default")]
    pub by: String,
    /// How much there may be.
    #[serde(deserialize_with = "or_default")]
    pub value: f64,
    /// How much there is.
    #[serde(deserialize_with = "or_default")]
    pub used: f64,
    /// What it is limited to: `brand`, `image`, `os`, or nothing.
    #[serde(deserialize_with = "or_default")]
    pub check: String,
}

/// A network, or a pool of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Network {
    pub id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Whether its addresses are reached from outside.
    #[serde(default, deserialize_with = "or_default")]
    pub public: bool,
    /// Whether it is the account's own.
    #[serde(default, deserialize_with = "or_default")]
    pub fabric: bool,
    /// The VLAN of a fabric network.
    #[serde(default)]
    pub vlan_id: Option<u16>,
    /// The range of a fabric network.
    #[serde(default, deserialize_with = "or_default")]
    pub subnet: String,
    /// Routes of a fabric network, as they are written.
    #[serde(default, deserialize_with = "or_default")]
    pub routes: BTreeMap<String, String>,
    /// DNS suffixes of machines on it; none if the account has no name service, or it is down.
    #[serde(default)]
    pub suffixes: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FirewallRule {
    pub id: Uuid,
    /// Its text as the server writes it, which is not how it was sent.
    #[serde(default, deserialize_with = "or_default")]
    pub rule: String,
    /// Whether it counts.
    #[serde(default, deserialize_with = "or_default")]
    pub enabled: bool,
    /// What people wrote about it.
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    /// Whether it is the operator's.
    #[serde(default, deserialize_with = "or_default")]
    pub global: bool,
}

/// A firewall rule as it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WantedRule {
    /// Its text.
    pub rule: String,
    /// Whose it is.
    pub description: String,
    /// Whether it counts.
    pub enabled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Image {
    pub id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
    /// When it was published, in a form whose order is that of time.
    #[serde(default, deserialize_with = "or_default")]
    pub published_at: String,
}

/// A size of machines.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Package {
    pub id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
}

/// A key of an account or a sub-user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AccountKey {
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Its MD5 fingerprint.
    #[serde(default, deserialize_with = "or_default")]
    pub fingerprint: String,
}
