//! What the deployment of the original controller manager may do, row by row, so that tests and the
//! sandbox can run under exactly this.

use bowline_simulator::rbac::{APPROVAL, CORE, LEASES, REQUESTS, Rule, SIGNER, chart, rule};
use serde_json::Value;

/// The role of Talos' chart. It may not delete nodes: the account `node-controller`, which the
/// chart's `--use-service-account-credentials` makes, may.
const ROLE: &[Rule] = &[
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

/// The objects of Talos' chart, in `kube-system` under its own name.
pub fn manifest() -> Vec<Value> {
    chart("talos-cloud-controller-manager", ROLE)
}
