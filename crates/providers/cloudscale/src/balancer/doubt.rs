//! Members that may be those of nodes which cannot be read, or whose owner is not known. Pure.
//!
//! Nothing is known of a node that cannot be read but its name, so that any member of no known node may be its own. A node
//! that is held has the members at its addresses. Their addresses are treated like those of a host: where its members are,
//! they stay, and what becomes of the other members (another port, another pool) becomes of them as well.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_core::{NODE_UNREADABLE, Node, Problem, name_list};

use super::desire::Host;
use super::plan::Seen;
use crate::api::{Address, Interface, Server, Status};
use crate::id::ServerId;

/// Nodes that keep the members they have.
pub(super) struct Doubtful<'a> {
    /// Those that cannot be read.
    pub(super) unknown: &'a [String],
    /// Those whose owner is not known.
    pub(super) held: Vec<&'a Node>,
}

/// A host that keeps its members.
#[derive(Clone, Debug)]
pub(super) struct Stranger {
    pub(super) host: Host,
    /// Whether its node is known.
    pub(super) is_held: bool,
}

impl Doubtful<'_> {
    /// Whose a member at that address is; none if it is nobody's for certain.
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

/// A host for every address that has a member, is of no known host, and may be of one of these nodes.
pub(super) fn strangers(there: &Seen, hosts: &[Host], doubtful: &Doubtful<'_>) -> Vec<Stranger> {
    let interfaces = hosts.iter().flat_map(|host| &host.server.interfaces);
    let known: Vec<IpAddr> = interfaces
        .flat_map(|interface| &interface.addresses)
        .map(|address| address.ip)
        .collect();
    let members = there.pools.iter().flat_map(|pool| &pool.members);
    let mut strangers: BTreeMap<IpAddr, Stranger> = BTreeMap::new();
    for member in members {
        let Some(ip) = member.ip().filter(|ip| !known.contains(ip)) else {
            continue;
        };
        let Some((node, is_held)) = doubtful.node_at(ip) else {
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
        strangers.entry(ip).or_insert_with(|| Stranger {
            host: host(),
            is_held,
        });
    }
    strangers.into_values().collect()
}

/// What is told about those whose nodes cannot be read; none if there are none.
pub(super) fn kept(strangers: &[Stranger], unknown: &[String]) -> Option<Problem> {
    let unread = strangers.iter().filter(|it| !it.is_held);
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
