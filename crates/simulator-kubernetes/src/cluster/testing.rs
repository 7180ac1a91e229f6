//! What the tests of this crate ask of a cluster.

use serde_json::Value;

use super::Cluster;
use crate::auth::{Auth, kind};

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
