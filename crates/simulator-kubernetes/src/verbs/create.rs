//! Create.

use serde_json::{Value, json};

use super::{Call, namespaces};
use crate::managed;
use crate::object::{seconds, text};
use crate::respond::Reply;
use crate::status::Refusal;
use crate::store::{self, State};
use crate::strategy::{self, metadata};

/// Letters of generated names: no vowels and nothing that looks like another.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the generated part.
const SUFFIX: usize = 5;
/// Room for the prefix, so that the whole fits into a label.
const PREFIX_LIMIT: usize = 63 - SUFFIX;
/// How often another name is drawn when the first is taken.
const DRAWS: usize = 8;

/// Answers a create request.
pub fn create(call: &Call, state: &mut State) -> Result<Reply, Refusal> {
    call.check_options("CreateOptions")?;
    let (mut object, mut warnings) = call.object()?;
    call.place(&mut object)?;
    let (created, more) = insert(call, state, object, false)?;
    warnings.extend(more);
    Ok(Reply::object(201, created).warn(warnings))
}

/// Fields that the server sets, whatever the client says.
const SYSTEM: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Creates an object: name, admission, defaults, checks, then the write. `owned` says that
/// `managedFields` are already right.
pub fn insert(
    call: &Call,
    state: &mut State,
    mut object: Value,
    owned: bool,
) -> Result<(Value, Vec<String>), Refusal> {
    if let Some(map) = object["metadata"].as_object_mut() {
        for field in SYSTEM {
            map.remove(field);
        }
    }
    object["metadata"]["uid"] = call.random.uuid().into();
    object["metadata"]["creationTimestamp"] = seconds(call.now).into();
    let generated = name(call, state, &mut object);
    namespaces::admit(call.kind, &call.namespace, &object, state)?;
    call.check_grant(state, &object, None)?;
    let sent = strategy::as_sent(call.kind, &object);
    let warnings = strategy::create(call.kind, &mut object, &call.context(state))?;
    let version = text(&object, "/metadata/resourceVersion");
    if !version.is_empty() && version != "0" {
        return Err(Refusal::new(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let name = text(&object, "/metadata/name").to_owned();
    let path = store::path(&call.namespace, &name);
    if let Some(found) = state.get(call.kind, &path) {
        return Err(taken(call, &found, generated));
    }
    if !owned {
        let entries = managed::entries_of_update(call.kind, None, sent, &call.writer());
        object["metadata"]["managedFields"] = entries;
    }
    metadata::tidy(&mut object);
    if call.dry_run() {
        return Ok((object, warnings));
    }
    let saved = state.save(call.kind, &path, object);
    Ok(((*saved).clone(), warnings))
}

fn taken(call: &Call, found: &Value, generated: bool) -> Refusal {
    let mut refusal = Refusal::already_exists(call.kind, text(found, "/metadata/name"));
    if !found["metadata"]["deletionTimestamp"].is_null() {
        refusal.message = format!("object is being deleted: {}", refusal.message);
    }
    if generated {
        refusal
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        refusal.details["retryAfterSeconds"] = json!(1);
    }
    refusal
}

/// Makes up a name if only its prefix is given. Tells whether it did.
fn name(call: &Call, state: &State, object: &mut Value) -> bool {
    let prefix: String = text(object, "/metadata/generateName")
        .chars()
        .take(PREFIX_LIMIT)
        .collect();
    if prefix.is_empty() || !text(object, "/metadata/name").is_empty() {
        return false;
    }
    let mut drawn = String::new();
    for _ in 0..DRAWS {
        drawn.clone_from(&prefix);
        for _ in 0..SUFFIX {
            let index = usize::try_from(call.random.below(LETTERS.len() as u64)).unwrap_or(0);
            drawn.push(char::from(LETTERS[index]));
        }
        let path = store::path(&call.namespace, &drawn);
        if state.get(call.kind, &path).is_none() {
            break;
        }
    }
    object["metadata"]["name"] = drawn.into();
    true
}
