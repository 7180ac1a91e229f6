//! Members of nodes that cannot be read, or whose owner is not known, stay. Pure.
//!
//! Of a node that cannot be read only the name is known, so any member without a known node may be
//! its own. A node that is held has the members at its addresses. Each such address becomes a host
//! of its own: its members stay, and follow the other members to another port or pool.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_core::{NODE_UNREADABLE, Node, Problem, name_list};

use super::desire::Host;
use super::plan::Seen;
use crate::api::{Address, Interface, Server, Status};
use crate::id::ServerId;

/// Nodes that keep the members they have.
pub(super) struct UnreadableNodes<'a> {
    /// Those that cannot be read.
    pub(super) unknown: &'a [String],
    /// Those whose owner is not known.
    pub(super) held: Vec<&'a Node>,
}

/// A host that keeps its members.
#[derive(Clone, Debug)]
pub(super) struct KeptHost {
    pub(super) host: Host,
    /// Whether its node is known.
    pub(super) is_held: bool,
}

impl UnreadableNodes<'_> {
    /// The node that a member at that address may belong to; none if there is certainly none.
    fn node_at(&self, ip: IpAddr) -> Option<(String, bool)> {
        let has = |node: &&&Node| {
            let mut addresses = node.addresses.iter();
            addresses.any(|it| it.address.parse() == Ok(ip))
        };
        if let Some(node) = self.held.iter().find(has) {
            return Some((node.name.clone(), true));
        }
        let unread = || format!("that cannot be read, one of [{}]", names(self.unknown));
        (!self.unknown.is_empty()).then(|| (unread(), false))
    }
}

/// A host for every address that has a member, is of no known host, and may be of one of these
/// nodes.
pub(super) fn kept_hosts(
    there: &Seen,
    hosts: &[Host],
    unreadable: &UnreadableNodes<'_>,
) -> Vec<KeptHost> {
    let interfaces = hosts.iter().flat_map(|host| &host.server.interfaces);
    let known: Vec<IpAddr> = interfaces
        .flat_map(|interface| &interface.addresses)
        .map(|address| address.ip)
        .collect();
    let members = there.pools.iter().flat_map(|pool| &pool.members);
    let mut kept_hosts: BTreeMap<IpAddr, KeptHost> = BTreeMap::new();
    for member in members {
        let Some(ip) = member.ip().filter(|ip| !known.contains(ip)) else {
            continue;
        };
        let Some((node, is_held)) = unreadable.node_at(ip) else {
            continue;
        };
        let host = || Host {
            node,
            server: Server {
                id: ServerId::from(member.uuid),
                name: String::new(),
                status: Status::Other,
                zone: String::new(),
                flavor: String::new(),
                interfaces: vec![Interface {
                    public: false,
                    addresses: vec![Address {
                        ip,
                        text: member.address.clone(),
                        subnet: member.subnet,
                    }],
                }],
            },
        };
        kept_hosts.entry(ip).or_insert_with(|| KeptHost {
            host: host(),
            is_held,
        });
    }
    kept_hosts.into_values().collect()
}

/// The problem of members whose nodes cannot be read; none if there are none.
pub(super) fn kept(kept_hosts: &[KeptHost], unknown: &[String]) -> Option<Problem> {
    let unread = kept_hosts.iter().filter(|it| !it.is_held);
    let interfaces = unread.flat_map(|it| &it.host.server.interfaces);
    let addresses = interfaces.flat_map(|interface| &interface.addresses);
    let addresses: Vec<&str> = addresses.map(|address| address.text.as_str()).collect();
    let is_any = !addresses.is_empty();
    let addresses = name_list(addresses);
    is_any.then(|| Problem {
        reason: NODE_UNREADABLE,
        message: format!(
            "members at [{addresses}] stay although no known node wants them: they may be those of \
             nodes [{}], which cannot be read",
            names(unknown)
        ),
    })
}

fn names(unknown: &[String]) -> String {
    name_list(unknown.iter().map(String::as_str))
}
