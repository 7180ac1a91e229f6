//! Accounts with rights: the objects of a manifest, under the scenario's own names.

pub mod used;

use std::time::Duration;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::names::Names;

/// Where the accounts of managers are.
const SYSTEM: &str = "kube-system";
/// A role that was made counts once the server's authorizer has seen it: some milliseconds.
const AUTHORIZER: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// An account and how it calls.
pub struct Granted {
    /// Through the journal.
    pub config: kube::Config,
    /// Its name in the journal.
    pub user: String,
}

impl Cluster {
    /// Installs the objects of a manifest and gives the configuration of its account. On a shared
    /// server the roles, bindings, accounts and the leases that they name get the scenario's names.
    pub async fn grant(&self, account: &str, objects: &[Value]) -> Granted {
        let names = self.names();
        let own: Vec<Value> = objects
            .iter()
            .map(|it| renamed(names, objects, it))
            .collect();
        let account = names.own(account);
        let user = format!("system:serviceaccount:{SYSTEM}:{account}");
        if let Some(cluster) = self.simulated() {
            cluster.install(own).unwrap();
        } else {
            for object in own {
                apply(self.admin(), object).await;
            }
            until_allowed(self.admin(), &user, "watch", "", "nodes").await;
            until_allowed(
                self.admin(),
                &user,
                "create",
                "coordination.k8s.io",
                "leases",
            )
            .await;
        }
        let config = self.account(SYSTEM, &account).await;
        Granted { config, user }
    }
}

fn renamed(names: &Names, all: &[Value], object: &Value) -> Value {
    let mut object = object.clone();
    let own = |value: &mut Value| {
        if let Some(name) = value.as_str() {
            *value = names.own(name).into();
        }
    };
    // A role of the server itself keeps its name.
    let is_ours = |role: &Value| {
        let mut roles = all.iter().filter(|it| it.get("rules").is_some());
        roles.any(|it| it["metadata"]["name"] == *role)
    };
    object.pointer_mut("/metadata/name").map(own);
    object
        .pointer_mut("/roleRef/name")
        .filter(|role| is_ours(role))
        .map(own);
    for subject in list(&mut object, "subjects") {
        subject.get_mut("name").map(own);
    }
    for rule in list(&mut object, "rules") {
        if rule["resources"] == json!(["leases"]) {
            list(rule, "resourceNames").for_each(own);
        }
    }
    object
}

/// The items of a list, if there is one.
fn list<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    let items = object.get_mut(field).and_then(Value::as_array_mut);
    items.into_iter().flatten()
}

/// Makes an object what it is here, whatever it was.
pub async fn apply(client: Client, object: Value) {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (version, kind) = (text("/apiVersion"), text("/kind"));
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        "" => Api::all_with(client, &kind),
        namespace => Api::namespaced_with(client, namespace, &kind),
    };
    let parameters = PatchParams::apply("scenarios").force();
    let applied = api
        .patch(text("/metadata/name"), &parameters, &Patch::Apply(&object))
        .await;
    applied.unwrap_or_else(|error| panic!("applying {object}: {error}"));
}

/// Waits until a user of `kube-system`'s accounts has that right; resources of the core group are
/// meant in the whole cluster.
pub async fn until_allowed(client: Client, user: &str, verb: &str, group: &str, resource: &str) {
    let namespace = if group.is_empty() { "" } else { SYSTEM };
    let review: SubjectAccessReview = serde_json::from_value(json!({ "spec": {
        "user": user,
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "namespace": namespace,
        },
    }}))
    .unwrap();
    let api: Api<SubjectAccessReview> = Api::all(client);
    let allowed = async {
        loop {
            let answer = api.create(&PostParams::default(), &review).await.unwrap();
            if answer.status.is_some_and(|status| status.allowed) {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let waited = tokio::time::timeout(AUTHORIZER, allowed).await;
    waited.unwrap_or_else(|_| panic!("{user} may not {verb} {resource}"));
}
