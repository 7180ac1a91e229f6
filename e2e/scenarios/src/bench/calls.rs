//! Who leads, and who called what: for scenarios of several managers.

use bowline_simulator::journal::{Entry, Filter};
use serde_json::{Value, json};

use super::Bench;

/// The lease of managers, where nobody gives it another name.
pub const LEASE: &str = "cloud-controller-manager";
/// How often the lease that a scenario gives to others has changed hands before.
const TRANSITIONS: u64 = 3;

impl Bench {
    /// The content of a lease; null if there is none.
    pub fn lease(&self, name: &str) -> Value {
        let lease = self.cluster.lease(name);
        lease.map_or(Value::Null, |lease| lease["spec"].clone())
    }

    /// Who holds a lease; empty if nobody does.
    pub fn holder(&self, name: &str) -> String {
        let spec = self.lease(name);
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        holder.to_owned()
    }

    /// Waits until somebody else than `before` holds the lease, and says who.
    pub async fn until_held(&self, lease: &str, before: &str) -> String {
        let what = format!("{lease} is held by another than {before:?}");
        let held = |bench: &Self| {
            let holder = bench.holder(lease);
            !holder.is_empty() && holder != before
        };
        self.until(&what, held).await;
        self.holder(lease)
    }

    /// Makes somebody else the holder of the lease.
    pub async fn give_lease(&self, lease: &str, holder: &str) {
        // As precise as Kubernetes keeps it.
        let now = self.world.clock.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
        let now = now.to_string();
        let spec = json!({
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": TRANSITIONS,
            "acquireTime": now, "renewTime": now,
        });
        self.cluster.put_lease(lease, &spec).await;
    }

    /// All events of a reason, about nodes and leases.
    pub fn events_of(&self, reason: &str) -> Vec<Value> {
        let all = self.cluster.all_events().into_iter();
        all.filter(|event| event["reason"] == reason).collect()
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
