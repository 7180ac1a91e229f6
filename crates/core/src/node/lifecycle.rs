//! Decides what to do about a node by the state of its machine.

use crate::node::taints::with_shutdown;
use crate::node::{Node, Ready, Taint};
use crate::{Evidence, Lookup, Power};

/// The next thing to do about one node.
#[derive(Debug, PartialEq, Eq)]
pub enum LifecycleAction {
    /// Nothing.
    Nothing,
    /// Write this list of taints.
    SetTaints(Vec<Taint>),
    /// The machine seems to be gone: ask the guard.
    Suspect(Evidence),
    /// The cloud could not tell; conclude nothing, and start looking anew.
    Inconclusive,
}

/// Whether the cloud has to be asked about this node at all: a Ready one speaks for itself.
pub fn needs_look(node: &Node) -> bool {
    node.ready != Ready::True
}

/// What a node that is not Ready needs, given its cloud's answer.
///
/// A machine that runs again keeps the taint until its node is Ready.
pub fn when_not_ready(node: &Node, answer: Lookup) -> LifecycleAction {
    match answer {
        Lookup::Gone(evidence) => LifecycleAction::Suspect(evidence),
        Lookup::Found(instance) if instance.power == Power::Off => {
            with_shutdown(&node.taints).map_or(LifecycleAction::Nothing, LifecycleAction::SetTaints)
        }
        Lookup::Found(_) | Lookup::NotMine => LifecycleAction::Nothing,
        Lookup::CannotTell(_) => LifecycleAction::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::SHUTDOWN_TAINT;
    use crate::node::examples::fresh_node;
    use crate::node::taints::without_shutdown;
    use crate::{CloudError, CloudErrorKind, Instance};
    use jiff::Timestamp;

    fn found(power: Power) -> Lookup {
        Lookup::Found(Box::new(Instance {
            provider_id: None,
            instance_type: String::new(),
            zone: String::new(),
            region: String::new(),
            addresses: Vec::new(),
            power,
            extra_labels: std::collections::BTreeMap::new(),
            marks: crate::NodeMetadata::default(),
        }))
    }

    #[test]
    fn only_nodes_that_are_not_ready_are_looked_at() {
        let mut node = fresh_node();
        for (ready, look) in [
            (Ready::True, false),
            (Ready::False, true),
            (Ready::Unknown, true),
        ] {
            node.ready = ready;
            assert_eq!(needs_look(&node), look);
        }
    }

    #[test]
    fn a_powered_off_machine_taints_and_a_ready_node_is_cleared() {
        let mut node = fresh_node();
        let LifecycleAction::SetTaints(taints) = when_not_ready(&node, found(Power::Off)) else {
            panic!("no taint was set");
        };
        assert_eq!(taints.last().unwrap().key, SHUTDOWN_TAINT);
        node.taints = taints;
        assert_eq!(
            when_not_ready(&node, found(Power::Off)),
            LifecycleAction::Nothing
        );
        assert_eq!(
            when_not_ready(&node, found(Power::On)),
            LifecycleAction::Nothing
        );
        assert_eq!(
            when_not_ready(&node, found(Power::Unclear)),
            LifecycleAction::Nothing
        );
        assert_eq!(without_shutdown(&node.taints), Some(fresh_node().taints));
        assert_eq!(without_shutdown(&fresh_node().taints), None);
    }

    #[test]
    fn only_evidence_makes_a_suspect() {
        let node = fresh_node();
        let evidence = Evidence {
            text: "404".into(),
            at: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(
            when_not_ready(&node, Lookup::Gone(evidence.clone())),
            LifecycleAction::Suspect(evidence)
        );
        assert_eq!(
            when_not_ready(&node, Lookup::NotMine),
            LifecycleAction::Nothing
        );
        let denied = Lookup::CannotTell(CloudError::new(CloudErrorKind::Denied, "reading"));
        assert_eq!(when_not_ready(&node, denied), LifecycleAction::Inconclusive);
    }
}
