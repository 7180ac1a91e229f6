//! What the manager called.

use bowline_simulator::journal::{Entry, Filter};

use super::{MANAGER, TestCluster};

impl TestCluster {
    /// The journal. On a real server only what managers called is in it.
    pub fn entries(&self) -> Vec<Entry> {
        let entries = self.world.journal.entries().into_iter();
        entries.map(|it| self.cluster.names().entry(it)).collect()
    }

    /// The manager's calls about that node (calls that a fault struck have no caller).
    pub fn calls(&self, name: &str) -> Vec<Entry> {
        let path = format!("/api/v1/nodes/{name}");
        let status = format!("{path}/status");
        let entries = self.entries().into_iter();
        let meant = |it: &Entry| it.path == path || it.path == status;
        let ours = |it: &Entry| it.caller == MANAGER || it.caller.is_empty();
        entries.filter(|it| meant(it) && ours(it)).collect()
    }

    /// The manager's writes of that node, also those that failed.
    pub fn writes(&self, name: &str) -> Vec<Entry> {
        self.calls(name)
            .into_iter()
            .filter(Entry::is_mutating)
            .collect()
    }

    /// Its writes as `METHOD path -> status`, the path from the node's name on.
    pub fn written(&self, name: &str) -> Vec<String> {
        let writes = self.writes(name).into_iter();
        writes
            .map(|it| {
                let path = it.path.trim_start_matches("/api/v1/nodes/").to_owned();
                format!("{} {path} -> {}", it.method, it.status)
            })
            .collect()
    }

    /// The manager's deletions of that node, also those that failed.
    pub fn deletions(&self, name: &str) -> Vec<Entry> {
        self.writes(name)
            .into_iter()
            .filter(|it| it.method == "DELETE")
            .collect()
    }

    /// All writes of nodes by the manager.
    pub fn node_writes(&self) -> Vec<String> {
        let entries = self.entries().into_iter();
        entries
            .filter(|it| it.caller == MANAGER && it.is_mutating())
            .filter(|it| it.path.starts_with("/api/v1/nodes/"))
            .map(|it| format!("{} {} {} {}", it.time, it.method, it.path, it.body))
            .collect()
    }

    /// All calls by the manager that are no watch and no health check.
    pub fn all_calls(&self) -> Vec<String> {
        let entries = self.entries().into_iter();
        entries
            .filter(|it| it.caller == MANAGER && !it.query.contains("watch="))
            .filter(|it| it.path != "/healthz")
            .map(|it| format!("{} {}", it.method, it.path))
            .collect()
    }

    /// The calls that are meant, oldest first.
    pub fn matching(&self, filter: &Filter) -> Vec<Entry> {
        let entries = self.entries().into_iter();
        entries.filter(|it| filter.matches(it)).collect()
    }

    /// How many calls are meant.
    pub fn count(&self, filter: &Filter) -> usize {
        self.matching(filter).len()
    }

    /// Waits for a call, and gives the last one.
    pub async fn until_called(&self, what: &str, filter: &Filter) -> Entry {
        self.until(what, |bench| bench.count(filter) > 0).await;
        self.matching(filter).pop().unwrap()
    }

    /// The calls of that manager, from that entry of the journal on.
    pub fn calls_of(&self, name: &str, from: usize) -> Vec<Entry> {
        let all = self.entries().into_iter().skip(from);
        all.filter(|call| call.caller == name).collect()
    }

    /// How many calls the journal holds.
    pub fn mark(&self) -> usize {
        self.world.journal.entries().len()
    }

    /// The journal from that entry on.
    pub fn transcript_from(&self, mark: usize) -> String {
        let lines = self.world.journal.transcript();
        lines.lines().skip(mark).collect::<Vec<_>>().join("\n")
    }
}
