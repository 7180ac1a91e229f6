//! Routes to pods: which there should be, which have to go, and what a node's network condition says.
//!
//! ```text
//!  nodes, by owner ─────────────────┐
//!  ObservedRoutes: the cloud's, and ┼─▶ decide ─▶ changes, one for each destination of a table
//!  where each range's has to be     │         └─▶ a NodeRouteState of each node ─▶ its condition
//!  an allowance for withdrawals  ───┘
//! ```
//!
//! A route is withdrawn only on proof: its node has another range, or is gone, or its destination is
//! needed for somebody else. Nodes that cannot be read, nodes of others and an empty list of nodes
//! prove nothing; and what nobody needs the place of goes at a bounded pace ([`Allowance`]).

mod allowance;
mod decide;
mod ranges;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;

pub use allowance::Allowance;
pub use decide::{
    Creation, HeldBack, NodeRouteState, Removal, RouteChange, RouteDecision, RouteHold, RouteNodes,
    Why, decide,
};
pub use ranges::{RangeError, cluster_ranges, destination, is_responsible};

use crate::{BoxFuture, CloudError, Node, NodeAddress};

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// To the node of that name.
    Node(String),
    /// To nobody that there is.
    Nobody,
    /// That is not known now.
    Unclear,
}

/// A route as the cloud has it, or is to have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRoute {
    /// What the cloud calls it; empty for one that is not made yet.
    pub name: String,
    /// The table it is in; empty where a cloud has only one.
    pub table: String,
    /// The range of addresses behind it, as it is written.
    pub destination: String,
    /// Where it leads.
    pub target: Target,
    /// Whether what takes it is lost.
    pub blackhole: bool,
    /// The addresses of its node, if they matter to the cloud.
    pub addresses: Option<Vec<NodeAddress>>,
}

impl fmt::Display for PodRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.destination)?;
        match &self.target {
            Target::Node(name) => write!(f, " to node {name}")?,
            Target::Nobody => f.write_str(" to nobody")?,
            Target::Unclear => {}
        }
        if !self.table.is_empty() {
            write!(f, " in {}", self.table)?;
        }
        Ok(())
    }
}

/// Something to report about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteNote {
    /// In one word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// Something to report once, when work begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The manager's own Pod, by namespace and name, if it is known; the event is about it.
    pub pod: Option<(String, String)>,
    /// What to report.
    pub remark: RouteNote,
}

/// Where the route of one range of a node has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutePlacement {
    /// In these tables.
    In(Vec<String>),
    /// It cannot be; the node's network is not available.
    Refused(RouteNote),
    /// This cloud has no routes for such a range, and the node does without.
    Ignored(RouteNote),
    /// That is not known now, for that reason: nothing of it is changed.
    Unknown(String),
}

/// What a cloud is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The name of the cluster.
    pub cluster: String,
    /// The ranges of all pods.
    pub ranges: Vec<IpNet>,
    /// The nodes of this cloud, by name. One that cannot be read is as it was last known.
    pub nodes: Vec<Arc<Node>>,
    /// Those that are not known to be anybody's yet. Nodes of other clouds are not among them.
    pub others: Vec<Arc<Node>>,
}

/// What a cloud answers.
#[derive(Clone, Debug, Default)]
pub struct ObservedRoutes {
    /// All routes it has, those of others too, or those of the cluster alone.
    pub routes: Vec<PodRoute>,
    /// Where routes have to be, by node and range as it is written there. One that is not here has
    /// to be in the only table.
    pub placements: BTreeMap<(String, String), RoutePlacement>,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteStep {
    /// Makes a route, perhaps under a name made of the hint, the node's uid.
    Create {
        /// The uid of the node.
        hint: String,
        /// The route.
        route: PodRoute,
    },
    /// Removes a route that was observed.
    Delete(PodRoute),
}

impl RouteStep {
    /// What is made or removed.
    pub fn route(&self) -> &PodRoute {
        match self {
            Self::Create { route, .. } | Self::Delete(route) => route,
        }
    }

    /// In one word, for people and metrics.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Delete(_) => "delete",
        }
    }
}

impl fmt::Display for RouteStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} route {}", self.verb(), self.route())
    }
}

/// What a cloud does about routes.
pub trait Routes: Send + Sync {
    /// All routes, and where those of the nodes have to be. An error of the kind *invalid* means that
    /// there can be none here for now: the cloud is then left in peace for a while.
    fn survey<'a>(
        &'a self,
        question: &'a Question,
    ) -> BoxFuture<'a, Result<ObservedRoutes, CloudError>>;

    /// Makes and removes routes: one outcome for each, in the same order. What is there already, or
    /// not any more, is well. Of a conflict it is asked again soon.
    ///
    /// Called with one step at a time, many at once; or, if [`writes_tables`](Self::writes_tables),
    /// with all steps of one table, those that remove something first.
    fn write<'a>(
        &'a self,
        question: &'a Question,
        steps: &'a [RouteStep],
    ) -> BoxFuture<'a, Vec<Result<(), CloudError>>>;

    /// What people should know before they rely on it.
    fn advice(&self) -> Option<Advice> {
        None
    }

    /// Whether a table is written whole, so that all its steps are one write.
    fn writes_tables(&self) -> bool {
        false
    }
}
