//! Nobody hands out rights that they do not have: who writes a role must hold its rights, or be
//! allowed to `escalate` it; who writes a binding must hold the role's rights, or be allowed to `bind` it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::rules::{Attributes, allows};
use super::{Auth, MASTERS, Objects, User, kind, rbac, text, texts};
use crate::kinds::Kind;
use crate::object::list;
use crate::status::Refusal;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Auth {
    /// Refuses a role or binding that would hand out more than the user has.
    pub fn check_grant(
        &self,
        user: &User,
        of: &Kind,
        object: &Value,
        old: Option<&Value>,
        objects: &dyn Objects,
    ) -> Result<(), Refusal> {
        if of.group != GROUP || user.is_in(MASTERS) {
            return Ok(());
        }
        let namespace = text(object, "/metadata/namespace");
        let name = text(object, "/metadata/name");
        if old.is_some_and(|old| only_lets_go(object, old)) {
            return Ok(());
        }
        let refused = |why: &str| {
            let mut refusal = Attributes::resource("", GROUP, of.plural)
                .named(name)
                .refuse(why);
            // The store refuses, not the authorizer.
            refusal.denied = false;
            refusal
        };
        let may = |verb: &str, resource: &str, name: &str| {
            let asked = Attributes::resource(verb, GROUP, resource)
                .within(namespace)
                .named(name);
            self.decide(user, &asked, objects).allowed
        };
        let granted = if matches!(of.kind, "Role" | "ClusterRole") {
            if may("escalate", of.plural, name) {
                return Ok(());
            }
            list(object, "/rules").to_vec()
        } else {
            let role = text(object, "/roleRef/name");
            let role_kind = kind(text(object, "/roleRef/kind"));
            if may("bind", role_kind.plural, role) {
                return Ok(());
            }
            let place = if role_kind.namespaced { namespace } else { "" };
            let found = objects.get(role_kind, place, role);
            let found = found.ok_or_else(|| Refusal::not_found(of, role))?;
            rbac::all_rules(&found, objects)
        };
        let held = rbac::rules(user, namespace, objects);
        let lacking = missing(&granted, &held);
        if !lacking.is_empty() {
            return Err(refused(&format!(
                "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
                user.name,
                quoted(user.groups.iter().map(String::as_str)),
                lacking.join("\n")
            )));
        }
        // Nobody knows which rules an aggregated role will get. (A binding has no such field.)
        let all = [
            json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }),
            json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }),
        ];
        if !object["aggregationRule"].is_null() && !missing(&all, &held).is_empty() {
            return Err(refused(
                "must have cluster-admin privileges to use the aggregationRule",
            ));
        }
        Ok(())
    }
}

/// Whether a write changes nothing but what holds an object back from its deletion.
fn only_lets_go(object: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut rest = object.clone();
        let held = [
            "finalizers",
            "ownerReferences",
            "managedFields",
            "resourceVersion",
        ];
        for field in held {
            rest["metadata"][field] = Value::Null;
        }
        rest
    };
    rest(object) == rest(old)
}

/// What is granted but not held, as text. Verbs on the same object are told together.
fn missing(granted: &[Value], held: &[Value]) -> Vec<String> {
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for rule in granted {
        for (object, asked) in single(rule) {
            for verb in texts(rule, "verbs") {
                let mut asked = asked.clone();
                verb.clone_into(&mut asked.verb);
                if !held.iter().any(|one| allows(one, &asked)) {
                    found.entry(object.clone()).or_default().push(verb);
                }
            }
        }
    }
    found
        .into_iter()
        .map(|(object, verbs)| format!("{{{object}, Verbs:{}}}", quoted(verbs)))
        .collect()
}

/// A rule taken apart: one group, resource and name, or one path, each time.
fn single(rule: &Value) -> Vec<(String, Attributes)> {
    let mut all: Vec<(String, Attributes)> = texts(rule, "nonResourceURLs")
        .into_iter()
        .map(|path| {
            let object = format!("NonResourceURLs:{}", quoted([path]));
            (object, Attributes::path("", path))
        })
        .collect();
    for group in texts(rule, "apiGroups") {
        for resource in texts(rule, "resources") {
            let asked = Attributes::resource("", group, resource);
            let object = format!(
                "APIGroups:{}, Resources:{}",
                quoted([group]),
                quoted([resource])
            );
            let names = texts(rule, "resourceNames");
            if names.is_empty() {
                all.push((object.clone(), asked.clone()));
            }
            for name in names {
                let object = format!("{object}, ResourceNames:{}", quoted([name]));
                all.push((object, asked.clone().named(name)));
            }
        }
    }
    all
}

/// `["a" "b"]`.
fn quoted<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}
