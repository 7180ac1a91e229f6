//! Who calls the API server.

use bowline_simulator_kubernetes::auth::User;
use serde_json::json;

use super::{Back, Cluster};

impl Cluster {
    /// A manager that may do everything; `name` is its name in the journal.
    pub async fn manager(&self, name: &str) -> kube::Config {
        match &self.back {
            Back::Memory(cluster) => {
                let user = User::new(name, &["system:masters"]);
                cluster.config_of(user).unwrap()
            }
            Back::Real(real) => {
                let config = real.plane.manager().await;
                real.journaled(self, config, name)
            }
        }
    }

    /// A user in those groups, whose calls are in the journal.
    pub async fn user(&self, name: &str, groups: &[&str]) -> kube::Config {
        match &self.back {
            Back::Memory(cluster) => cluster.config_of(User::new(name, groups)).unwrap(),
            Back::Real(real) => {
                let config = real.plane.user(name, groups).await;
                real.journaled(self, config, name)
            }
        }
    }

    /// A service account without rights, whose calls are in the journal under its full name.
    pub async fn account(&self, namespace: &str, name: &str) -> kube::Config {
        match &self.back {
            Back::Memory(cluster) => {
                let metadata = json!({ "namespace": namespace, "name": name });
                let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
                                      "metadata": metadata });
                cluster.install([account]).unwrap();
                let token = cluster.account_token(namespace, name).unwrap();
                cluster.config_with(&token).unwrap()
            }
            Back::Real(real) => {
                let config = real.plane.account(namespace, name).await;
                let caller = format!("system:serviceaccount:{namespace}:{name}");
                real.journaled(self, config, &caller)
            }
        }
    }
}
