//! The rules about `metadata` that hold for every kind.

use serde_json::{Value, json};

use super::names;
use super::problem::Problem;
use crate::kinds::Kind;
use crate::object::text;

/// All annotations of an object together, keys and values.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// What a kind's names must look like.
fn name_faults(kind: &Kind, name: &str) -> Vec<String> {
    match (kind.group, kind.kind) {
        ("", "Namespace") => names::label_without_dots(name),
        // The newest of the server's checks counts differently.
        ("", "Service") => names::label(name)
            .into_iter()
            .map(|fault| fault.replace(" bytes", " characters"))
            .collect(),
        ("rbac.authorization.k8s.io" | "certificates.k8s.io", _) | ("", "Event") => {
            names::path_segment(name)
        }
        _ => names::subdomain(name),
    }
}

/// Checks the metadata of any object.
pub fn validate(kind: &Kind, object: &Value) -> Vec<Problem> {
    let metadata = &object["metadata"];
    let mut problems = Vec::new();
    let prefix = text(metadata, "/generateName");
    if !prefix.is_empty() {
        // What follows the prefix will be plain letters, so a dash at its end is fine.
        let example = format!("{}x", prefix.trim_end_matches('-'));
        let faults = name_faults(kind, &example);
        problems.extend(Problem::faults("metadata.generateName", prefix, faults));
    }
    let name = text(metadata, "/name");
    if name.is_empty() {
        let detail = "name or generateName is required";
        problems.push(Problem::required("metadata.name", detail));
    } else {
        problems.extend(Problem::faults(
            "metadata.name",
            name,
            name_faults(kind, name),
        ));
    }
    if kind.namespaced && text(metadata, "/namespace").is_empty() {
        problems.push(Problem::required("metadata.namespace", ""));
    }
    if !kind.namespaced && !text(metadata, "/namespace").is_empty() {
        let detail = "not allowed on this type";
        problems.push(Problem::forbidden("metadata.namespace", detail));
    }
    problems.extend(validate_maps(metadata));
    problems.extend(validate_owners(metadata));
    problems.extend(validate_finalizers(metadata));
    problems
}

/// Checks labels and annotations.
fn validate_maps(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in entries(&metadata["labels"]) {
        let field = "metadata.labels";
        problems.extend(Problem::faults(field, key, names::qualified_name(key)));
        problems.extend(Problem::faults(field, value, names::label_value(value)));
    }
    let mut size = 0;
    for (key, value) in entries(&metadata["annotations"]) {
        size += key.len() + value.len();
        let faults = names::qualified_name(&key.to_lowercase());
        problems.extend(Problem::faults("metadata.annotations", key, faults));
    }
    if size > ANNOTATIONS_LIMIT {
        problems.push(Problem::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
    problems
}

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

fn validate_finalizers(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for finalizer in strings(&metadata["finalizers"]) {
        let faults = names::qualified_name(finalizer);
        problems.extend(Problem::faults("metadata.finalizers", finalizer, faults));
    }
    for (index, finalizer) in strings(&metadata["finalizers"]).enumerate() {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            let field = format!("metadata.finalizers[{index}]");
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            problems.push(Problem::invalid(&field, &json!(finalizer), detail));
        }
    }
    problems
}

fn validate_owners(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let owners = metadata["ownerReferences"].as_array();
    for owner in owners.into_iter().flatten() {
        // The server does not tell which one.
        let at = |field: &str| format!("metadata.ownerReferences.{field}");
        let rows = [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ];
        for (field, detail) in rows {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                problems.push(Problem::invalid(&at(field), &json!(""), detail));
            }
        }
    }
    problems
}

/// Fields of the metadata that no write can change.
const FIXED: [&str; 6] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Carries over what an update may leave out, before it is checked.
pub fn prepare_update(object: &mut Value, old: &Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    let before = &old["metadata"];
    let missing = |value: Option<&Value>| {
        value.is_none_or(|value| value.is_null() || value.as_str() == Some(""))
    };
    for field in ["uid", "deletionGracePeriodSeconds"] {
        if missing(metadata.get(field)) && !before[field].is_null() {
            metadata.insert(field.to_owned(), before[field].clone());
        }
    }
    for field in ["generation", "creationTimestamp", "deletionTimestamp"] {
        if !before[field].is_null() {
            metadata.insert(field.to_owned(), before[field].clone());
        } else if field == "generation" {
            metadata.remove(field);
        }
    }
    metadata.remove("selfLink");
}

pub fn validate_update(object: &Value, old: &Value) -> Vec<Problem> {
    let (new, before) = (&object["metadata"], &old["metadata"]);
    let mut problems = Vec::new();
    if !before["deletionTimestamp"].is_null() {
        let known: Vec<&str> = strings(&before["finalizers"]).collect();
        let added: Vec<String> = strings(&new["finalizers"])
            .filter(|finalizer| !known.contains(finalizer))
            .map(|finalizer| format!("{finalizer:?}"))
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            problems.push(Problem::forbidden("metadata.finalizers", &detail));
        }
    }
    for field in FIXED {
        if new[field] != before[field] {
            let path = format!("metadata.{field}");
            problems.push(Problem::immutable(&path, &new[field]));
        }
    }
    problems.extend(validate_maps(new));
    problems.extend(validate_owners(new));
    problems
}

/// The texts of a list.
pub fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The texts of a map, by key.
pub fn entries(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    map.as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Removes empty maps and lists from the metadata: they are not printed.
pub fn tidy(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|_, value| match value {
            Value::Null => false,
            Value::Object(map) => !map.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        });
    }
}
