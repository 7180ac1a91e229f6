//! Which addresses a node gets from its machine, and by which it is asked.

use std::net::IpAddr;

use bowline_core::{AddressKind, NodeAddress};

use crate::instances::machine::MachineAddress;

/// Platforms whose public addresses are on the machine's own links.
const DISCOVERING: [&str; 4] = ["nocloud", "metal", "openstack", "oracle"];
/// The link of addresses that only the platform knows.
const EXTERNAL: &str = "external";
/// Links whose addresses are of no use from outside.
const IGNORED: [&str; 4] = ["kubespan", "siderolink", "lo", "cilium_host"];
/// And all whose names begin so.
const IGNORED_PREFIX: &str = "dummy";

/// The addresses by which a machine is reached: at most one of each family, the preferred first.
/// The annotation is cut at commas as it is: a part with a blank is no address.
pub fn node_ips(annotation: &str, prefer_ipv6: bool) -> Vec<IpAddr> {
    let parsed: Vec<IpAddr> = annotation
        .split(',')
        .filter_map(|part| part.parse().ok())
        .collect();
    one_of_each(&parsed, prefer_ipv6)
}

fn one_of_each(addresses: &[IpAddr], prefer_ipv6: bool) -> Vec<IpAddr> {
    let first = |v6: bool| addresses.iter().find(move |ip| ip.is_ipv6() == v6);
    let order = [prefer_ipv6, !prefer_ipv6];
    order.into_iter().filter_map(first).copied().collect()
}

/// What the addresses of a node are made of.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    pub node_name: &'a str,
    pub hostname: &'a str,
    pub platform: &'a str,
    /// What [`node_ips`] gave.
    pub node_ips: &'a [IpAddr],
    /// What the machine lists, in its order.
    pub listed: &'a [MachineAddress],
    /// Whether a rule asks to look for public addresses on the machine's links.
    pub discover: bool,
    pub prefer_ipv6: bool,
}

pub fn addresses(sources: &Sources<'_>) -> Vec<NodeAddress> {
    let internal = sources
        .node_ips
        .iter()
        .map(|ip| NodeAddress::new(AddressKind::InternalIp, ip.to_string()));
    let public = one_of_each(&public(sources), sources.prefer_ipv6);
    let external = public
        .iter()
        .map(|ip| NodeAddress::new(AddressKind::ExternalIp, ip.to_string()));
    let mut all: Vec<NodeAddress> = internal.chain(external).collect();
    all.push(NodeAddress::new(AddressKind::Hostname, sources.node_name));
    if sources.hostname.find('.').is_some_and(|at| at >= 1) {
        all.push(NodeAddress::new(AddressKind::InternalDns, sources.hostname));
    }
    all
}

/// Public addresses, the better ones of each family first.
fn public(sources: &Sources<'_>) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let discovering = DISCOVERING.contains(&sources.platform);
    if !discovering {
        let own = |address: &&MachineAddress| {
            address.link == EXTERNAL && !sources.node_ips.contains(&address.address)
        };
        found.extend(sources.listed.iter().filter(own).map(|it| it.address));
    }
    if discovering || sources.discover {
        found.extend(discover(sources.listed, sources.node_ips));
    }
    found
}

/// Public addresses on the machine's links. An IPv6 address that stays goes before all that came so
/// far, so that among several the last is first.
fn discover(listed: &[MachineAddress], node_ips: &[IpAddr]) -> Vec<IpAddr> {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for entry in listed {
        let ip = entry.address;
        if is_ignored(&entry.link) || !is_public(ip) || node_ips.contains(&ip) {
            continue;
        }
        match ip {
            IpAddr::V4(_) => v4.push(ip),
            IpAddr::V6(_) if entry.is_permanent() => v6.insert(0, ip),
            IpAddr::V6(_) => v6.push(ip),
        }
    }
    v4.append(&mut v6);
    v4
}

pub(crate) fn is_ignored(link: &str) -> bool {
    IGNORED.contains(&link) || link.starts_with(IGNORED_PREFIX)
}

/// Global unicast and not private, as Go sees it: addresses of carriers and of documentation count.
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_multicast()
                || ip.is_link_local()
                || ip.is_broadcast()
                || ip.is_private())
        }
        IpAddr::V6(ip) => {
            !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_multicast()
                || ip.is_unicast_link_local()
                || ip.is_unique_local())
        }
    }
}

#[cfg(test)]
mod tests;
