//! The clean-up after a scenario.

use futures::{StreamExt as _, stream};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};

use crate::mirror::LEASES;
use crate::names::Names;
use crate::objects::NAMESPACE;

/// Deletions at once, in a clean-up.
const REMOVALS: usize = 8;
/// Where the leases of nodes are.
const NODE_LEASES: &str = "kube-node-lease";
/// Where accounts and their roles are.
const SYSTEM: &str = "kube-system";
/// Where the events about nodes are; those about leases are where the leases are.
const NODE_EVENTS: &str = "default";

/// What a scenario leaves on a shared server.
pub(crate) struct Remains {
    pub(super) names: Names,
    pub(super) admin: kube::Client,
}

impl Remains {
    /// Removes it. A scenario that went wrong is told of that, not of this.
    pub(crate) async fn remove(self) {
        let selected = ListParams {
            label_selector: self.names.selector(),
            ..ListParams::default()
        };
        let nodes: Api<Node> = Api::all(self.admin.clone());
        self.remove_all(nodes, &selected).await;
        self.remove_services(&selected).await;
        let slices: Api<EndpointSlice> = Api::namespaced(self.admin.clone(), NAMESPACE);
        self.remove_all(slices, &selected).await;
        let requests: Api<CertificateSigningRequest> = Api::all(self.admin.clone());
        self.remove_all(requests, &selected).await;
        let (all, admin) = (ListParams::default(), &self.admin);
        for namespace in [NODE_LEASES, LEASES] {
            let leases: Api<Lease> = Api::namespaced(admin.clone(), namespace);
            self.remove_all(leases, &all).await;
        }
        for namespace in [NODE_EVENTS, LEASES, NAMESPACE] {
            let events: Api<Event> = Api::namespaced(admin.clone(), namespace);
            self.remove_all(events, &all).await;
        }
        self.remove_all(Api::<ClusterRoleBinding>::all(admin.clone()), &all)
            .await;
        self.remove_all(Api::<ClusterRole>::all(admin.clone()), &all)
            .await;
        self.remove_all(Api::<RoleBinding>::namespaced(admin.clone(), SYSTEM), &all)
            .await;
        self.remove_all(Api::<Role>::namespaced(admin.clone(), SYSTEM), &all)
            .await;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), SYSTEM);
        self.remove_all(accounts, &all).await;
    }

    /// Services, and what holds them: nobody works on them any more.
    async fn remove_services(&self, selected: &ListParams) {
        let services: Api<Service> = Api::all(self.admin.clone());
        let Ok(list) = services.list_metadata(selected).await else {
            return;
        };
        for metadata in list.items.into_iter().map(|it| it.metadata) {
            let (Some(namespace), Some(name)) = (metadata.namespace, metadata.name) else {
                continue;
            };
            let api: Api<Service> = Api::namespaced(self.admin.clone(), &namespace);
            let _ = api.delete(&name, &DeleteParams::default()).await;
            let free = serde_json::json!({ "metadata": { "finalizers": null } });
            let options = PatchParams::default();
            let _ = api.patch(&name, &options, &Patch::Merge(&free)).await;
        }
    }

    async fn remove_all<K>(&self, api: Api<K>, selected: &ListParams)
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let Ok(list) = api.list_metadata(selected).await else {
            return;
        };
        let names = list.items.into_iter().filter_map(|it| it.metadata.name);
        let own = names.filter(|name| self.names.is_own(name));
        let api = &api;
        let remove = |name: String| async move {
            // Gone already is as good.
            let _ = api.delete(&name, &DeleteParams::default()).await;
        };
        stream::iter(own)
            .for_each_concurrent(REMOVALS, remove)
            .await;
    }
}
