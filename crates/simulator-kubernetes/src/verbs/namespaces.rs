//! The life of namespaces: nothing is created in one that does not exist or is going away, and
//! one that is going away is emptied first.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::delete::{Outcome, mark};
use crate::kinds::{self, Kind, Role};
use crate::object::{has_finalizers, seconds, text};
use crate::status::Refusal;
use crate::store::{self, State};

/// Namespaces that cannot be deleted.
const ETERNAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub fn kind() -> Option<&'static Kind> {
    kinds::by_kind("", "v1", "Namespace")
}

/// Admission of a new object: its namespace must exist and stay.
pub fn admit(of: &Kind, namespace: &str, object: &Value, state: &State) -> Result<(), Refusal> {
    let Some(kind) = kind().filter(|_| of.namespaced) else {
        return Ok(());
    };
    let Some(found) = state.get(kind, namespace) else {
        return Err(Refusal::not_found(kind, namespace));
    };
    if text(&found, "/status/phase") != "Terminating" {
        return Ok(());
    }
    let name = text(object, "/metadata/name");
    let mut refusal = Refusal::new(
        403,
        "Forbidden",
        format!(
            "{} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            of.qualified()
        ),
    )
    .about(of, name);
    refusal.details["causes"] = json!([{
        "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    }]);
    Err(refusal)
}

/// Deletes a namespace: it is marked, emptied by [`settle`], and goes when nothing is left.
pub fn remove(
    kind: &Kind,
    state: &mut State,
    old: &Arc<Value>,
    now: Timestamp,
    dry_run: bool,
) -> Result<Outcome, Refusal> {
    let name = text(old, "/metadata/name");
    if ETERNAL.contains(&name) {
        return Err(Refusal::new(
            403,
            "Forbidden",
            format!("namespaces {name:?} is forbidden: this namespace may not be deleted"),
        )
        .about(kind, name));
    }
    if !old["metadata"]["deletionTimestamp"].is_null() {
        let why = "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace will automatically be purged by the system.";
        return Err(Refusal::conflict(kind, name, why));
    }
    let mut object = (**old).clone();
    object["metadata"]["deletionTimestamp"] = seconds(now).into();
    object["status"]["phase"] = "Terminating".into();
    if dry_run {
        return Ok(Outcome::Waiting(object));
    }
    let saved = state.save(kind, name, object);
    Ok(Outcome::Waiting((*saved).clone()))
}

/// Does what the namespace controller does: empties the namespaces that are going away and lets
/// go of those that are empty.
pub fn settle(state: &mut State, now: Timestamp) {
    let Some(kind) = kind() else { return };
    for namespace in state.list(kind, None) {
        if text(&namespace, "/status/phase") != "Terminating" {
            continue;
        }
        let name = text(&namespace, "/metadata/name");
        let left = empty(state, name, now);
        let others = namespace["spec"]["finalizers"]
            .as_array()
            .is_some_and(|list| list.iter().any(|finalizer| finalizer != "kubernetes"));
        if left == 0 && !has_finalizers(&namespace) && !others {
            state.remove(kind, name);
        }
    }
}

/// Deletes what can be deleted in a namespace; returns how many objects wait for finalizers.
fn empty(state: &mut State, namespace: &str, now: Timestamp) -> usize {
    let mut left = 0;
    let stored = |kind: &&Kind| kind.namespaced && kind.role == Role::Stored;
    for kind in kinds::KINDS.iter().filter(stored) {
        for object in state.list(kind, Some(namespace)) {
            let place = store::path(namespace, text(&object, "/metadata/name"));
            if !has_finalizers(&object) {
                state.remove(kind, &place);
                continue;
            }
            left += 1;
            if object["metadata"]["deletionTimestamp"].is_null() {
                state.save(kind, &place, mark(&object, now));
            }
        }
    }
    left
}
