//! Events that a cloud raises by itself. A provider has no Kubernetes client; the manager writes them.

use crate::Node;

/// One event that a provider raises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderEvent {
    /// What it is about.
    pub regarding: Regarding,
    /// Whether it is something to worry about.
    pub is_warning: bool,
    /// The reason of the event.
    pub reason: &'static str,
    /// Its message. No secrets.
    pub message: String,
    /// What makes it an event of `events.k8s.io`; none: it is one of the core API.
    pub series: Option<EventSeries>,
}

/// An event that is counted when it happens again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSeries {
    /// The name of the event: the same for what is the same.
    pub name: String,
    /// Which controller manager raises it, and which process of it.
    pub reporter: (String, String),
    /// What was tried, as one word.
    pub action: &'static str,
}

impl ProviderEvent {
    /// Something to worry about.
    pub fn warning(regarding: Regarding, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_warning: true,
            ..Self::normal(regarding, reason, message)
        }
    }

    /// Something good.
    pub fn normal(regarding: Regarding, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            regarding,
            is_warning: false,
            reason,
            message: message.into(),
            series: None,
        }
    }
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regarding {
    /// Its namespace, which is the event's too.
    pub namespace: String,
    /// Its kind, of the core API.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its uid; empty if it has none.
    pub uid: String,
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
