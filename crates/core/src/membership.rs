//! Which nodes may be targets of load balancers.

use crate::Node;

/// Keeps a node out of load balancers, unless its value says false.
pub const EXCLUSION_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Set by the cluster autoscaler on a node it is about to delete.
pub const AUTOSCALER_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// Whether a node may be a target. Readiness and schedulability do not matter: the load
/// balancer's health check decides.
pub fn may_be_target(node: &Node) -> bool {
    !node.deleting
        && !is_excluded(node)
        && !node
            .taints
            .iter()
            .any(|taint| taint.key == AUTOSCALER_TAINT)
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
            assert_eq!(may_be_target(&node), member, "label value {value:?}");
        }
    }

    #[test]
    fn nodes_on_their_way_out_are_no_targets() {
        assert!(may_be_target(&fresh_node()));
        assert!(!may_be_target(&Node {
            deleting: true,
            ..fresh_node()
        }));
        let mut node = fresh_node();
        node.taints
            .push(Taint::new(AUTOSCALER_TAINT, "1700000000", "NoSchedule"));
        assert!(!may_be_target(&node));
    }
}
