//! A server as the API shows it, read tolerantly: what is not needed may be missing or null, and a
//! server that cannot be read concerns itself alone.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_core::{CloudError, CloudErrorKind};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;
use uuid::Uuid;

use crate::id::ServerId;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Server {
    pub(crate) id: ServerId,
    /// Not unique, and anything a person may type; empty if the API omits it.
    pub(crate) name: String,
    pub(crate) status: Status,
    /// Zone slug; empty if the API omits it.
    pub(crate) zone: String,
    /// Flavour slug; empty if the API omits it.
    pub(crate) flavor: String,
    /// In the order in which the user attached them.
    pub(crate) interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    Stopped,
    /// `changing`, or something newer than this program.
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Interface {
    pub(crate) public: bool,
    pub(crate) addresses: Vec<Address>,
}

/// An address, parsed and as the API spells it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    pub(crate) text: String,
    pub(crate) subnet: Option<Uuid>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("server {} of the API cannot be read: {reason}", self.called())]
pub(crate) struct BadServer {
    pub(crate) id: Option<ServerId>,
    pub(crate) name: Option<String>,
    pub(crate) reason: String,
}

impl BadServer {
    fn new(text: &str, reason: String) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        Self {
            id: text("uuid").and_then(ServerId::parse),
            name: text("name").map(str::to_owned),
            reason,
        }
    }

    fn called(&self) -> String {
        match (&self.id, &self.name) {
            (Some(id), _) => id.to_string(),
            (None, Some(name)) => format!("{name:?}"),
            (None, None) => "without a uuid".to_owned(),
        }
    }
}

impl From<BadServer> for CloudError {
    fn from(bad: BadServer) -> Self {
        CloudError::new(CloudErrorKind::Unknown, bad.to_string())
    }
}

impl Server {
    pub(crate) fn read(text: &str) -> Result<Self, BadServer> {
        let bad = |reason: String| BadServer::new(text, reason);
        let raw: RawServer = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        let id = raw.uuid.as_deref().and_then(ServerId::parse);
        let id = id.ok_or_else(|| bad("it has no valid uuid".to_owned()))?;
        let interfaces: Result<Vec<_>, String> =
            raw.interfaces.into_iter().map(Interface::read).collect();
        Ok(Self {
            id,
            interfaces: interfaces.map_err(bad)?,
            name: raw.name.unwrap_or_default(),
            status: match raw.status.as_deref() {
                Some("running") => Status::Running,
                Some("stopped") => Status::Stopped,
                _ => Status::Other,
            },
            zone: raw.zone.and_then(|zone| zone.slug).unwrap_or_default(),
            flavor: raw
                .flavor
                .and_then(|flavor| flavor.slug)
                .unwrap_or_default(),
        })
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.interfaces
            .iter()
            .flat_map(|interface| &interface.addresses)
    }
}

impl Interface {
    fn read(raw: RawInterface) -> Result<Self, String> {
        let raw_addresses = raw.addresses.into_iter();
        let addresses = raw_addresses.filter_map(|raw| Some((raw.address?, raw.subnet)));
        let uuid = |subnet: &Value| Uuid::try_parse(subnet.get("uuid")?.as_str()?).ok();
        let read = addresses.map(|(text, subnet)| match text.parse() {
            Ok(ip) => Ok(Address {
                ip,
                text,
                subnet: subnet.as_ref().and_then(uuid),
            }),
            Err(_) => Err(format!("{text:?} is not an IP address")),
        });
        Ok(Self {
            public: raw.kind.as_deref() == Some("public"),
            addresses: read.collect::<Result<_, _>>()?,
        })
    }
}

/// The servers of a project, by id, and those that cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServerList {
    pub(crate) servers: BTreeMap<ServerId, Server>,
    pub(crate) unreadable: Vec<BadServer>,
}

impl ServerList {
    pub(crate) fn read(texts: &[&str]) -> Self {
        let mut list = Self::default();
        for item in texts {
            match Server::read(item) {
                Ok(server) => {
                    list.servers.insert(server.id, server);
                }
                Err(bad) => list.unreadable.push(bad),
            }
        }
        list
    }
}

#[derive(Deserialize)]
struct RawServer {
    uuid: Option<String>,
    name: Option<String>,
    status: Option<String>,
    zone: Option<Slug>,
    flavor: Option<Slug>,
    #[serde(default, deserialize_with = "present")]
    interfaces: Vec<RawInterface>,
}

#[derive(Deserialize)]
struct Slug {
    slug: Option<String>,
}

#[derive(Deserialize)]
struct RawInterface {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "present")]
    addresses: Vec<RawAddress>,
}

#[derive(Deserialize)]
struct RawAddress {
    address: Option<String>,
    /// Looked at by balancers alone: a node must not suffer from what is odd about it.
    subnet: Option<Value>,
}

/// A list without its nulls; null itself is an empty list.
fn present<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list: Option<Vec<Option<T>>> = Deserialize::deserialize(deserializer)?;
    Ok(list.unwrap_or_default().into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const UUID: &str = "3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";

    fn read(items: &[Value]) -> ServerList {
        let texts: Vec<String> = items.iter().map(Value::to_string).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        ServerList::read(&texts)
    }

    fn shown(server: &Server) -> Vec<(bool, Vec<&str>)> {
        server
            .interfaces
            .iter()
            .map(|i| {
                (
                    i.public,
                    i.addresses.iter().map(|a| a.text.as_str()).collect(),
                )
            })
            .collect()
    }

    #[test]
    fn the_documented_server_is_read() {
        let text = json!({
            "href": "https://api.cloudscale.ch/v1/servers/x", "uuid": UUID, "name": "worker-a",
            "created_at": "2026-02-03T08:15:30.123456Z", "status": "running",
            "zone": {"slug": "rma1"},
            "flavor": {"slug": "flex-8-4", "name": "Flex-8-4", "vcpu_count": 4, "memory_gb": 8},
            "image": {"slug": "debian-12"}, "volumes": [{"size_gb": 50}],
            "interfaces": [
                {"type": "public", "network": {"name": "Public"}, "addresses": [
                    {"version": 4, "address": "203.0.113.11", "prefix_length": 24},
                    {"version": 6, "address": "2001:db8:1:1101::11", "reverse_ptr": null}]},
                {"type": "private", "addresses": [
                    {"version": 4, "address": "10.20.0.11", "gateway": null, "subnet": {}}]}],
            "tags": {}
        });
        let server = Server::read(&text.to_string()).unwrap();
        assert_eq!(
            (server.id.to_string().as_str(), server.name.as_str()),
            (UUID, "worker-a")
        );
        assert_eq!(
            (server.zone.as_str(), server.flavor.as_str()),
            ("rma1", "flex-8-4")
        );
        assert_eq!(server.status, Status::Running);
        assert_eq!(
            shown(&server),
            [
                (true, vec!["203.0.113.11", "2001:db8:1:1101::11"]),
                (false, vec!["10.20.0.11"])
            ]
        );
    }

    #[test]
    fn whatever_is_not_needed_may_be_missing_or_null() {
        for value in [
            json!({"uuid": UUID}),
            json!({"uuid": UUID, "name": null, "status": null, "zone": null, "flavor": null,
                   "interfaces": null}),
            json!({"uuid": UUID, "zone": {}, "flavor": {"slug": null}, "interfaces": [null],
                   "new": {"field": [1]}}),
        ] {
            let server = Server::read(&value.to_string()).unwrap();
            assert_eq!((server.name.as_str(), server.zone.as_str()), ("", ""));
            assert_eq!((server.status, server.interfaces.len()), (Status::Other, 0));
        }
        let interfaces = json!([{"type": "private"}, {"type": "private", "addresses": null},
            {"addresses": [null, {}, {"address": null}, {"address": "10.0.0.1"}]}]);
        let server =
            Server::read(&json!({"uuid": UUID, "interfaces": interfaces}).to_string()).unwrap();
        let none = || (false, vec![]);
        assert_eq!(shown(&server), [none(), none(), (false, vec!["10.0.0.1"])]);
    }

    #[test]
    fn a_server_that_cannot_be_read_says_which_one_it_is() {
        for (value, wanted) in [
            (json!({"uuid": UUID, "name": "a", "status": 7}), UUID),
            (json!({"uuid": UUID, "zone": "rma1"}), UUID),
            (
                json!({"uuid": UUID, "interfaces": [{"addresses": [{"address": "10.0.0.300"}]}]}),
                "\"10.0.0.300\" is not an IP address",
            ),
            (
                json!({"name": "a"}),
                "\"a\" of the API cannot be read: it has no valid uuid",
            ),
            (json!({"uuid": "x", "name": "a"}), "it has no valid uuid"),
            (json!({"uuid": 7}), "without a uuid"),
            (json!(null), "without a uuid"),
            (json!([]), "without a uuid"),
        ] {
            let bad = Server::read(&value.to_string()).unwrap_err();
            assert!(bad.to_string().contains(wanted), "{bad}");
        }
    }

    #[test]
    fn one_bad_server_leaves_the_others() {
        let other = "b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58";
        let list = read(&[
            json!({"uuid": UUID, "name": "worker-a"}),
            json!({"uuid": other, "name": "worker-b", "interfaces": "none"}),
            json!(null),
        ]);
        assert_eq!(list.servers.len(), 1);
        assert_eq!(list.unreadable.len(), 2);
        assert_eq!(list.unreadable[0].id, ServerId::parse(other));
        assert_eq!(list.unreadable[0].name.as_deref(), Some("worker-b"));
        assert_eq!(
            (&list.unreadable[1].id, &list.unreadable[1].name),
            (&None, &None)
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            prop_oneof![
                Just(UUID.to_owned()),
                Just("10.0.0.1".to_owned()),
                "[a-z]{0,4}"
            ]
            .prop_map(Value::from),
        ];
        let keys = proptest::sample::select(vec![
            "uuid",
            "name",
            "status",
            "zone",
            "flavor",
            "slug",
            "interfaces",
            "type",
            "addresses",
            "address",
        ]);
        leaf.prop_recursive(5, 40, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(keys.clone().prop_map(str::to_owned), inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_list_loses_no_item_however_broken(items in proptest::collection::vec(any_json(), 0..6)) {
            let count = items.len();
            let list = read(&items);
            prop_assert!(list.unreadable.len() + list.servers.len() <= count);
            prop_assert!(list.unreadable.len() + usize::from(!list.servers.is_empty()) >= count.min(1));
        }
    }
}
