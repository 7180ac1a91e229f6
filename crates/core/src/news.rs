//! What a cloud wants people to hear of by itself, while no controller asks it anything that the news would
//! be an answer to. A provider has no way to the cluster; whoever has one writes the event.

/// One piece of news: one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// What it is about.
    pub about: About,
    /// Whether somebody may have to look.
    pub is_warning: bool,
    /// What happened, as one word.
    pub reason: &'static str,
    /// What happened, for people. No secrets.
    pub message: String,
}

/// What a piece of news is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// No object of the cluster: the manager as a whole.
    Manager,
    /// A Node.
    Node {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// A Pod, such as the manager's own.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A Secret.
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid; empty if it is not known.
        uid: String,
    },
}

impl About {
    /// That node.
    pub fn node(node: &crate::Node) -> Self {
        Self::Node {
            name: node.name.clone(),
            uid: node.uid.clone(),
        }
    }
}
