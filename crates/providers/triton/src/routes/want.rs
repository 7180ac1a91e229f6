//! From machines, networks and nodes to what a survey shows: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bowline_core::Node;
use bowline_core::routes::{
    ObservedRoutes, PodRoute, Question, RouteNote, RoutePlacement, RouteStep, Target,
};
use ipnet::{IpNet, Ipv4Net};
use uuid::Uuid;

use crate::api::{Machine, Network};

/// Entries of one network. A body may have 100,000 bytes, and an entry takes at most 37
/// (`"255.255.255.255/32":"255.255.255.255",`).
pub const MOST_ENTRIES: usize = 2000;

pub const NO_FABRIC_NIC: &str = "NoFabricNIC";
pub const OVERLAPS_SUBNET: &str = "PodCIDROverlapsSubnet";
pub const OUTSIDE_CLUSTER: &str = "PodCIDROutsideCluster";
pub const SHARED: &str = "PodCIDRShared";
pub const TOO_MANY: &str = "TooManyRoutes";
/// The reason of events about ranges that fabric networks know nothing of.
pub const IPV6_IGNORED: &str = "IPv6RouteIgnored";

#[derive(Clone, Debug)]
pub(super) struct Managed {
    pub(super) network: Network,
    pub(super) vlan: u16,
}

/// The addresses of nodes on networks, by network and node.
pub(super) type Cards = BTreeMap<Uuid, BTreeMap<String, Ipv4Addr>>;

#[derive(Clone, Debug, Default)]
pub(super) struct Machines {
    pub(super) cards: Cards,
    /// Nodes whose machine was not found, each with why.
    pub(super) lost: BTreeMap<String, String>,
}

impl Machines {
    /// Notes the cards of a node's machine: of each network its first address, that of the first
    /// card before all.
    pub(super) fn add_cards(&mut self, node: &str, machine: &Machine) {
        let nics = machine.nics.iter().flatten();
        let (first, rest): (Vec<_>, Vec<_>) = nics.partition(|nic| nic.primary);
        for nic in first.into_iter().chain(rest) {
            if let (Some(network), Some(IpAddr::V4(address))) = (nic.network, nic.address()) {
                let cards = self.cards.entry(network).or_default();
                cards.entry(node.to_owned()).or_insert(address);
            }
        }
    }

    pub(super) fn is_on(&self, network: Uuid, node: &str) -> bool {
        let cards = self.cards.get(&network);
        cards.is_some_and(|cards| cards.contains_key(node))
    }
}

/// A destination as it stands in a network: a range, or one address.
fn range(key: &str) -> Option<Ipv4Net> {
    let one = |address: Ipv4Addr| Ipv4Net::from(address);
    let parsed = key.parse::<Ipv4Net>().map(|it| it.trunc());
    parsed.ok().or_else(|| key.parse().ok().map(one))
}

/// Whether an entry is about pods, so that it is ours. All others are kept as they are.
pub(super) fn is_ours(ranges: &[IpNet], key: &str) -> bool {
    range(key).is_some_and(|it| ranges.iter().any(|all| all.contains(&IpNet::V4(it))))
}

/// The answer to a question, from what there is on the managed networks.
pub(super) fn observe(
    question: &Question,
    managed: &[Managed],
    machines: &Machines,
) -> ObservedRoutes {
    let mut routes = Vec::new();
    for Managed { network, .. } in managed {
        let ours = network.routes.iter();
        let ours = ours.filter(|(key, _)| is_ours(&question.ranges, key));
        routes
            .extend(ours.filter_map(|(key, hop)| entry(question, network.id, machines, key, hop)));
    }
    ObservedRoutes {
        routes,
        placements: placements(question, managed, machines),
    }
}

fn entry(
    question: &Question,
    network: Uuid,
    machines: &Machines,
    key: &str,
    hop: &str,
) -> Option<PodRoute> {
    let (target, blackhole) = match hop.parse::<Ipv4Addr>() {
        Err(_) => (Target::Nobody, true),
        Ok(address) => match owner(question, network, machines, address) {
            Some(node) => (Target::Node(node), false),
            // It may be one of theirs.
            None if !machines.lost.is_empty() => (Target::Unclear, false),
            None => (Target::Nobody, true),
        },
    };
    Some(PodRoute {
        name: format!("{key} {hop}"),
        table: network.to_string(),
        destination: range(key)?.to_string(),
        target,
        blackhole,
        addresses: None,
    })
}

/// The node with that address on the network, or one without a machine here that reports the
/// address.
fn owner(
    question: &Question,
    network: Uuid,
    machines: &Machines,
    address: Ipv4Addr,
) -> Option<String> {
    let cards = machines.cards.get(&network).into_iter().flatten();
    let mut holders = cards.filter(|(_, it)| **it == address);
    if let Some((node, _)) = holders.next() {
        return Some(node.clone());
    }
    let text = address.to_string();
    let has = |node: &&Arc<Node>| node.addresses.iter().any(|it| it.address == text);
    question.others.iter().find(has).map(|it| it.name.clone())
}

fn placements(
    question: &Question,
    managed: &[Managed],
    machines: &Machines,
) -> BTreeMap<(String, String), RoutePlacement> {
    // Who was there first keeps what two have, and what there is no room for.
    let mut nodes: Vec<&Arc<Node>> = question.nodes.iter().collect();
    nodes.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
    let mut room: BTreeMap<Uuid, usize> = managed
        .iter()
        .map(|it| (it.network.id, room_in(question, &it.network)))
        .collect();
    let mut holders: BTreeMap<Ipv4Net, String> = BTreeMap::new();
    let mut placements = BTreeMap::new();
    for node in nodes {
        for cidr in &node.pod_cidrs {
            let tables = networks_for(question, managed, machines, node, cidr, &mut holders);
            let placement = tables.and_then(|tables| take_room(&mut room, &tables, cidr));
            let placement = placement.unwrap_or_else(|refused| refused);
            placements.insert((node.name.clone(), cidr.clone()), placement);
        }
    }
    placements
}

fn room_in(question: &Question, network: &Network) -> usize {
    let foreign = network.routes.keys();
    let foreign = foreign.filter(|key| !is_ours(&question.ranges, key));
    MOST_ENTRIES.saturating_sub(foreign.count())
}

/// The networks that need the route of that range, or why there is none.
fn networks_for(
    question: &Question,
    managed: &[Managed],
    machines: &Machines,
    node: &Node,
    cidr: &str,
    holders: &mut BTreeMap<Ipv4Net, String>,
) -> Result<Vec<Uuid>, RoutePlacement> {
    let note = |reason, message| RouteNote { reason, message };
    let refused = |reason, message| Err(RoutePlacement::Refused(note(reason, message)));
    let name = &node.name;
    let network = match cidr.parse::<IpNet>() {
        Ok(IpNet::V4(network)) => network.trunc(),
        Ok(IpNet::V6(_)) => {
            let text =
                format!("fabric networks have no IPv6: there is no route to {cidr} of node {name}");
            return Err(RoutePlacement::Ignored(note(IPV6_IGNORED, text)));
        }
        Err(_) => return refused(OUTSIDE_CLUSTER, format!("{cidr} of node {name} is no CIDR")),
    };
    if !is_ours(&question.ranges, cidr) {
        let text = format!("{cidr} of node {name} is not inside --cluster-cidr");
        return refused(OUTSIDE_CLUSTER, text);
    }
    if let Some(why) = machines.lost.get(name) {
        return Err(RoutePlacement::Unknown(why.clone()));
    }
    let on: Vec<&Managed> = managed
        .iter()
        .filter(|it| machines.is_on(it.network.id, name))
        .collect();
    if on.is_empty() {
        let text = format!(
            "the machine of node {name} has no address on a fabric network that gets routes: there is \
             no route to {cidr}"
        );
        return refused(NO_FABRIC_NIC, text);
    }
    let overlaps = |it: &&&Managed| {
        let subnet = it.network.subnet.parse::<Ipv4Net>();
        subnet.is_ok_and(|it| it.contains(&network) || network.contains(&it))
    };
    if let Some(it) = on.iter().find(overlaps) {
        let (subnet, on) = (&it.network.subnet, &it.network.name);
        let text = format!("{cidr} of node {name} overlaps {subnet}, the range of network {on}");
        return refused(OVERLAPS_SUBNET, text);
    }
    let holder = holders.entry(network).or_insert_with(|| name.clone());
    if holder != name {
        let text = format!("{cidr} of node {name} is node {holder}'s, too");
        return refused(SHARED, text);
    }
    Ok(on.iter().map(|it| it.network.id).collect())
}

/// Counts one more route in each of these networks, if all have room.
fn take_room(
    room: &mut BTreeMap<Uuid, usize>,
    tables: &[Uuid],
    cidr: &str,
) -> Result<RoutePlacement, RoutePlacement> {
    let full = tables.iter().find(|id| room.get(id) == Some(&0));
    if let Some(full) = full {
        let message = format!(
            "network {full} cannot hold more than {MOST_ENTRIES} routes: there is none to {cidr}"
        );
        let note = RouteNote {
            reason: TOO_MANY,
            message,
        };
        return Err(RoutePlacement::Refused(note));
    }
    for id in tables {
        room.entry(*id).and_modify(|left| *left -= 1);
    }
    let tables = tables.iter().map(Uuid::to_string).collect();
    Ok(RoutePlacement::In(tables))
}

/// The routes of a network after these steps: what goes goes if it is still as it was seen, what
/// comes comes if the address of its node is known, and everything else stays as it is.
pub(super) fn changed(
    current: &BTreeMap<String, String>,
    steps: &[RouteStep],
    hops: &BTreeMap<String, Ipv4Addr>,
) -> BTreeMap<String, String> {
    let mut routes = current.clone();
    for step in steps {
        match step {
            RouteStep::Delete(route) => {
                let seen = route.name.split_once(' ');
                if let Some((key, hop)) = seen
                    && routes.get(key).is_some_and(|it| it == hop)
                {
                    routes.remove(key);
                }
            }
            RouteStep::Create { route, .. } => {
                if let (Some(network), Some(hop)) = (range(&route.destination), hop(route, hops)) {
                    routes.insert(network.to_string(), hop.to_string());
                }
            }
        }
    }
    routes
}

pub(super) fn hop(route: &PodRoute, hops: &BTreeMap<String, Ipv4Addr>) -> Option<Ipv4Addr> {
    match &route.target {
        Target::Node(name) => hops.get(name).copied(),
        Target::Nobody | Target::Unclear => None,
    }
}

/// Whether a network has what was written, and all that is not ours as it was.
pub(super) fn is_kept(
    ranges: &[IpNet],
    before: &BTreeMap<String, String>,
    written: &BTreeMap<String, String>,
    seen: &BTreeMap<String, String>,
) -> bool {
    let keys: BTreeSet<&String> = before.keys().chain(written.keys()).collect();
    let changed = |key: &&&String| is_ours(ranges, key) && before.get(**key) != written.get(**key);
    let foreign = |key: &&&String| !is_ours(ranges, key);
    let of_ours = keys.iter().filter(changed);
    let of_others = keys.iter().filter(foreign);
    of_ours
        .chain(of_others)
        .all(|key| seen.get(*key) == written.get(*key))
}
