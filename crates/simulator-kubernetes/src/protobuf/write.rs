//! Writes objects as the API server does: unset fields of plain types too.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::{MAGIC, Numbers, numbers, structure};
use crate::schema::{Struct, Type, catalogue};

/// An object in its envelope; none if its kind is not known.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let types = [bytes(1, version.as_bytes()), bytes(2, kind.as_bytes())];
    let raw = message(structure(version, kind)?, object);
    let envelope = [
        bytes(1, &types.concat()),
        bytes(2, &raw),
        bytes(3, b""),
        bytes(4, b""),
    ];
    Some([MAGIC, &envelope.concat()].concat())
}

/// An event of a watch, with its length before it.
pub fn event(kind: &str, object: &Value) -> Option<Vec<u8>> {
    let object = bytes(1, &encode(object)?);
    let event = [bytes(1, kind.as_bytes()), bytes(2, &object)].concat();
    let length = u32::try_from(event.len()).ok()?;
    Some([&length.to_be_bytes()[..], &event].concat())
}

fn message(structure: &'static Struct, object: &Value) -> Vec<u8> {
    let Some(numbers) = numbers().get(&structure.full_name()) else {
        return Vec::new();
    };
    let mut written = Vec::new();
    for (&(number, inner), name) in numbers {
        match inner {
            None => written.extend(field(structure, number, name, object)),
            // The first of those that are in there brings the others.
            Some(first) if is_first(numbers, number, first) => {
                let inside = numbers.range((number, Some(0))..=(number, Some(u32::MAX)));
                let inside = inside.flat_map(|((_, inner), name)| {
                    field(structure, inner.unwrap_or_default(), name, object)
                });
                written.extend(bytes(number, &inside.collect::<Vec<u8>>()));
            }
            Some(_) => {}
        }
    }
    written
}

fn is_first(numbers: &Numbers, outer: u32, inner: u32) -> bool {
    let mut inside = numbers.range((outer, Some(0))..=(outer, Some(u32::MAX)));
    inside.next().is_some_and(|(key, _)| key.1 == Some(inner))
}

fn field(structure: &'static Struct, number: u32, name: &str, object: &Value) -> Vec<u8> {
    let Some(field) = structure.field(name) else {
        return Vec::new();
    };
    match (&field.kind, object.get(name)) {
        (kind, Some(one)) if !one.is_null() && !fits(kind, one) => misfit(kind, number),
        (Type::List(kind), Some(Value::Array(list))) => list
            .iter()
            .flat_map(|item| value(kind, number, item))
            .collect(),
        (Type::Map(kind), Some(Value::Object(map))) => map
            .iter()
            .flat_map(|(key, item)| bytes(number, &entry(kind, key, item)))
            .collect(),
        (Type::List(_) | Type::Map(_), _) => Vec::new(),
        (kind, Some(one)) if !one.is_null() => value(kind, number, one),
        (kind, _) if !field.optional => value(kind, number, &Value::Null),
        _ => Vec::new(),
    }
}

/// Whether that is what such a field has in JSON.
fn fits(kind: &Type, value: &Value) -> bool {
    match kind {
        Type::List(_) => value.is_array(),
        Type::Map(_) | Type::Struct(_) => value.is_object(),
        Type::Boolean => value.is_boolean(),
        Type::Integer32 | Type::Integer64 => value.is_i64(),
        Type::Text | Type::Bytes | Type::Time | Type::MicroTime => value.is_string(),
        Type::Quantity | Type::IntOrString | Type::Raw => true,
    }
}

/// What no reader takes for such a field: broken in JSON is broken here, too.
fn misfit(kind: &Type, field: u32) -> Vec<u8> {
    match kind {
        Type::Boolean | Type::Integer32 | Type::Integer64 => bytes(field, b""),
        _ => number(field, 0),
    }
}

/// One entry of a map. A value that is a list itself is wrapped into a message.
fn entry(kind: &Type, key: &str, item: &Value) -> Vec<u8> {
    let item = match (kind, item) {
        (Type::List(kind), Value::Array(list)) => {
            let items = list.iter().flat_map(|item| value(kind, 1, item));
            bytes(2, &items.collect::<Vec<u8>>())
        }
        (kind, item) => value(kind, 2, item),
    };
    [bytes(1, key.as_bytes()), item].concat()
}

/// A field with that value; null is what Go has where nothing is set.
fn value(kind: &Type, field: u32, value: &Value) -> Vec<u8> {
    let text = || value.as_str().unwrap_or_default();
    match kind {
        Type::Text => bytes(field, text().as_bytes()),
        Type::Boolean => number(field, i64::from(value.as_bool().unwrap_or_default())),
        Type::Integer32 | Type::Integer64 => number(field, value.as_i64().unwrap_or_default()),
        Type::Bytes => bytes(field, &STANDARD.decode(text()).unwrap_or_default()),
        Type::Quantity => bytes(field, &bytes(1, text().as_bytes())),
        Type::Raw => bytes(field, &bytes(1, value.to_string().as_bytes())),
        Type::IntOrString => {
            let parts = [
                number(1, i64::from(value.is_string())),
                number(2, value.as_i64().unwrap_or_default()),
                bytes(3, text().as_bytes()),
            ];
            bytes(field, &parts.concat())
        }
        Type::Time | Type::MicroTime => {
            let time = text().parse::<Timestamp>().map(|time| {
                let nanoseconds = i64::from(time.subsec_nanosecond());
                [number(1, time.as_second()), number(2, nanoseconds)].concat()
            });
            bytes(field, &time.unwrap_or_default())
        }
        Type::Struct(place) => {
            let inside = catalogue()
                .at(*place)
                .map(|structure| message(structure, value));
            bytes(field, &inside.unwrap_or_default())
        }
        // Lists of lists and maps of maps do not exist in the API.
        Type::List(_) | Type::Map(_) => Vec::new(),
    }
}

fn bytes(field: u32, content: &[u8]) -> Vec<u8> {
    let mut written = varint(u64::from(field) << 3 | 2);
    written.extend(varint(content.len() as u64));
    written.extend(content);
    written
}

fn number(field: u32, content: i64) -> Vec<u8> {
    let mut written = varint(u64::from(field) << 3);
    written.extend(varint(content.cast_unsigned()));
    written
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut written = Vec::new();
    loop {
        let byte = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            written.push(byte);
            return written;
        }
        written.push(byte | 0x80);
    }
}
