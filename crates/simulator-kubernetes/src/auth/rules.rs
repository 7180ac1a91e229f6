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
        let reported: serde_json::Map<String, Value> = [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.resource),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), Value::from(value.as_str())))
        .collect();
        refusal.details = Value::Object(reported);
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

    /// Verbs, groups, resources and names, or one of each: `get -,apps pods,deployments a`.
    fn lists(row: &str) -> [Vec<&str>; 4] {
        let mut words = row.split(' ');
        [(); 4].map(|()| match words.next() {
            Some(list) => list.split(',').map(|word| word.trim_matches('-')).collect(),
            None => Vec::new(),
        })
    }

    #[test]
    fn a_rule_allows_what_its_lists_say() {
        let rows = [
            ("get - nodes", "get - nodes", true),
            ("get - nodes", "list - nodes", false),
            ("* - nodes", "impersonate - nodes", true),
            ("* - nodes", "get - nodes/status", false),
            ("* - nodes/status", "get - nodes/status", true),
            ("* - nodes/status", "get - nodes", false),
            ("* - */status", "get - nodes/status", true),
            ("* - */status", "get - nodes", false),
            ("* - */status", "get - nodes/proxy", false),
            ("* - *", "get - nodes/status", true),
            ("* - *", "get apps deployments", false),
            ("* * *", "get apps deployments", true),
            ("get -,apps pods,deployments", "get apps deployments", true),
            ("get - nodes a", "get - nodes a", true),
            ("get - nodes a", "get - nodes b", false),
            ("* - nodes a", "list - nodes", false),
        ];
        for (rule, wanted, expected) in rows {
            let [verbs, groups, resources, names] = lists(rule);
            let policy = json!({ "apiGroups": groups, "resources": resources,
                "resourceNames": names, "verbs": verbs });
            let [verb, group, resource, name] = lists(wanted).map(|list| list.concat());
            let asked = Attributes::resource(&verb, &group, &resource).named(&name);
            assert_eq!(allows(&policy, &asked), expected, "{rule}: {wanted}");
            assert!(!allows(&policy, &Attributes::path("get", "/api")));
            assert!(!allows(&json!({}), &asked));
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
}
