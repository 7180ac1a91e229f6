//! What the deployment of the original controller manager may do, row by row, so that tests and the
//! sandbox can run under exactly this.

use bowline_simulator::rbac::{CORE, LEASES, Rule, chart, rule};
use serde_json::Value;

/// The role of Xen Orchestra's chart.
const ROLE: &[Rule] = &[
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

/// The objects of Xen Orchestra's chart, in `kube-system` under its own name.
pub fn manifest() -> Vec<Value> {
    chart("xenorchestra-cloud-controller-manager", ROLE)
}
