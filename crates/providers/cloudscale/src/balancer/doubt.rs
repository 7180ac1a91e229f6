//! Members that may be those of nodes which cannot be read. Pure.
//!
//! Nothing is known of such a node but its name, so that any member of no known node may be its own.
//! Their addresses are treated like those of a host: where its members are, they stay, and what
//! becomes of the other members (another port, another pool) becomes of them as well.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_core::{NODE_UNREADABLE, Problem, name_list};

use super::desire::Host;
use super::plan::Seen;
use crate::api::{Address, Interface, Server, Status};
use crate::id::ServerId;

/// A host for every address that has a member and is of no known host.
pub(super) fn strangers(there: &Seen, hosts: &[Host], unknown: &[String]) -> Vec<Host> {
    let interfaces = hosts.iter().flat_map(|host| &host.server.interfaces);
    let known: Vec<IpAddr> = interfaces
        .flat_map(|interface| &interface.addresses)
        .map(|address| address.ip)
        .collect();
    let members = there.pools.iter().flat_map(|pool| &pool.members);
    let mut strangers: BTreeMap<IpAddr, Host> = BTreeMap::new();
    for member in members {
        let Some(ip) = member.ip().filter(|ip| !known.contains(ip)) else {
            continue;
        };
        strangers.entry(ip).or_insert_with(|| Host {
            node: format!("that cannot be read, one of [{}]", names(unknown)),
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
        });
    }
    strangers.into_values().collect()
}

/// What is told about them; none if there are none.
pub(super) fn kept(strangers: &[Host], unknown: &[String]) -> Option<Problem> {
    let interfaces = strangers.iter().flat_map(|host| &host.server.interfaces);
    let addresses = interfaces.flat_map(|interface| &interface.addresses);
    let addresses = name_list(addresses.map(|address| address.text.as_str()));
    (!strangers.is_empty()).then(|| Problem {
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
