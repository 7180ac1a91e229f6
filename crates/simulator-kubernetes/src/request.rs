//! What a request asks for: its path and query, taken apart the way the API server does.

use http::{Method, Uri};
use percent_encoding::percent_decode_str;

use super::auth::Attributes;
use super::kinds::{self, Kind};

/// The parameters of a request, decoded, in order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query of an address.
    pub fn of(uri: &Uri) -> Self {
        let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first value of a parameter; empty if it is missing.
    pub fn get(&self, name: &str) -> &str {
        self.maybe(name).unwrap_or_default()
    }

    /// The first value of a parameter.
    pub fn maybe(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// A switch: whatever is neither `false` nor `0` is on.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.maybe(name)
            .map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
    }
}

/// A request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub group: String,
    pub version: String,
    /// Plural as in the path.
    pub plural: String,
    /// Namespace or empty.
    pub namespace: String,
    /// Name or empty.
    pub name: String,
    /// Sub-resource or empty.
    pub subresource: String,
    /// Whether the path is of the old `/watch/` form.
    pub old_watch: bool,
    /// Whether there is more after the sub-resource.
    pub deeper: bool,
}

impl Target {
    /// Takes a path apart; none if it names no resource.
    pub fn of(path: &str) -> Option<Self> {
        let decoded: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let (group, version, mut rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let mut target = Self {
            group: group.to_owned(),
            version: version.to_owned(),
            ..Self::default()
        };
        if let ["watch", after @ ..] = rest {
            target.old_watch = true;
            rest = after;
        }
        if let ["namespaces", namespace, after @ ..] = rest {
            (*namespace).clone_into(&mut target.namespace);
            if !matches!(after, [] | ["status" | "finalize", ..]) {
                rest = after;
            }
        }
        (*rest.first()?).clone_into(&mut target.plural);
        let part = |index: usize| rest.get(index).copied().unwrap_or_default();
        part(1).clone_into(&mut target.name);
        part(2).clone_into(&mut target.subresource);
        target.deeper = rest.len() > 3;
        Some(target)
    }

    /// The served kind.
    pub fn kind(&self) -> Option<&'static Kind> {
        kinds::by_path(&self.group, &self.version, &self.plural)
    }

    /// Whether the group and version are served at all.
    pub fn group_is_served(&self) -> bool {
        kinds::KINDS
            .iter()
            .any(|kind| kind.group == self.group && kind.version == self.version)
    }

    /// Whether the group is served in some version.
    pub fn group_is_known(&self) -> bool {
        kinds::KINDS.iter().any(|kind| kind.group == self.group)
    }

    /// The verb, as authorization names it.
    pub fn verb(&self, method: &Method, query: &Query) -> &'static str {
        match (method.as_str(), self.name.is_empty()) {
            ("GET" | "HEAD", _) if self.old_watch => "watch",
            ("GET" | "HEAD", false) => "get",
            ("GET" | "HEAD", true) if query.flag("watch") == Some(true) => "watch",
            ("GET" | "HEAD", true) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", false) => "delete",
            ("DELETE", true) => "deletecollection",
            _ => "",
        }
    }

    /// What authorization asks about. `selected` is the name a field selector asks for.
    pub fn attributes(&self, verb: &str, path: &str, selected: Option<&str>) -> Attributes {
        let name = match selected {
            Some(name) if self.name.is_empty() => name.to_owned(),
            _ => self.name.clone(),
        };
        Attributes {
            verb: verb.to_owned(),
            group: self.group.clone(),
            resource: self.plural.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name,
            path: path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let rows = [
            ("/api/v1/nodes", "||nodes||"),
            ("/api/v1/nodes/a", "||nodes|a|"),
            ("/api/v1/nodes/a/status", "||nodes|a|status"),
            ("/api/v1/namespaces", "||namespaces||"),
            ("/api/v1/namespaces/x", "|x|namespaces|x|"),
            ("/api/v1/namespaces/x/finalize", "|x|namespaces|x|finalize"),
            ("/api/v1/namespaces/x/pods/p", "|x|pods|p|"),
            (
                "/apis/coordination.k8s.io/v1/namespaces/x/leases",
                "coordination.k8s.io|x|leases||",
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "rbac.authorization.k8s.io||clusterroles|system:node|",
            ),
            ("/api/v1/watch/namespaces/x/pods", "|x|pods||"),
        ];
        for (path, expected) in rows {
            let target = Target::of(path).unwrap();
            let Target {
                group,
                namespace,
                plural,
                name,
                subresource,
                ..
            } = target;
            assert_eq!(
                format!("{group}|{namespace}|{plural}|{name}|{subresource}"),
                expected
            );
        }
        for path in ["/", "/api", "/api/v1", "/apis/apps/v1", "/healthz"] {
            assert_eq!(Target::of(path), None, "{path}");
        }
    }

    #[test]
    fn verbs_follow_method_name_and_query() {
        let rows = [
            ("GET", "/api/v1/nodes", "list"),
            ("GET", "/api/v1/nodes?watch=true", "watch"),
            ("GET", "/api/v1/nodes?watch=0", "list"),
            ("GET", "/api/v1/nodes/a?watch=1", "get"),
            ("GET", "/api/v1/watch/nodes/a", "watch"),
            ("DELETE", "/api/v1/nodes", "deletecollection"),
            ("DELETE", "/api/v1/nodes/a", "delete"),
            ("PATCH", "/api/v1/nodes/a", "patch"),
        ];
        for (method, uri, verb) in rows {
            let uri: Uri = uri.parse().unwrap();
            let target = Target::of(uri.path()).unwrap();
            let method: Method = method.parse().unwrap();
            assert_eq!(target.verb(&method, &Query::of(&uri)), verb, "{uri}");
        }
    }
}
