//! The roles that deployments of the original controller managers carry, row by row, so that
//! tests and the sandbox can run under exactly these.

use serde_json::{Value, json};

use super::super::bootstrap::{Rule, role_reference, rule, rules};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const CORE: &[&str] = &[""];
const READ: &[&str] = &["get", "list", "watch"];
/// Where the lease and the service accounts are.
const SYSTEM: &str = "kube-system";

/// The role `system:cloud-controller-manager` of cloudscale.ch's manifest.
pub const CLOUDSCALE: &[Rule] = &[
    rule(CORE, &["events"], &["create", "patch", "update"]),
    rule(CORE, &["nodes"], &["*"]),
    rule(CORE, &["nodes/status"], &["patch"]),
    rule(CORE, &["services"], &["list", "patch", "update", "watch"]),
    rule(
        CORE,
        &["services/status"],
        &["list", "patch", "update", "watch"],
    ),
    rule(CORE, &["serviceaccounts"], &["create"]),
    rule(
        CORE,
        &["persistentvolumes"],
        &["get", "list", "update", "watch"],
    ),
    rule(
        CORE,
        &["endpoints"],
        &["create", "get", "list", "watch", "update"],
    ),
    rule(CORE, &["configmaps"], READ),
    rule(
        &["coordination.k8s.io"],
        &["leases"],
        &["get", "create", "update"],
    ),
];

/// What the framework needs in the whole cluster.
pub const FRAMEWORK: &[Rule] = &[
    rule(
        CORE,
        &["nodes"],
        &["get", "list", "watch", "update", "patch", "delete"],
    ),
    rule(CORE, &["nodes/status"], &["patch"]),
    rule(CORE, &["services"], READ),
    rule(CORE, &["services/status"], &["patch", "update"]),
    rule(CORE, &["events"], &["create", "patch", "update"]),
    rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
    rule(
        &["authorization.k8s.io"],
        &["subjectaccessreviews"],
        &["create"],
    ),
];

/// What the framework needs where its lease is.
pub const FRAMEWORK_IN_SYSTEM: &[Rule] = &[rule(
    &["coordination.k8s.io"],
    &["leases"],
    &["get", "create", "update"],
)];

/// What it needs there in addition to work with one service account per controller.
pub const FRAMEWORK_ACCOUNTS: &[Rule] = &[
    rule(CORE, &["serviceaccounts"], &["get", "create"]),
    rule(CORE, &["serviceaccounts/token"], &["create"]),
];

/// What it needs in the whole cluster in addition to approve serving certificates of kubelets.
/// (The signer is a rule of its own: `system:certificates.k8s.io:kubelet-serving-approver`.)
pub const FRAMEWORK_REQUESTS: &[Rule] = &[
    rule(
        &["certificates.k8s.io"],
        &["certificatesigningrequests"],
        READ,
    ),
    rule(
        &["certificates.k8s.io"],
        &["certificatesigningrequests/approval"],
        &["update"],
    ),
];

/// The objects of cloudscale.ch's manifest: account, role, binding. Nothing else: no role for
/// delegated authentication is part of it.
pub fn cloudscale() -> Vec<Value> {
    let name = "system:cloud-controller-manager";
    let account = "cloud-controller-manager";
    vec![
        service_account(account),
        cluster_role(name, CLOUDSCALE),
        cluster_binding(name, name, account),
    ]
}

/// The objects for the framework's needs, for a service account of `kube-system`.
///
/// With `accounts` the rules for one service account per controller are included.
pub fn framework(account: &str, accounts: bool) -> Vec<Value> {
    let mut in_system = FRAMEWORK_IN_SYSTEM.to_vec();
    if accounts {
        in_system.extend_from_slice(FRAMEWORK_ACCOUNTS);
    }
    let cluster = [FRAMEWORK, FRAMEWORK_REQUESTS].concat();
    let approver = "system:certificates.k8s.io:kubelet-serving-approver";
    vec![
        service_account(account),
        cluster_role(account, &cluster),
        cluster_binding(account, account, account),
        cluster_binding(&format!("{account}:approver"), approver, account),
        json!({
            "kind": "Role", "apiVersion": RBAC,
            "metadata": { "namespace": SYSTEM, "name": account },
            "rules": rules(&in_system),
        }),
        binding(account, account, account),
        binding(
            &format!("{account}:authentication-reader"),
            "extension-apiserver-authentication-reader",
            account,
        ),
    ]
}

fn service_account(name: &str) -> Value {
    json!({
        "kind": "ServiceAccount", "apiVersion": "v1",
        "metadata": { "namespace": SYSTEM, "name": name },
    })
}

fn cluster_role(name: &str, rows: &[Rule]) -> Value {
    json!({
        "kind": "ClusterRole", "apiVersion": RBAC,
        "metadata": { "name": name }, "rules": rules(rows),
    })
}

fn subjects(account: &str) -> Value {
    json!([{ "kind": "ServiceAccount", "namespace": SYSTEM, "name": account }])
}

fn cluster_binding(name: &str, role: &str, account: &str) -> Value {
    json!({
        "kind": "ClusterRoleBinding", "apiVersion": RBAC,
        "metadata": { "name": name },
        "roleRef": role_reference("ClusterRole", role),
        "subjects": subjects(account),
    })
}

fn binding(name: &str, role: &str, account: &str) -> Value {
    json!({
        "kind": "RoleBinding", "apiVersion": RBAC,
        "metadata": { "namespace": SYSTEM, "name": name },
        "roleRef": role_reference("Role", role),
        "subjects": subjects(account),
    })
}
