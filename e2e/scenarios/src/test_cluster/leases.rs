//! The leases that managers compete for.

use serde_json::{Value, json};

use super::TestCluster;

/// How often the lease that a scenario gives to others has changed hands before.
const TRANSITIONS: u64 = 3;

impl TestCluster {
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
}
