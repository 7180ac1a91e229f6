//! The annotation that shows the owner of a node, where users ask for it.
//!
//! ```text
//!  owned                         its owner, and who describes it if that is another
//!  not known for now             what is there stays as long as it may be true
//!  nobody's, or not to be shown  nothing: what we wrote goes, and a node without it is not written to
//! ```
//!
//! It is applied under a field manager of its own ([`FIELD_MANAGER`]), so that what goes is only what we wrote.

use crate::cloud::CloudName;
use crate::node::Node;
use crate::node::metadata::Applied;
use crate::ownership::Ownership;

/// The field manager of what is shown.
pub const FIELD_MANAGER: &str = "bowline-owners";
/// The annotation or label that names the cloud that owns a node.
pub const OWNER: &str = "bowline.dev/owner";
/// The one that names the cloud that describes it, where that is another.
pub const DESCRIBER: &str = "bowline.dev/describer";

/// How owners are shown on nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Showing {
    /// Not at all.
    #[default]
    Nothing,
    /// By annotations.
    Annotations,
    /// By labels, which nodes can be selected by.
    Labels,
}

/// What a node should show; none while what it shows may be true and nobody knows better. It is empty for a node that
/// should show nothing.
pub fn wanted(
    node: &Node,
    owner: Option<&Ownership>,
    describer: Option<&Ownership>,
    showing: Showing,
) -> Option<Applied> {
    if showing == Showing::Nothing {
        return Some(Applied::default());
    }
    let owner = match owner {
        None | Some(Ownership::Undecided(_)) => return None,
        Some(Ownership::Contested(claimants)) if may_be_true(node, claimants) => return None,
        Some(Ownership::Contested(_)) => return Some(Applied::default()),
        Some(Ownership::Owned { by, .. }) => Some(by),
        Some(Ownership::Nobody(_)) => None,
    };
    let describer = match describer {
        Some(Ownership::Owned { by, .. }) if Some(by) != owner => Some(by),
        _ => None,
    };
    let pairs = [(OWNER, owner), (DESCRIBER, describer)];
    let shown = pairs
        .into_iter()
        .filter_map(|(key, name)| Some((key.to_owned(), name?.to_string())))
        .collect();
    Some(match showing {
        Showing::Labels => Applied {
            labels: shown,
            ..Applied::default()
        },
        Showing::Annotations | Showing::Nothing => Applied {
            annotations: shown,
            ..Applied::default()
        },
    })
}

/// Whether a node names one of these as its owner, or nobody.
fn may_be_true(node: &Node, claimants: &[CloudName]) -> bool {
    let is_claimant = |name: &str| claimants.iter().any(|it| it.as_str() == name);
    let named = [node.annotations.get(OWNER), node.labels.get(OWNER)];
    named.into_iter().flatten().all(is_claimant)
}

/// Whether a node has to be written to so that it shows this. `last` is what was applied to it last: a key that is there
/// all the same is somebody else's.
pub fn is_needed(node: &Node, wanted: &Applied, last: Option<&Applied>) -> bool {
    let places = [
        (&wanted.labels, &node.labels),
        (&wanted.annotations, &node.annotations),
    ];
    let keys = [OWNER, DESCRIBER];
    let differs = places.iter().any(|(wanted, found)| {
        let missing = |key: &&str| {
            wanted.contains_key(*key) && wanted.get(*key).map(String::as_str) != found.get(key)
        };
        keys.iter().any(missing)
    });
    let has_more = places.iter().any(|(wanted, found)| {
        let more = |key: &&str| !wanted.contains_key(*key) && found.contains_key(key);
        keys.iter().any(more)
    });
    differs || has_more && last != Some(wanted)
}

#[cfg(test)]
mod tests;
