//! The lease that managers compete for.

use serde_json::{Value, json};

use super::{Bench, LEASE};

impl Bench {
    /// The spec of the managers' lease; null if there is none.
    pub fn lease(&self) -> Value {
        let lease = self.cluster.lease(LEASE);
        lease.map_or(Value::Null, |lease| lease["spec"].clone())
    }

    /// Who holds the managers' lease; nobody is empty.
    pub fn holder(&self) -> String {
        let spec = self.lease();
        spec["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until somebody else than `before` holds the lease, and says who.
    pub async fn until_held(&self, before: &str) -> String {
        let what = format!("the lease is held by another than {before:?}");
        let is_other = |holder: &str| !holder.is_empty() && holder != before;
        self.until(&what, |it| is_other(&it.holder())).await;
        self.holder()
    }

    /// Makes somebody else the holder of the lease.
    pub async fn give_lease(&self, holder: &str) {
        let now = self.world.clock.now();
        // Kubernetes keeps microseconds, and wants all six digits.
        let now = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let spec = json!({
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3,
            "acquireTime": now, "renewTime": now,
        });
        self.cluster.put_lease(LEASE, &spec).await;
    }
}
