//! Leases of managers.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{Back, Cluster, MOST_CONFLICTS, kind};
use crate::mirror::LEASES;

impl Cluster {
    /// The lease of that name in `kube-system`, if there is one.
    pub fn lease(&self, name: &str) -> Option<Value> {
        let found = match &self.back {
            Back::Memory(cluster) => cluster.api().get(kind("Lease"), LEASES, name),
            Back::Real(real) => real.mirror.lease(&self.names.own(name)),
        };
        found.map(|lease| self.names.incoming(lease))
    }

    /// Writes a lease in `kube-system` as somebody else would, whoever has it.
    pub async fn put_lease(&self, name: &str, spec: &Value) {
        let own = self.names.own(name);
        let lease = json!({
            "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
            "metadata": { "namespace": LEASES, "name": own }, "spec": spec,
        });
        if let Back::Memory(cluster) = &self.back {
            cluster.install([lease]).unwrap();
            return;
        }
        let lease: Lease = serde_json::from_value(lease).unwrap();
        let api: Api<Lease> = Api::namespaced(self.admin.clone(), LEASES);
        for _ in 0..MOST_CONFLICTS {
            let mut lease = lease.clone();
            let written = match api.get_opt(&own).await.unwrap() {
                Some(there) => {
                    lease.metadata.resource_version = there.metadata.resource_version;
                    api.replace(&own, &PostParams::default(), &lease).await
                }
                None => api.create(&PostParams::default(), &lease).await,
            };
            match written {
                Ok(_) => return self.catch_up().await,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("writing lease {name}: {error}"),
            }
        }
        panic!("lease {name} changes all the time");
    }
}
