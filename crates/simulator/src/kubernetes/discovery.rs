//! Discovery: what is served, in the words of old and new clients, and the server's version.

use serde_json::{Map, Value, json};

use super::{
    kinds::{KINDS, Kind, Role},
    openapi,
};

const JSON: &str = "application/json";

/// The Kubernetes minor version that the server behaves like.
const MINOR: &str = "36";

/// Answers a GET of a discovery path with a content type and a body; `None` if it is not one.
///
/// `/openapi/v2` is not JSON: [`openapi::version_2`].
pub fn answer(path: &str, accept: &str) -> Option<(String, Value)> {
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let plain = |value: Value| Some((JSON.to_owned(), value));
    match parts.as_slice() {
        [""] => plain(paths()),
        ["version"] => plain(version()),
        ["api"] => Some(either(accept, api_versions, str::is_empty)),
        ["apis"] => Some(either(accept, group_list, |group| !group.is_empty())),
        ["api", version] => plain(resource_list("", version)?),
        ["apis", group] => plain(group_document(group)?),
        ["apis", group, version] => plain(resource_list(group, version)?),
        ["openapi", "v3"] => plain(openapi::index()),
        ["openapi", "v3", "api", version] => plain(openapi::document("", version)?),
        ["openapi", "v3", "apis", group, version] => plain(openapi::document(group, version)?),
        _ => None,
    }
}

/// What can be asked for, at `/`.
fn paths() -> Value {
    let mut paths: Vec<String> = ["/api", "/apis", "/healthz", "/livez", "/readyz", "/version"]
        .map(str::to_owned)
        .into();
    paths.extend(["/openapi/v2", "/openapi/v3"].map(str::to_owned));
    for (group, version) in group_versions() {
        match group {
            "" => paths.push(format!("/api/{version}")),
            group => paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{version}")]),
        }
    }
    paths.sort();
    paths.dedup();
    json!({ "paths": paths })
}

fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": format!("v1.{MINOR}.0+bowline"),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}

/// The forms of the group list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One document with all resources, of this API version.
    Aggregated(&'static str),
    /// Group names only; resources are asked for one by one.
    Plain,
}

/// The best form that the client accepts: by quality, then in its order.
fn negotiate(accept: &str) -> Form {
    let mut ranges: Vec<(f32, Form)> = accept.split(',').filter_map(media_range).collect();
    ranges.sort_by(|left, right| right.0.total_cmp(&left.0));
    ranges.first().map_or(Form::Plain, |(_, form)| *form)
}

fn media_range(text: &str) -> Option<(f32, Form)> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next()?;
    if !matches!(media, "*/*" | "application/*" | JSON) {
        return None;
    }
    let (mut quality, mut group, mut version, mut kind) = (1.0, "", "", "");
    for part in parts {
        match part.split_once('=')? {
            ("q", value) => quality = value.parse().ok()?,
            ("g", value) => group = value,
            ("v", value) => version = value,
            ("as", value) => kind = value,
            _ => {}
        }
    }
    let form = match (group, version, kind) {
        ("", "", "") => Form::Plain,
        ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") => Form::Aggregated("v2"),
        ("apidiscovery.k8s.io", "v2beta1", "APIGroupDiscoveryList") => Form::Aggregated("v2beta1"),
        _ => return None,
    };
    (quality > 0.0).then_some((quality, form))
}

fn either(accept: &str, plain: fn() -> Value, wanted: fn(&str) -> bool) -> (String, Value) {
    match negotiate(accept) {
        Form::Plain => (JSON.to_owned(), plain()),
        Form::Aggregated(version) => (
            format!("{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"),
            aggregated(version, wanted),
        ),
    }
}

/// Groups with their versions, in the order of the table.
pub(super) fn group_versions() -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for kind in KINDS {
        if !found.contains(&(kind.group, kind.version)) {
            found.push((kind.group, kind.version));
        }
    }
    found
}

fn kinds_of(group: &str, version: &str) -> impl Iterator<Item = &'static Kind> {
    KINDS
        .iter()
        .filter(move |kind| kind.group == group && kind.version == version)
}

fn api_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "" }],
    })
}

fn group_entry(group: &str) -> Value {
    let versions: Vec<Value> = group_versions()
        .iter()
        .filter(|(name, _)| *name == group)
        .map(|(_, version)| json!({ "groupVersion": format!("{group}/{version}"), "version": version }))
        .collect();
    json!({ "name": group, "preferredVersion": versions.first(), "versions": versions })
}

fn group_list() -> Value {
    let groups: Vec<Value> = group_versions()
        .iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, _)| group_entry(group))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn group_document(group: &str) -> Option<Value> {
    if group.is_empty() || !group_versions().iter().any(|(name, _)| *name == group) {
        return None;
    }
    let mut document = group_entry(group);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

/// What can be done with a resource.
fn verbs(kind: &Kind) -> &'static [&'static str] {
    match kind.role {
        Role::Review => &["create"],
        Role::Stored => &[
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
    }
}

/// A sub-resource: its body's group, version and kind, and its verbs.
pub(super) struct SubResource {
    /// Group of the body, empty if it is the resource's own.
    pub(super) group: &'static str,
    /// Kind of the body.
    pub(super) kind: &'static str,
    /// What can be done with it.
    pub(super) verbs: &'static [&'static str],
}

pub(super) fn subresource(kind: &Kind, name: &str) -> SubResource {
    let (group, body, verbs): (_, _, &[&str]) = match name {
        "binding" => ("", "Binding", &["create"]),
        "eviction" => ("policy", "Eviction", &["create"]),
        "token" => ("authentication.k8s.io", "TokenRequest", &["create"]),
        "finalize" => ("", kind.kind, &["update"]),
        _ => ("", kind.kind, &["get", "patch", "update"]),
    };
    SubResource {
        group,
        kind: body,
        verbs,
    }
}

fn resource_list(group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for kind in kinds_of(group, version) {
        resources.push(resource(kind));
        for name in kind.subresources {
            let sub = subresource(kind, name);
            let mut entry = json!({
                "name": format!("{}/{name}", kind.plural), "singularName": "",
                "namespaced": kind.namespaced, "kind": sub.kind, "verbs": sub.verbs,
            });
            if !sub.group.is_empty() {
                entry["group"] = sub.group.into();
                entry["version"] = "v1".into();
            }
            resources.push(entry);
        }
    }
    let name = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    (!resources.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name,
            "resources": resources,
        })
    })
}

/// Adds what only some resources have.
fn extras(entry: &mut Value, kind: &Kind) {
    if !kind.short.is_empty() {
        entry["shortNames"] = json!(kind.short);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
}

fn resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": verbs(kind),
    });
    extras(&mut entry, kind);
    entry
}

fn aggregated(version: &str, wanted: fn(&str) -> bool) -> Value {
    let items: Vec<Value> = group_versions()
        .iter()
        .filter(|(group, _)| wanted(group))
        .map(|(group, version)| {
            let mut metadata = Map::new();
            if !group.is_empty() {
                metadata.insert("name".to_owned(), (*group).into());
            }
            let resources: Vec<Value> = kinds_of(group, version).map(aggregated_resource).collect();
            json!({
                "metadata": metadata,
                "versions": [{
                    "version": version, "resources": resources, "freshness": "Current",
                }],
            })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    })
}

fn aggregated_resource(kind: &'static Kind) -> Value {
    let body = |group: &str, name: &str| {
        let version = if group.is_empty() { "" } else { "v1" };
        json!({ "group": group, "version": version, "kind": name })
    };
    let subresources: Vec<Value> = kind
        .subresources
        .iter()
        .map(|name| {
            let sub = subresource(kind, name);
            json!({
                "subresource": name, "responseKind": body(sub.group, sub.kind),
                "verbs": sub.verbs,
            })
        })
        .collect();
    let mut entry = json!({
        "resource": kind.plural, "singularResource": kind.singular,
        "responseKind": body("", kind.kind), "verbs": verbs(kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
    });
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    extras(&mut entry, kind);
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `kubectl` sends.
    const KUBECTL: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

    fn body(path: &str) -> Value {
        answer(path, JSON).unwrap_or_else(|| panic!("{path}")).1
    }

    #[test]
    fn the_accepted_form_of_best_quality_is_chosen() {
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        for (accept, form) in [
            (KUBECTL, Form::Aggregated("v2")),
            (beta, Form::Aggregated("v2beta1")),
            ("application/json", Form::Plain),
            ("*/*", Form::Plain),
            ("", Form::Plain),
            ("application/vnd.kubernetes.protobuf", Form::Plain),
            (&format!("{beta};q=0.5,application/json;q=0.9"), Form::Plain),
            (
                &format!("application/json;q=0.5, {beta};q=0.9"),
                Form::Aggregated("v2beta1"),
            ),
            (&format!("{beta};q=0,application/json;q=0.1"), Form::Plain),
            (
                "application/json;g=x;v=v9;as=Y,application/json",
                Form::Plain,
            ),
        ] {
            assert_eq!(negotiate(accept), form, "{accept}");
        }
    }

    #[test]
    fn aggregated_discovery_lists_everything_with_its_content_type() {
        for version in ["v2", "v2beta1"] {
            let wanted = format!(
                "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            );
            let mut count = 0;
            for path in ["/api", "/apis"] {
                let (content, list) = answer(path, &wanted).unwrap();
                assert_eq!(content, wanted);
                assert_eq!(list["apiVersion"], format!("apidiscovery.k8s.io/{version}"));
                for group in list["items"].as_array().unwrap() {
                    count += group["versions"][0]["resources"].as_array().unwrap().len();
                }
            }
            assert_eq!(count, KINDS.len());
        }
        let (_, core) = answer("/api", KUBECTL).unwrap();
        let nodes = core["items"][0]["versions"][0]["resources"]
            .as_array()
            .unwrap();
        let nodes = nodes.iter().find(|r| r["resource"] == "nodes").unwrap();
        assert_eq!(
            *nodes,
            json!({
                "resource": "nodes", "singularResource": "node", "scope": "Cluster", "shortNames": ["no"],
                "responseKind": { "group": "", "version": "", "kind": "Node" },
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                "subresources": [{ "subresource": "status", "verbs": ["get", "patch", "update"],
                                   "responseKind": { "group": "", "version": "", "kind": "Node" } }],
            })
        );
    }

    #[test]
    fn old_discovery_names_groups_then_resources() {
        assert_eq!(body("/api")["versions"], json!(["v1"]));
        let groups = body("/apis");
        for group in groups["groups"].as_array().unwrap() {
            let name = group["name"].as_str().unwrap();
            let document = body(&format!("/apis/{name}"));
            assert_eq!(document["kind"], "APIGroup");
            assert_eq!(document["preferredVersion"], group["preferredVersion"]);
            let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
            assert_eq!(body(&format!("/apis/{version}"))["groupVersion"], version);
        }
        let core = body("/api/v1");
        let find = |name: &str| {
            let mut resources = core["resources"].as_array().unwrap().iter();
            resources
                .find(|resource| resource["name"] == name)
                .unwrap()
                .clone()
        };
        assert_eq!(find("services")["categories"], json!(["all"]));
        assert_eq!(find("namespaces/finalize")["verbs"], json!(["update"]));
        assert_eq!(
            find("serviceaccounts/token"),
            json!({ "name": "serviceaccounts/token", "singularName": "", "namespaced": true,
                    "group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest", "verbs": ["create"] })
        );
        let reviews = body("/apis/authentication.k8s.io/v1");
        assert_eq!(reviews["resources"][0]["verbs"], json!(["create"]));
    }

    #[test]
    fn paths_that_are_not_discovery_have_no_answer() {
        for path in [
            "/api/v2",
            "/apis/apps",
            "/apis/apps/v1",
            "/api/v1/nodes",
            "/openapi/v2",
            "/openapi/v3/apis/apps/v1",
            "/apis/coordination.k8s.io/v2",
            "/healthz",
        ] {
            assert!(answer(path, JSON).is_none(), "{path}");
        }
        assert_eq!(body("/version")["minor"], "36");
        let paths = body("/")["paths"].clone();
        assert!(
            paths
                .as_array()
                .unwrap()
                .contains(&json!("/apis/discovery.k8s.io/v1"))
        );
        assert_eq!(body("/api/v1/"), body("/api/v1?timeout=32s"));
    }
}
