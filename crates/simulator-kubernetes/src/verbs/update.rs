//! Update, and the second half of every patch.

use std::sync::Arc;

use serde_json::{Value, json};

use super::body::creates_on_update;
use super::{Call, create};
use crate::kinds::Kind;
use crate::managed;
use crate::object::{has_finalizers, list, text};
use crate::respond::Reply;
use crate::status::Refusal;
use crate::store::State;
use crate::strategy::problem::{Problem, invalid_of};
use crate::strategy::{self, metadata};

const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Answers an update request.
pub fn update(call: &Call, state: &mut State) -> Result<Reply, Refusal> {
    call.check_options("UpdateOptions")?;
    let (mut object, mut warnings) = call.object()?;
    call.check_name(&object)?;
    call.place(&mut object)?;
    let old = state.get(call.kind, &call.path());
    check_uid(call, &object, old.as_deref())?;
    let Some(old) = old else {
        if !creates_on_update(call.kind) || !call.subresource.is_empty() {
            return Err(Refusal::not_found(call.kind, &call.name));
        }
        call.may_create.clone()?;
        object["metadata"]["resourceVersion"] = Value::Null;
        let (created, more) = create::insert(call, state, object, false)?;
        warnings.extend(more);
        return Ok(Reply::object(201, created).warn(warnings));
    };
    let (saved, more) = replace(call, state, &old, object, false)?;
    warnings.extend(more);
    Ok(Reply::object(200, saved).warn(warnings))
}

/// The uid in the body of an update is a precondition.
fn check_uid(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    let wanted = text(object, "/metadata/uid");
    let found = old.map_or("", |old| text(old, "/metadata/uid"));
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
        storage_key(call.kind, &call.path()),
    );
    Err(Refusal::conflict(call.kind, &call.name, &why))
}

/// Where the API server keeps an object in etcd; some messages show it.
pub fn storage_key(kind: &Kind, path: &str) -> String {
    let shelf = match (kind.group, kind.plural) {
        ("", "nodes") => "minions",
        ("", "services") => "services/specs",
        ("", "endpoints") => "services/endpoints",
        (_, plural) => plural,
    };
    format!("/registry/{shelf}/{path}")
}

/// Replaces `old` by `object` if the rules of the kind allow it. `owned` says that
/// `managedFields` are already right.
pub fn replace(
    call: &Call,
    state: &mut State,
    old: &Arc<Value>,
    mut object: Value,
    owned: bool,
) -> Result<(Value, Vec<String>), Refusal> {
    check_version(call, &mut object, old)?;
    call.check_grant(state, &object, Some(old))?;
    let sent = strategy::as_sent(call.kind, &object);
    let context = call.context(state);
    let warnings = strategy::update(call.kind, &call.subresource, &mut object, old, &context)?;
    if !owned {
        let entries = managed::entries_of_update(call.kind, Some(old), sent, &call.writer());
        object["metadata"]["managedFields"] = entries;
    }
    metadata::tidy(&mut object);
    object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    if is_same(&object, old, owned) {
        return Ok(((**old).clone(), warnings));
    }
    if call.dry_run() {
        return Ok((object, warnings));
    }
    if is_released(call.kind, &object) {
        state.remove(call.kind, &call.path());
        return Ok((object, warnings));
    }
    let saved = state.save(call.kind, &call.path(), object);
    Ok(((*saved).clone(), warnings))
}

/// Optimistic concurrency: the version in the object must be the stored one, or be left out
/// where the kind allows that.
fn check_version(call: &Call, object: &mut Value, old: &Value) -> Result<(), Refusal> {
    let found = text(object, "/metadata/resourceVersion");
    if found.is_empty() || found == "0" {
        if call.kind.kind == "Lease" {
            let detail = "must be specified for an update";
            let problem = Problem::invalid("metadata.resourceVersion", &json!(0), detail);
            return Err(invalid_of(
                call.kind.group,
                call.kind.plural,
                &call.name,
                &[problem],
            ));
        }
    } else if found.parse::<u64>().is_err() {
        let message = format!("strconv.ParseUint: parsing {found:?}: invalid syntax");
        return Err(Refusal::new(500, "", message));
    } else if found != text(old, "/metadata/resourceVersion") {
        return Err(Refusal::conflict(call.kind, &call.name, STALE));
    }
    object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    Ok(())
}

/// Whether a write would change nothing. Ownership alone counts only for server-side apply.
fn is_same(object: &Value, old: &Value, owned: bool) -> bool {
    if owned {
        return object == old;
    }
    // Forgetting who owns what is a change.
    let entries = |value: &Value| list(value, "/metadata/managedFields").len();
    if entries(object) == 0 && entries(old) > 0 {
        return false;
    }
    let without = |value: &Value| {
        let mut copy = value.clone();
        if let Some(map) = copy["metadata"].as_object_mut() {
            map.remove("managedFields");
        }
        copy
    };
    object == old || without(object) == without(old)
}

/// Whether nothing keeps a deleted object any more.
pub fn is_released(kind: &Kind, object: &Value) -> bool {
    let metadata = &object["metadata"];
    !metadata["deletionTimestamp"].is_null()
        && !has_finalizers(object)
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && (kind.kind != "Namespace" || list(object, "/spec/finalizers").is_empty())
}
