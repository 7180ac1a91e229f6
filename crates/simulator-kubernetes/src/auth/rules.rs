//! What is asked for, and whether one rule of a role allows it.

use serde_json::Value;

use super::super::status::Refusal;

/// What somebody wants to do: to a resource, or to a path if `resource` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, …
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural of the resource: `nodes`.
    pub resource: String,
    /// `status`; empty for the resource itself.
    pub subresource: String,
    /// Namespace; empty at the cluster scope.
    pub namespace: String,
    /// Name of the object; empty if there is none in the request.
    pub name: String,
    /// The path of a request that is about no resource.
    pub path: String,
}

impl Attributes {
    /// An action on a cluster-scoped resource, or on all of them: `get`, `""`, `nodes/status`.
    pub fn resource(verb: &str, group: &str, resource: &str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            ..Self::default()
        }
    }

    /// A request for a path.
    pub fn path(verb: &str, path: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            path: path.to_owned(),
            ..Self::default()
        }
    }

    /// The same in a namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// The same on one object.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// `nodes` or `nodes/status`.
    pub(super) fn combined(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The refusal, in the words of the real server.
    pub(super) fn forbidden(&self, user: &str, reason: &str) -> Refusal {
        let mut what = self.what(user);
        if !reason.is_empty() {
            what = format!("{what}: {reason}");
        }
        self.refuse(&what)
    }

    fn what(&self, user: &str) -> String {
        if self.resource.is_empty() {
            return format!(
                "User \"{user}\" cannot {} path \"{}\"",
                self.verb, self.path
            );
        }
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", self.namespace)
        };
        format!(
            "User \"{user}\" cannot {} resource \"{}\" in API group \"{}\" {place}",
            self.verb,
            self.combined(),
            self.group
        )
    }

    /// 403 about the object of the request.
    pub(super) fn refuse(&self, why: &str) -> Refusal {
        let qualified = if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        };
        let message = match (self.resource.is_empty(), self.name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{qualified} is forbidden: {why}"),
            (false, false) => format!("{qualified} \"{}\" is forbidden: {why}", self.name),
        };
        let mut refusal = Refusal::new(403, "Forbidden", message);
        let told: serde_json::Map<String, Value> = [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.resource),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), Value::from(value.as_str())))
        .collect();
        refusal.details = Value::Object(told);
        refusal.denied = true;
        refusal
    }
}

/// Whether one rule (a `PolicyRule`) allows the action.
pub(super) fn allows(rule: &Value, wanted: &Attributes) -> bool {
    if !has(rule, "verbs", |verb| verb == "*" || verb == wanted.verb) {
        return false;
    }
    if wanted.resource.is_empty() {
        return has(rule, "nonResourceURLs", |url| covers(url, &wanted.path));
    }
    let combined = wanted.combined();
    has(rule, "apiGroups", |group| {
        group == "*" || group == wanted.group
    }) && has(rule, "resources", |resource| {
        resource == "*"
            || resource == combined
            || (!wanted.subresource.is_empty()
                && resource.strip_prefix("*/") == Some(&wanted.subresource))
    }) && names(rule, &wanted.name)
}

fn has(rule: &Value, key: &str, matches: impl Fn(&str) -> bool) -> bool {
    rule[key]
        .as_array()
        .is_some_and(|list| list.iter().filter_map(Value::as_str).any(matches))
}

fn names(rule: &Value, name: &str) -> bool {
    let unrestricted = rule["resourceNames"].as_array().is_none_or(Vec::is_empty);
    unrestricted || has(rule, "resourceNames", |one| one == name)
}

fn covers(url: &str, path: &str) -> bool {
    match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix.trim_end_matches('*')),
        None => url == path,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_allows_what_its_lists_say() {
        let of = |groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]| {
            json!({ "apiGroups": groups, "resources": resources, "resourceNames": names,
                "verbs": verbs })
        };
        let ask = Attributes::resource;
        let rows = [
            (
                of(&[""], &["nodes"], &[], &["get"]),
                ask("get", "", "nodes"),
                true,
            ),
            (
                of(&[""], &["nodes"], &[], &["get"]),
                ask("list", "", "nodes"),
                false,
            ),
            (
                of(&[""], &["nodes"], &[], &["*"]),
                ask("impersonate", "", "nodes"),
                true,
            ),
            (
                of(&[""], &["nodes"], &[], &["*"]),
                ask("get", "", "nodes/status"),
                false,
            ),
            (
                of(&[""], &["nodes/status"], &[], &["*"]),
                ask("get", "", "nodes/status"),
                true,
            ),
            (
                of(&[""], &["nodes/status"], &[], &["*"]),
                ask("get", "", "nodes"),
                false,
            ),
            (
                of(&[""], &["*/status"], &[], &["*"]),
                ask("get", "", "nodes/status"),
                true,
            ),
            (
                of(&[""], &["*/status"], &[], &["*"]),
                ask("get", "", "nodes"),
                false,
            ),
            (
                of(&[""], &["*/status"], &[], &["*"]),
                ask("get", "", "nodes/proxy"),
                false,
            ),
            (
                of(&[""], &["*"], &[], &["*"]),
                ask("get", "", "nodes/status"),
                true,
            ),
            (
                of(&[""], &["*"], &[], &["*"]),
                ask("get", "apps", "deployments"),
                false,
            ),
            (
                of(&["*"], &["*"], &[], &["*"]),
                ask("get", "apps", "deployments"),
                true,
            ),
            (
                of(&["", "apps"], &["pods", "deployments"], &[], &["get"]),
                ask("get", "apps", "deployments"),
                true,
            ),
            (
                of(&[""], &["nodes"], &["a"], &["get"]),
                ask("get", "", "nodes").named("a"),
                true,
            ),
            (
                of(&[""], &["nodes"], &["a"], &["get"]),
                ask("get", "", "nodes").named("b"),
                false,
            ),
            (
                of(&[""], &["nodes"], &["a"], &["*"]),
                ask("list", "", "nodes"),
                false,
            ),
            (
                of(&[""], &["*"], &[], &["*"]),
                Attributes::path("get", "/api"),
                false,
            ),
            (json!({}), ask("get", "", "nodes"), false),
        ];
        for (rule, wanted, expected) in rows {
            assert_eq!(allows(&rule, &wanted), expected, "{rule} {wanted:?}");
        }
    }

    #[test]
    fn a_path_rule_allows_its_paths_and_those_under_a_star() {
        let rows = [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz", false),
            ("/api*", "/apis/apps", true),
            ("*", "/anything", true),
            ("/version/", "/version", false),
        ];
        for (url, path, expected) in rows {
            let rule = json!({ "nonResourceURLs": [url], "verbs": ["get"] });
            assert_eq!(
                allows(&rule, &Attributes::path("get", path)),
                expected,
                "{url} {path}"
            );
            assert!(!allows(&rule, &Attributes::path("post", path)));
            assert!(!allows(&rule, &Attributes::resource("get", "", "nodes")));
        }
    }

    #[test]
    fn refusals_read_like_the_real_servers() {
        let rows = [
            (
                Attributes::resource("list", "", "nodes"),
                "",
                r#"nodes is forbidden: User "x" cannot list resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                Attributes::resource("patch", "", "nodes/status").named("n1"),
                "",
                r#"nodes "n1" is forbidden: User "x" cannot patch resource "nodes/status" in API group "" at the cluster scope"#,
            ),
            (
                Attributes::resource("get", "coordination.k8s.io", "leases")
                    .within("y")
                    .named("l"),
                "",
                r#"leases.coordination.k8s.io "l" is forbidden: User "x" cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "y""#,
            ),
            (
                Attributes::path("get", "/metrics"),
                "",
                r#"forbidden: User "x" cannot get path "/metrics""#,
            ),
            (
                Attributes::resource("list", "", "pods"),
                "RBAC: why",
                r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope: RBAC: why"#,
            ),
        ];
        for (wanted, reason, expected) in rows {
            let refusal = wanted.forbidden("x", reason);
            assert_eq!(refusal.message, expected);
            assert_eq!((refusal.code, refusal.reason), (403, "Forbidden"));
        }
        let refusal = Attributes::resource("get", "g", "things")
            .named("n")
            .forbidden("x", "");
        assert_eq!(
            refusal.details,
            json!({ "name": "n", "group": "g", "kind": "things" })
        );
    }
}
