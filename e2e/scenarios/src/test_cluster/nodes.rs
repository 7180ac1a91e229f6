//! What becomes of nodes: to be waited for, and to be looked at.

use serde_json::{Value, json};

use super::TestCluster;
use crate::objects::{SHUTDOWN, has_taint, readiness, silent, taints, text};

impl TestCluster {
    /// Waits until that node is initialised, and returns it.
    pub async fn initialized(&self, name: &str) -> Value {
        let what = format!("{name} is initialised");
        self.until(&what, |it| it.is_initialized(name)).await;
        self.node(name)
    }

    /// Waits until that node's Ready condition has this status.
    pub async fn until_ready(&self, name: &str, status: &str) {
        let what = format!("{name} has Ready={status}");
        let is = |it: &Self| it.find(name).is_some_and(|node| readiness(&node) == status);
        self.until(&what, is).await;
    }

    /// Waits until that node has the shutdown taint, or has it no more.
    pub async fn shutdown_taint(&self, name: &str, there: bool) {
        let what = format!("the shutdown taint of {name}: {there}");
        let is = |it: &Self| has_taint(&it.node(name), SHUTDOWN) == there;
        self.until(&what, is).await;
    }

    /// Waits for an event of that reason about that object, and returns its message.
    pub async fn message(&self, name: &str, reason: &str) -> String {
        let what = format!("event {reason} about {name}");
        self.until(&what, |it| it.event_count(name, reason) > 0)
            .await;
        self.messages(name, reason).remove(0)
    }

    /// The messages of the events of that reason about that object.
    pub fn messages(&self, name: &str, reason: &str) -> Vec<String> {
        let events = self.cluster.events(name).into_iter();
        events
            .filter(|event| event["reason"] == reason)
            .map(|event| text(&event["message"]).to_owned())
            .collect()
    }

    /// Puts a Node there whose kubelet is silent: not Ready, and initialised long ago.
    pub async fn silent_node(&self, name: &str, provider_id: Option<&str>) {
        self.put(silent(name, provider_id)).await;
    }

    /// Everything about a Node that a controller could have written.
    pub fn content(&self, name: &str) -> Value {
        let node = self.node(name);
        let mut taints = taints(&node);
        // These follow from conditions and are the node monitor's.
        taints.retain(|taint| !taint.starts_with("node.kubernetes.io/"));
        json!({
            "providerID": node["spec"]["providerID"],
            "labels": node["metadata"]["labels"],
            "annotations": node["metadata"]["annotations"],
            "taints": taints,
            "addresses": node["status"]["addresses"],
        })
    }
}
