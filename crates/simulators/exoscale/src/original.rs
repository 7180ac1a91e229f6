//! What the deployment of the original controller manager may do, row by row, so that tests and the
//! sandbox can run under exactly this.

use bowline_simulator::rbac::{
    APPROVAL, CORE, LEASES, READ, REQUESTS, Rule, SIGNER, cluster_binding, cluster_role, rule,
    service_account,
};
use serde_json::{Value, json};

/// The role `system:cloud-controller-manager` of Exoscale's manifest.
const ROLE: &[Rule] = &[
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

/// The objects of Exoscale's manifest: account, role, binding.
pub fn manifest() -> Vec<Value> {
    let name = "system:cloud-controller-manager";
    let account = "cloud-controller-manager";
    let mut role = cluster_role(name, ROLE);
    role["metadata"]["annotations"] =
        json!({ "rbac.authorization.kubernetes.io/autoupdate": "true" });
    vec![
        service_account(account),
        role,
        cluster_binding(name, name, account),
    ]
}
