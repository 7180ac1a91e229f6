//! Roles of controller managers: what an original may typically do, and what the framework needs.

use bowline_simulator::rbac::{
    CORE, LEASES, RBAC, READ, Rule, binding, cluster_binding, cluster_role, rule, rules,
    service_account,
};
use serde_json::{Value, json};

/// What the framework needs in the whole cluster.
const FRAMEWORK: &[Rule] = &[
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
const FRAMEWORK_IN_SYSTEM: &[Rule] = &[LEASES];

/// What it needs there in addition to work with one service account per controller.
const FRAMEWORK_ACCOUNTS: &[Rule] = &[
    rule(CORE, &["serviceaccounts"], &["get", "create"]),
    rule(CORE, &["serviceaccounts/token"], &["create"]),
];

/// What it needs in the whole cluster in addition to approve serving certificates of kubelets.
/// (The signer is a rule of its own: `system:certificates.k8s.io:kubelet-serving-approver`.)
const FRAMEWORK_REQUESTS: &[Rule] = &[
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

/// The role that the manifest of an original has that looks after nodes and Services.
const ORIGINAL: &[Rule] = &[
    rule(CORE, &["events"], &["create", "patch", "update"]),
    rule(CORE, &["nodes"], &["*"]),
    rule(CORE, &["nodes/status"], &["patch"]),
    rule(
        CORE,
        &["services", "services/status"],
        &["list", "patch", "update", "watch"],
    ),
    rule(CORE, &["serviceaccounts"], &["create"]),
    rule(
        CORE,
        &["endpoints"],
        &["create", "get", "list", "watch", "update"],
    ),
    rule(CORE, &["configmaps"], READ),
    LEASES,
];

/// The objects of such a manifest: account, role, binding. Nothing else: no role for delegated
/// authentication is part of it.
pub fn original() -> Vec<Value> {
    let account = "cloud-controller-manager";
    let role = format!("system:{account}");
    vec![
        service_account(account),
        cluster_role(&role, ORIGINAL),
        cluster_binding(&role, &role, account),
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
            "kind": "Role", "apiVersion": format!("{RBAC}/v1"),
            "metadata": { "namespace": "kube-system", "name": account },
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
