//! Discovery: what is served, in the words of old and new clients, and the server's version.

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{
    kinds::{KINDS, Kind, Role},
    openapi, store,
};

const JSON: &str = "application/json";

/// The Kubernetes minor version that the server behaves like.
const MINOR: &str = "36";

/// The oldest minor version that other parts of the cluster may behave like.
const COMPATIBLE_MINOR: &str = "35";

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
        "emulationMajor": "1", "emulationMinor": MINOR,
        "minCompatibilityMajor": "1", "minCompatibilityMinor": COMPATIBLE_MINOR,
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

/// Whether the list of groups can be written in a form that the client accepts.
pub fn is_acceptable(accept: &str) -> bool {
    let others = ["application/yaml", super::protobuf::MEDIA_TYPE];
    let readable = |range: &str| {
        media_range(range).is_some() || others.iter().any(|one| range.trim().starts_with(one))
    };
    accept.trim().is_empty() || accept.split(',').any(readable)
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
        // Namespaces cannot be deleted as a collection.
        Role::Stored if kind.kind == "Namespace" => &[
            "create", "delete", "get", "list", "patch", "update", "watch",
        ],
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
        let mut document = json!({
            "kind": "APIResourceList", "groupVersion": name, "resources": resources,
        });
        // The oldest group says so in the oldest way.
        if !group.is_empty() {
            document["apiVersion"] = "v1".into();
        }
        document
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
        "name": kind.plural, "singularName": kind.singular(), "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": verbs(kind),
    });
    extras(&mut entry, kind);
    if kind.role == Role::Stored {
        entry["storageVersionHash"] = storage_version_hash(kind).into();
    }
    entry
}

/// A short name for the form in which objects of a kind are stored.
fn storage_version_hash(kind: &Kind) -> String {
    let (group, _) = store::resource(kind);
    let form = format!("{group}/{}/{}", kind.version, kind.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, form.as_bytes());
    STANDARD.encode(&digest.as_ref()[..8])
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
        "resource": kind.plural, "singularResource": kind.singular(),
        "responseKind": body("", kind.kind), "verbs": verbs(kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
    });
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    extras(&mut entry, kind);
    entry
}
