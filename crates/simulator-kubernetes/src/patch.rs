//! The three ways to patch an object that need no field ownership: JSON patch, merge patch and
//! strategic merge patch. Server-side apply is in [`super::managed`].

mod order;
mod strategic;
#[cfg(test)]
mod tests;

use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::{Value, json};

use super::status::Refusal;
use super::words::json_kind;

pub use strategic::strategic_patch;

/// Operations in one JSON patch: the limit of a real server, which bounds the work of a request.
const OPERATIONS: usize = 10_000;

/// Applies a JSON patch (RFC 6902).
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, Refusal> {
    let Some(list) = patch.as_array() else {
        return Err(Refusal::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            json_kind(patch)
        )));
    };
    let known = ["add", "copy", "move", "remove", "replace", "test"];
    let is_known = |operation: &Value| known.iter().any(|name| operation["op"] == *name);
    if !list.iter().all(is_known) {
        return Err(unprocessable());
    }
    let Patch(operations) = serde_json::from_value(patch.clone())
        .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
    if operations.len() > OPERATIONS {
        return Err(Refusal::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity is too large: The allowed maximum operations in a JSON patch is \
                 {OPERATIONS}, got {}",
                operations.len()
            ),
        ));
    }
    let mut patched = object.clone();
    apply(&mut patched, &operations)?;
    Ok(patched)
}

fn apply(object: &mut Value, operations: &[PatchOperation]) -> Result<(), Refusal> {
    for operation in operations {
        // The server adds what is to be replaced in an object and is not there.
        let adding = match operation {
            PatchOperation::Replace(replace)
                if parent(object, replace.path.as_str()).is_some_and(Value::is_object) =>
            {
                Some(PatchOperation::Add(AddOperation {
                    path: replace.path.clone(),
                    value: replace.value.clone(),
                }))
            }
            _ => None,
        };
        let operation = std::slice::from_ref(adding.as_ref().unwrap_or(operation));
        json_patch::patch(object, operation).map_err(|_| unprocessable())?;
    }
    Ok(())
}

/// What holds the place that a pointer names.
fn parent<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    let (above, _) = pointer.rsplit_once('/')?;
    object.pointer(above)
}

/// Applies a merge patch (RFC 7386).
pub fn merge_patch(object: &Value, patch: &Value) -> Value {
    let mut patched = object.clone();
    json_patch::merge(&mut patched, patch);
    patched
}

/// 422 in the words of a server that hides which operation failed.
fn unprocessable() -> Refusal {
    let mut refusal = Refusal::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
    refusal.details = json!({});
    refusal
}

/// A value as the server's language prints it (`map[a:1 b:[x y]]`): some messages quote patches so.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", texts.join(" "))
        }
        Value::Object(map) => {
            let mut texts: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", go_text(value)))
                .collect();
            texts.sort();
            format!("map[{}]", texts.join(" "))
        }
    }
}
