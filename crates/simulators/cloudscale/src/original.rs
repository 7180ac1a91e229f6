//! What the deployment of the original controller manager may do, row by row, so that tests and the
//! sandbox can run under exactly this.

use bowline_simulator::rbac::{
    CORE, LEASES, READ, Rule, cluster_binding, cluster_role, rule, service_account,
};
use serde_json::Value;

/// The role `system:cloud-controller-manager` of cloudscale.ch's manifest.
const ROLE: &[Rule] = &[
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

/// The objects of cloudscale.ch's manifest: account, role, binding. Nothing else: no role for
/// delegated authentication is part of it.
pub fn manifest() -> Vec<Value> {
    let name = "system:cloud-controller-manager";
    let account = "cloud-controller-manager";
    vec![
        service_account(account),
        cluster_role(name, ROLE),
        cluster_binding(name, name, account),
    ]
}
