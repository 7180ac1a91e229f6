//! Everything else that CloudAPI shows: accounts, networks, firewall rules, images, packages, keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::machine::or_default;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ping {
    /// The data center's name, if the server reports it.
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
    #[serde(default, deserialize_with = "or_default")]
    pub triton_cns_enabled: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// `ram` (MiB), `quota` (GiB), or anything else for the number of machines.
    #[serde(deserialize_with = "or_default")]
    pub by: String,
    #[serde(deserialize_with = "or_default")]
    pub value: f64,
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
    #[serde(default)]
    pub vlan_id: Option<u16>,
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
    #[serde(default, deserialize_with = "or_default")]
    pub enabled: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    #[serde(default, deserialize_with = "or_default")]
    pub global: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WantedRule {
    pub rule: String,
    /// Whose it is.
    pub description: String,
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

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Package {
    pub id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AccountKey {
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub fingerprint: String,
}
