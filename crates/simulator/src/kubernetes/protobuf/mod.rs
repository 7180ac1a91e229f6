//! Request bodies in protobuf: Go's typed clients and half of `kubectl` send nothing else.
//!
//! A body is the magic `k8s\0`, then an envelope that names version and kind, then the message.
//! `messages.txt` says what each message holds, one field per line under the message's name:
//! number, JSON name (`&` if the message's fields are the parent's own), and type. `[]` means a
//! list and `{}` a map by text; `@` marks types with a form of their own; a `?` at the end says
//! that an unset value is written as zero and left out of JSON.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// What every body starts with.
const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may nest. The deepest of Kubernetes stay below 20.
const DEPTH_LIMIT: usize = 64;

static MESSAGES: LazyLock<BTreeMap<&'static str, BTreeMap<u64, Field>>> =
    LazyLock::new(|| read_messages(include_str!("messages.txt")));

/// One field of a message.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: &'static str,
    shape: Shape,
    kind: &'static str,
    /// Zero means unset.
    droppable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Map,
}

fn read_messages(text: &'static str) -> BTreeMap<&'static str, BTreeMap<u64, Field>> {
    let mut messages: BTreeMap<&str, BTreeMap<u64, Field>> = BTreeMap::new();
    let mut current = "";
    for line in text.lines() {
        let words: Vec<&'static str> = line.split_whitespace().collect();
        match words.as_slice() {
            [name] => {
                current = name;
                messages.entry(name).or_default();
            }
            [number, name, kind] => {
                let (number, field) = (number.parse().unwrap_or_default(), field(name, kind));
                messages.entry(current).or_default().insert(number, field);
            }
            _ => {}
        }
    }
    messages
}

fn field(name: &'static str, kind: &'static str) -> Field {
    let (kind, droppable) = match kind.strip_suffix('?') {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let (shape, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
        (Some(kind), _) => (Shape::List, kind),
        (_, Some(kind)) => (Shape::Map, kind),
        _ => (Shape::One, kind),
    };
    Field {
        name,
        shape,
        kind,
        droppable,
    }
}

/// One field as it is on the wire.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }

    fn number(self) -> i64 {
        match self {
            // Negative numbers are written as two's complement.
            Self::Number(number) => number.cast_signed(),
            Self::Bytes(_) => 0,
        }
    }

    fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// Takes a number from the front.
fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, after) = rest.split_first().ok_or("unexpected end of message")?;
        *rest = after;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number is too long".to_owned())
}

fn take<'a>(rest: &mut &'a [u8], count: u64) -> Result<&'a [u8], String> {
    let count = usize::try_from(count).map_err(|_| "a length is too large")?;
    if count > rest.len() {
        return Err("unexpected end of message".to_owned());
    }
    let (taken, after) = rest.split_at(count);
    *rest = after;
    Ok(taken)
}

/// The fields of a message, in order.
fn fields(message: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, String> {
    let mut rest = message;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Wire::Number(varint(&mut rest)?),
            1 => Wire::Bytes(take(&mut rest, 8)?),
            2 => {
                let length = varint(&mut rest)?;
                Wire::Bytes(take(&mut rest, length)?)
            }
            5 => Wire::Bytes(take(&mut rest, 4)?),
            other => return Err(format!("unknown wire type {other}")),
        };
        found.push((tag >> 3, value));
    }
    Ok(found)
}

/// The first field of that number.
fn find<'a>(fields: &[(u64, Wire<'a>)], number: u64) -> Option<Wire<'a>> {
    fields
        .iter()
        .find(|(found, _)| *found == number)
        .map(|(_, value)| *value)
}

/// Reads a body. Version and kind stand in the object as in JSON.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    )?;
    let envelope = fields(envelope)?;
    let types = fields(find(&envelope, 1).map_or(&[][..], Wire::bytes))?;
    let version = find(&types, 1).map_or_else(String::new, Wire::text);
    let kind = find(&types, 2).map_or_else(String::new, Wire::text);
    let message = message_name(&version, &kind);
    let Some(known) = MESSAGES.get(message.as_str()) else {
        return Err(format!(
            "no kind {kind:?} is registered for version {version:?}"
        ));
    };
    let raw = find(&envelope, 2).map_or(&[][..], Wire::bytes);
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), version.into());
    object.insert("kind".to_owned(), kind.into());
    fill(&mut object, known, raw, 0)?;
    Ok(object.into())
}

/// The message behind a version and kind: `core.Pod`, `rbac.Role`.
fn message_name(version: &str, kind: &str) -> String {
    let package = match version.split_once('/') {
        // Options are sent under the version of what they are about.
        _ if kind == "DeleteOptions" => "meta",
        None => "core",
        Some((group, _)) => group.split('.').next().unwrap_or_default(),
    };
    format!("{package}.{kind}")
}

/// Reads the fields of a message into an object.
fn fill(
    object: &mut Map<String, Value>,
    known: &BTreeMap<u64, Field>,
    message: &[u8],
    depth: usize,
) -> Result<(), String> {
    if depth > DEPTH_LIMIT {
        return Err("messages are nested too deeply".to_owned());
    }
    for (number, wire) in fields(message)? {
        let Some(field) = known.get(&number) else {
            continue;
        };
        if field.name == "&" {
            if let Some(known) = MESSAGES.get(field.kind) {
                fill(object, known, wire.bytes(), depth + 1)?;
            }
            continue;
        }
        match field.shape {
            Shape::One => {
                let value = value(field.kind, wire, depth)?;
                if !(value.is_null() || field.droppable && is_zero(&value)) {
                    object.insert(field.name.to_owned(), value);
                }
            }
            Shape::List => {
                let value = value(field.kind, wire, depth)?;
                let list = object.entry(field.name).or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(value);
                }
            }
            Shape::Map => {
                let entry = fields(wire.bytes())?;
                let key = find(&entry, 1).map_or_else(String::new, Wire::text);
                let wire = find(&entry, 2).unwrap_or(Wire::Bytes(&[]));
                let value = value(field.kind, wire, depth)?;
                let map = object.entry(field.name).or_insert_with(|| json!({}));
                map[key] = value;
            }
        }
    }
    Ok(())
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(flag) => !flag,
        _ => false,
    }
}

/// Reads one value.
fn value(kind: &str, wire: Wire, depth: usize) -> Result<Value, String> {
    Ok(match kind {
        "string" => wire.text().into(),
        "int32" | "int64" => wire.number().into(),
        "bool" => (wire.number() != 0).into(),
        "bytes" => STANDARD.encode(wire.bytes()).into(),
        "@time" => time(wire, "%Y-%m-%dT%H:%M:%SZ")?,
        "@microtime" => time(wire, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        "@quantity" => {
            let fields = fields(wire.bytes())?;
            find(&fields, 1)
                .map_or_else(|| "0".to_owned(), Wire::text)
                .into()
        }
        "@strings" => fields(wire.bytes())?
            .into_iter()
            .map(|(_, item)| item.text())
            .collect(),
        "@fields" => {
            let fields = fields(wire.bytes())?;
            let raw = find(&fields, 1).map_or(&[][..], Wire::bytes);
            serde_json::from_slice(raw).map_err(|error| error.to_string())?
        }
        "@intorstring" => {
            let fields = fields(wire.bytes())?;
            match find(&fields, 1).map_or(0, Wire::number) {
                0 => find(&fields, 2).map_or(0, Wire::number).into(),
                _ => find(&fields, 3).map_or_else(String::new, Wire::text).into(),
            }
        }
        message => {
            let mut object = Map::new();
            if let Some(known) = MESSAGES.get(message) {
                fill(&mut object, known, wire.bytes(), depth + 1)?;
            }
            object.into()
        }
    })
}

/// A time is seconds and nanoseconds; an empty message is no time.
fn time(wire: Wire, format: &str) -> Result<Value, String> {
    if wire.bytes().is_empty() {
        return Ok(Value::Null);
    }
    let fields = fields(wire.bytes())?;
    let seconds = find(&fields, 1).map_or(0, Wire::number);
    let nanoseconds = find(&fields, 2).map_or(0, Wire::number);
    let nanoseconds = i32::try_from(nanoseconds).map_err(|error| error.to_string())?;
    let time = Timestamp::new(seconds, nanoseconds).map_err(|error| error.to_string())?;
    Ok(time.strftime(format).to_string().into())
}

#[cfg(test)]
mod tests;
