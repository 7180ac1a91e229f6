//! Who is responsible for a node, and why. Everything that acts on a node asks here first.

use std::fmt;

use crate::{Claim, CloudName, Node};

/// What a cloud says about a node without a provider id, having looked for its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// It has exactly one machine for it.
    Mine,
    /// It has none.
    NotMine,
    /// It could not say; the text is the error.
    CannotTell(String),
}

/// Who is responsible for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// This cloud is.
    Owned {
        /// The cloud.
        by: CloudName,
        /// Why it.
        because: Basis,
    },
    /// Nobody is: the node is left alone.
    Nobody(Orphan),
    /// Several clouds claim it, so nobody acts.
    Contested(Vec<CloudName>),
    /// Some cloud could not answer, so nobody acts yet.
    Undecided(Vec<(CloudName, String)>),
}

/// Why a cloud is responsible for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The node's provider id is one of its.
    ProviderId,
    /// It alone has a machine for the node.
    OnlyClaim,
    /// The node's provider id is of no configured cloud, and it looks after those.
    NobodyElse,
    /// It is the only cloud, and the node calls its machine by an id as this cloud gives them.
    MachineId,
}

/// Why nobody is responsible for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// Its provider id is of no configured cloud.
    ForeignProviderId,
    /// Its provider id has a configured cloud's scheme but is not an id of it.
    MalformedProviderId {
        /// The cloud of that scheme.
        cloud: CloudName,
        /// What is wrong with the id.
        why: String,
    },
    /// It has no provider id, and no cloud has a machine for it.
    Unrecognized,
}

/// Decides by what the node carries: `claims` is what each cloud says about it. None if that does
/// not tell, and the clouds have to be asked.
pub fn by_claims(node: &Node, claims: &[(CloudName, Claim)]) -> Option<Ownership> {
    if node.provider_id.is_some() {
        return Some(by_provider_id(claims));
    }
    match claims {
        // Among several clouds the id of a machine tells nothing, and a node that waits for a cloud
        // is one to be recognised.
        [(only, Claim::Mine)] if !node.is_uninitialized() => Some(Ownership::Owned {
            by: only.clone(),
            because: Basis::MachineId,
        }),
        _ => None,
    }
}

fn by_provider_id(claims: &[(CloudName, Claim)]) -> Ownership {
    let saying = |what: Claim| -> Vec<CloudName> {
        let them = claims.iter().filter(|(_, claim)| *claim == what);
        them.map(|(name, _)| name.clone()).collect()
    };
    let by = |one: &CloudName, because| Ownership::Owned {
        by: one.clone(),
        because,
    };
    let mine = saying(Claim::Mine);
    match (mine.as_slice(), malformed(claims)) {
        ([one], _) => by(one, Basis::ProviderId),
        ([_, ..], _) => Ownership::Contested(mine),
        // Somebody's scheme, if not their id: nobody else's either.
        ([], Some(malformed)) => Ownership::Nobody(malformed),
        ([], None) => match saying(Claim::Leftover).as_slice() {
            [] => Ownership::Nobody(Orphan::ForeignProviderId),
            [one] => by(one, Basis::NobodyElse),
            several => Ownership::Contested(several.to_vec()),
        },
    }
}

/// Decides about a node without a provider id: `answers` is what each cloud found.
///
/// One cloud that cannot answer leaves it undecided, so that an outage of one cloud never hands
/// a node to another.
pub fn by_recognition(answers: &[(CloudName, Recognition)]) -> Ownership {
    let mut mine = Vec::new();
    let mut silent = Vec::new();
    for (name, answer) in answers {
        match answer {
            Recognition::Mine => mine.push(name.clone()),
            Recognition::NotMine => {}
            Recognition::CannotTell(why) => silent.push((name.clone(), why.clone())),
        }
    }
    match (silent.is_empty(), mine.as_slice()) {
        (false, _) => Ownership::Undecided(silent),
        (true, []) => Ownership::Nobody(Orphan::Unrecognized),
        (true, [one]) => Ownership::Owned {
            by: one.clone(),
            because: Basis::OnlyClaim,
        },
        (true, _) => Ownership::Contested(mine),
    }
}

fn malformed(claims: &[(CloudName, Claim)]) -> Option<Orphan> {
    claims.iter().find_map(|(cloud, claim)| match claim {
        Claim::Malformed(why) => Some(Orphan::MalformedProviderId {
            cloud: cloud.clone(),
            why: why.clone(),
        }),
        Claim::Mine | Claim::Leftover | Claim::Foreign => None,
    })
}

impl fmt::Display for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |list: &[CloudName]| {
            list.iter()
                .map(CloudName::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self {
            Self::Owned {
                by,
                because: Basis::ProviderId,
            } => {
                write!(f, "owned by {by}, by its provider id")
            }
            Self::Owned {
                by,
                because: Basis::NobodyElse,
            } => {
                write!(
                    f,
                    "owned by {by}, because no other cloud has its provider id"
                )
            }
            Self::Owned {
                by,
                because: Basis::OnlyClaim,
            } => {
                write!(f, "owned by {by}, the only cloud that has a machine for it")
            }
            Self::Owned {
                by,
                because: Basis::MachineId,
            } => {
                write!(f, "owned by {by}, the only cloud, by its machine's id")
            }
            Self::Nobody(Orphan::ForeignProviderId) => {
                f.write_str("left alone: its provider id is of no configured cloud")
            }
            Self::Nobody(Orphan::MalformedProviderId { cloud, why }) => {
                write!(
                    f,
                    "left alone: its provider id is not one of {cloud}: {why}"
                )
            }
            Self::Nobody(Orphan::Unrecognized) => {
                f.write_str("left alone: no configured cloud has a machine for it")
            }
            Self::Contested(clouds) => {
                write!(
                    f,
                    "left alone: claimed by several clouds ({})",
                    names(clouds)
                )
            }
            Self::Undecided(silent) => {
                f.write_str("not decided:")?;
                for (at, (cloud, why)) in silent.iter().enumerate() {
                    write!(
                        f,
                        "{} {cloud} could not answer: {why}",
                        if at > 0 { ";" } else { "" }
                    )?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::examples::fresh_node;
    use proptest::prelude::*;

    fn name(text: &str) -> CloudName {
        CloudName::parse(text).unwrap()
    }

    #[test]
    fn the_provider_id_decides_alone() {
        let claims = [(name("a"), Claim::Foreign), (name("b"), Claim::Mine)];
        let owned = Ownership::Owned {
            by: name("b"),
            because: Basis::ProviderId,
        };
        assert_eq!(by_provider_id(&claims), owned);
        assert_eq!(
            by_provider_id(&claims[..1]),
            Ownership::Nobody(Orphan::ForeignProviderId)
        );
        assert_eq!(
            by_provider_id(&[]),
            Ownership::Nobody(Orphan::ForeignProviderId)
        );
        let leftover = [(name("a"), Claim::Leftover), (name("b"), Claim::Foreign)];
        assert_eq!(
            by_provider_id(&leftover).to_string(),
            "owned by a, because no other cloud has its provider id"
        );
        let with_owner = [(name("a"), Claim::Leftover), (name("b"), Claim::Mine)];
        assert_eq!(by_provider_id(&with_owner), owned);
        let with_malformed = [
            (name("a"), Claim::Leftover),
            (name("b"), Claim::Malformed("no uuid".into())),
        ];
        assert_eq!(
            by_provider_id(&with_malformed).to_string(),
            "left alone: its provider id is not one of b: no uuid"
        );
        let two = [(name("a"), Claim::Leftover), (name("b"), Claim::Leftover)];
        assert!(matches!(by_provider_id(&two), Ownership::Contested(_)));
        let bad = [(name("a"), Claim::Malformed("no uuid".into()))];
        assert_eq!(
            by_provider_id(&bad).to_string(),
            "left alone: its provider id is not one of a: no uuid"
        );
    }

    #[test]
    fn without_a_provider_id_the_only_cloud_may_know_a_node_by_its_machine() {
        let fresh = fresh_node();
        let (mut settled, mut identified) = (fresh.clone(), fresh.clone());
        settled.taints.clear();
        identified.provider_id = Some("a://1".into());
        let mine = [(name("a"), Claim::Mine)];
        let foreign = [(name("b"), Claim::Foreign)];
        let both = [mine.clone(), foreign.clone()].concat();
        let by_machine = Some("owned by a, the only cloud, by its machine's id");
        let by_provider_id = Some("owned by a, by its provider id");
        for (node, claims, wanted) in [
            (&settled, &mine[..], by_machine),
            (&settled, &both, None),
            (&settled, &foreign, None),
            (&fresh, &mine, None),
            (&identified, &both, by_provider_id),
        ] {
            let decided = by_claims(node, claims).map(|it| it.to_string());
            assert_eq!(decided.as_deref(), wanted, "{claims:?}");
        }
    }

    #[test]
    fn without_a_provider_id_exactly_one_claim_decides() {
        let (mine, not) = (Recognition::Mine, Recognition::NotMine);
        let silent = Recognition::CannotTell("timeout".into());
        let ask = |answers: &[&Recognition]| {
            let named: Vec<_> = ["a", "b"]
                .into_iter()
                .map(name)
                .zip(answers.iter().map(|a| (*a).clone()))
                .collect();
            by_recognition(&named)
        };
        let owned = Ownership::Owned {
            by: name("a"),
            because: Basis::OnlyClaim,
        };
        assert_eq!(ask(&[&mine, &not]), owned);
        assert_eq!(ask(&[&not, &not]), Ownership::Nobody(Orphan::Unrecognized));
        assert_eq!(
            ask(&[&mine, &mine]),
            Ownership::Contested(vec![name("a"), name("b")])
        );
        assert_eq!(
            ask(&[&mine, &silent]).to_string(),
            "not decided: b could not answer: timeout"
        );
    }

    proptest! {
        /// Total, and never an owner who did not claim.
        #[test]
        fn nobody_owns_what_it_did_not_claim(answers in proptest::collection::vec(0..3usize, 0..5)) {
            let named: Vec<_> = answers.iter().enumerate().map(|(at, answer)| {
                let answer = match answer {
                    0 => Recognition::Mine,
                    1 => Recognition::NotMine,
                    _ => Recognition::CannotTell("down".into()),
                };
                (name(&format!("c{at}")), answer)
            }).collect();
            match by_recognition(&named) {
                Ownership::Owned { by, .. } => {
                    prop_assert!(named.contains(&(by, Recognition::Mine)));
                    prop_assert!(answers.iter().all(|a| *a != 2));
                    prop_assert_eq!(answers.iter().filter(|a| **a == 0).count(), 1);
                }
                Ownership::Undecided(_) => prop_assert!(answers.contains(&2)),
                Ownership::Contested(clouds) => prop_assert!(clouds.len() > 1),
                Ownership::Nobody(_) => prop_assert!(!answers.contains(&0)),
            }
        }
    }
}
