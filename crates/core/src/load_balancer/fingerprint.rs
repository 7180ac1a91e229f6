//! The fingerprint of a load balancer's targets: a reconcile is needed when it changes.

use std::collections::BTreeSet;

use crate::load_balancer::exclusion::is_excluded;
use crate::{Node, NodeAddress, Ready};

/// Names in a message; more are counted.
const NAMES_LIMIT: usize = 20;

/// What distinguishes two sets of targets: name, provider id and addresses of each, by name.
///
/// Taints and deletion marks are left out on purpose: a node on its way out leaves the set with
/// the next change of another kind, or when its object goes; until then its connections drain.
///
/// A node that cannot be read is in it by its name as well: it is reported, and when it can
/// be read again, or is gone, what was held back because of it is made up for.
///
/// Which of them are Ready, and which have endpoints, is in it where a cloud needs to know
/// ([`Needs`](crate::Needs)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    targets: Vec<(String, Option<String>, Vec<NodeAddress>)>,
    unreadable: Vec<String>,
    ready: Option<BTreeSet<String>>,
    serving: Option<BTreeSet<String>>,
}

impl Fingerprint {
    /// Of those nodes that are not excluded by their label; the caller has chosen them by owner
    /// and selection. `unreadable` are those that cannot be read, whether known or not.
    pub fn of<'a>(
        nodes: impl IntoIterator<Item = &'a Node>,
        unreadable: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let targets = nodes.into_iter().filter(|node| !is_excluded(node));
        let mut targets: Vec<_> = targets
            .map(|node| {
                (
                    node.name.clone(),
                    node.provider_id.clone(),
                    node.addresses.clone(),
                )
            })
            .collect();
        targets.sort();
        let mut unreadable: Vec<String> = unreadable.into_iter().map(str::to_owned).collect();
        unreadable.sort_unstable();
        Self {
            targets,
            unreadable,
            ready: None,
            serving: None,
        }
    }

    /// The same where it counts which of these nodes are Ready.
    #[must_use]
    pub fn with_readiness<'a>(mut self, nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let ready = nodes.into_iter().filter(|node| node.ready == Ready::True);
        self.ready = Some(ready.map(|node| node.name.clone()).collect());
        self
    }

    /// The same where it counts which nodes have endpoints.
    #[must_use]
    pub fn with_endpoints(mut self, nodes: BTreeSet<String>) -> Self {
        self.serving = Some(nodes);
        self
    }

    /// Whether a node of it is not in `now`, or is another machine there: its targets are to be removed.
    pub fn loses_to(&self, now: &Self) -> bool {
        let there: BTreeSet<_> = now.targets.iter().map(|(name, id, _)| (name, id)).collect();
        let mut targets = self.targets.iter();
        targets.any(|(name, id, _)| !there.contains(&(name, id)))
    }
}

/// Whether a change of a node could change any fingerprint, some of which have readiness in them or
/// none. Neither before nor after: a node that cannot be read came or went.
pub fn may_change_targets(before: Option<&Node>, after: Option<&Node>, readiness: bool) -> bool {
    let is_ready = |node: &Node| node.ready == Ready::True;
    match (before, after) {
        (Some(before), Some(after)) => {
            before.provider_id != after.provider_id
                || before.addresses != after.addresses
                // The exclusion label is one of them, and a selector may ask for any.
                || before.labels != after.labels
                || before.uid != after.uid
                || (readiness && is_ready(before) != is_ready(after))
        }
        _ => true,
    }
}

/// Node names for a message: at most twenty, sorted, then how many more.
pub fn name_list<'a>(nodes: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = nodes.into_iter().collect();
    let mut named: Vec<&str> = all.iter().take(NAMES_LIMIT).copied().collect();
    named.sort_unstable();
    let mut text = named.join(" ");
    if all.len() > NAMES_LIMIT {
        use std::fmt::Write as _;
        let _ = write!(text, " <{} more>", all.len() - NAMES_LIMIT);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::examples::{addresses, fresh_node};
    use crate::{AUTOSCALER_TAINT, EXCLUSION_LABEL, Ready, Taint};

    fn node(name: &str) -> Node {
        Node {
            name: name.into(),
            provider_id: Some(format!("demo://{name}")),
            addresses: addresses(&["InternalIP:10.0.0.5"]),
            ..fresh_node()
        }
    }

    #[test]
    fn a_node_that_is_gone_or_another_machine_is_a_loss_and_a_new_one_is_none() {
        let of = |nodes: &[Node]| Fingerprint::of(nodes, []);
        let (one, two) = (node("n1"), node("n2"));
        let mut reborn = one.clone();
        reborn.provider_id = Some("demo://other".into());
        let mut moved = one.clone();
        moved.addresses.clear();
        for (before, now, loses) in [
            (vec![], vec![one.clone()], false),
            (vec![one.clone()], vec![one.clone(), two.clone()], false),
            (vec![one.clone(), two.clone()], vec![two], true),
            (vec![one.clone()], vec![reborn], true),
            (vec![one], vec![moved], false),
        ] {
            assert_eq!(of(&before).loses_to(&of(&now)), loses, "{before:?} {now:?}");
        }
    }

    #[test]
    fn name_provider_id_and_addresses_make_the_fingerprint() {
        type Row = (&'static str, fn(&mut Node), bool);
        let one = node("n1");
        let rows: &[Row] = &[
            ("name", |it| it.name = "n2".into(), true),
            ("id", |it| it.provider_id = None, true),
            ("address", |it| it.addresses.clear(), true),
            (
                "excluded",
                |it| {
                    it.labels.insert(EXCLUSION_LABEL.into(), String::new());
                },
                true,
            ),
            (
                "not excluded",
                |it| {
                    it.labels.insert(EXCLUSION_LABEL.into(), "false".into());
                },
                false,
            ),
            ("readiness", |it| it.ready = Ready::Unknown, false),
            ("deletion", |it| it.deleting = true, false),
            (
                "autoscaler",
                |it| it.taints = vec![Taint::new(AUTOSCALER_TAINT, "1", "NoSchedule")],
                false,
            ),
        ];
        for (what, change, differs) in rows {
            let mut other = one.clone();
            change(&mut other);
            let same = Fingerprint::of([&one], []) == Fingerprint::of([&other], []);
            assert_eq!(!same, *differs, "{what}");
        }
        assert_eq!(
            Fingerprint::of([&node("a"), &node("b")], ["c", "d"]),
            Fingerprint::of([&node("b"), &node("a")], ["d", "c"])
        );
    }

    #[test]
    fn heartbeats_taints_and_readiness_start_no_pass() {
        let one = node("n1");
        for (change, starts) in [
            ((|_| {}) as fn(&mut Node), false),
            (|it| it.resource_version = "8".into(), false),
            (|it| it.ready = Ready::True, false),
            (|it| it.deleting = true, false),
            (|it| it.taints.clear(), false),
            (|it| it.provider_id = None, true),
            (|it| it.addresses.clear(), true),
            (
                |it| {
                    it.labels.insert("env".into(), "prod".into());
                },
                true,
            ),
            (|it| it.uid = "another".into(), true),
        ] {
            let mut other = one.clone();
            change(&mut other);
            assert_eq!(may_change_targets(Some(&one), Some(&other), false), starts);
        }
        assert!(may_change_targets(None, Some(&one), false));
        assert!(may_change_targets(Some(&one), None, false));
        assert!(may_change_targets(None, None, false));
    }

    #[test]
    fn where_it_counts_readiness_is_ready_or_not() {
        for (before, after, differs) in [
            (Ready::True, Ready::False, true),
            (Ready::Unknown, Ready::True, true),
            (Ready::False, Ready::Unknown, false),
        ] {
            let [one, other] = [before, after].map(|ready| Node {
                ready,
                ..node("n1")
            });
            let print = |node| Fingerprint::of([node], []).with_readiness([node]);
            assert_eq!(print(&one) != print(&other), differs);
            assert_eq!(may_change_targets(Some(&one), Some(&other), true), differs);
        }
    }

    #[test]
    fn where_it_counts_the_nodes_with_endpoints_are_in_the_fingerprint() {
        let print = |nodes: &[&str]| {
            let nodes = nodes.iter().map(|&name| name.to_owned()).collect();
            Fingerprint::of([&node("n1")], []).with_endpoints(nodes)
        };
        assert_eq!(print(&["n1", "n2"]), print(&["n2", "n1"]));
        assert_ne!(print(&["n1"]), print(&["n2"]));
        assert_ne!(print(&[]), Fingerprint::of([&node("n1")], []));
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        assert_eq!(name_list([]), "");
        assert_eq!(name_list(["b", "a"]), "a b");
        let names: Vec<String> = (10..35).map(|number| format!("n{number}")).collect();
        let text = name_list(names.iter().map(String::as_str));
        assert!(text.starts_with("n10 n11 "), "{text}");
        assert!(text.ends_with(" n29 <5 more>"), "{text}");
    }
}
