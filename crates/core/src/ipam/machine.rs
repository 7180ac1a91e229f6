//! Networks of a machine that pods of its node can have addresses from.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};

use crate::{AddressKind, Node};

/// An address of a machine with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineAddress {
    /// The address itself, host bits included.
    pub address: IpNet,
    /// Whether it was given for good, and is not one of several that come and go.
    pub permanent: bool,
}

/// Why a machine's networks are of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// There is nothing to ask the machine by.
    #[error("node has no addresses")]
    NoAddresses,
    /// An address of the node is none.
    #[error("{0:?} is no IP address")]
    Address(String),
    /// The network has no room for pods.
    #[error("CIDRv6 is too small: {0}")]
    TooSmall(Ipv6Net),
}

/// The addresses of a node: internal and external ones, then those that its kubelet was given.
pub fn node_ips(node: &Node) -> Result<Vec<IpAddr>, MachineError> {
    let listed = node
        .addresses
        .iter()
        .filter(|it| matches!(it.kind, AddressKind::InternalIp | AddressKind::ExternalIp));
    let provided = node.provided_node_ip().unwrap_or_default().split(',');
    let provided = provided.map(str::trim).filter(|text| !text.is_empty());
    let mut ips = Vec::new();
    for text in listed.map(|it| it.address.as_str()).chain(provided) {
        let ip: IpAddr = text
            .parse()
            .map_err(|_| MachineError::Address(text.to_owned()))?;
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    if ips.is_empty() {
        return Err(MachineError::NoAddresses);
    }
    Ok(ips)
}

/// The networks that pods can have addresses from, each with the machine's own address in it: public
/// IPv6, of the node's own addresses if it has such, permanent ones first.
pub fn candidates(node_ips: &[IpAddr], addresses: &[MachineAddress]) -> Vec<Ipv6Net> {
    let own: Vec<Ipv6Addr> = node_ips
        .iter()
        .filter_map(|ip| match ip {
            IpAddr::V6(ip) if !ip.is_unique_local() => Some(*ip),
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    for MachineAddress { address, permanent } in addresses {
        let IpNet::V6(address) = address else {
            continue;
        };
        let ip = address.addr();
        let wanted = is_public(ip) && (own.is_empty() || own.contains(&ip));
        if !wanted || found.contains(address) {
            continue;
        }
        let place = if *permanent { 0 } else { found.len() };
        found.insert(place, *address);
    }
    found
}

/// Whether it is a unicast address that is good beyond its own link and site.
pub(super) fn is_public(ip: Ipv6Addr) -> bool {
    !(ip.is_unspecified()
        || ip.is_loopback()
        || ip.is_multicast()
        || ip.is_unicast_link_local()
        || ip.is_unique_local())
}

/// The range that a machine's network gives to pods, and the mask of its blocks; none if the network
/// is the machine's own address and nothing else.
pub fn machine_range(prefix: Ipv6Net) -> Result<Option<(Ipv6Net, u8)>, MachineError> {
    let length = prefix.prefix_len();
    let bits = match length {
        128 => return Ok(None),
        0..64 => {
            let range = Ipv6Net::new_assert(prefix.addr(), 64).trunc();
            return Ok(Some((range, 80)));
        }
        64..100 => 16,
        100..106 => 8,
        106..112 => 4,
        112..119 => 2,
        119 => 1,
        120..124 => 0,
        _ => return Err(MachineError::TooSmall(prefix)),
    };
    Ok(Some((prefix.trunc(), length + bits)))
}
