//! Who describes nodes and who looks after them, when that is not the same, and marks for all.

use std::collections::BTreeMap;

use bowline_core::{DescribePolicy, NodeMetadata};

use super::{Script, ScriptedCloud};

/// What was said about that.
#[derive(Default)]
pub(super) struct Duties {
    voices: BTreeMap<String, DescribePolicy>,
    pub(super) takes_leftovers: bool,
    pub(super) marks: NodeMetadata,
    presence: BTreeMap<String, Script>,
    presence_asked: BTreeMap<String, usize>,
}

impl ScriptedCloud {
    /// From now on it describes that node so; [`DescribePolicy::Owner`] if nothing was said.
    pub fn speak(&self, node: &str, describe_policy: DescribePolicy) {
        self.state()
            .duties
            .voices
            .insert(node.to_owned(), describe_policy);
    }

    /// From now on it looks after nodes with provider ids that no other cloud has.
    pub fn take_leftovers(&self) {
        self.state().duties.takes_leftovers = true;
    }

    /// From now on, this about that node if only its presence is asked for.
    pub fn say_presence(&self, node: &str, script: Script) {
        self.state().duties.presence.insert(node.to_owned(), script);
    }

    /// How often it was asked about the presence of that node.
    pub fn presence_asked(&self, node: &str) -> usize {
        self.state()
            .duties
            .presence_asked
            .get(node)
            .copied()
            .unwrap_or(0)
    }

    /// From now on the nodes of machines that it follows are to have these marks.
    pub fn mark(&self, marks: NodeMetadata) {
        self.state().duties.marks = marks;
    }

    /// Notes that the presence of that node is asked for; what is to be said, if it is another thing.
    pub(super) fn presence_of(&self, node: &str) -> Option<Script> {
        let duties = &mut self.state().duties;
        *duties.presence_asked.entry(node.to_owned()).or_default() += 1;
        duties.presence.get(node).cloned()
    }

    pub(super) fn voice_about(&self, node: &str) -> DescribePolicy {
        let state = self.state();
        state
            .duties
            .voices
            .get(node)
            .copied()
            .unwrap_or(DescribePolicy::Owner)
    }
}
