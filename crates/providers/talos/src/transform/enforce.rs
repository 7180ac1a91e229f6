//! What is written to a Node because of rules, in two ways.
//!
//! *Adding* is what has always been done: labels and annotations that differ are set, taints once when the
//! node is initialised, and nothing is ever taken back.
//!
//! *Enforcing* lets rules own what they set. Labels and annotations are applied whole, by server-side apply
//! under one field manager ([`FIELD_MANAGER`]): what the manager does not name any more goes, what others
//! wrote stays. Taints cannot be owned so, because their list is one value to the API server: which of them
//! are ours is remembered in an annotation ([`TAINTS_ANNOTATION`]) that the same apply writes, and the list
//! is replaced under the resourceVersion that was read. What is known of every machine (its platform, its
//! cluster) is owned with the rest, so that a machine that is no spot machine any more loses that label.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{Node, Taint};

/// The field manager of what rules own.
pub const FIELD_MANAGER: &str = "bowline-talos-rules";
/// The annotation that remembers which taints are the rules': `key:Effect`, by comma, sorted.
pub const TAINTS_ANNOTATION: &str = "bowline.dev/rule-taints";

/// Labels, annotations and taints that a node should have.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// Taints.
    pub taints: &'a [Taint],
}

/// What to merge into a Node. Empty parts need no request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Additions {
    /// Labels that are missing or differ.
    pub labels: BTreeMap<String, String>,
    /// Annotations that are missing or differ.
    pub annotations: BTreeMap<String, String>,
    /// The whole list of taints, if it changes.
    pub taints: Option<Vec<Taint>>,
}

/// What to apply to a Node under [`FIELD_MANAGER`], and its taints.
#[derive(Clone, Debug, PartialEq)]
pub struct Enforcement {
    /// All labels of the rules.
    pub labels: BTreeMap<String, String>,
    /// All annotations of the rules, and what remembers their taints.
    pub annotations: BTreeMap<String, String>,
    /// The whole list of taints, if it changes; guarded by the resourceVersion that was read. Goes last:
    /// what is remembered but not there does no harm, what is there but forgotten would stay.
    pub taints: Option<Vec<Taint>>,
}

/// What is to be added to a node. Taints only while it waits to be initialised: an operator may take
/// them away later.
pub fn additions(node: &Node, wanted: Wanted<'_>) -> Additions {
    let taints = node
        .is_uninitialized()
        .then(|| with(&node.taints, wanted.taints))
        .filter(|taints| *taints != node.taints);
    Additions {
        labels: differing(wanted.labels, &node.labels),
        annotations: differing(wanted.annotations, &node.annotations),
        taints,
    }
}

/// What is to be applied to a node so that it has what is wanted, and nothing that rules set before.
pub fn enforcement(node: &Node, wanted: Wanted<'_>) -> Enforcement {
    let remembered = node.annotations.get(TAINTS_ANNOTATION);
    let before: Vec<&str> = remembered.map_or_else(Vec::new, |text| text.split(',').collect());
    let is_wanted = |name: &String| wanted.taints.iter().any(|taint| name_of(taint) == *name);
    let kept: Vec<Taint> = node
        .taints
        .iter()
        .filter(|taint| {
            let name = name_of(taint);
            !before.contains(&name.as_str()) || is_wanted(&name)
        })
        .cloned()
        .collect();
    let taints = Some(with(&kept, wanted.taints)).filter(|taints| *taints != node.taints);
    let mut names: BTreeSet<String> = wanted.taints.iter().map(name_of).collect();
    if taints.is_some() {
        // What goes is remembered until it is gone, so that a crash in between forgets nothing.
        names.extend(before.iter().map(|name| (*name).to_owned()));
    }
    let mut annotations = wanted.annotations.clone();
    if !names.is_empty() {
        let names: Vec<String> = names.into_iter().collect();
        annotations.insert(TAINTS_ANNOTATION.to_owned(), names.join(","));
    }
    Enforcement {
        labels: wanted.labels.clone(),
        annotations,
        taints,
    }
}

impl Enforcement {
    /// Whether an apply would change anything: a value is not there, or the manager owns a key that it no
    /// longer names.
    pub fn is_needed(&self, node: &Node, owned: &Owned) -> bool {
        let differs = |wanted: &BTreeMap<String, String>, found, owned: &[String]| {
            !differing(wanted, found).is_empty()
                || owned.iter().any(|key| !wanted.contains_key(key))
                || wanted.keys().any(|key| !owned.contains(key))
        };
        differs(&self.labels, &node.labels, &owned.labels)
            || differs(&self.annotations, &node.annotations, &owned.annotations)
    }
}

/// Which keys a field manager owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// Of labels, sorted.
    pub labels: Vec<String>,
    /// Of annotations, sorted.
    pub annotations: Vec<String>,
}

impl Owned {
    /// Reads `fieldsV1` of an entry of `metadata.managedFields`.
    pub fn read(fields: &serde_json::Value) -> Self {
        let keys = |part: &str| {
            let map = fields["f:metadata"][part].as_object();
            let names = map.into_iter().flat_map(|map| map.keys());
            let mut keys: Vec<String> = names
                .filter_map(|name| name.strip_prefix("f:"))
                .map(str::to_owned)
                .collect();
            keys.sort();
            keys
        };
        Self {
            labels: keys("f:labels"),
            annotations: keys("f:annotations"),
        }
    }
}

fn differing(
    wanted: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    wanted
        .iter()
        .filter(|(key, value)| found.get(*key) != Some(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn name_of(taint: &Taint) -> String {
    format!("{}:{}", taint.key, taint.effect)
}

/// A list with these taints in place of those of the same key and effect, or after all others.
fn with(found: &[Taint], wanted: &[Taint]) -> Vec<Taint> {
    let mut list = found.to_vec();
    for taint in wanted {
        let same = |it: &&mut Taint| it.key == taint.key && it.effect == taint.effect;
        match list.iter_mut().find(same) {
            Some(old) if old.value == taint.value => {}
            Some(old) => *old = taint.clone(),
            None => list.push(taint.clone()),
        }
    }
    list
}
