//! The rules of each kind: defaults, admission, what may be set and what may change.

pub mod certificates;
pub mod metadata;
pub mod names;
pub mod namespace;
pub mod node;
pub mod plain;
pub mod pod;
pub mod problem;
pub mod service;

use bowline_http::Random;
use jiff::Timestamp;
use serde_json::Value;

use super::auth::User;
use super::kinds::Kind;
use super::object::text;
use super::status::Refusal;
use super::store::State;
use problem::{Problem, invalid};

/// What the rules may look at beside the object.
pub struct Context<'a> {
    /// The stored objects.
    pub state: &'a State,
    pub user: &'a User,
    pub now: Timestamp,
    /// Addresses and ports.
    pub random: &'a Random,
}

/// Fills in what the client left out, as the API's versions define it.
pub fn defaults(kind: &Kind, object: &mut Value) {
    match (kind.group, kind.kind) {
        ("", "Service") => service::defaults(object),
        ("", "Pod") => pod::defaults(object),
        ("", "Node") => node::defaults(object),
        ("", "Namespace") => namespace::defaults(object),
        _ => plain::defaults(kind, object),
    }
}

/// The object as a version of the API understands it, before any rule has changed it: this is
/// what its writer owns. Nobody owns what the server chooses afterwards.
pub fn as_sent(kind: &Kind, object: &Value) -> Value {
    let mut object = object.clone();
    defaults(kind, &mut object);
    prune(&mut object);
    object
}

/// Prepares and checks a new object. Returns warnings.
pub fn create(kind: &Kind, object: &mut Value, context: &Context) -> Result<Vec<String>, Refusal> {
    defaults(kind, object);
    let mut problems = match (kind.group, kind.kind) {
        ("", "Service") => {
            service::prepare_create(kind, object, context)?;
            service::validate(object, None)
        }
        ("", "Pod") => {
            pod::prepare_create(object, context);
            pod::validate(object)
        }
        ("", "Node") => {
            node::prepare_create(object);
            node::validate(object)
        }
        ("", "Namespace") => {
            namespace::prepare_create(object);
            Vec::new()
        }
        ("certificates.k8s.io", _) => {
            certificates::prepare_create(object, context.user);
            certificates::validate(object)
        }
        _ => {
            plain::prepare_create(kind, object);
            plain::validate(kind, object)
        }
    };
    let mut all = metadata::validate(kind, object);
    all.append(&mut problems);
    refuse(kind, object, &all)?;
    canonicalize(kind, object);
    Ok(warnings(kind, object))
}

/// What the server has to say about an object that it accepts.
fn warnings(kind: &Kind, object: &Value) -> Vec<String> {
    match kind.kind {
        "Service" => service::warnings(object),
        _ => Vec::new(),
    }
}

/// The form in which an object is kept.
fn canonicalize(kind: &Kind, object: &mut Value) {
    if kind.kind == "Namespace" {
        namespace::canonicalize(object);
    }
    prune(object);
    plain::show_nulls(kind, object);
}

/// Times in conditions that the API prints even if they are not set.
const PRINTED_NULLS: [&str; 3] = ["lastHeartbeatTime", "lastProbeTime", "lastTransitionTime"];

/// Removes what is null: to the API it is the same as not being there.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| !value.is_null() || PRINTED_NULLS.contains(&key.as_str()));
            map.values_mut().for_each(prune);
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

/// Prepares and checks a change of an object, or of the part of it that a sub-resource shows.
/// Returns warnings.
pub fn update(
    kind: &Kind,
    subresource: &str,
    object: &mut Value,
    old: &Value,
    context: &Context,
) -> Result<Vec<String>, Refusal> {
    defaults(kind, object);
    metadata::prepare_update(object, old);
    let problems = match (kind.group, kind.kind, subresource) {
        ("", "Service", "") => {
            service::prepare_update(kind, object, old, context)?;
            service::validate(object, Some(old))
        }
        ("", "Service", _) => {
            keep(object, old, &["spec"]);
            service::validate_status(object)
        }
        ("", "Node", "") => {
            keep(object, old, &["status"]);
            node::validate_update(object, old)
        }
        ("", "Node", _) => {
            keep(object, old, &["spec"]);
            node::validate_update(object, old)
        }
        ("", "Pod", subresource) => pod::update(subresource, object, old),
        ("", "Namespace", subresource) => namespace::update(subresource, object, old),
        ("certificates.k8s.io", _, subresource) => {
            certificates::update(subresource, object, old, context.now)
        }
        _ => {
            plain::prepare_update(kind, object, old);
            plain::validate_update(kind, object, old)
        }
    };
    let now = metadata::validate(kind, object);
    let change = metadata::validate_update(object, old);
    // The server checks the metadata of any object, and most kinds have it checked once more.
    let mut all: Vec<Problem> = [now.as_slice(), &change].concat();
    match kind.kind {
        "Event" => {}
        "EndpointSlice" | "Lease" | "Service" => all.extend(change),
        _ => all.extend([now, change].concat()),
    }
    all.extend(problems);
    refuse(kind, old, &all)?;
    canonicalize(kind, object);
    Ok(if subresource.is_empty() {
        warnings(kind, object)
    } else {
        Vec::new()
    })
}

fn refuse(kind: &Kind, object: &Value, problems: &[Problem]) -> Result<(), Refusal> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(invalid(kind, text(object, "/metadata/name"), problems))
}

/// Takes whole fields from the stored object: this write may not change them.
pub fn keep(object: &mut Value, old: &Value, fields: &[&str]) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    for field in fields {
        match old.get(*field) {
            Some(value) => map.insert((*field).to_owned(), value.clone()),
            None => map.remove(*field),
        };
    }
}

/// Sets a field that is missing or null.
pub fn fill(object: &mut Value, field: &str, value: impl Into<Value>) {
    if object.is_null() {
        *object = Value::Object(serde_json::Map::new());
    }
    if let Some(map) = object.as_object_mut() {
        let missing = map
            .get(field)
            .is_none_or(|found| found.is_null() || found.as_str() == Some(""));
        if missing {
            map.insert(field.to_owned(), value.into());
        }
    }
}

pub fn drop_field(object: &mut Value, field: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(field);
    }
}

/// Removes a field that is null, empty text, zero, or an empty list or map: the API's types do
/// not print these.
pub fn drop_empty(object: &mut Value, fields: &[&str]) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    for field in fields {
        let empty = match map.get(*field) {
            Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Number(number)) => number.as_i64() == Some(0),
            _ => false,
        };
        if empty {
            map.remove(*field);
        }
    }
}
