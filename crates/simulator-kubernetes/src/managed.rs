//! Field ownership: server-side apply, and the book-keeping of every other write.
//!
//! Each manager owns a set of fields. Applying merges a manager's fields into the object, takes out
//! what it applied before and no longer does unless somebody else owns it, and conflicts where it
//! would change what others own. Updates take ownership of what they change.

mod entries;
mod fields;
mod ledger;
#[cfg(test)]
mod tests;
mod walk;

use serde_json::{Value, json};

use self::{
    entries::{Operation, Owner, Owners},
    fields::{Set, path_text},
    ledger::{Conflicts, Ledger, root},
};
use super::{
    kinds::Kind,
    schema::{self, Unfit},
    status::Refusal,
};

/// Who writes, when, and through which sub-resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The field manager.
    pub manager: String,
    /// When; entries carry it to the second.
    pub time: jiff::Timestamp,
    /// The sub-resource written through, if any.
    pub subresource: Option<String>,
}

impl Writer {
    fn owner(&self, kind: &Kind, operation: Operation) -> Owner {
        let manager = match self.manager.as_str() {
            "" => "unknown",
            manager => manager,
        };
        Owner {
            manager: manager.to_owned(),
            operation,
            version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => kind.api_version(),
            },
            subresource: self.subresource.clone().unwrap_or_default(),
        }
    }

    fn stamp(&self) -> String {
        let printer = jiff::fmt::temporal::DateTimePrinter::new().precision(Some(0));
        printer.timestamp_to_string(&self.time)
    }
}

/// Who owns what an object had before anybody's fields were recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager that may take over from client-side apply.
const KUBECTL: &str = "kubectl";

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Server-side apply: merges `config` into `live` (`None`: the object is created) and returns the
/// object with its new `managedFields`, in the form in which objects are kept.
///
/// The result still has to be defaulted and validated like any object that was sent. It equals
/// `live` if there is nothing to do.
pub fn apply(
    kind: &Kind,
    live: Option<&Value>,
    config: &Value,
    writer: &Writer,
    force: bool,
) -> Result<Value, Refusal> {
    let object = merge(kind, live, config, writer, force)?;
    let (object, _) = schema::decode(&schema::type_of(kind), object)
        .map_err(|Unfit(error)| Refusal::new(500, "", error))?;
    Ok(match live {
        Some(live) if same_but_for_times(live, &object) => live.clone(),
        _ => object,
    })
}

/// Whether two objects differ in nothing, or only in when somebody last wrote the same.
fn same_but_for_times(left: &Value, right: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let entries = object.pointer_mut("/metadata/managedFields");
        for entry in entries.and_then(Value::as_array_mut).into_iter().flatten() {
            entry["time"] = Value::Null;
        }
        object
    };
    timeless(left) == timeless(right)
}

fn merge(
    kind: &Kind,
    live: Option<&Value>,
    config: &Value,
    writer: &Writer,
    force: bool,
) -> Result<Value, Refusal> {
    check_config(kind, config)?;
    let ledger = Ledger::new(kind, writer.subresource.as_deref());
    let empty = empty(kind);
    let live = live.unwrap_or(&empty);
    let mut owners = entries::read(live)
        .ok_or_else(|| Refusal::new(500, "", "failed to decode managed fields: a broken entry"))?;
    let live = without_entries(live.clone());
    if owners.is_empty() {
        let first = Writer {
            manager: BEFORE_FIRST_APPLY.to_owned(),
            ..writer.clone()
        };
        owners = ledger.update(&empty, &live, owners, &first);
    }
    let mut outcome = ledger.apply(&live, config, owners.clone(), writer, force);
    if let Err(conflicts) = &mut outcome
        && writer.manager == KUBECTL
    {
        let allowed = ledger.last_applied(&live);
        conflicts.retain(|(_, path)| {
            let mut one = Set::default();
            one.insert(path);
            !one.difference(&allowed).is_empty()
        });
        if conflicts.is_empty() {
            outcome = ledger.apply(&live, config, owners, writer, true);
        }
    }
    let (mut object, owners) = outcome.map_err(|conflicts| conflict(&conflicts))?;
    if writer.manager == KUBECTL {
        renew_last_applied(&mut object, config);
    }
    entries::write(&mut object, owners);
    Ok(object)
}

/// Records an update (create, replace, patch): `before` is the stored object (`None`: it is
/// created), `after` the object about to be stored, both in the form in which objects are kept.
/// Returns `after` with its new `managedFields`.
pub fn record_update(kind: &Kind, before: Option<&Value>, after: Value, writer: &Writer) -> Value {
    let empty = empty(kind);
    let stored = before.unwrap_or(&empty);
    let owners = current_owners(stored, &after, writer.subresource.is_some());
    let mut after = without_entries(after);
    // An object that was stored without entries stays without, until somebody applies.
    if owners.is_empty() && stored.pointer("/metadata/uid").is_some() {
        return after;
    }
    let ledger = Ledger::new(kind, writer.subresource.as_deref());
    let before = without_entries(stored.clone());
    let mut owners = ledger.update(&before, &after, owners, writer);
    entries::fold_oldest(&mut owners);
    entries::write(&mut after, owners);
    if same_but_for_times(stored, &after) {
        stored.clone()
    } else {
        after
    }
}

/// The `managedFields` after an update, see [`record_update`].
pub fn entries_of_update(
    kind: &Kind,
    before: Option<&Value>,
    after: Value,
    writer: &Writer,
) -> Value {
    let mut recorded = record_update(kind, before, after, writer);
    let entries = recorded.pointer_mut("/metadata/managedFields");
    entries.map(Value::take).unwrap_or_default()
}

/// The entries an update starts from: those sent, if they are any good, or those stored. One empty
/// entry asks for all to be forgotten.
fn current_owners(before: &Value, after: &Value, subresource: bool) -> Owners {
    let stored = || entries::read(before).unwrap_or_default();
    if subresource {
        return stored();
    }
    match after.pointer("/metadata/managedFields") {
        Some(Value::Array(sent)) if sent.is_empty() || *sent == [json!({})] => Owners::new(),
        _ => match entries::read(after) {
            Some(sent) if !sent.is_empty() => sent,
            _ => stored(),
        },
    }
}

/// An object of that kind with nothing in it, as it would be written.
fn empty(kind: &Kind) -> Value {
    let bare = json!({ "apiVersion": kind.api_version(), "kind": kind.kind });
    schema::decode(&schema::type_of(kind), bare.clone()).map_or(bare, |(object, _)| object)
}

fn without_entries(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}

fn check_config(kind: &Kind, config: &Value) -> Result<(), Refusal> {
    let text = |pointer: &str| {
        let value = config.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default()
    };
    let (version, name) = (text("/apiVersion"), text("/kind"));
    if (version, name) != (kind.api_version().as_str(), kind.kind) {
        let group = if version.contains('/') { "" } else { "/" };
        return Err(Refusal::bad_request(format!(
            "invalid object type: {group}{version}, Kind={name}"
        )));
    }
    if config
        .pointer("/metadata/managedFields")
        .is_some_and(|entries| !entries.is_null())
    {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    let mut problems = walk::problems(root(kind), config);
    if let (true, Err(Unfit(problem))) = (
        problems.is_empty(),
        schema::decode(&schema::type_of(kind), config.clone()),
    ) {
        problems.push(problem);
    }
    let text = match problems.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    Err(Refusal::new(
        500,
        "",
        format!(
            "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {text}",
            config["metadata"]["namespace"].as_str().unwrap_or_default(),
            config["metadata"]["name"].as_str().unwrap_or_default(),
            kind.group,
            kind.version,
            kind.kind,
        ),
    ))
}

fn conflict(conflicts: &Conflicts) -> Refusal {
    let message = match conflicts.as_slice() {
        [(owner, path)] => format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            owner.describe(),
            path_text(path)
        ),
        many => {
            let mut lines = Vec::new();
            let mut last = None;
            for (owner, path) in many {
                if last != Some(owner) {
                    lines.push(format!("conflicts with {}:", owner.describe()));
                    last = Some(owner);
                }
                lines.push(format!("- {}", path_text(path)));
            }
            format!(
                "Apply failed with {} conflicts: {}",
                many.len(),
                lines.join("\n")
            )
        }
    };
    let causes = conflicts.iter().map(|(owner, path)| {
        json!({
            "reason": "FieldManagerConflict",
            "message": format!("conflict with {}", owner.describe()),
            "field": path_text(path),
        })
    });
    let mut refusal = Refusal::new(409, "Conflict", message);
    refusal.details = json!({ "causes": causes.collect::<Vec<Value>>() });
    refusal
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect::<serde_json::Map<String, Value>>()
            .into(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Keeps the annotation of client-side apply in step, where there is one.
fn renew_last_applied(object: &mut Value, config: &Value) {
    let Some(annotation) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations")?.get_mut(LAST_APPLIED))
    else {
        return;
    };
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
        if annotations.is_empty() {
            config["metadata"]["annotations"] = Value::Null;
        }
    }
    *annotation = format!("{}\n", without_nulls(config)).into();
}
