//! Reading objects, which are kept as JSON.

use jiff::Timestamp;
use serde_json::Value;

/// The text at a JSON pointer; empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let value = object.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

/// The elements of the list at a JSON pointer; none if there is no list.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    let value = object.pointer(pointer).and_then(Value::as_array);
    value.map_or(&[], Vec::as_slice)
}

/// The strings of the list at a key; none if there is no list.
pub fn texts<'a>(object: &'a Value, key: &str) -> Vec<&'a str> {
    let value = object.get(key).and_then(Value::as_array);
    let items = value.map_or(&[] as &[Value], Vec::as_slice);
    items.iter().filter_map(Value::as_str).collect()
}

/// Whether finalizers keep an object that is deleted.
pub fn has_finalizers(object: &Value) -> bool {
    !list(object, "/metadata/finalizers").is_empty()
}

/// A time the way `metav1.Time` prints it: whole seconds, UTC.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
