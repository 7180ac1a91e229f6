//! The nodes of a cluster, sorted for the load balancers of one cloud.
//!
//! A node that cannot be read keeps its place: as it was last known if it ever could be read, and
//! otherwise as a gap, because of which no target may be removed that the cloud has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{AddressKind, Exclusion, Fingerprint, Node, NodeOwner, Notice, exclusion, name_list};

/// The reason of events about nodes that cannot be read.
pub const NODE_UNREADABLE: &str = "NodeUnreadable";

/// All nodes of a cluster, as far as they matter to the load balancers of one cloud.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    /// The nodes of this cloud, by name; one that cannot be read as it was last known.
    own: Vec<Arc<Node>>,
    /// Those of them that cannot be read.
    stale: Vec<String>,
    /// Nodes that cannot be read and never could: their owners is not known either.
    unknown: Vec<String>,
    /// Nodes that keep the targets they have: their owners is open.
    open: Vec<Arc<Node>>,
    /// The same until a second look: they are nobody's.
    unowned: Vec<Arc<Node>>,
    left_out: BTreeMap<Exclusion, usize>,
}

impl Roster {
    /// Of those that can be read, and those that cannot, each with what was last known of it. A node that is nobody's
    /// is [unowned](Belonging::Unowned) only for as long as it keeps its targets.
    pub fn new<'a>(
        readable: impl IntoIterator<Item = &'a Arc<Node>>,
        unreadable: &BTreeMap<String, Option<Arc<Node>>>,
        node_owner: impl Fn(&Node) -> NodeOwner,
    ) -> Self {
        let mut roster = Self::default();
        for node in readable {
            roster.add(node, node_owner(node));
        }
        for (name, last) in unreadable {
            match last {
                Some(node) if roster.add(node, node_owner(node)) => roster.stale.push(name.clone()),
                Some(_) => {}
                None => roster.unknown.push(name.clone()),
            }
        }
        roster.own.sort_by(|one, other| one.name.cmp(&other.name));
        roster
    }

    /// Says whether it is one of this cloud's.
    fn add(&mut self, node: &Arc<Node>, node_owner: NodeOwner) -> bool {
        let excluded = match node_owner {
            NodeOwner::Own => {
                self.own.push(node.clone());
                exclusion(node)
            }
            NodeOwner::Foreign => Some(Exclusion::Foreign),
            NodeOwner::Unidentified => Some(Exclusion::Unidentified),
            NodeOwner::Open | NodeOwner::Unowned => {
                self.hold(node, node_owner);
                exclusion(node)
            }
        };
        if let Some(why) = excluded {
            *self.left_out.entry(why).or_default() += 1;
        }
        node_owner == NodeOwner::Own
    }

    /// Keeps the targets of a node of which nobody knows whether it may be one. Where even its addresses are not
    /// known, any may be its own.
    fn hold(&mut self, node: &Arc<Node>, node_owner: NodeOwner) {
        let is_ip =
            |kind: &AddressKind| matches!(kind, AddressKind::InternalIp | AddressKind::ExternalIp);
        let mut kinds = node.addresses.iter().map(|it| &it.kind);
        if exclusion(node).is_some() {
            // Unwanted, whoever has it.
        } else if !kinds.any(is_ip) {
            self.unknown.push(node.name.clone());
        } else if node_owner == NodeOwner::Open {
            self.open.push(node.clone());
        } else {
            self.unowned.push(node.clone());
        }
    }

    /// What distinguishes its targets from others, among those nodes that `selects` leaves in; with
    /// `readiness`, also whether they are Ready.
    pub fn fingerprint(&self, selects: impl Fn(&Node) -> bool, readiness: bool) -> Fingerprint {
        let selected = self.own.iter().map(|node| &**node);
        let selected = selected.filter(|node| selects(node));
        let unreadable = self.stale.iter().chain(&self.unknown);
        let open = self.open.iter().map(|node| &node.name);
        let unreadable = unreadable.chain(open).map(String::as_str);
        let print = Fingerprint::of(selected.clone(), unreadable);
        if readiness {
            print.with_readiness(selected)
        } else {
            print
        }
    }

    /// The nodes that may be targets, and how it is with the others.
    pub fn targets(self) -> (Vec<Arc<Node>>, ExcludedNodes) {
        let mut nodes = self.own;
        let mut excluded = BTreeSet::new();
        nodes.retain(|node| {
            let is_target = exclusion(node).is_none();
            excluded.extend(node.provider_id.clone().filter(|_| !is_target));
            is_target
        });
        let excluded = ExcludedNodes {
            excluded,
            held: [self.open, self.unowned].concat(),
            stale: self.stale,
            unknown: self.unknown,
            left_out: self.left_out,
        };
        (nodes, excluded)
    }
}

/// What there is to know about the nodes of a cluster beside those that may be targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExcludedNodes {
    /// Nodes of this cloud that cannot be read, by name: they are taken as they were last known.
    pub stale: Vec<String>,
    /// Nodes that cannot be read and never could, by name. A target that the cloud has, and that is
    /// of no known node, may be one of theirs: it must stay.
    pub unknown: Vec<String>,
    /// Nodes that keep the targets they have and get no others: whether they are still eligible is not proven
    /// either way.
    pub held: Vec<Arc<Node>>,
    /// The provider ids of this cloud's nodes that are no targets: they are nodes all the same.
    pub excluded: BTreeSet<String>,
    /// How many others are no targets, and why.
    pub left_out: BTreeMap<Exclusion, usize>,
}

impl ExcludedNodes {
    /// Why nodes are no targets, each with their number: `2 being deleted`.
    pub fn reasons(&self) -> Vec<String> {
        let left_out = self.left_out.iter();
        let mut reasons: Vec<String> = left_out
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        for (nodes, why) in [
            (self.held.len(), "whose owner is not known for the moment"),
            (self.unknown.len(), "that cannot be read"),
        ] {
            if nodes > 0 {
                reasons.push(format!("{nodes} {why}"));
            }
        }
        reasons
    }

    /// The report about nodes that cannot be read.
    pub fn notices(&self) -> Vec<Notice> {
        let notices = [
            (
                &self.stale,
                "what was last known of them holds for their targets",
            ),
            (
                &self.unknown,
                "nothing is known of them, so that no target that may be theirs is removed",
            ),
        ];
        notices
            .into_iter()
            .filter(|(nodes, _)| !nodes.is_empty())
            .map(|(nodes, what)| Notice {
                warning: true,
                reason: NODE_UNREADABLE,
                message: format!(
                    "nodes [{}] cannot be read; {what}",
                    name_list(nodes.iter().map(String::as_str))
                ),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::examples::fresh_node;
    use crate::{AUTOSCALER_TAINT, EXCLUSION_LABEL, Taint};

    fn node(name: &str, id: Option<&str>) -> Node {
        Node {
            name: name.into(),
            provider_id: id.map(|id| format!("{id}://{name}")),
            taints: Vec::new(),
            ..fresh_node()
        }
    }

    fn roster(readable: Vec<Node>, unreadable: &[(&str, Option<Node>)]) -> Roster {
        let readable: Vec<Arc<Node>> = readable.into_iter().map(Arc::new).collect();
        let unreadable = unreadable.iter().cloned();
        let unreadable = unreadable
            .map(|(name, last)| (name.to_owned(), last.map(Arc::new)))
            .collect();
        Roster::new(&readable, &unreadable, |node| match &node.provider_id {
            Some(id) if id.starts_with("demo") => NodeOwner::Own,
            Some(_) => NodeOwner::Foreign,
            None => NodeOwner::Unidentified,
        })
    }

    fn names(nodes: &[Arc<Node>]) -> Vec<&str> {
        nodes.iter().map(|it| &*it.name).collect()
    }

    #[test]
    fn every_node_that_is_no_target_is_counted_by_why() {
        let mut labelled = node("b", Some("demo"));
        labelled
            .labels
            .insert(EXCLUSION_LABEL.into(), String::new());
        let deleting = Node {
            deleting: true,
            ..node("c", Some("demo"))
        };
        let mut leaving = node("d", Some("demo"));
        leaving.taints = vec![Taint::new(AUTOSCALER_TAINT, "1", "NoSchedule")];
        let foreign = [node("e", Some("other")), node("f", Some("other"))];
        let mut all = vec![node("a", Some("demo")), labelled, deleting, leaving];
        all.extend(foreign);
        all.push(node("g", None));
        let (nodes, excluded) = roster(all, &[("h", None)]).targets();
        assert_eq!(names(&nodes), ["a"]);
        let ids: Vec<&str> = excluded.excluded.iter().map(String::as_str).collect();
        assert_eq!(ids, ["demo://b", "demo://c", "demo://d"]);
        assert_eq!(
            excluded.reasons(),
            [
                "2 of another cloud or of none",
                "1 without a provider id",
                "1 excluded by label node.kubernetes.io/exclude-from-external-load-balancers",
                "1 being deleted",
                "1 about to be deleted by the cluster autoscaler",
                "1 that cannot be read",
            ]
        );
    }

    #[test]
    fn a_node_that_cannot_be_read_keeps_its_place() {
        let (a, b) = (node("a", Some("demo")), node("b", Some("demo")));
        let foreign = node("c", Some("other"));
        let unreadable = [("a", Some(a)), ("c", Some(foreign)), ("d", None)];
        let (nodes, excluded) = roster(vec![b], &unreadable).targets();
        assert_eq!(names(&nodes), ["a", "b"]);
        assert_eq!(
            (&*excluded.stale, &*excluded.unknown),
            (&["a".to_owned()][..], &["d".to_owned()][..])
        );
        let notices = excluded.notices();
        let texts: Vec<&str> = notices.iter().map(|it| &*it.message).collect();
        assert_eq!(
            texts,
            [
                "nodes [a] cannot be read; what was last known of them holds for their targets",
                "nodes [d] cannot be read; nothing is known of them, so that no target that may be \
                 theirs is removed",
            ]
        );
        assert_eq!(ExcludedNodes::default().notices(), []);
    }

    #[test]
    fn what_cannot_be_read_is_another_set_of_members_until_it_can_be_or_is_gone() {
        let a = || node("a", Some("demo"));
        let all = |_: &Node| true;
        let readable = roster(vec![a()], &[]).fingerprint(all, false);
        let stale = roster(vec![], &[("a", Some(a()))]).fingerprint(all, false);
        let unknown = roster(vec![a()], &[("b", None)]).fingerprint(all, false);
        assert!(readable != stale && readable != unknown && stale != unknown);
        assert_eq!(readable, roster(vec![a()], &[]).fingerprint(all, false));
        let foreign = node("c", Some("other"));
        let foreign = roster(vec![a()], &[("c", Some(foreign))]).fingerprint(all, false);
        assert_eq!(readable, foreign, "it was no member, and is none");
        let none = roster(vec![a()], &[]).fingerprint(|_| false, false);
        assert_eq!(none, Fingerprint::default());
    }
}
