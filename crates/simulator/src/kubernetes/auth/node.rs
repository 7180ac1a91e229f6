//! What a kubelet may do: its own Node, its own Lease, and what its pods need.

use std::sync::LazyLock;

use serde_json::Value;

use super::super::bootstrap::{NODE_RULES, Rule};
use super::super::status::Refusal;
use super::rules::{Attributes, allows};
use super::{Decision, Objects, User, kind, text};

const NODES: &str = "system:nodes";
const PREFIX: &str = "system:node:";
/// Where the heartbeats of nodes are.
const LEASES: &str = "kube-node-lease";

/// The rules in the form in which rules are asked; every kubelet's every call passes here.
static RULES: LazyLock<Vec<Value>> =
    LazyLock::new(|| NODE_RULES.iter().map(Rule::to_value).collect());

/// The node a user speaks for.
fn node_of(user: &User) -> Option<&str> {
    user.name
        .strip_prefix(PREFIX)
        .filter(|name| !name.is_empty() && user.is_in(NODES))
}

/// The node authorizer's opinion; none about anybody who is no node.
pub(super) fn decide(user: &User, wanted: &Attributes, objects: &dyn Objects) -> Decision {
    let no = |reason: String| Decision {
        allowed: false,
        reason,
    };
    let Some(node) = node_of(user) else {
        return no(String::new());
    };
    if let Err(reason) = own_only(node, wanted, objects) {
        return no(reason);
    }
    let allowed = RULES.iter().any(|rule| allows(rule, wanted));
    Decision {
        allowed,
        reason: String::new(),
    }
}

/// Some resources are open to a node only where they concern it.
fn own_only(node: &str, wanted: &Attributes, objects: &dyn Objects) -> Result<(), String> {
    let reading = matches!(wanted.verb.as_str(), "get" | "list" | "watch");
    match (wanted.group.as_str(), wanted.resource.as_str()) {
        ("", "nodes") if reading && wanted.name != node => Err(format!(
            "node '{node}' cannot read '{}', only its own Node object",
            wanted.name
        )),
        ("coordination.k8s.io", "leases") if wanted.namespace != LEASES => Err(format!(
            "can only access leases in the \"{LEASES}\" system namespace"
        )),
        ("coordination.k8s.io", "leases") if wanted.verb != "create" && wanted.name != node => {
            Err("can only access node lease with the same name as the requesting node".to_owned())
        }
        ("", "secrets" | "configmaps")
            if wanted.name.is_empty() || !runs_pod_in(node, &wanted.namespace, objects) =>
        {
            Err(format!(
                "no relationship found between node '{node}' and this object"
            ))
        }
        _ => Ok(()),
    }
}

/// Whether a pod of that namespace is bound to the node. The real server asks further which
/// objects the pod names; here its namespace is enough.
fn runs_pod_in(node: &str, namespace: &str, objects: &dyn Objects) -> bool {
    let mut found = false;
    objects.visit(kind("Pod"), Some(namespace), &mut |pod| {
        found = found || text(pod, "/spec/nodeName") == node;
    });
    found
}

/// What node restriction (an admission step of the real server) refuses beyond the rules: writes
/// to other nodes. A create carries no name here, so the created object is not looked at.
pub(super) fn restrict(user: &User, wanted: &Attributes) -> Result<(), Refusal> {
    let writes = matches!(wanted.verb.as_str(), "update" | "patch" | "delete");
    match node_of(user) {
        Some(node)
            if writes
                && wanted.group.is_empty()
                && wanted.resource == "nodes"
                && wanted.name != node =>
        {
            Err(wanted.refuse(&format!(
                "node \"{node}\" is not allowed to modify node \"{}\"",
                wanted.name
            )))
        }
        _ => Ok(()),
    }
}
