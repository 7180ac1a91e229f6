//! The question that a node poses to the servers. Pure.

use bowline_core::{Claim, Node};
use uuid::Uuid;

use crate::id::{VmId, claim, swapped, uuid};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    ById {
        vm: Uuid,
        pool: Option<Uuid>,
    },
    /// About the VM of its system uuid, in one byte order or the other.
    ByMachine {
        plain: Uuid,
        swapped: Uuid,
    },
    /// Nothing: its provider id is of this cloud, and none that it gives.
    Malformed(String),
    /// Nothing: it belongs to another cloud, or has no id at all.
    Nothing,
}

impl Question {
    pub(super) fn ids(&self) -> Vec<Uuid> {
        match self {
            Self::ById { vm, .. } => vec![*vm],
            Self::ByMachine { plain, swapped } if plain == swapped => vec![*plain],
            Self::ByMachine { plain, swapped } => vec![*plain, *swapped],
            Self::Malformed(_) | Self::Nothing => Vec::new(),
        }
    }

    /// Whether the node's provider id names that pool.
    pub(super) fn is_in(&self, pool: Option<Uuid>) -> bool {
        matches!(self, Self::ById { pool: Some(recorded), .. } if Some(*recorded) == pool)
    }
}

pub(super) fn question(node: &Node) -> Question {
    let Some(provider_id) = &node.provider_id else {
        return match uuid(node.system_uuid.trim()) {
            Some(plain) => Question::ByMachine {
                plain,
                swapped: swapped(plain),
            },
            None => Question::Nothing,
        };
    };
    match (claim(node), VmId::parse(provider_id)) {
        (Claim::Malformed(why), _) => Question::Malformed(why),
        (Claim::Mine, Ok(VmId { pool, vm })) => Question::ById { vm, pool },
        _ => Question::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PA, VM1, fresh, known};

    #[test]
    fn every_node_has_its_question() {
        let (vm, pool): (Uuid, Uuid) = (VM1.parse().unwrap(), PA.parse().unwrap());
        let by_machine = Question::ByMachine {
            plain: vm,
            swapped: swapped(vm),
        };
        let mut wins = fresh("w", "9f0e4c6d-1b2a-4f3e-8d7c-5a6b7c8d9e0f");
        wins.provider_id = Some(format!("xenorchestra://{PA}/{VM1}"));
        let by_id = |pool| Question::ById { vm, pool };
        for (node, wanted) in [
            (fresh("w", VM1), by_machine.clone()),
            (fresh("w", &VM1.to_uppercase()), by_machine.clone()),
            (fresh("w", &VM1.replace('-', "")), by_machine),
            (fresh("w", ""), Question::Nothing),
            (fresh("w", "no uuid"), Question::Nothing),
            (wins, by_id(Some(pool))),
            (known("w", &format!("xenorchestra:///{VM1}")), by_id(None)),
            (known("w", "xenorchestra-lab://a/b"), Question::Nothing),
            (known("w", "exoscale://x"), Question::Nothing),
        ] {
            assert_eq!(question(&node), wanted, "{:?}", node.provider_id);
        }
        let malformed = question(&known("w", "xenorchestra://not-a-uuid/x"));
        assert!(matches!(malformed, Question::Malformed(_)));
    }
}
