//! Requests for certificates.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{Back, Cluster, kind};
use crate::certificates::Ask;

/// The kind.
pub(crate) const REQUEST: &str = "CertificateSigningRequest";

impl Cluster {
    /// Makes a request through the API, as its kubelet would.
    pub async fn ask(&self, ask: &Ask) {
        let user = ask.user(&self.names);
        let config = self.user(&user, &["system:nodes"]).await;
        if let Back::Memory(cluster) = &self.back {
            // A real server's authorizer knows what kubelets may.
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": { "name": "kubelets" },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                             "name": "system:node-bootstrapper" },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
                               "name": "system:nodes" }],
            });
            cluster.install([binding]).unwrap();
        }
        let object = serde_json::from_value(ask.object(&self.names)).unwrap();
        let api: Api<CertificateSigningRequest> = Api::all(self.client(config));
        api.create(&PostParams::default(), &object).await.unwrap();
        self.catch_up().await;
    }

    /// Stores a request as it is, past the rules of the API: admission lets no kubelet ask for
    /// another node.
    pub async fn put_request(&self, ask: &Ask) {
        let mut object = ask.object(&self.names);
        match &self.back {
            Back::Memory(cluster) => {
                cluster.api().put(kind(REQUEST), object);
            }
            Back::Real(real) => {
                let name = self.names.own(&ask.name);
                object["metadata"]["uid"] = self.world.random.uuid().into();
                let now = self.world.clock.now().as_second();
                let now = jiff::Timestamp::from_second(now).unwrap();
                object["metadata"]["creationTimestamp"] = now.to_string().into();
                let key = format!("/registry/certificatesigningrequests/{name}");
                real.plane.store(&key, &object).await;
                real.mirror.until_requested(&name).await;
            }
        }
    }

    /// The request of that name, if there is one.
    pub fn find_request(&self, name: &str) -> Option<Value> {
        let found = match &self.back {
            Back::Memory(cluster) => cluster.api().get(kind(REQUEST), "", name),
            Back::Real(real) => real.mirror.request(&self.names.own(name)),
        };
        found.map(|it| self.names.incoming(it))
    }

    /// Starts what signs approved requests, and nothing else of kube-controller-manager; whether
    /// there is such a thing. In memory nobody signs.
    pub async fn sign(&self) -> bool {
        let Some(plane) = self.plane() else {
            return false;
        };
        plane.start_signer().await;
        true
    }
}
