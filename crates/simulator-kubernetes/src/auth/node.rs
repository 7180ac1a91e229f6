//! What a kubelet may do: its own Node, its own Lease, and what its pods need.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::bootstrap::node_rules;
use super::super::kinds::Kind;
use super::super::object::list;
use super::super::status::Refusal;
use super::rules::{Attributes, allows};
use super::{Auth, Decision, Objects, User, kind, text};

const NODES: &str = "system:nodes";
const PREFIX: &str = "system:node:";
/// Where the heartbeats of nodes are.
const LEASES: &str = "kube-node-lease";

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
    let allowed = node_rules().iter().any(|rule| allows(rule, wanted));
    Decision {
        allowed,
        reason: String::new(),
    }
}

/// Some resources are open to a node only where they concern it.
fn own_only(node: &str, wanted: &Attributes, objects: &dyn Objects) -> Result<(), String> {
    let reading = matches!(wanted.verb.as_str(), "get" | "list" | "watch");
    match (wanted.group.as_str(), wanted.resource.as_str()) {
        ("", "nodes") if reading && wanted.name.is_empty() => Err(format!(
            "node '{node}' cannot read all nodes, only its own Node object"
        )),
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
        ("", "secrets" | "configmaps") if wanted.name.is_empty() => {
            Err("No Object name found".to_owned())
        }
        ("", "secrets" | "configmaps") if !runs_pod_in(node, &wanted.namespace, objects) => Err(
            format!("no relationship found between node '{node}' and this object"),
        ),
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

/// Labels of Kubernetes' own domains that a kubelet may set.
const OWN_LABELS: [&str; 12] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Domains whose labels are the kubelet's.
const OWN_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The domain whose labels are not.
const RESTRICTED: &str = "node-restriction.kubernetes.io";

fn is_within(domain: &str, outer: &str) -> bool {
    domain == outer || domain.ends_with(&format!(".{outer}"))
}

fn may_label(label: &str) -> bool {
    let (domain, _) = label.split_once('/').unwrap_or(("", label));
    let kubernetes = ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|outer| is_within(domain, outer));
    let own =
        OWN_LABELS.contains(&label) || OWN_DOMAINS.iter().any(|outer| is_within(domain, outer));
    !is_within(domain, RESTRICTED) && (!kubernetes || own)
}

/// The labels that differ and that a kubelet may not touch.
fn foreign_labels(object: &Value, old: Option<&Value>) -> Vec<String> {
    let labels = |object: &Value| object["metadata"]["labels"].as_object().cloned();
    let now = labels(object).unwrap_or_default();
    let before = old.and_then(labels).unwrap_or_default();
    let keys: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    keys.into_iter()
        .filter(|key| now.get(*key) != before.get(*key) && !may_label(key))
        .cloned()
        .collect()
}

impl Auth {
    /// Refuses what a kubelet may not write, whatever the rules say, as an admission step of the
    /// real server does.
    pub fn restrict_node(
        &self,
        user: &User,
        of: &Kind,
        subresource: &str,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let Some(node) = node_of(user) else {
            return Ok(());
        };
        let name = text(old.unwrap_or(object), "/metadata/name");
        let refuse = |why: String| {
            let message = format!("{} {name:?} is forbidden: {why}", of.qualified());
            Err(Refusal::new(403, "Forbidden", message).about(of, name))
        };
        match of.kind {
            "Lease" if name != node => refuse(
                "can only access node lease with the same name as the requesting node".into(),
            ),
            "Node" if name != node => refuse(format!(
                "node {node:?} is not allowed to modify node {name:?}"
            )),
            "Node" if subresource.is_empty() => {
                let labels = foreign_labels(object, old).join(", ");
                match old {
                    None if !labels.is_empty() => refuse(format!(
                        "node {node:?} is not allowed to set the following labels: {labels}"
                    )),
                    Some(_) if !labels.is_empty() => {
                        refuse(format!("is not allowed to modify labels: {labels}"))
                    }
                    Some(old) if list(old, "/spec/taints") != list(object, "/spec/taints") => {
                        refuse(format!("node {node:?} is not allowed to modify taints"))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}
