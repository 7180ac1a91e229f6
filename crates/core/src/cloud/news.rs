//! What a cloud wants people to hear of, whether or not anybody asks it something. A provider has no way to the
//! cluster; whoever has one writes the event.

use crate::{Node, Regarding};

/// Something that people should hear of: one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// What it is about.
    pub regarding: Regarding,
    /// Whether it is something to worry about.
    pub is_warning: bool,
    /// The reason of the event.
    pub reason: &'static str,
    /// Its message. No secrets.
    pub message: String,
}

impl Regarding {
    /// No object of the cluster, but the manager as a whole.
    pub const fn manager() -> Self {
        Self {
            namespace: String::new(),
            kind: "",
            name: String::new(),
            uid: String::new(),
        }
    }

    /// A Node.
    pub fn node(node: &Node) -> Self {
        Self {
            namespace: String::new(),
            kind: "Node",
            name: node.name.clone(),
            uid: node.uid.clone(),
        }
    }

    /// Whether it is no object of the cluster.
    pub fn is_manager(&self) -> bool {
        self.kind.is_empty()
    }
}
