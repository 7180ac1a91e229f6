//! Role-based access control over the stored roles and bindings.

use serde_json::Value;

use super::rules::{Attributes, allows};
use super::{Decision, Objects, User, kind, text};

/// Aggregated roles may select aggregated roles (admin of edit of view); a circle ends here.
const AGGREGATION_DEPTH: u8 = 4;

/// Whether the user's roles allow the action.
pub(super) fn decide(user: &User, wanted: &Attributes, objects: &dyn Objects) -> Decision {
    let mut allowed_by = None;
    let mut missing: Vec<String> = Vec::new();
    visit(user, &wanted.namespace, objects, &mut |found| match found {
        Found::Rule(rule, binding) => {
            if allowed_by.is_none() && allows(rule, wanted) {
                allowed_by = Some(binding.describe());
            }
            allowed_by.is_none()
        }
        Found::MissingRole(error) => {
            if !missing.contains(&error) {
                missing.push(error);
            }
            true
        }
    });
    if let Some(binding) = allowed_by {
        return Decision {
            allowed: true,
            reason: format!("RBAC: allowed by {binding}"),
        };
    }
    let reason = match missing.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    };
    Decision {
        allowed: false,
        reason,
    }
}

/// Every rule that holds for the user in a namespace, cluster-wide ones included.
pub(super) fn rules(user: &User, namespace: &str, objects: &dyn Objects) -> Vec<Value> {
    let mut found = Vec::new();
    visit(user, namespace, objects, &mut |one| {
        if let Found::Rule(rule, _) = one {
            found.push(rule.clone());
        }
        true
    });
    found
}

/// What a walk through the bindings meets.
enum Found<'a> {
    Rule(&'a Value, &'a Grant<'a>),
    MissingRole(String),
}

/// A binding that names the user, by one of its subjects.
struct Grant<'a> {
    binding: &'a Value,
    subject: &'a Value,
    /// Empty for a binding of the whole cluster.
    namespace: &'a str,
}

impl Grant<'_> {
    fn describe(&self) -> String {
        let mut name = text(self.binding, "/metadata/name").to_owned();
        let mut binding = "ClusterRoleBinding";
        if !self.namespace.is_empty() {
            binding = "RoleBinding";
            name = format!("{name}/{}", self.namespace);
        }
        let mut subject = text(self.subject, "/name").to_owned();
        let subject_kind = text(self.subject, "/kind");
        if subject_kind == "ServiceAccount" {
            subject = format!(
                "{subject}/{}",
                account_namespace(self.subject, self.namespace)
            );
        }
        format!(
            "{binding} \"{name}\" of {} \"{}\" to {subject_kind} \"{subject}\"",
            text(self.binding, "/roleRef/kind"),
            text(self.binding, "/roleRef/name"),
        )
    }
}

type Visitor<'v> = dyn FnMut(Found<'_>) -> bool + 'v;

/// Shows the rules of all bindings of the user until the visitor has seen enough.
fn visit(user: &User, namespace: &str, objects: &dyn Objects, seen: &mut Visitor<'_>) {
    let mut more = true;
    objects.visit(kind("ClusterRoleBinding"), None, &mut |binding| {
        more = more && through(user, binding, "", objects, seen);
    });
    if !more || namespace.is_empty() {
        return;
    }
    objects.visit(kind("RoleBinding"), Some(namespace), &mut |binding| {
        more = more && through(user, binding, namespace, objects, seen);
    });
}

/// Shows the rules of one binding, if it names the user; false once the visitor has seen enough.
fn through(
    user: &User,
    binding: &Value,
    namespace: &str,
    objects: &dyn Objects,
    seen: &mut Visitor<'_>,
) -> bool {
    let subjects = binding["subjects"].as_array();
    let Some(subject) = subjects
        .into_iter()
        .flatten()
        .find(|subject| names(subject, user, namespace))
    else {
        return true;
    };
    let grant = Grant {
        binding,
        subject,
        namespace,
    };
    let role = text(binding, "/roleRef/name");
    let (role_kind, place) = match text(binding, "/roleRef/kind") {
        "Role" => (kind("Role"), namespace),
        _ => (kind("ClusterRole"), ""),
    };
    let mut more = true;
    let known = objects.look(role_kind, place, role, &mut |role| {
        rules_of(role, objects, AGGREGATION_DEPTH, &mut |rule| {
            more = more && seen(Found::Rule(rule, &grant));
        });
    });
    if !known {
        return seen(Found::MissingRole(format!(
            "{}.{} \"{role}\" not found",
            role_kind.singular(),
            role_kind.group
        )));
    }
    more
}

/// The rules of a role, gathered ones included.
pub(super) fn all_rules(role: &Value, objects: &dyn Objects) -> Vec<Value> {
    let mut found = Vec::new();
    rules_of(role, objects, AGGREGATION_DEPTH, &mut |rule| {
        found.push(rule.clone());
    });
    found
}

/// Shows the rules of a role. Those of an aggregated role are the rules of the roles its
/// selectors choose: the controller that would copy them does not run here.
fn rules_of(role: &Value, objects: &dyn Objects, depth: u8, each: &mut dyn FnMut(&Value)) {
    for rule in role["rules"].as_array().into_iter().flatten() {
        each(rule);
    }
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    let Some(selectors) = selectors.and_then(Value::as_array).filter(|_| depth > 0) else {
        return;
    };
    objects.visit(kind("ClusterRole"), None, &mut |other| {
        if text(other, "/metadata/name") != text(role, "/metadata/name")
            && selectors.iter().any(|selector| selects(selector, other))
        {
            rules_of(other, objects, depth - 1, each);
        }
    });
}

/// Whether the labels match. Only `matchLabels` is used by anybody, so expressions select nothing.
fn selects(selector: &Value, role: &Value) -> bool {
    let labels = selector["matchLabels"].as_object();
    selector["matchExpressions"].is_null()
        && labels.is_some_and(|labels| {
            !labels.is_empty()
                && labels
                    .iter()
                    .all(|(key, value)| &role["metadata"]["labels"][key] == value)
        })
}

fn names(subject: &Value, user: &User, binding_namespace: &str) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let namespace = account_namespace(subject, binding_namespace);
            user.name
                .strip_prefix("system:serviceaccount:")
                .and_then(|rest| rest.split_once(':'))
                == Some((namespace, name))
        }
        _ => false,
    }
}

fn account_namespace<'a>(subject: &'a Value, binding_namespace: &'a str) -> &'a str {
    match text(subject, "/namespace") {
        "" => binding_namespace,
        namespace => namespace,
    }
}
