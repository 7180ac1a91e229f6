//! What a node carries because of its machine, beside what every cloud gives it: labels, annotations and
//! taints in the cloud's own words, or in those of an operator's rules.
//!
//! *Adding* ([`additions`]) sets labels and annotations that differ, taints once while the node waits to be
//! initialised, and takes nothing back.
//!
//! *Enforcing* ([`enforcement`]) lets the marks own what they name. Labels and annotations are applied whole, by
//! server-side apply under one field manager ([`FIELD_MANAGER`]): what the manager does not name any
//! more goes, what others wrote stays. Taints cannot be owned so, because their list is one value to the API
//! server: which of them are ours is remembered in an annotation ([`TAINTS_ANNOTATION`]) that the same apply
//! writes, and the list is replaced under the resourceVersion that was read.

use std::collections::{BTreeMap, BTreeSet};

use crate::StringMap;
use crate::node::labels::with_twins;
use crate::node::{Node, Taint};

/// The field manager of marks that are owned.
pub const FIELD_MANAGER: &str = "bowline-marks";
/// The annotation that remembers which taints are owned: `key:Effect`, by comma, sorted.
pub const TAINTS_ANNOTATION: &str = "bowline.dev/rule-taints";

/// Labels, annotations and taints for a machine's node. They are written as they are, also under
/// `kubernetes.io`, and again whenever the machine is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMetadata {
    /// Labels. They win over what the node has. One of a pair (type, zone, region) stands for both.
    pub labels: BTreeMap<String, String>,
    /// Annotations. They win over what the node has.
    pub annotations: BTreeMap<String, String>,
    /// Taints, each known by its key and effect.
    pub taints: Vec<Taint>,
    /// What becomes of them later.
    pub keeping: MetadataPolicy,
}

/// What becomes of marks once they are on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataPolicy {
    /// They are added and never taken back; taints only while the node waits to be initialised, because
    /// an operator may take them away later.
    #[default]
    Add,
    /// They are owned: what is no longer among them goes, what others wrote stays.
    Own,
}

impl NodeMetadata {
    /// Whether there is nothing to write, and nothing that could have to go.
    pub fn is_nothing(&self) -> bool {
        self.keeping == MetadataPolicy::Add
            && self.labels.is_empty()
            && self.annotations.is_empty()
            && self.taints.is_empty()
    }
}

/// What to merge into a Node. Empty parts need no request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    /// Labels that are missing or differ.
    pub labels: BTreeMap<String, String>,
    /// Annotations that are missing or differ.
    pub annotations: BTreeMap<String, String>,
    /// The whole list of taints, if it changes; guarded by the resourceVersion that was read.
    pub taints: Option<Vec<Taint>>,
}

/// What to apply to a Node under [`FIELD_MANAGER`], and its taints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enforcement {
    /// The labels and annotations, whole.
    pub applied: Applied,
    /// The whole list of taints, if it changes; guarded by the resourceVersion that was read. Goes last:
    /// what is remembered but not there does no harm, what is there but forgotten would stay.
    pub taints: Option<Vec<Taint>>,
}

/// What one apply names. Whoever remembers it knows whether another one is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// All labels of the marks.
    pub labels: BTreeMap<String, String>,
    /// All annotations of the marks, and what remembers their taints.
    pub annotations: BTreeMap<String, String>,
}

/// What is to be added to a node. Taints only while it waits to be initialised: an operator may take
/// them away later.
pub fn additions(node: &Node, marks: &NodeMetadata) -> Additions {
    let taints = node
        .is_uninitialized()
        .then(|| with(&node.taints, &marks.taints))
        .filter(|taints| *taints != node.taints);
    Additions {
        labels: differing(&with_twins(&marks.labels), &node.labels),
        annotations: differing(&marks.annotations, &node.annotations),
        taints,
    }
}

/// What is to be applied to a node so that it has these marks, and none that were owned before.
pub fn enforcement(node: &Node, marks: &NodeMetadata) -> Enforcement {
    let remembered = node.annotations.get(TAINTS_ANNOTATION);
    let before: Vec<&str> = remembered.map_or_else(Vec::new, |text| text.split(',').collect());
    let is_wanted = |name: &String| marks.taints.iter().any(|taint| name_of(taint) == *name);
    let kept: Vec<Taint> = node
        .taints
        .iter()
        .filter(|taint| {
            let name = name_of(taint);
            !before.contains(&name.as_str()) || is_wanted(&name)
        })
        .cloned()
        .collect();
    let taints = Some(with(&kept, &marks.taints)).filter(|taints| *taints != node.taints);
    let mut names: BTreeSet<String> = marks.taints.iter().map(name_of).collect();
    if taints.is_some() {
        // What goes is remembered until it is gone, so that a crash in between forgets nothing.
        names.extend(before.iter().map(|name| (*name).to_owned()));
    }
    let mut annotations = marks.annotations.clone();
    if !names.is_empty() {
        let names: Vec<String> = names.into_iter().collect();
        annotations.insert(TAINTS_ANNOTATION.to_owned(), names.join(","));
    }
    Enforcement {
        applied: Applied {
            labels: with_twins(&marks.labels),
            annotations,
        },
        taints,
    }
}

impl Applied {
    /// Whether an apply may change anything: a value is not there, or the last one named other keys.
    /// One that was never made here may always: the server alone knows what it named.
    pub fn is_needed(&self, node: &Node, last: Option<&Self>) -> bool {
        last != Some(self)
            || !differing(&self.labels, &node.labels).is_empty()
            || !differing(&self.annotations, &node.annotations).is_empty()
    }
}

fn differing(wanted: &BTreeMap<String, String>, found: &StringMap) -> BTreeMap<String, String> {
    wanted
        .iter()
        .filter(|(key, value)| found.get(key) != Some(value))
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

#[cfg(test)]
mod tests;
