//! What a kubelet cannot prove by writing it on its own Node: names and addresses that are the cluster's own, and those
//! that another Node shows as well.
//!
//! ```text
//!  request ──▶ is it the cluster's own? ──▶ does another Node show it? ──▶ who has it, by machine or cloud?
//!               (clusters_own)                (rivals)                       (settle)
//! ```
//!
//! A Node's status and annotations are written by its kubelet. So where two Nodes show the same, neither is believed: a
//! machine or a cloud has to say who owns it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::recognise::{comparable, is_api_server};
use super::{Finding, MachineAnswer, MachineIdentity, WellFormedRequest};
use crate::node::addresses::parse_ip;
use crate::{CONTROL_PLANE_LABEL, Node};

/// Ends the names of Services, before the cluster's domain.
const SERVICE_DOMAIN: &str = "svc";

/// Names and addresses, each as it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    dns: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
    ranges: BTreeSet<IpNet>,
}

impl Names {
    /// Takes a DNS name, an address or a range of addresses.
    pub fn insert(&mut self, text: &str) {
        let text = text.trim();
        if let Some(address) = parse_ip(text) {
            self.addresses.insert(address);
        } else if let Ok(range) = text.parse::<IpNet>() {
            self.ranges.insert(range);
        } else if !text.is_empty() {
            self.dns.insert(comparable(text));
        }
    }

    /// Takes a range of addresses.
    pub fn insert_range(&mut self, range: IpNet) {
        self.ranges.insert(range);
    }

    /// Takes all of another's.
    pub fn extend(&mut self, other: &Self) {
        self.dns.extend(other.dns.iter().cloned());
        self.addresses.extend(other.addresses.iter().copied());
        self.ranges.extend(other.ranges.iter().copied());
    }

    fn has(&self, asked: &RequestedName) -> bool {
        match asked {
            RequestedName::Name(name) => self.dns.contains(name),
            RequestedName::Address(address) => {
                self.addresses.contains(address)
                    || self.ranges.iter().any(|it| it.contains(address))
            }
        }
    }
}

impl<T: AsRef<str>> FromIterator<T> for Names {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut names = Self::default();
        for text in texts {
            names.insert(text.as_ref());
        }
        names
    }
}

/// What is the cluster's own, beside the names that are so in every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNames {
    /// The API server's: what its certificate shows, and the endpoints of `default/kubernetes`. Machines of the
    /// control plane are among them, so that their Nodes may have these.
    pub api_server: Names,
    /// Nobody's: what the operator reserves, the cluster IP of `default/kubernetes`, the ranges of Services.
    pub reserved: Names,
}

/// A subject alternative name as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestedName {
    /// A DNS name, in lower case and without the dot at its end.
    Name(String),
    /// An address; an IPv4 address is one however it is written.
    Address(IpAddr),
}

impl fmt::Display for RequestedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name:?}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Everything that a request asks for.
fn asked(candidate: &WellFormedRequest) -> impl Iterator<Item = RequestedName> {
    let names = candidate.dns_names.iter();
    let names = names.map(|it| RequestedName::Name(comparable(it)));
    let addresses = candidate.addresses.iter();
    names.chain(addresses.map(|it| RequestedName::Address(it.to_canonical())))
}

/// The first name or address of a request that is the cluster's own, so that this node must not have it.
pub fn clusters_own(
    candidate: &WellFormedRequest,
    node: Option<&Node>,
    cluster: &ClusterNames,
) -> Option<Finding> {
    // No kubelet can give its own Node this label.
    let is_control_plane = node
        .is_some_and(|it| it.name == candidate.node && it.labels.contains_key(CONTROL_PLANE_LABEL));
    asked(candidate).find_map(|asked| {
        let why = if let Some(why) = always_reserved(&asked) {
            why
        } else if cluster.reserved.has(&asked) {
            "reserved for Services or by the operator"
        } else if cluster.api_server.has(&asked) && !is_control_plane {
            "of the API server"
        } else {
            return None;
        };
        Some(Finding::ClustersOwn {
            asked: asked.to_string(),
            why,
        })
    })
}

/// Why no node of any cluster has that, if it is so.
fn always_reserved(asked: &RequestedName) -> Option<&'static str> {
    match asked {
        RequestedName::Name(name) => {
            let is_service = name.split('.').skip(1).any(|it| it == SERVICE_DOMAIN);
            (is_api_server(name) || name == "localhost" || is_service)
                .then_some("a name inside the cluster")
        }
        RequestedName::Address(address) => {
            let is_link_local = match address {
                IpAddr::V4(it) => it.is_link_local() || it.is_broadcast(),
                IpAddr::V6(it) => it.is_unicast_link_local(),
            };
            (is_link_local
                || address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast())
            .then_some("no address of one machine alone")
        }
    }
}

/// What else in a request other Nodes show, by the names of those Nodes. The node's own name is the requester's
/// beyond doubt: the API server has authenticated it.
pub fn rivals<'a>(
    candidate: &WellFormedRequest,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> BTreeMap<String, BTreeSet<RequestedName>> {
    let own = RequestedName::Name(comparable(&candidate.node));
    let wanted: BTreeSet<RequestedName> = asked(candidate).filter(|it| *it != own).collect();
    let mut rivals = BTreeMap::new();
    if wanted.is_empty() {
        return rivals;
    }
    for node in nodes {
        if node.name == candidate.node {
            continue;
        }
        let both: BTreeSet<RequestedName> = shown(node).filter(|it| wanted.contains(it)).collect();
        if !both.is_empty() {
            rivals.insert(node.name.clone(), both);
        }
    }
    rivals
}

/// Everything that a Node shows: its name, its addresses of whatever kind, what its kubelet was given.
fn shown(node: &Node) -> impl Iterator<Item = RequestedName> {
    let read = |text: &str| match parse_ip(text.trim()) {
        Some(address) => RequestedName::Address(address),
        None => RequestedName::Name(comparable(text.trim())),
    };
    let given = node.provided_node_ip().unwrap_or_default().split(',');
    let listed = node.addresses.iter().map(|it| it.address.as_str());
    let all = std::iter::once(node.name.as_str()).chain(listed);
    all.chain(given).map(read)
}

/// Whether the requester has what other Nodes show as well: its machine or cloud must say so, and none of theirs.
/// `own` is what was said about the requester; `others` what was said about each of the [`rivals`], nothing where nobody
/// can tell. A Node whose machine is silent proves nothing, so that it stops nobody's renewal.
pub fn settle(
    rivals: &BTreeMap<String, BTreeSet<RequestedName>>,
    own: &MachineAnswer,
    others: &BTreeMap<String, MachineAnswer>,
) -> Option<Finding> {
    let is_proven = is_proven(rivals, own);
    let mut rivals = rivals.iter();
    let rival = rivals.find_map(|(name, both)| {
        let is_theirs = |asked: &&RequestedName| {
            let answer = others.get(name);
            **asked == RequestedName::Name(comparable(name))
                || answer.is_some_and(|it| machines(it).any(|machine| machine.proves(asked)))
        };
        let asked = if is_proven {
            both.iter().find(is_theirs)
        } else {
            both.first()
        };
        Some((name, asked?))
    });
    rival.map(|(other, asked)| Finding::ClaimedTwice {
        asked: asked.to_string(),
        other: other.clone(),
    })
}

/// Whether one of the requester's machines has everything that others show as well. If not, they need not be asked.
pub fn is_proven(rivals: &BTreeMap<String, BTreeSet<RequestedName>>, own: &MachineAnswer) -> bool {
    let contested: BTreeSet<&RequestedName> = rivals.values().flatten().collect();
    machines(own).any(|it| contested.iter().all(|asked| it.proves(asked)))
}

fn machines(answer: &MachineAnswer) -> impl Iterator<Item = &MachineIdentity> {
    let machines = match answer {
        MachineAnswer::Machines(machines) => machines.as_slice(),
        MachineAnswer::Unknown
        | MachineAnswer::NotItsMachine(_)
        | MachineAnswer::Refused(_)
        | MachineAnswer::CannotTell(_) => &[],
    };
    machines.iter()
}

impl MachineIdentity {
    /// Whether machine or cloud say that it has this, and not only its Node.
    fn proves(&self, asked: &RequestedName) -> bool {
        match asked {
            RequestedName::Name(name) => self.names.iter().any(|it| comparable(it) == *name),
            RequestedName::Address(address) => {
                let mut own = self.addresses.iter();
                own.any(|it| it.to_canonical() == *address)
            }
        }
    }
}

#[cfg(test)]
mod tests;
