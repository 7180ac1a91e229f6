//! Who describes nodes and who looks after them, when that is not the same, and marks for all.

use bowline_core::{Marks, Voice};

use super::{Script, ScriptedCloud};

impl ScriptedCloud {
    /// From now on it describes that node so; [`Voice::Owner`] if nothing was said.
    pub fn speak(&self, node: &str, voice: Voice) {
        self.state().voices.insert(node.to_owned(), voice);
    }

    /// From now on it looks after nodes with provider ids that no other cloud has.
    pub fn take_leftovers(&self) {
        self.state().takes_leftovers = true;
    }

    /// From now on, this about that node if only its presence is asked for.
    pub fn say_presence(&self, node: &str, script: Script) {
        self.state().presence.insert(node.to_owned(), script);
    }

    /// How often it was asked about the presence of that node.
    pub fn presence_asked(&self, node: &str) -> usize {
        self.state().presence_asked.get(node).copied().unwrap_or(0)
    }

    /// From now on the nodes of machines that it follows are to have these marks.
    pub fn mark(&self, marks: Marks) {
        self.state().marks = marks;
    }

    pub(super) fn voice_about(&self, node: &str) -> Voice {
        let state = self.state();
        state.voices.get(node).copied().unwrap_or(Voice::Owner)
    }
}
