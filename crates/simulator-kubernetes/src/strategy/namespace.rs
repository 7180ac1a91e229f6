//! Namespaces.

use serde_json::{Value, json};

use super::problem::Problem;
use super::{fill, keep};

/// The finalizer that the namespace's content holds.
const KUBERNETES: &str = "kubernetes";

pub fn defaults(namespace: &mut Value) {
    fill(namespace, "spec", json!({}));
    fill(namespace, "status", json!({}));
    canonicalize(namespace);
}

/// The label that shows the name to selectors.
pub fn canonicalize(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    if name.as_str().is_some_and(|name| !name.is_empty()) {
        if !namespace["metadata"]["labels"].is_object() {
            namespace["metadata"]["labels"] = json!({});
        }
        namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
}

/// A new namespace is active and holds its content.
pub fn prepare_create(namespace: &mut Value) {
    namespace["status"] = json!({ "phase": "Active" });
    match namespace["spec"]["finalizers"].as_array_mut() {
        Some(list) if list.iter().any(|finalizer| finalizer == KUBERNETES) => {}
        Some(list) => list.push(KUBERNETES.into()),
        None => namespace["spec"]["finalizers"] = json!([KUBERNETES]),
    }
}

/// Prepares and checks a change of the object, of `status` or of `finalize`.
pub fn update(subresource: &str, namespace: &mut Value, old: &Value) -> Vec<Problem> {
    match subresource {
        "status" => {
            keep(namespace, old, &["spec"]);
            let deleting = !old["metadata"]["deletionTimestamp"].is_null();
            let phase = namespace["status"]["phase"].clone();
            let wanted = if deleting { "Terminating" } else { "Active" };
            if phase != wanted {
                let detail = if deleting {
                    "may only be 'Terminating' if `deletionTimestamp` is not empty"
                } else {
                    "may only be 'Active' if `deletionTimestamp` is empty"
                };
                return vec![Problem::invalid("status.Phase", &phase, detail)];
            }
        }
        "finalize" => keep(namespace, old, &["status"]),
        _ => keep(namespace, old, &["spec", "status"]),
    }
    Vec::new()
}
