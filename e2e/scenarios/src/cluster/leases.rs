//! What managers do outside of nodes: the leases that they compete for, roles that they need, and
//! the servers' own life.
//!
//! On a shared server each scenario has a namespace of its own in the place of `kube-system`, so
//! that the leases can have the names that everybody gives them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;

use super::{
    Api, Back, Cluster, Lease, MOST_CONFLICTS, PostParams, Value, json, kind, kinds, version_of,
};

/// A role that was bound counts once the server's authorizer has seen it: some milliseconds.
const AUTHORIZER: Duration = Duration::from_secs(30);
/// Between looks whether it has.
const LOOK: Duration = Duration::from_millis(50);
/// Under which name roles are applied.
const FIELD_MANAGER: &str = "scenarios";

impl Cluster {
    /// Makes a place for leases, and watches it. Managers can compete from then on.
    pub async fn prepare_elections(&self) {
        let Back::Real(real) = &self.back else {
            return;
        };
        let system = self.names.system();
        let metadata = json!({ "metadata": { "name": system } });
        let namespace: Namespace = serde_json::from_value(metadata).unwrap();
        let api: Api<Namespace> = Api::all(self.admin.clone());
        match api.create(&PostParams::default(), &namespace).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("making namespace {system}: {error}"),
        }
        real.mirror.watch_system(&system).await;
    }

    /// The flag by which managers find the place of the leases; none if it is the usual one.
    pub fn lease_flag(&self) -> Option<String> {
        let system = self.names.system();
        let flag = format!("--leader-elect-resource-namespace={system}");
        self.names.selector().map(|_| flag)
    }

    /// The lease of that name.
    pub fn lease(&self, name: &str) -> Option<Value> {
        match &self.back {
            Back::Memory(cluster) => cluster.api().get(leases(), "kube-system", name),
            Back::Real(real) => real.mirror.lease(name).map(|it| self.names.incoming(it)),
        }
    }

    /// Gives a lease that content, whatever it had before, as somebody else would.
    pub async fn put_lease(&self, name: &str, spec: Value) {
        let metadata = json!({ "namespace": self.names.system(), "name": name });
        let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                            "metadata": metadata, "spec": spec });
        let Back::Real(real) = &self.back else {
            self.simulated().unwrap().install([lease]).unwrap();
            return;
        };
        let lease: Lease = serde_json::from_value(lease).unwrap();
        for _ in 0..MOST_CONFLICTS {
            match self.try_put_lease(name, lease.clone()).await {
                Ok(written) => {
                    let version = version_of(&serde_json::to_value(written).unwrap());
                    return real.mirror.until_lease_seen(name, version).await;
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("writing lease {name}: {error}"),
            }
        }
        panic!("lease {name} changes all the time");
    }

    async fn try_put_lease(&self, name: &str, mut lease: Lease) -> kube::Result<Lease> {
        let system = self.names.system();
        let api: Api<Lease> = Api::namespaced(self.admin.clone(), &system);
        let options = PostParams::default();
        match api.get_opt(name).await? {
            None => api.create(&options, &lease).await,
            Some(before) => {
                lease.metadata.resource_version = before.metadata.resource_version;
                api.replace(name, &options, &lease).await
            }
        }
    }

    /// The events in the place of the leases.
    pub fn lease_events(&self) -> Vec<Value> {
        let all = match &self.back {
            Back::Memory(cluster) => cluster.api().list(kind("Event"), Some("kube-system")),
            Back::Real(real) => real.mirror.system_events(),
        };
        all.into_iter().map(|it| self.names.incoming(it)).collect()
    }

    /// Puts accounts, roles and bindings there, as `kubectl apply` would.
    pub async fn install(&self, objects: impl IntoIterator<Item = Value>) {
        if let Back::Memory(cluster) = &self.back {
            return cluster.install(objects).unwrap();
        }
        for object in objects {
            self.apply(object).await;
        }
    }

    async fn apply(&self, object: Value) {
        let kind = kinds::of_document(&object).unwrap();
        let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let client = self.admin.clone();
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let name = object.metadata.name.clone().unwrap();
        let options = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api.patch(&name, &options, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("applying {name}: {error}"));
    }

    /// Waits until the server lets that account do that in `kube-system`, which a role that was
    /// just bound allows. The resource is `nodes` or `leases.coordination.k8s.io`.
    pub async fn until_allowed(&self, account: &str, verb: &str, resource: &str) {
        if self.simulated().is_some() {
            return;
        }
        let allowed = async {
            while !self.is_allowed(account, verb, resource).await {
                tokio::time::sleep(LOOK).await;
            }
        };
        let waited = tokio::time::timeout(AUTHORIZER, allowed).await;
        waited.unwrap_or_else(|_| panic!("{account} may not {verb} {resource}"));
    }

    async fn is_allowed(&self, account: &str, verb: &str, resource: &str) -> bool {
        use k8s_openapi::api::authorization::v1::SubjectAccessReview;
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let attributes = json!({ "verb": verb, "resource": resource, "group": group,
                                 "namespace": "kube-system" });
        let review = json!({ "spec": { "user": account, "resourceAttributes": attributes } });
        let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
        let api: Api<SubjectAccessReview> = Api::all(self.admin.clone());
        let answer = api.create(&PostParams::default(), &review).await.unwrap();
        answer.status.is_some_and(|status| status.allowed)
    }

    /// Ends the watches of managers, as an API server does now and then.
    pub fn break_watches(&self) {
        match &self.back {
            Back::Memory(cluster) => cluster.api().break_watches(),
            Back::Real(_) => self.world.faults.cut_streams("kubernetes"),
        }
    }

    /// Forgets the history, so that a watch cannot be taken up where it broke. A real server is
    /// restarted for that, and must be the scenario's own.
    pub async fn compact(&self) {
        match &self.back {
            Back::Memory(cluster) => cluster.api().compact(),
            Back::Real(real) => {
                assert!(real.turn.is_some(), "others use this server");
                real.plane.control("compact").await;
                real.plane.control("restart kube-apiserver").await;
            }
        }
    }
}

fn leases() -> &'static kinds::Kind {
    kinds::by_kind("coordination.k8s.io", "v1", "Lease").unwrap()
}
