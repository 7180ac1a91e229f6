//! Roles of manifests, as rows: what the accounts of controller managers may do in a cluster.

use serde_json::{Value, json};

/// The API group of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";
/// The group of Nodes, Services, …
pub const CORE: &[&str] = &[""];
/// What a reader does.
pub const READ: &[&str] = &["get", "list", "watch"];
/// Where leases and service accounts of controller managers are.
const SYSTEM: &str = "kube-system";

/// Enough for the election, and no more: no patch, no list, no watch.
pub const LEASES: Rule = rule(
    &["coordination.k8s.io"],
    &["leases"],
    &["get", "create", "update"],
);
/// To see certificate signing requests.
pub const REQUESTS: Rule = rule(
    &["certificates.k8s.io"],
    &["certificatesigningrequests"],
    &["list", "watch"],
);
/// To approve them …
pub const APPROVAL: Rule = rule(
    &["certificates.k8s.io"],
    &["certificatesigningrequests/approval"],
    &["update"],
);
/// … for serving certificates of kubelets.
pub const SIGNER: Rule = named(
    &["kubernetes.io/kubelet-serving"],
    rule(&["certificates.k8s.io"], &["signers"], &["approve"]),
);

/// One rule of a role, as a row.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    names: &'static [&'static str],
    urls: &'static [&'static str],
    verbs: &'static [&'static str],
}

/// Verbs on resources of groups.
pub const fn rule(
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Rule {
    Rule {
        groups,
        resources,
        names: &[],
        urls: &[],
        verbs,
    }
}

/// The same, on objects of these names only.
pub const fn named(names: &'static [&'static str], rule: Rule) -> Rule {
    Rule { names, ..rule }
}

/// Verbs on paths that are no resources.
pub const fn paths(urls: &'static [&'static str], verbs: &'static [&'static str]) -> Rule {
    Rule {
        urls,
        ..rule(&[], &[], verbs)
    }
}

impl Rule {
    /// As a `PolicyRule`.
    pub fn to_value(&self) -> Value {
        let lists = [
            ("apiGroups", self.groups),
            ("nonResourceURLs", self.urls),
            ("resourceNames", self.names),
            ("resources", self.resources),
            ("verbs", self.verbs),
        ];
        let reported = lists.into_iter().filter(|(_, list)| !list.is_empty());
        Value::Object(
            reported
                .map(|(key, list)| (key.to_owned(), json!(list)))
                .collect(),
        )
    }
}

/// The rules of a role.
pub fn rules(rows: &[Rule]) -> Value {
    rows.iter().map(Rule::to_value).collect()
}

pub fn role_reference(kind: &str, name: &str) -> Value {
    json!({ "apiGroup": RBAC, "kind": kind, "name": name })
}

/// What charts of controller managers have: a role, and the right to read how callers are
/// authenticated.
pub fn chart(account: &str, rows: &[Rule]) -> Vec<Value> {
    let role = format!("system:{account}");
    let reader = "extension-apiserver-authentication-reader";
    vec![
        service_account(account),
        cluster_role(&role, rows),
        cluster_binding(&role, &role, account),
        binding(&format!("{role}:{reader}"), reader, account),
    ]
}

/// The objects of a file in `deploy`.
pub fn shipped(text: &str) -> Vec<Value> {
    // The files are the project's own; tests play stories with them.
    serde_saphyr::from_multiple(text).unwrap_or_default()
}

/// A service account of `kube-system`.
pub fn service_account(name: &str) -> Value {
    json!({
        "kind": "ServiceAccount", "apiVersion": "v1",
        "metadata": { "namespace": SYSTEM, "name": name },
    })
}

/// A role in the whole cluster.
pub fn cluster_role(name: &str, rows: &[Rule]) -> Value {
    json!({
        "kind": "ClusterRole", "apiVersion": format!("{RBAC}/v1"),
        "metadata": { "name": name }, "rules": rules(rows),
    })
}

fn subjects(account: &str) -> Value {
    json!([{ "kind": "ServiceAccount", "namespace": SYSTEM, "name": account }])
}

/// Gives an account that role in the whole cluster.
pub fn cluster_binding(name: &str, role: &str, account: &str) -> Value {
    json!({
        "kind": "ClusterRoleBinding", "apiVersion": format!("{RBAC}/v1"),
        "metadata": { "name": name },
        "roleRef": role_reference("ClusterRole", role),
        "subjects": subjects(account),
    })
}

/// Gives an account that role in `kube-system`.
pub fn binding(name: &str, role: &str, account: &str) -> Value {
    json!({
        "kind": "RoleBinding", "apiVersion": format!("{RBAC}/v1"),
        "metadata": { "namespace": SYSTEM, "name": name },
        "roleRef": role_reference("Role", role),
        "subjects": subjects(account),
    })
}
