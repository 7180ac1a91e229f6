//! The three ways to patch an object that need no field ownership: JSON patch, merge patch and
//! strategic merge patch. Server-side apply is in [`super::managed`].

mod order;
mod strategic;
#[cfg(test)]
mod tests;

use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

use super::status::Refusal;

pub use strategic::strategic_patch;

/// Operations in one JSON patch: the limit of a real server, which bounds the work of a request.
const OPERATIONS: usize = 10_000;

/// Applies a JSON patch (RFC 6902).
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, Refusal> {
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
    json_patch::patch(object, operations).map_err(|_| unprocessable())
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
