//! Who is responsible for a node, and why. Everything that acts on a node asks here first.
//!
//! Two questions: whose node it is (its life cycle, whether load balancers may have it), and who describes it (its
//! provider id, addresses, labels and marks). Mostly the answer is the same; a machine that is asked itself
//! describes its node, whichever cloud it runs at.

use std::fmt;

use crate::{Claim, CloudName, Node, Voice};

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
    /// It describes the node, whoever owns it.
    Voice,
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
    /// The cloud that owns it never describes it.
    Undescribed(CloudName),
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

/// Decides who describes a node: the one cloud that always does, else its owner, if that does. `ownership` is
/// whose node it is, as far as that is decided; none if that decides it and is not known.
pub fn describer(voices: &[(CloudName, Voice)], ownership: Option<Ownership>) -> Option<Ownership> {
    let saying = |what: Voice| voices.iter().filter(move |(_, voice)| *voice == what);
    let always: Vec<CloudName> = saying(Voice::Always)
        .map(|(name, _)| name.clone())
        .collect();
    match (always.as_slice(), ownership) {
        ([one], _) => Some(Ownership::Owned {
            by: one.clone(),
            because: Basis::Voice,
        }),
        ([_, ..], _) => Some(Ownership::Contested(always)),
        ([], Some(Ownership::Owned { by, .. }))
            if saying(Voice::Never).any(|(name, _)| *name == by) =>
        {
            Some(Ownership::Nobody(Orphan::Undescribed(by)))
        }
        ([], ownership) => ownership,
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
            Self::Owned {
                by,
                because: Basis::Voice,
            } => {
                write!(f, "described by {by}, whoever owns it")
            }
            Self::Nobody(Orphan::Undescribed(by)) => {
                write!(f, "left alone: {by} owns it and does not describe it")
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
mod tests;
