//! The roles and bindings that a real API server creates for itself: `roles.yaml`, as objects.
//! `e2e/control-plane/facts` writes their rules and subjects from those of Kubernetes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bowline_simulator::rbac::{RBAC, role_reference};
use serde::Deserialize;
use serde_json::{Value, json};

/// Rules by the names of their roles.
type Roles = BTreeMap<String, Vec<Value>>;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Facts {
    cluster_roles: Roles,
    aggregated: Roles,
    cluster_role_bindings: BTreeMap<String, Vec<Value>>,
    roles: Roles,
    role_bindings: BTreeMap<String, Bound>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bound {
    role: String,
    subjects: Vec<Value>,
}

// The file is ours; a test asks for what must be in it.
static FACTS: LazyLock<Facts> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("roles.yaml")).unwrap_or_default());

/// Which roles are gathered into an aggregated one besides its own.
const NESTED: &[(&str, &str)] = &[("edit", "admin"), ("view", "edit")];

/// What the node authorizer lets a kubelet do.
pub fn node_rules() -> &'static [Value] {
    FACTS
        .cluster_roles
        .get("system:node")
        .map_or(&[], Vec::as_slice)
}

/// An object that the real server keeps up to date itself.
fn object(kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let mut object = json!({
        "kind": kind, "apiVersion": format!("{RBAC}/v1"),
        "metadata": {
            "name": name,
            "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
            "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
        },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

pub(super) fn roles() -> Vec<Value> {
    let role = |kind: &str, namespace: Option<&str>, name: &str, rules: &[Value]| {
        let mut role = object(kind, namespace, name);
        role["rules"] = rules.into();
        role
    };
    let mut roles: Vec<Value> = FACTS
        .cluster_roles
        .iter()
        .map(|(name, rules)| role("ClusterRole", None, name, rules))
        .collect();
    for (target, rules) in &FACTS.aggregated {
        let label = |name: &str| format!("{RBAC}/aggregate-to-{name}");
        let name = format!("system:aggregate-to-{target}");
        let mut part = role("ClusterRole", None, &name, rules);
        part["metadata"]["labels"][label(target)] = json!("true");
        let mut whole = object("ClusterRole", None, target);
        for (_, outer) in NESTED.iter().filter(|(inner, _)| inner == target) {
            whole["metadata"]["labels"][label(outer)] = json!("true");
        }
        whole["aggregationRule"] =
            json!({ "clusterRoleSelectors": [{ "matchLabels": { label(target): "true" } }] });
        whole["rules"] = Value::Null;
        roles.extend([part, whole]);
    }
    let system = FACTS.roles.iter();
    roles.extend(system.map(|(name, rules)| role("Role", Some("kube-system"), name, rules)));
    roles
}

pub(super) fn bindings() -> Vec<Value> {
    let bound = |mut binding: Value, subjects: &[Value]| {
        let mut subjects = subjects.to_vec();
        for subject in &mut subjects {
            if subject["kind"] != "ServiceAccount" {
                subject["apiGroup"] = RBAC.into();
            }
        }
        if !subjects.is_empty() {
            binding["subjects"] = subjects.into();
        }
        binding
    };
    let everywhere = FACTS.cluster_role_bindings.iter().map(|(name, subjects)| {
        let mut binding = object("ClusterRoleBinding", None, name);
        binding["roleRef"] = role_reference("ClusterRole", name);
        bound(binding, subjects)
    });
    let system = FACTS.role_bindings.iter().map(|(name, row)| {
        let mut binding = object("RoleBinding", Some("kube-system"), name);
        binding["roleRef"] = role_reference("Role", &row.role);
        bound(binding, &row.subjects)
    });
    everywhere.chain(system).collect()
}
