//! Machines: what CloudAPI shows of them, and what can be asked of them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};
use uuid::Uuid;

/// A machine, as far as anybody here needs to know it. Whatever may be missing may be.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Machine {
    /// Its id, the same for ever and in all data centers.
    pub id: Uuid,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub brand: String,
    #[serde(default)]
    pub state: MachineState,
    #[serde(default, deserialize_with = "lenient_uuid")]
    pub image: Option<Uuid>,
    /// The name of its size; empty while it is new.
    #[serde(default, deserialize_with = "or_default")]
    pub package: String,
    /// What customers store in it.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, TagValue>,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: BTreeMap<String, TagValue>,
    /// Its network cards; none if the server is too old to show them.
    #[serde(default)]
    pub nics: Option<Vec<Nic>>,
    /// Its first address, which may be a word such as `dhcp`.
    #[serde(rename = "primaryIp", default, deserialize_with = "or_default")]
    pub primary_ip: String,
    #[serde(default, deserialize_with = "or_default")]
    pub firewall_enabled: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub deletion_protection: bool,
    /// The physical server it is on.
    #[serde(default, deserialize_with = "lenient_uuid")]
    pub compute_node: Option<Uuid>,
    /// Names that the name service gives it now; only ever in an answer about one machine.
    #[serde(default)]
    pub dns_names: Option<Vec<String>>,
    #[serde(default, deserialize_with = "or_default")]
    pub docker: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MachineState {
    Provisioning,
    /// It is between two boots.
    Ready,
    Running,
    Stopping,
    Stopped,
    /// Its physical server does not answer.
    Offline,
    Deleted,
    /// It was never made.
    Failed,
    #[default]
    Unknown,
    /// Something newer than this program.
    Other(String),
}

impl MachineState {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Offline => "offline",
            Self::Deleted => "deleted",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Other(word) => word,
        }
    }

    /// Whether nothing of it runs or ever will.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Deleted | Self::Failed)
    }
}

impl<'de> Deserialize<'de> for MachineState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        Ok(match word.as_str() {
            "provisioning" => Self::Provisioning,
            "ready" => Self::Ready,
            "running" => Self::Running,
            "stopping" => Self::Stopping,
            "stopped" => Self::Stopped,
            "offline" => Self::Offline,
            "deleted" => Self::Deleted,
            "failed" => Self::Failed,
            "" | "unknown" => Self::Unknown,
            _ => Self::Other(word),
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Nic {
    /// Its address, which may be a word such as `dhcp`.
    #[serde(deserialize_with = "or_default")]
    pub ip: String,
    #[serde(deserialize_with = "or_default")]
    pub primary: bool,
    /// The network it is on. Of a pool it is a member that no list shows.
    #[serde(deserialize_with = "lenient_uuid")]
    pub network: Option<Uuid>,
}

impl Nic {
    pub fn address(&self) -> Option<IpAddr> {
        self.ip.parse().ok()
    }
}

/// The value of a tag or of metadata. Types count: `true` and `"true"` are two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagValue {
    Text(String),
    Number(Number),
    Boolean(bool),
}

impl TagValue {
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Boolean(_) => None,
        }
    }
}

impl From<&str> for TagValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for TagValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => number.fmt(f),
            Self::Boolean(it) => it.fmt(f),
        }
    }
}

impl Serialize for TagValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) => number.serialize(serializer),
            Self::Boolean(it) => serializer.serialize_bool(*it),
        }
    }
}

impl<'de> Deserialize<'de> for TagValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => Self::Text(text),
            Value::Number(number) => Self::Number(number),
            Value::Bool(it) => Self::Boolean(it),
            // No server stores these; whatever it is, it is shown and never equal to ours.
            other => Self::Text(other.to_string()),
        })
    }
}

/// Null is what a missing value is.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// What is no UUID is none.
pub(super) fn lenient_uuid<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Uuid>, D::Error> {
    let text = Option::<String>::deserialize(d)?;
    Ok(text.and_then(|text| Uuid::try_parse(&text).ok()))
}

#[derive(Clone, Debug, PartialEq)]
pub enum MachineRead {
    Shown(Box<Machine>),
    /// 410: it is destroyed, and still in the books.
    Destroyed,
    /// 404: there is no such machine, or it cannot be shown, with the server's words. Alone this proves
    /// nothing.
    Missing(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineQuery {
    /// Names that begin with it. (The server's manual says that equal it.)
    pub name: Option<String>,
    /// A tag and its exact value.
    pub tag: Option<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewMachine {
    pub name: String,
    pub image: Uuid,
    /// The name or id of its package.
    pub package: String,
    /// Its networks, the first public one becoming its first card; with a fixed address or without.
    pub networks: Vec<(Uuid, Option<IpAddr>)>,
    /// Rules about the machines it should be near to or far from.
    pub affinity: Vec<String>,
    pub tags: BTreeMap<String, TagValue>,
    pub metadata: BTreeMap<String, String>,
    pub firewall_enabled: bool,
    pub deletion_protection: bool,
}

impl NewMachine {
    /// As it is sent: tags and metadata are flat keys.
    pub(crate) fn body(&self) -> Value {
        let fixed = self.networks.iter().any(|(_, address)| address.is_some());
        let networks: Vec<Value> = self
            .networks
            .iter()
            .map(|(network, address)| match address {
                Some(ip) => serde_json::json!({"ipv4_uuid": network, "ipv4_ips": [ip]}),
                // Texts and objects cannot be mixed.
                None if fixed => serde_json::json!({"ipv4_uuid": network}),
                None => serde_json::json!(network),
            })
            .collect();
        let mut body = serde_json::json!({
            "name": self.name,
            "image": self.image,
            "package": self.package,
            "networks": networks,
            "firewall_enabled": self.firewall_enabled,
            "deletion_protection": self.deletion_protection,
            "allow_shared_images": true,
        });
        if let Some(map) = body.as_object_mut() {
            if !self.affinity.is_empty() {
                map.insert("affinity".to_owned(), serde_json::json!(self.affinity));
            }
            for (key, value) in &self.tags {
                map.insert(format!("tag.{key}"), serde_json::json!(value));
            }
            for (key, value) in &self.metadata {
                map.insert(format!("metadata.{key}"), serde_json::json!(value));
            }
        }
        body
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineAction {
    Start,
    Rename(String),
    Firewall(bool),
    DeletionProtection(bool),
}

impl MachineAction {
    pub(super) fn body(&self) -> Value {
        let action = match self {
            Self::Start => "start",
            Self::Rename(_) => "rename",
            Self::Firewall(true) => "enable_firewall",
            Self::Firewall(false) => "disable_firewall",
            Self::DeletionProtection(true) => "enable_deletion_protection",
            Self::DeletionProtection(false) => "disable_deletion_protection",
        };
        match self {
            Self::Rename(name) => serde_json::json!({"action": action, "name": name}),
            _ => serde_json::json!({"action": action}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_with_whatever_is_missing() {
        let bare: Machine = serde_json::from_str(
            r#"{"id":"5b1e2d3c-0000-4000-8000-000000000001","name":null,"state":"resting",
                "compute_node":null,"image":"","tags":{"a":1,"b":true,"c":"x","d":null},
                "nics":[{"ip":"dhcp"},{"ip":"10.0.0.1","network":null,"mac":"x","gateway":1}]}"#,
        )
        .unwrap();
        assert_eq!(bare.state, MachineState::Other("resting".to_owned()));
        assert_eq!(
            (bare.image, bare.compute_node, bare.package.as_str()),
            (None, None, "")
        );
        assert_eq!(bare.tags["b"], TagValue::Boolean(true));
        assert_ne!(bare.tags["b"], TagValue::from("true"));
        assert_eq!(bare.tags["a"].to_string(), "1");
        let nics = bare.nics.unwrap();
        assert_eq!(nics[0].address(), None);
        assert_eq!(nics[1].address(), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(bare.dns_names, None);
        for state in ["deleted", "failed"] {
            let state: MachineState = serde_json::from_str(&format!("{state:?}")).unwrap();
            assert!(state.is_over());
        }
        let state: MachineState = serde_json::from_str(r#""stopped""#).unwrap();
        assert!(!state.is_over() && state.as_str() == "stopped");
    }

    #[test]
    fn a_new_machine_is_sent_flat() {
        let (public, private) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut new = NewMachine {
            name: "clb".to_owned(),
            package: "lb1.small".to_owned(),
            networks: vec![(public, None), (private, None)],
            tags: BTreeMap::from([("bowline.uid".to_owned(), "u".into())]),
            metadata: BTreeMap::from([("a:b".to_owned(), "c".to_owned())]),
            ..NewMachine::default()
        };
        let body = new.body();
        assert_eq!(body["tag.bowline.uid"], "u");
        assert_eq!(body["metadata.a:b"], "c");
        assert_eq!(body["networks"], serde_json::json!([public, private]));
        assert!(body.get("affinity").is_none());
        new.networks[1].1 = Some("10.20.0.50".parse().unwrap());
        assert_eq!(
            new.body()["networks"],
            serde_json::json!([
                {"ipv4_uuid": public},
                {"ipv4_uuid": private, "ipv4_ips": ["10.20.0.50"]},
            ])
        );
    }
}
