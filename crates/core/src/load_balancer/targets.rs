//! The target guard: when a node stops being a target of a cloud's load balancers.
//!
//! ```text
//!  this cloud's ────────────────▶ a target, unless label, deletion or autoscaler exclude it: then it goes at once
//!  another cloud's ─────────────▶ none, at once
//!  owner undecided ─────────────▶ keeps the targets that it has, gets no others
//!  unowned, though of its kind ─▶ keeps them until a second look, ten seconds later, says the same
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::ownership::Unowned;
use crate::{Claim, CloudName, Node, Notice, Ownership, name_list};

/// The reason of events about targets that stay because nobody knows whether they are still wanted.
pub const TARGETS_HELD: &str = "TargetsHeld";

/// After what time a node is looked at again that nobody owns any more: longer than a configuration, a label or a watch
/// is wrong by accident, and short enough for whoever means it.
pub const SECOND_LOOK: Duration = Duration::from_secs(10);

/// The owner of a node, seen from the load balancers of one cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOwner {
    /// This cloud's.
    Own,
    /// Another cloud's, or of a kind that this cloud never had.
    Foreign,
    /// It waits for a cloud, or has nothing to tell by: it never was a target.
    Unidentified,
    /// It may be this cloud's, and for the moment nobody knows: its owner is contested, undecided, or not configured
    /// any more.
    Open,
    /// It is of this cloud's kind, and nobody's by what it carries and what is configured.
    Unowned,
}

/// The owner of a node, seen from that cloud, which says `claim` about it. `ownership` is none where clouds would have to be
/// asked.
pub fn node_owner(
    node: &Node,
    cloud: &CloudName,
    claim: &Claim,
    ownership: Option<&Ownership>,
) -> NodeOwner {
    let is_its_kind = matches!(claim, Claim::Mine | Claim::Malformed(_));
    match ownership {
        Some(Ownership::Owned { by, .. }) if by == cloud => NodeOwner::Own,
        Some(Ownership::Owned { .. } | Ownership::Nobody(Unowned::ClaimedTwice(_))) => {
            NodeOwner::Foreign
        }
        Some(Ownership::Contested(claimants)) if !claimants.contains(cloud) => NodeOwner::Foreign,
        None if node.is_uninitialized() || !is_its_kind => NodeOwner::Unidentified,
        Some(Ownership::Nobody(_)) if !is_its_kind => NodeOwner::Foreign,
        None
        | Some(
            Ownership::Contested(_)
            | Ownership::Undecided(_)
            | Ownership::Nobody(Unowned::Departed(_)),
        ) => NodeOwner::Open,
        Some(Ownership::Nobody(_)) => NodeOwner::Unowned,
    }
}

/// Which nodes of a cloud's kind are nobody's, and whether a second look has said so too. By uid; bounded by the
/// nodes that there are.
#[derive(Debug, Default)]
pub struct TargetGuard {
    unowned: BTreeMap<String, TargetLook>,
}

#[derive(Debug)]
struct TargetLook {
    first: Instant,
    confirmed: bool,
}

impl TargetGuard {
    /// Notes which nodes are nobody's now. Whoever has an owner again in between begins anew. Says whether there are
    /// new ones.
    pub fn look<'a>(&mut self, unowned: impl IntoIterator<Item = &'a str>, now: Instant) -> bool {
        let unowned: BTreeSet<&str> = unowned.into_iter().collect();
        self.unowned.retain(|uid, _| unowned.contains(uid.as_str()));
        let before = self.unowned.len();
        for uid in unowned {
            let look = self.unowned.entry(uid.to_owned());
            look.or_insert(TargetLook {
                first: now,
                confirmed: false,
            });
        }
        self.unowned.len() > before
    }

    /// Whether a node that is nobody's keeps its targets still.
    pub fn holds(&self, uid: &str) -> bool {
        !self.unowned.get(uid).is_some_and(|it| it.confirmed)
    }

    /// When the next second look is due; none if there is none to come.
    pub fn due(&self) -> Option<Instant> {
        let open = self.unowned.values().filter(|it| !it.confirmed);
        open.map(|it| it.first + SECOND_LOOK).min()
    }

    /// A second look, for which all nodes were read from the API server itself: those of `living` that are still
    /// nobody's are so for good. Says whether that changes anything.
    pub fn confirm(&mut self, living: &BTreeSet<&str>, now: Instant) -> bool {
        let mut changed = false;
        for (uid, look) in &mut self.unowned {
            let due = look.first + SECOND_LOOK <= now && living.contains(uid.as_str());
            changed |= due && !look.confirmed;
            look.confirmed |= due;
        }
        changed
    }
}

/// The report about nodes whose targets stay; none if there are none.
pub fn held_notice(nodes: &[String]) -> Option<Notice> {
    (!nodes.is_empty()).then(|| Notice {
        warning: true,
        reason: TARGETS_HELD,
        message: format!(
            "targets of nodes [{}] stay, and none are added for them: their owner is not known for the moment; \
             bowline explain node NAME says why",
            name_list(nodes.iter().map(String::as_str))
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::examples::fresh_node;
    use crate::ownership::Basis;

    fn cloud(name: &str) -> CloudName {
        CloudName::parse(name).unwrap()
    }

    fn node(uninitialized: bool) -> Node {
        let mut node = fresh_node();
        if !uninitialized {
            node.taints.clear();
        }
        node
    }

    #[test]
    fn only_who_is_positively_anothers_is_foreign() {
        let (east, west) = (cloud("east"), cloud("west"));
        let by = |name: &CloudName| Ownership::Owned {
            by: name.clone(),
            because: Basis::ProviderId,
        };
        let nobody = |why| Some(Ownership::Nobody(why));
        let both = || vec![east.clone(), west.clone()];
        let foreign_account = || nobody(Unowned::ForeignAccount(both()));
        let malformed = || {
            nobody(Unowned::MalformedProviderId {
                cloud: east.clone(),
                why: String::new(),
            })
        };
        let broken = Claim::Malformed(String::new());
        for (what, ownership, claim, expected) in [
            ("own", Some(by(&east)), Claim::Mine, NodeOwner::Own),
            ("west's", Some(by(&west)), Claim::Mine, NodeOwner::Foreign),
            (
                "left over",
                Some(by(&east)),
                Claim::Fallback,
                NodeOwner::Own,
            ),
            (
                "contested",
                Some(Ownership::Contested(both())),
                Claim::Mine,
                NodeOwner::Open,
            ),
            (
                "contested by others",
                Some(Ownership::Contested(vec![west.clone()])),
                Claim::Mine,
                NodeOwner::Foreign,
            ),
            (
                "undecided",
                Some(Ownership::Undecided(Vec::new())),
                Claim::Mine,
                NodeOwner::Open,
            ),
            (
                "departed",
                nobody(Unowned::Departed(west.clone())),
                Claim::Mine,
                NodeOwner::Open,
            ),
            (
                "departed, another kind",
                nobody(Unowned::Departed(west.clone())),
                Claim::Foreign,
                NodeOwner::Foreign,
            ),
            (
                "another kind",
                nobody(Unowned::ForeignProviderId),
                Claim::Foreign,
                NodeOwner::Foreign,
            ),
            (
                "another account",
                foreign_account(),
                Claim::Mine,
                NodeOwner::Unowned,
            ),
            ("malformed", malformed(), broken, NodeOwner::Unowned),
            (
                "claimed twice",
                nobody(Unowned::ClaimedTwice("n1".into())),
                Claim::Mine,
                NodeOwner::Foreign,
            ),
            ("to be asked", None, Claim::Mine, NodeOwner::Open),
            (
                "nothing to tell by",
                None,
                Claim::Foreign,
                NodeOwner::Unidentified,
            ),
        ] {
            let found = node_owner(&node(false), &east, &claim, ownership.as_ref());
            assert_eq!(found, expected, "{what}");
        }
        let waiting = node_owner(&node(true), &east, &Claim::Mine, None);
        assert_eq!(waiting, NodeOwner::Unidentified, "it never was a target");
    }

    #[test]
    #[allow(
        clippy::disallowed_methods,
        reason = "any moment will do; only distances count"
    )]
    fn proof_case_07_who_is_nobodys_keeps_targets_until_a_second_look_says_the_same() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut guard = TargetGuard::default();
        assert!(guard.holds("a") && guard.due().is_none());
        assert!(guard.look(["a", "b"], at(0)));
        assert!(!guard.look(["a", "b"], at(1)), "nothing new");
        assert_eq!(guard.due(), Some(at(10)));
        assert!(!guard.confirm(&["a", "b"].into(), at(9)), "too soon");
        assert!(!guard.look(["a"], at(9)) && guard.look(["a", "b"], at(9)));
        assert!(guard.confirm(&["a", "b"].into(), at(10)));
        assert!(!guard.holds("a"), "two looks agree");
        assert!(guard.holds("b"), "it had an owner in between");
        assert!(
            !guard.confirm(&BTreeSet::new(), at(30)) && guard.holds("b"),
            "a list that lacks it proves nothing"
        );
        assert!(guard.confirm(&["b"].into(), at(30)) && guard.due().is_none());
    }

    #[test]
    fn what_is_held_is_told_by_the_names_of_nodes_alone() {
        assert_eq!(held_notice(&[]), None);
        let notice = held_notice(&["b".into(), "a".into()]).unwrap();
        assert!(notice.warning && notice.message.contains("nodes [a b]"));
    }
}
