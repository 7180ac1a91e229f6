//! What the tests of this crate ask of a cluster.

use std::time::Duration;

use bowline_simulator::KubeletSpec;
use serde_json::Value;

use super::Cluster;
use crate::auth::{Auth, kind};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Waits until the condition holds, at most an hour of simulated time.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(HOUR, wait)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen"));
}

pub(crate) fn kubelet(name: &str) -> KubeletSpec {
    KubeletSpec {
        node_name: name.to_owned(),
        machine_id: format!("demo://{name}"),
        system_uuid: "4c4c4544-0042-3510-8051-b4c04f4d5731".to_owned(),
        ..KubeletSpec::default()
    }
}

impl Cluster {
    pub(crate) fn auth(&self) -> &Auth {
        &self.auth
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.api.get(kind("Node"), "", name)
    }

    pub(crate) fn lease(&self, name: &str) -> Option<Value> {
        self.api.get(kind("Lease"), "kube-node-lease", name)
    }

    pub(crate) fn delete_node(&self, name: &str) {
        assert!(self.api.delete(kind("Node"), "", name));
    }

    /// Changes a Node as somebody else would.
    pub(crate) fn change_node(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = self.node(name).unwrap();
        change(&mut node);
        self.api.put(kind("Node"), node);
    }

    /// Method, path, status and caller of every call so far that is no watch.
    pub(crate) fn calls(&self) -> Vec<(String, String, u16, String)> {
        let entries = self.world.journal.entries().into_iter();
        entries
            .filter(|entry| !entry.query.contains("watch="))
            .map(|entry| (entry.method, entry.path, entry.status, entry.caller))
            .collect()
    }
}
