//! Which nodes may be targets of load balancers.

use std::fmt;

use crate::Node;

/// Keeps a node out of load balancers, unless its value says false.
pub const EXCLUSION_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Set by the cluster autoscaler on a node it is about to delete.
pub const AUTOSCALER_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// Why a node is no target of the load balancers of a cloud, whatever a Service wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// Another cloud's, or nobody's.
    Foreign,
    /// It has no provider id yet.
    Unidentified,
    /// Its label says so: [`EXCLUSION_LABEL`].
    Label,
    /// It is being deleted.
    Deleting,
    /// The cluster autoscaler is about to delete it.
    Autoscaler,
}

impl fmt::Display for Exclusion {
    /// In words that follow a number of nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("of another cloud or of none"),
            Self::Unidentified => f.write_str("without a provider id"),
            Self::Label => write!(f, "excluded by label {EXCLUSION_LABEL}"),
            Self::Deleting => f.write_str("being deleted"),
            Self::Autoscaler => f.write_str("about to be deleted by the cluster autoscaler"),
        }
    }
}

/// What keeps a node of the right cloud from being a target. Readiness and schedulability do not
/// matter: the load balancer's health check decides.
pub fn exclusion(node: &Node) -> Option<Exclusion> {
    if is_excluded(node) {
        Some(Exclusion::Label)
    } else if node.deleting {
        Some(Exclusion::Deleting)
    } else {
        let mut taints = node.taints.iter();
        let leaving = taints.any(|taint| taint.key == AUTOSCALER_TAINT);
        leaving.then_some(Exclusion::Autoscaler)
    }
}

/// Whether its label keeps the node out.
pub(crate) fn is_excluded(node: &Node) -> bool {
    let label = node.labels.get(EXCLUSION_LABEL);
    label.is_some_and(|value| !means_false(value))
}

/// The spellings of false that Kubernetes accepts; anything else, the empty one too, excludes.
fn means_false(value: &str) -> bool {
    matches!(value, "0" | "f" | "F" | "false" | "FALSE" | "False")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Taint;
    use crate::node::examples::fresh_node;

    #[test]
    fn only_a_spelling_of_false_undoes_the_exclusion_label() {
        for (value, member) in [
            ("", false),
            ("true", false),
            ("foo", false),
            ("1", false),
            ("FaLsE", false),
            ("false", true),
            ("0", true),
            ("f", true),
            ("F", true),
            ("FALSE", true),
            ("False", true),
        ] {
            let mut node = fresh_node();
            node.labels.insert(EXCLUSION_LABEL.into(), value.into());
            assert_eq!(exclusion(&node).is_none(), member, "label value {value:?}");
        }
    }

    #[test]
    fn nodes_on_their_way_out_are_no_targets() {
        assert_eq!(exclusion(&fresh_node()), None);
        let deleting = Node {
            deleting: true,
            ..fresh_node()
        };
        assert_eq!(exclusion(&deleting), Some(Exclusion::Deleting));
        let mut node = fresh_node();
        node.taints
            .push(Taint::new(AUTOSCALER_TAINT, "1700000000", "NoSchedule"));
        assert_eq!(exclusion(&node), Some(Exclusion::Autoscaler));
    }
}
