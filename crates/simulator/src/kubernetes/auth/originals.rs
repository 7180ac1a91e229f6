//! The roles that deployments of the original controller managers carry, row by row, so that
//! tests and the sandbox can run under exactly these.

use serde_json::{Value, json};

use super::super::bootstrap::{Rule, named, role_reference, rule, rules};

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
    LEASES,
];

/// The role `system:cloud-controller-manager` of Exoscale's manifest.
pub const EXOSCALE: &[Rule] = &[
    LEASES,
    rule(CORE, &["events"], &["create", "patch", "update"]),
    rule(CORE, &["nodes"], &["*"]),
    rule(CORE, &["nodes/status"], &["patch"]),
    rule(CORE, &["services"], &["list", "patch", "update", "watch"]),
    rule(
        CORE,
        &["services/status"],
        &["list", "patch", "update", "watch"],
    ),
    rule(CORE, &["configmaps"], READ),
    rule(CORE, &["serviceaccounts"], &["create"]),
    rule(
        CORE,
        &["endpoints"],
        &["create", "get", "list", "watch", "update"],
    ),
    REQUESTS,
    APPROVAL,
    SIGNER,
];

/// The role of Talos' chart. It may not delete nodes: the account `node-controller`, which the
/// chart's `--use-service-account-credentials` makes, may.
pub const TALOS: &[Rule] = &[
    LEASES,
    rule(CORE, &["events"], &["create", "patch", "update"]),
    rule(
        CORE,
        &["nodes"],
        &["get", "list", "watch", "update", "patch"],
    ),
    rule(CORE, &["nodes/status"], &["patch"]),
    rule(CORE, &["serviceaccounts"], &["create", "get"]),
    rule(CORE, &["serviceaccounts/token"], &["create"]),
    REQUESTS,
    APPROVAL,
    SIGNER,
];

/// The role of Xen Orchestra's chart.
pub const XENORCHESTRA: &[Rule] = &[
    LEASES,
    rule(CORE, &["events"], &["create", "patch", "update"]),
    rule(
        &["events.k8s.io"],
        &["events"],
        &["get", "create", "update"],
    ),
    rule(
        CORE,
        &["nodes"],
        &["get", "list", "watch", "update", "patch", "delete"],
    ),
    rule(CORE, &["nodes/status"], &["patch"]),
    rule(CORE, &["serviceaccounts"], &["get", "create"]),
    rule(CORE, &["serviceaccounts/token"], &["create"]),
];

/// Enough for the election, and no more: no patch, no list, no watch.
const LEASES: Rule = rule(
    &["coordination.k8s.io"],
    &["leases"],
    &["get", "create", "update"],
);
const REQUESTS: Rule = rule(
    &["certificates.k8s.io"],
    &["certificatesigningrequests"],
    &["list", "watch"],
);
const APPROVAL: Rule = rule(
    &["certificates.k8s.io"],
    &["certificatesigningrequests/approval"],
    &["update"],
);
const SIGNER: Rule = named(
    &["kubernetes.io/kubelet-serving"],
    rule(&["certificates.k8s.io"], &["signers"], &["approve"]),
);

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
pub const FRAMEWORK_IN_SYSTEM: &[Rule] = &[LEASES];

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

/// The objects of Exoscale's manifest: account, role, binding.
pub fn exoscale() -> Vec<Value> {
    let name = "system:cloud-controller-manager";
    let account = "cloud-controller-manager";
    let mut role = cluster_role(name, EXOSCALE);
    role["metadata"]["annotations"] =
        json!({ "rbac.authorization.kubernetes.io/autoupdate": "true" });
    vec![
        service_account(account),
        role,
        cluster_binding(name, name, account),
    ]
}

/// The objects of Talos' chart, in `kube-system` under its own name.
pub fn talos() -> Vec<Value> {
    chart("talos-cloud-controller-manager", TALOS)
}

/// The objects of Xen Orchestra's chart, in `kube-system` under its own name.
pub fn xenorchestra() -> Vec<Value> {
    chart("xenorchestra-cloud-controller-manager", XENORCHESTRA)
}

/// What both charts have: a role, and the right to read how callers are authenticated.
fn chart(account: &str, rows: &[Rule]) -> Vec<Value> {
    let role = format!("system:{account}");
    let reader = "extension-apiserver-authentication-reader";
    vec![
        service_account(account),
        cluster_role(&role, rows),
        cluster_binding(&role, &role, account),
        binding(&format!("{role}:{reader}"), reader, account),
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
