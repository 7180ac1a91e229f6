//! Services. A scenario calls them by their names alone, so it must not use one name in two namespaces.

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Back, Cluster, MOST_CONFLICTS, kind};

impl Cluster {
    /// Creates a Service through the API, and its namespace if need be. Uid and node ports are the
    /// server's choice.
    pub async fn create_service(&self, service: Value) {
        let namespace = service["metadata"]["namespace"].as_str().unwrap();
        self.make_namespace(namespace).await;
        let api: Api<Service> = Api::namespaced(self.admin.clone(), namespace);
        let service = self.names.outgoing_service(service.clone());
        let service = serde_json::from_value(service).unwrap();
        api.create(&PostParams::default(), &service).await.unwrap();
        self.catch_up().await;
    }

    pub(super) async fn make_namespace(&self, name: &str) {
        let namespace: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        let api: Api<Namespace> = Api::all(self.admin.clone());
        match api.create(&PostParams::default(), &namespace).await {
            Ok(_) => {}
            // It stays when a scenario ends: the others are in it too.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("making namespace {name}: {error}"),
        }
    }

    /// Changes a Service, and its status, as somebody else would.
    pub async fn change_service(&self, name: &str, mut change: impl FnMut(&mut Value)) {
        for _ in 0..MOST_CONFLICTS {
            match self.try_service(name, &mut change).await {
                Ok(()) => return self.catch_up().await,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("changing service {name}: {error}"),
            }
        }
        panic!("service {name} changes all the time");
    }

    async fn try_service(
        &self,
        name: &str,
        change: &mut impl FnMut(&mut Value),
    ) -> kube::Result<()> {
        let (api, own) = self.service_api(name);
        let before = serde_json::to_value(api.get(&own).await?).unwrap();
        let mut after = self.names.incoming(before.clone());
        change(&mut after);
        let after = self.names.outgoing_service(after);
        let mut whole = after.clone();
        whole["status"] = before["status"].clone();
        let mut version = before["metadata"]["resourceVersion"].clone();
        if whole != before {
            let whole = serde_json::from_value(whole).unwrap();
            let written = api.replace(&own, &PostParams::default(), &whole).await?;
            version = written.metadata.resource_version.into();
        }
        if after["status"] != before["status"] {
            let mut status = after;
            status["metadata"]["resourceVersion"] = version;
            let status: Service = serde_json::from_value(status).unwrap();
            let options = PostParams::default();
            api.replace_status(&own, &options, &status).await?;
        }
        Ok(())
    }

    /// Changes a Service by a merge patch, as a person would; once more if a fault struck that.
    pub async fn patch_service(&self, name: &str, patch: &Value) {
        let (api, own) = self.service_api(name);
        let (options, merge) = (PatchParams::default(), Patch::Merge(patch));
        for _ in 0..MOST_CONFLICTS {
            match api.patch(&own, &options, &merge).await {
                Ok(_) => return self.catch_up().await,
                Err(kube::Error::Api(status)) if matches!(status.code, 400..=499) => {
                    panic!("patching service {name}: {status:?}")
                }
                Err(_) => {}
            }
        }
        panic!("service {name} cannot be patched");
    }

    /// Deletes a Service as somebody else would: it goes when its finalizers are gone.
    pub async fn delete_service(&self, name: &str) {
        let (api, own) = self.service_api(name);
        api.delete(&own, &DeleteParams::default()).await.unwrap();
        self.catch_up().await;
    }

    /// The Service of that name, if there is one.
    pub fn find_service(&self, name: &str) -> Option<Value> {
        let mut all = self.services().into_iter();
        all.find(|it| it["metadata"]["name"] == name)
    }

    /// All Services of the scenario.
    pub fn services(&self) -> Vec<Value> {
        let all = match &self.back {
            Back::Memory(cluster) => cluster.api().list(kind("Service"), None),
            Back::Real(real) => real.mirror.services(),
        };
        all.into_iter().map(|it| self.names.incoming(it)).collect()
    }

    /// Where that Service is written, and its name there.
    fn service_api(&self, name: &str) -> (Api<Service>, String) {
        let service = self.find_service(name);
        let service = service.unwrap_or_else(|| panic!("there is no service {name}"));
        let namespace = service["metadata"]["namespace"].as_str().unwrap();
        let api = Api::namespaced(self.admin.clone(), namespace);
        (api, self.names.own(name))
    }
}
