//! Decides about routes: nodes and observed routes in, changes and node states out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;

use super::{
    ObservedRoutes, PodRoute, Question, RouteNote, RoutePlacement, RouteStep, Target, destination,
    is_responsible,
};
use crate::{Node, NodeAddress, NodeOwner};

/// All nodes of a cluster, sorted for the routes of one cloud.
#[derive(Clone, Debug, Default)]
pub struct RouteNodes {
    /// Those of this cloud that can be read, by name.
    pub own: BTreeMap<String, Arc<Node>>,
    /// Nobody's yet, or not to be read and then as they were last known. What they have is not ours to change.
    pub others: BTreeMap<String, Arc<Node>>,
    /// Of other clouds: their ranges are not ours to change, but no route of this cloud leads to their machines.
    pub foreign: BTreeMap<String, Arc<Node>>,
    /// Nodes that cannot be read and never could: what they have is not known.
    pub unknown: BTreeSet<String>,
}

impl RouteNodes {
    /// Of those that can be read, and those that cannot, each with what was last known of it.
    pub fn new<'a>(
        readable: impl IntoIterator<Item = &'a Arc<Node>>,
        unreadable: &BTreeMap<String, Option<Arc<Node>>>,
        node_owner: impl Fn(&Node) -> NodeOwner,
    ) -> Self {
        let mut sorted = Self::default();
        for node in readable {
            let to = match node_owner(node) {
                NodeOwner::Own => &mut sorted.own,
                NodeOwner::Foreign => &mut sorted.foreign,
                NodeOwner::Unidentified | NodeOwner::Open | NodeOwner::Unowned => {
                    &mut sorted.others
                }
            };
            to.insert(node.name.clone(), node.clone());
        }
        for (name, last) in unreadable {
            match last {
                Some(node) => drop(sorted.others.insert(name.clone(), node.clone())),
                None => drop(sorted.unknown.insert(name.clone())),
            }
        }
        sorted
    }

    /// What to ask the cloud.
    pub fn question(&self, cluster: &str, ranges: &[IpNet]) -> Question {
        Question {
            cluster: cluster.to_owned(),
            ranges: ranges.to_vec(),
            nodes: self.own.values().cloned().collect(),
            others: self.others.values().cloned().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.others.is_empty() && self.foreign.is_empty()
    }

    fn is_another(&self, name: &str) -> bool {
        self.others.contains_key(name)
            || self.foreign.contains_key(name)
            || self.unknown.contains(name)
    }
}

/// Why a route is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// What takes it is lost.
    Blackhole,
    /// There is no such node any more.
    NodeGone,
    /// The node has other ranges.
    NotItsRange,
    /// The node's route has no place in this table.
    NotThere,
    /// Another node has the range.
    Taken,
    /// The node has other addresses by now.
    Moved,
}

impl Why {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Blackhole => "what takes it is lost",
            Self::NodeGone => "its node is gone",
            Self::NotItsRange => "its node has no such range",
            Self::NotThere => "its node has no place there",
            Self::Taken => "another node has the range",
            Self::Moved => "its node has other addresses",
        }
    }
}

/// Why a route that nobody seems to need stays for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteHold {
    /// Where it leads is not known.
    Unclear,
    /// There are nodes that cannot be read; it may be one of theirs.
    Unread,
    /// There is no node at all, which is more likely a mistake.
    NoNodes,
    /// Too many went in a short time.
    BudgetSpent,
}

impl fmt::Display for RouteHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unclear => "its target is unknown",
            Self::Unread => "there are nodes that cannot be read",
            Self::NoNodes => "there is no node at all",
            Self::BudgetSpent => "too many were removed in a short time",
        })
    }
}

/// A route that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The route.
    pub route: PodRoute,
    /// Why it goes.
    pub why: Why,
    /// Whether nobody needs its place, so that it counts against the [`Allowance`](super::Allowance).
    pub is_leftover: bool,
}

/// A route that comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Creation {
    /// Its node.
    pub node: Arc<Node>,
    /// The route.
    pub route: PodRoute,
}

impl Creation {
    /// What the cloud is asked to do.
    pub fn step(&self) -> RouteStep {
        RouteStep::Create {
            hint: self.node.uid.clone(),
            route: self.route.clone(),
        }
    }
}

/// What becomes of one destination in one table: what goes comes first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteChange {
    /// The table.
    pub table: String,
    /// The destination, in its common spelling.
    pub destination: String,
    /// What goes.
    pub removals: Vec<Removal>,
    /// What comes.
    pub creations: Vec<Creation>,
}

/// A route that stays although nobody seems to need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The route.
    pub route: PodRoute,
    /// Why it stays.
    pub why: RouteHold,
}

/// How it is with the routes of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRouteState {
    /// Ranges that need routes.
    wanted: usize,
    /// Whether one of them has none.
    lacks: bool,
    /// Whether of one of them nobody can tell.
    is_unclear: bool,
    /// Whether it had routes, of whatever range.
    had_routes: bool,
    /// What people should know.
    pub remarks: Vec<RouteNote>,
}

impl NodeRouteState {
    /// One of its routes was not made.
    pub fn lack(&mut self) {
        self.lacks = true;
    }

    /// Whether its network is not available; none if that is not ours to say.
    pub fn unavailable(&self) -> Option<bool> {
        if self.lacks {
            return Some(true);
        }
        if self.is_unclear {
            return None;
        }
        match self.wanted {
            0 => self.had_routes.then_some(true),
            _ => Some(false),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteDecision {
    /// By table and destination.
    pub changes: Vec<RouteChange>,
    /// Of all nodes of the cloud, as they are if all that comes comes about.
    pub standings: BTreeMap<String, NodeRouteState>,
    /// What stays for now.
    pub held: Vec<HeldBack>,
    /// Routes to pods that there are.
    pub routes: usize,
    /// Whether something was not known, so that it is worth another look soon.
    pub is_unclear: bool,
}

/// A destination in a table.
type TableSlot = (String, String);

/// Decides. `leftovers` is asked, with the number of routes to pods, how many may go for no other
/// reason than that nobody needs them.
pub fn decide(
    nodes: &RouteNodes,
    ranges: &[IpNet],
    survey: &ObservedRoutes,
    leftovers: impl FnOnce(usize) -> usize,
) -> RouteDecision {
    let mut decision = RouteDecision::default();
    let wanted = wanted(nodes, survey, &mut decision);
    let responsible = |route: &&PodRoute| is_responsible(ranges, &route.destination);
    decision.routes = survey.routes.iter().filter(responsible).count();
    let judge = Judge {
        nodes,
        survey,
        wanted: &wanted,
        foreign: ranges_of(nodes.others.values().chain(nodes.foreign.values())),
    };
    let mut changes: BTreeMap<TableSlot, RouteChange> = BTreeMap::new();
    let mut in_place: BTreeSet<(TableSlot, String)> = BTreeSet::new();
    let mut leftover = Vec::new();
    for route in &survey.routes {
        let place = (route.table.clone(), destination(&route.destination));
        let is_ours = responsible(&route);
        if let Target::Node(name) = &route.target
            && is_ours
            && let Some(standing) = decision.standings.get_mut(name)
        {
            standing.had_routes = true;
        }
        if let Some(node) = judge.served(route, &place) {
            if !is_ours || !has_moved(route, node) {
                in_place.insert((place, node.name.clone()));
                continue;
            }
            remove(&mut changes, place, route, Why::Moved, false);
            continue;
        }
        if !is_ours {
            continue;
        }
        match judge.judge(route, &place) {
            Judgement::Leave => {}
            Judgement::RouteHold(why) => decision.held.push(held(route, why)),
            Judgement::Remove(why) => remove(&mut changes, place, route, why, false),
            Judgement::Fallback(why) => leftover.push((place, route, why)),
        }
    }
    leftover.sort_by(|one, other| one.0.cmp(&other.0));
    let allowed = if leftover.is_empty() {
        0
    } else {
        leftovers(decision.routes)
    };
    for (at, (place, route, why)) in leftover.into_iter().enumerate() {
        if at < allowed {
            remove(&mut changes, place, route, why, true);
        } else {
            decision.held.push(held(route, RouteHold::BudgetSpent));
        }
    }
    for (place, takers) in &wanted {
        for (node, cidr) in takers {
            if !in_place.contains(&(place.clone(), node.name.clone())) {
                let change = change_of(&mut changes, place.clone());
                change.creations.push(creation(node, &place.0, cidr));
            }
        }
    }
    decision.changes = changes.into_values().collect();
    decision
}

/// Who needs a route to where, with the range as it is written; and how each node begins.
fn wanted(
    nodes: &RouteNodes,
    survey: &ObservedRoutes,
    decision: &mut RouteDecision,
) -> BTreeMap<TableSlot, Vec<(Arc<Node>, String)>> {
    let mut wanted: BTreeMap<TableSlot, Vec<(Arc<Node>, String)>> = BTreeMap::new();
    for node in nodes.own.values() {
        let mut standing = NodeRouteState::default();
        for cidr in &node.pod_cidrs {
            match placement(survey, node, cidr) {
                RoutePlacement::In(tables) => {
                    standing.wanted += 1;
                    standing.lacks |= tables.is_empty();
                    for table in tables {
                        let takers = wanted.entry((table, destination(cidr))).or_default();
                        takers.push((node.clone(), cidr.clone()));
                    }
                }
                RoutePlacement::Refused(remark) => {
                    standing.wanted += 1;
                    standing.lacks = true;
                    standing.remarks.push(remark);
                }
                RoutePlacement::Ignored(remark) => standing.remarks.push(remark),
                RoutePlacement::Unknown(_) => {
                    standing.is_unclear = true;
                    decision.is_unclear = true;
                }
            }
        }
        decision.standings.insert(node.name.clone(), standing);
    }
    wanted
}

fn placement(survey: &ObservedRoutes, node: &Node, cidr: &str) -> RoutePlacement {
    let key = (node.name.clone(), cidr.to_owned());
    let said = survey.placements.get(&key).cloned();
    said.unwrap_or_else(|| RoutePlacement::In(vec![String::new()]))
}

/// What becomes of a route to pods that serves nobody.
enum Judgement {
    Leave,
    RouteHold(RouteHold),
    Remove(Why),
    /// Nobody needs its place.
    Fallback(Why),
}

struct Judge<'a> {
    nodes: &'a RouteNodes,
    survey: &'a ObservedRoutes,
    wanted: &'a BTreeMap<TableSlot, Vec<(Arc<Node>, String)>>,
    /// Ranges of other nodes.
    foreign: BTreeSet<String>,
}

impl Judge<'_> {
    /// The node that this is the right route for.
    fn served(&self, route: &PodRoute, place: &TableSlot) -> Option<&Arc<Node>> {
        let Target::Node(name) = &route.target else {
            return None;
        };
        let takers = self.wanted.get(place).filter(|_| !route.blackhole)?;
        let taker = takers.iter().find(|(node, _)| node.name == *name)?;
        Some(&taker.0)
    }

    fn judge(&self, route: &PodRoute, place: &TableSlot) -> Judgement {
        let is_wanted = self.wanted.contains_key(place);
        let is_foreign = self.foreign.contains(&place.1);
        let lost = match &route.target {
            Target::Node(name) => {
                if let Some(node) = self.nodes.own.get(name) {
                    return self.of_own(route, node, &place.1);
                }
                if self.nodes.is_another(name) {
                    // The other one is known to have other ranges.
                    let is_wrong =
                        is_wanted && !is_foreign && !self.nodes.unknown.contains(name.as_str());
                    return if is_wrong {
                        Judgement::Remove(Why::Taken)
                    } else {
                        Judgement::Leave
                    };
                }
                Why::NodeGone
            }
            Target::Nobody => Why::Blackhole,
            Target::Unclear if is_wanted => Why::Taken,
            Target::Unclear if is_foreign => return Judgement::Leave,
            Target::Unclear => return Judgement::RouteHold(RouteHold::Unclear),
        };
        if is_wanted {
            Judgement::Remove(lost)
        } else if is_foreign {
            Judgement::Leave
        } else if !self.nodes.unknown.is_empty() {
            Judgement::RouteHold(RouteHold::Unread)
        } else if self.nodes.is_empty() {
            Judgement::RouteHold(RouteHold::NoNodes)
        } else {
            Judgement::Fallback(lost)
        }
    }

    /// A route to a node of ours that it has no use for, or not like that.
    fn of_own(&self, route: &PodRoute, node: &Node, range: &str) -> Judgement {
        let own = node.pod_cidrs.iter().find(|it| destination(it) == range);
        let why = match own.map(|cidr| placement(self.survey, node, cidr)) {
            Some(RoutePlacement::Unknown(_) | RoutePlacement::Ignored(_)) => {
                return Judgement::Leave;
            }
            _ if route.blackhole => Why::Blackhole,
            Some(RoutePlacement::In(_) | RoutePlacement::Refused(_)) => Why::NotThere,
            None => Why::NotItsRange,
        };
        Judgement::Remove(why)
    }
}

fn ranges_of<'a>(nodes: impl Iterator<Item = &'a Arc<Node>>) -> BTreeSet<String> {
    let ranges = nodes.flat_map(|node| &node.pod_cidrs);
    ranges.map(|cidr| destination(cidr)).collect()
}

/// Whether the route says that its node has other addresses than it has.
fn has_moved(route: &PodRoute, node: &Node) -> bool {
    let Some(addresses) = &route.addresses else {
        return false;
    };
    let set = |list: &[NodeAddress]| list.iter().cloned().collect::<BTreeSet<_>>();
    set(addresses) != set(&node.addresses)
}

fn held(route: &PodRoute, why: RouteHold) -> HeldBack {
    let route = route.clone();
    HeldBack { route, why }
}

fn change_of(changes: &mut BTreeMap<TableSlot, RouteChange>, place: TableSlot) -> &mut RouteChange {
    let (table, destination) = place.clone();
    changes.entry(place).or_insert_with(|| RouteChange {
        table,
        destination,
        ..RouteChange::default()
    })
}

fn remove(
    changes: &mut BTreeMap<TableSlot, RouteChange>,
    place: TableSlot,
    route: &PodRoute,
    why: Why,
    is_leftover: bool,
) {
    let route = route.clone();
    change_of(changes, place).removals.push(Removal {
        route,
        why,
        is_leftover,
    });
}

fn creation(node: &Arc<Node>, table: &str, cidr: &str) -> Creation {
    Creation {
        node: node.clone(),
        route: PodRoute {
            name: String::new(),
            table: table.to_owned(),
            destination: cidr.to_owned(),
            target: Target::Node(node.name.clone()),
            blackhole: false,
            addresses: Some(node.addresses.clone()),
        },
    }
}
