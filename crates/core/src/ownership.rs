//! Decides which cloud owns a node and which describes it, and why. Everything that acts on a node asks
//! here first.
//!
//! The owner decides about life cycle and targets. The describer gives provider ID, addresses, labels and
//! metadata. Mostly they are the same cloud; a machine that answers for itself describes its node,
//! whichever cloud owns it.
//!
//! ```text
//!  provider id of its scheme ─▶ of its account ─▶ its node selector ─▶ the only one that has the machine ─▶ owner
//!       one? that is it.          one? that is it.     one? that is it.       nobody, several: unmanaged, and reported
//! ```

use std::fmt;

use crate::{Claim, CloudName, DescribePolicy, Node};

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
        /// The owner.
        by: CloudName,
        /// Why it.
        because: Basis,
    },
    /// Nobody is: the node is left alone.
    Nobody(Unowned),
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
    /// The node's provider id could be one of several clouds, and all others say that it is not theirs.
    Account,
    /// The configured node selectors leave it alone.
    Selector,
    /// It alone has a machine for the node.
    OnlyClaim,
    /// The node's provider id is of no configured cloud, and it looks after those.
    NobodyElse,
    /// It is the only cloud, and the node calls its machine by an id as this cloud gives them.
    MachineId,
    /// It describes the node, whoever owns it.
    DescribePolicy,
}

/// Why nobody is responsible for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unowned {
    /// Its provider id is of no configured cloud.
    ForeignProviderId,
    /// Its provider id could be one of these clouds, and each says that it is another's.
    ForeignAccount(Vec<CloudName>),
    /// Its provider id has a configured cloud's scheme but is not an id of it.
    MalformedProviderId {
        /// The cloud of that scheme.
        cloud: CloudName,
        /// What is wrong with the id.
        why: String,
    },
    /// It was, or may have been, this cloud's, which is not configured any more, and no other was seen to have its machine.
    Departed(CloudName),
    /// It has no provider id, and no cloud has a machine for it.
    Unrecognized,
    /// Its machine is that of another Node, of that name.
    ClaimedTwice(String),
    /// The cloud that owns it never describes it.
    Undescribed(CloudName),
}

/// What is known about a cloud and a node without asking the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudCandidate {
    /// The cloud.
    pub name: CloudName,
    /// What it says about the node.
    pub claim: Claim,
    /// Whether it says that the node is of another account, zone or endpoint of its kind.
    pub belongs_elsewhere: bool,
    /// What its configured node selector says.
    pub selection: Selection,
}

impl CloudCandidate {
    /// A cloud without a node selector.
    pub fn new(name: CloudName, claim: Claim) -> Self {
        Self {
            name,
            claim,
            belongs_elsewhere: false,
            selection: Selection::Unsaid,
        }
    }
}

/// What a configured node selector says about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// There is none.
    Unsaid,
    /// It means the node.
    Meant,
    /// It does not mean the node.
    NotMeant,
}

/// Those of several clouds that node selectors leave: those that mean the node, or else those without one.
pub fn left_by_selectors<'a>(candidates: &[&'a CloudCandidate]) -> Vec<&'a CloudCandidate> {
    let of = |selection| -> Vec<&'a CloudCandidate> {
        let them = candidates.iter().filter(|it| it.selection == selection);
        them.copied().collect()
    };
    match of(Selection::Meant) {
        meant if meant.is_empty() => of(Selection::Unsaid),
        meant => meant,
    }
}

/// Decides by what the node carries and what is configured. `has_machine` is the cloud that alone was found to have
/// its machine, where that was asked before. None if all that does not decide, and the clouds have to be asked.
pub fn decide(
    node: &Node,
    candidates: &[CloudCandidate],
    has_machine: Option<&CloudName>,
) -> Option<Ownership> {
    if node.provider_id.is_some() {
        return Some(by_provider_id(candidates, has_machine));
    }
    // A node that waits for a cloud is one to be recognised.
    if node.is_uninitialized() {
        return None;
    }
    let all: Vec<&CloudCandidate> = candidates.iter().collect();
    match (candidates, left_by_selectors(&all).as_slice()) {
        ([only], [_])
            if only.claim == Claim::Mine && departed(candidates, has_machine).is_none() =>
        {
            Some(owned(only, Basis::MachineId))
        }
        // Among several clouds the id of a machine alone tells nothing.
        (_, [one]) if one.claim == Claim::Mine && one.selection == Selection::Meant => {
            Some(owned(one, Basis::Selector))
        }
        (_, left) => {
            let found = left
                .iter()
                .find(|it| it.claim == Claim::Mine && Some(&it.name) == has_machine);
            found.map(|it| owned(it, Basis::OnlyClaim))
        }
    }
}

/// The same where nothing is configured about nodes: `claims` is what each cloud says about it.
pub fn by_claims(node: &Node, claims: &[(CloudName, Claim)]) -> Option<Ownership> {
    let candidates: Vec<CloudCandidate> = claims
        .iter()
        .map(|(name, claim)| CloudCandidate::new(name.clone(), claim.clone()))
        .collect();
    decide(node, &candidates, None)
}

fn owned(by: &CloudCandidate, because: Basis) -> Ownership {
    Ownership::Owned {
        by: by.name.clone(),
        because,
    }
}

fn by_provider_id(candidates: &[CloudCandidate], has_machine: Option<&CloudName>) -> Ownership {
    let saying = |what: Claim| -> Vec<&CloudCandidate> {
        candidates.iter().filter(|it| it.claim == what).collect()
    };
    let departed = || departed(candidates, has_machine).cloned();
    match (saying(Claim::Mine).as_slice(), malformed(candidates)) {
        ([one], _) if one.selection == Selection::NotMeant => {
            Ownership::Nobody(Unowned::ForeignAccount(names(&[one])))
        }
        ([one], _) => sole(one, Basis::ProviderId, departed()),
        (several @ [_, ..], _) => among(several, has_machine, departed()),
        // Somebody's scheme, if not their id: nobody else's either.
        ([], Some(malformed)) => Ownership::Nobody(malformed),
        ([], None) => by_nobody_else(candidates),
    }
}

/// Decides about a provider id that is of none of the clouds.
fn by_nobody_else(candidates: &[CloudCandidate]) -> Ownership {
    let takes = |it: &&CloudCandidate| match it.claim {
        Claim::Fallback => it.selection != Selection::NotMeant,
        // Among several clouds it may well be somebody's who is not here.
        Claim::FallbackIfAlone => candidates.len() == 1 || it.selection == Selection::Meant,
        Claim::Mine | Claim::Malformed(_) | Claim::Foreign => false,
    };
    let takers: Vec<&CloudCandidate> = candidates.iter().filter(takes).collect();
    match takers.as_slice() {
        [] => Ownership::Nobody(Unowned::ForeignProviderId),
        [one] => owned(one, Basis::NobodyElse),
        several => match left_by_selectors(several).as_slice() {
            [one] => owned(one, Basis::Selector),
            _ => Ownership::Contested(names(several)),
        },
    }
}

/// The cloud that was seen to have the machine, if it is no candidate any more.
fn departed<'a>(
    candidates: &[CloudCandidate],
    has_machine: Option<&'a CloudName>,
) -> Option<&'a CloudName> {
    has_machine.filter(|name| candidates.iter().all(|it| it.name != **name))
}

/// The one cloud that is left; but what was a departed cloud's is another's only if that has the machine, and not
/// because nobody else is there to claim it.
fn sole(one: &CloudCandidate, because: Basis, departed: Option<CloudName>) -> Ownership {
    match departed {
        Some(departed) if one.selection != Selection::Meant => {
            Ownership::Nobody(Unowned::Departed(departed))
        }
        _ => owned(one, because),
    }
}

/// Decides among several clouds of the scheme of a provider id.
fn among(
    several: &[&CloudCandidate],
    has_machine: Option<&CloudName>,
    departed: Option<CloudName>,
) -> Ownership {
    let rest: Vec<&CloudCandidate> = several
        .iter()
        .copied()
        .filter(|it| !it.belongs_elsewhere)
        .collect();
    match rest.as_slice() {
        [] => return Ownership::Nobody(Unowned::ForeignAccount(names(several))),
        [one] => return sole(one, Basis::Account, departed),
        _ => {}
    }
    let left = left_by_selectors(&rest);
    match left.as_slice() {
        [one] => owned(one, Basis::Selector),
        // Each selector means other nodes.
        [] => Ownership::Nobody(Unowned::ForeignAccount(names(&rest))),
        several => match several.iter().find(|it| Some(&it.name) == has_machine) {
            Some(one) => owned(one, Basis::OnlyClaim),
            None => Ownership::Contested(names(several)),
        },
    }
}

fn names(candidates: &[&CloudCandidate]) -> Vec<CloudName> {
    candidates.iter().map(|it| it.name.clone()).collect()
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
        (true, []) => Ownership::Nobody(Unowned::Unrecognized),
        (true, [one]) => Ownership::Owned {
            by: one.clone(),
            because: Basis::OnlyClaim,
        },
        (true, _) => Ownership::Contested(mine),
    }
}

/// Decides who describes a node: the one cloud that always does, else its owner, if that does. `ownership` is
/// whose node it is, as far as that is decided; none if that decides it and is not known.
pub fn describer(
    voices: &[(CloudName, DescribePolicy)],
    ownership: Option<Ownership>,
) -> Option<Ownership> {
    let saying = |what: DescribePolicy| {
        voices
            .iter()
            .filter(move |(_, describe_policy)| *describe_policy == what)
    };
    let always: Vec<CloudName> = saying(DescribePolicy::Always)
        .map(|(name, _)| name.clone())
        .collect();
    match (always.as_slice(), ownership) {
        // What its machine says would be said about another Node's.
        (_, twice @ Some(Ownership::Nobody(Unowned::ClaimedTwice(_)))) => twice,
        ([one], _) => Some(Ownership::Owned {
            by: one.clone(),
            because: Basis::DescribePolicy,
        }),
        ([_, ..], _) => Some(Ownership::Contested(always)),
        ([], Some(Ownership::Owned { by, .. }))
            if saying(DescribePolicy::Never).any(|(name, _)| *name == by) =>
        {
            Some(Ownership::Nobody(Unowned::Undescribed(by)))
        }
        ([], ownership) => ownership,
    }
}

/// What distinguishes the machine of a provider id from others, however the id is written: its scheme and the uuid that it ends
/// with, or all of it.
pub fn machine_key(id: &str) -> String {
    let id = id.trim();
    let last = id.rsplit('/').next().unwrap_or_default();
    let digits = last.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_uuid = digits == 32 && last.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    let mut key = String::with_capacity(id.len());
    if is_uuid {
        key.push_str(id.split_once("://").map_or("", |it| it.0));
        key.push(':');
        key.extend(last.split('-'));
    } else {
        key.push_str(id);
    }
    key.make_ascii_lowercase();
    key
}

fn malformed(candidates: &[CloudCandidate]) -> Option<Unowned> {
    candidates.iter().find_map(|it| match &it.claim {
        Claim::Malformed(why) => Some(Unowned::MalformedProviderId {
            cloud: it.name.clone(),
            why: why.clone(),
        }),
        Claim::Mine | Claim::Fallback | Claim::FallbackIfAlone | Claim::Foreign => None,
    })
}

impl Basis {
    fn words(self) -> &'static str {
        match self {
            Self::ProviderId => "by its provider id",
            Self::Account => "by its provider id, which is of no other account",
            Self::Selector => "by the configured node selectors",
            Self::NobodyElse => "because no other cloud has its provider id",
            Self::OnlyClaim => "the only cloud that has a machine for it",
            Self::MachineId => "the only cloud, by its machine's id",
            Self::DescribePolicy => "because it describes it",
        }
    }
}

impl Ownership {
    /// The word for a node of which nobody knows yet who owns it.
    pub const UNIDENTIFIED: &'static str = "unidentified";
    /// Every word for why a node has no owner.
    pub const UNOWNED: [&'static str; 8] = [
        "claimed-twice",
        "contested",
        "departed",
        "foreign",
        "foreign-account",
        "malformed",
        "undecided",
        Self::UNIDENTIFIED,
    ];

    /// Why nobody owns the node, in a stable word; none if somebody does.
    pub fn unowned(&self) -> Option<&'static str> {
        match self {
            Self::Owned { .. } | Self::Nobody(Unowned::Undescribed(_)) => None,
            Self::Contested(_) => Some("contested"),
            Self::Undecided(_) => Some("undecided"),
            Self::Nobody(Unowned::Departed(_)) => Some("departed"),
            Self::Nobody(Unowned::ForeignProviderId) => Some("foreign"),
            Self::Nobody(Unowned::ForeignAccount(_)) => Some("foreign-account"),
            Self::Nobody(Unowned::MalformedProviderId { .. }) => Some("malformed"),
            Self::Nobody(Unowned::Unrecognized) => Some(Self::UNIDENTIFIED),
            Self::Nobody(Unowned::ClaimedTwice(_)) => Some("claimed-twice"),
        }
    }
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
                because: Basis::DescribePolicy,
            } => write!(f, "described by {by}, whoever owns it"),
            Self::Owned { by, because } => write!(f, "owned by {by}, {}", because.words()),
            Self::Nobody(Unowned::Undescribed(by)) => {
                write!(f, "left alone: {by} owns it and does not describe it")
            }
            Self::Nobody(Unowned::Departed(from)) => {
                write!(
                    f,
                    "left alone: its machine may be in {from}, which is not configured any more, and no other cloud \
                     has been seen to have it"
                )
            }
            Self::Nobody(Unowned::ForeignProviderId) => {
                f.write_str("left alone: its provider id is of no configured cloud")
            }
            Self::Nobody(Unowned::ForeignAccount(clouds)) => {
                write!(
                    f,
                    "left alone: its provider id is of the kind of {}, and none of them has such nodes",
                    names(clouds)
                )
            }
            Self::Nobody(Unowned::MalformedProviderId { cloud, why }) => {
                write!(
                    f,
                    "left alone: its provider id is not one of {cloud}: {why}"
                )
            }
            Self::Nobody(Unowned::Unrecognized) => {
                f.write_str("left alone: no configured cloud has a machine for it")
            }
            Self::Nobody(Unowned::ClaimedTwice(node)) => {
                write!(
                    f,
                    "left alone: its provider id is that of node {node}'s machine"
                )
            }
            Self::Contested(clouds) => {
                write!(
                    f,
                    "left alone: claimed by several clouds ({})",
                    names(clouds)
                )
            }
            Self::Undecided(silent) => {
                for (at, (cloud, why)) in silent.iter().enumerate() {
                    let between = if at > 0 { "; " } else { "" };
                    write!(f, "{between}cloud {cloud} did not answer: {why}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
