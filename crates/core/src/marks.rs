//! What a node carries because of its machine, beside what every cloud gives it: labels, annotations and
//! taints in the cloud's own words, or in those of an operator's rules.

use std::collections::BTreeMap;

use crate::node::Taint;

/// Labels, annotations and taints for a machine's node. They are written as they are, also under
/// `kubernetes.io`, and again whenever the machine is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Labels. They win over what the node has.
    pub labels: BTreeMap<String, String>,
    /// Annotations. They win over what the node has.
    pub annotations: BTreeMap<String, String>,
    /// Taints, each known by its key and effect.
    pub taints: Vec<Taint>,
    /// What becomes of them later.
    pub keeping: Keeping,
}

/// What becomes of marks once they are on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeping {
    /// They are added and never taken back; taints only while the node waits to be initialised, because
    /// an operator may take them away later.
    #[default]
    Add,
    /// They are owned: what is no longer among them goes, what others wrote stays.
    Own,
}

impl Marks {
    /// Whether there is nothing to write, and nothing that could have to go.
    pub fn is_nothing(&self) -> bool {
        self.keeping == Keeping::Add
            && self.labels.is_empty()
            && self.annotations.is_empty()
            && self.taints.is_empty()
    }
}
