//! Which server a node is: by its provider id, or else by its name, or else (if configured) by its
//! addresses. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bowline_core::{AddressKind, CloudError, CloudErrorKind, Node};

use crate::api::{BadServer, Server, ServerList};
use crate::id::{IdError, ServerId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Nothing: its provider id is another cloud's, or it has no name.
    None,
    /// Nothing can be: its provider id is of our scheme and no id of ours.
    Malformed(IdError),
    /// What is known about this server. A provider id always wins over the name.
    About(ServerId),
    Which,
}

pub(super) fn question(node: &Node) -> Question {
    match node.provider_id.as_deref() {
        Some(text) => match ServerId::from_provider_id(text) {
            Ok(id) => Question::About(id),
            Err(IdError::Foreign(_)) => Question::None,
            Err(error) => Question::Malformed(error),
        },
        None if node.name.is_empty() => Question::None,
        None => Question::Which,
    }
}

#[derive(Debug)]
pub(super) enum Match<'a> {
    One(&'a Server),
    Nobody,
    /// Undecided; a person has to decide.
    Unclear(String),
}

impl Match<'_> {
    pub(super) fn unclear(text: &str) -> CloudError {
        CloudError::new(CloudErrorKind::Conflict, text)
    }
}

pub(super) struct Index<'a> {
    list: &'a ServerList,
    by_name: BTreeMap<&'a str, Vec<&'a Server>>,
    /// Empty unless addresses count.
    by_address: BTreeMap<IpAddr, BTreeSet<ServerId>>,
}

impl<'a> Index<'a> {
    pub(super) fn new(list: &'a ServerList, by_address_too: bool) -> Self {
        let mut index = Self {
            list,
            by_name: BTreeMap::new(),
            by_address: BTreeMap::new(),
        };
        for server in list.servers.values() {
            index.by_name.entry(&server.name).or_default().push(server);
            for address in server.addresses().filter(|_| by_address_too) {
                let holders = index.by_address.entry(address.ip).or_default();
                holders.insert(server.id);
            }
        }
        index
    }

    pub(super) fn find(&self, node: &Node) -> Match<'a> {
        let named = self.by_name.get(node.name.as_str());
        let named = named.map_or(&[][..], Vec::as_slice);
        let same_name = |bad: &&BadServer| bad.name.as_ref() == Some(&node.name);
        let unreadable = self.list.unreadable.iter().find(same_name);
        match (named, unreadable) {
            ([], None) => self.by_address(node),
            ([one], None) => Match::One(one),
            ([], Some(bad)) => Match::Unclear(bad.to_string()),
            (several, _) => {
                let ids = several.iter().map(|server| server.id);
                Match::Unclear(more_than_one(&format!("named {:?}", node.name), ids))
            }
        }
    }

    /// Whether there are servers, and none has a name: then it is the answer that lacks something.
    fn is_nameless(&self) -> bool {
        !self.by_name.is_empty() && self.by_name.keys().all(|name| name.is_empty())
    }

    fn by_address(&self, node: &Node) -> Match<'a> {
        let mut holders = BTreeSet::new();
        for ip in addresses_of(node) {
            holders.extend(self.by_address.get(&ip).into_iter().flatten());
        }
        let mut servers = holders.iter().filter_map(|id| self.list.servers.get(id));
        match (servers.next(), servers.next()) {
            (None, _) if self.is_nameless() => {
                Match::Unclear("the API shows all servers without their names".to_owned())
            }
            (None, _) => Match::Nobody,
            (Some(one), None) => Match::One(one),
            (Some(_), Some(_)) => {
                let what = format!("with an address of node {:?}", node.name);
                Match::Unclear(more_than_one(&what, holders.iter().copied()))
            }
        }
    }
}

/// How many of the servers in question are written out.
const NAMED_SERVERS: usize = 5;

fn more_than_one(what: &str, ids: impl Iterator<Item = ServerId>) -> String {
    let ids: Vec<String> = ids.take(NAMED_SERVERS).map(|id| id.to_string()).collect();
    format!("found more than one server {what}: {}", ids.join(", "))
}

/// The addresses that distinguish machines: the kubelet's `--node-ip`, and those that it reports.
fn addresses_of(node: &Node) -> BTreeSet<IpAddr> {
    let provided = node.provided_node_ip().unwrap_or_default().split(',');
    let reported = node
        .addresses
        .iter()
        .filter(|a| matches!(a.kind, AddressKind::InternalIp | AddressKind::ExternalIp))
        .map(|address| address.address.as_str());
    provided
        .chain(reported)
        .filter_map(|text| text.trim().parse().ok())
        .filter(|ip: &IpAddr| !ip.is_unspecified() && !ip.is_loopback())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instances::examples::{node, server};
    use bowline_core::{NodeAddress, PROVIDED_NODE_IP};

    fn list(servers: &[Server]) -> ServerList {
        ServerList {
            servers: servers.iter().map(|s| (s.id, s.clone())).collect(),
            unreadable: Vec::new(),
        }
    }

    #[test]
    fn the_provider_id_decides_what_is_asked() {
        let id = ServerId::parse("3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613").unwrap();
        let upper = "cloudscale://3F9B1C526A7D4E089C41D2F0A8B7E613";
        let bad = "cloudscale://invalid";
        for (provider_id, wanted) in [
            (Some(upper), Question::About(id)),
            (
                Some("bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e"),
                Question::None,
            ),
            (Some("cloudscale"), Question::None),
            (
                Some(bad),
                Question::Malformed(IdError::Malformed(bad.into())),
            ),
            (None, Question::Which),
        ] {
            let mut asked = node("worker-a");
            asked.provider_id = provider_id.map(str::to_owned);
            assert_eq!(question(&asked), wanted);
        }
        assert_eq!(question(&node("")), Question::None);
    }

    #[test]
    fn a_name_must_match_exactly_and_once() {
        let servers = [
            server("a", &[]),
            server("clone", &[]),
            server("clone", &[]),
            server("", &[]),
        ];
        let list = list(&servers);
        let index = Index::new(&list, false);
        let Match::One(found) = index.find(&node("a")) else {
            panic!("a was not found");
        };
        assert_eq!(found.id, servers[0].id);
        for other in ["A", "a ", "b"] {
            assert!(matches!(index.find(&node(other)), Match::Nobody));
        }
        let Match::Unclear(text) = index.find(&node("clone")) else {
            panic!("clone is clear");
        };
        assert!(text.contains("found more than one"), "{text}");
        assert!(text.contains(&servers[1].id.to_string()), "{text}");
    }

    #[test]
    fn an_unreadable_server_of_that_name_makes_it_unclear() {
        let mut list = list(&[server("a", &[])]);
        for name in ["a", "b"] {
            list.unreadable.push(BadServer {
                id: None,
                name: Some(name.into()),
                reason: "broken".into(),
            });
        }
        let index = Index::new(&list, false);
        for name in ["a", "b"] {
            assert!(matches!(index.find(&node(name)), Match::Unclear(_)));
        }
        assert!(matches!(index.find(&node("c")), Match::Nobody));
    }

    #[test]
    fn addresses_count_only_if_wanted_and_no_name_matches() {
        let servers = [
            server("one", &[(false, &["10.0.0.1"])]),
            server("two", &[(false, &["10.0.0.2"]), (true, &["2001:db8::2"])]),
            server("three", &[(false, &["10.0.0.2"])]),
        ];
        let list = list(&servers);
        let reports = |name: &str, kind, address: &str| {
            let mut node = node(name);
            node.addresses = vec![NodeAddress::new(kind, address)];
            node
        };
        let (off, on) = (Index::new(&list, false), Index::new(&list, true));
        let strange = reports("strange", AddressKind::ExternalIp, "2001:DB8:0::2");
        assert!(matches!(off.find(&strange), Match::Nobody));
        let found = |node: &Node| match on.find(node) {
            Match::One(server) => server.name.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(found(&strange), "two");
        assert_eq!(
            found(&reports("three", AddressKind::InternalIp, "10.0.0.1")),
            "three"
        );
        let several = found(&reports("strange", AddressKind::InternalIp, "10.0.0.2"));
        assert!(several.contains("found more than one"), "{several}");
        assert_eq!(
            found(&reports("x", AddressKind::Hostname, "10.0.0.1")),
            "Nobody"
        );
        assert_eq!(
            found(&reports("x", AddressKind::InternalIp, "10.9.9.9")),
            "Nobody"
        );
        let mut reported = node("x");
        reported
            .annotations
            .insert(PROVIDED_NODE_IP.into(), "10.0.0.1,2001:db8::9".into());
        assert_eq!(found(&reported), "one");
    }
}
