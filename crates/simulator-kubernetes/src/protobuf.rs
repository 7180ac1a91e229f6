//! Reads and writes objects in protobuf, the form in which Go's typed clients send them: `kubectl create
//! token`, leases and events of controller managers. Watches are written in it for those that ask.
//!
//! Types come from the schema, numbers from `numbers.txt` beside this file, which
//! `e2e/control-plane/facts` writes from Kubernetes' own types; all other answers may stay JSON, because
//! these clients accept both.

mod wire;
mod write;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::schema::{Catalogue, Field, Struct, Type, Written, catalogue, type_named};
use wire::{Piece, pieces};
pub use write::{encode, event};

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every such body starts with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages inside messages; the deepest real object (a pod's probe) needs eight.
const DEEPEST: u8 = 24;
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const NUMBERS: &str = include_str!("protobuf/numbers.txt");

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoPrefix,
    #[error("unexpected EOF")]
    Broken,
    #[error("the message is nested too deep")]
    TooDeep,
    #[error("the kind of the message is not known")]
    UnknownKind,
}

/// Reads a body as an object of the kind that it names.
pub fn decode(body: &[u8]) -> Result<Value, Unreadable> {
    let body = body.strip_prefix(MAGIC).ok_or(Unreadable::NoPrefix)?;
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for (number, piece) in pieces(body)? {
        match (number, piece) {
            (1, Piece::Bytes(types)) => {
                for (number, piece) in pieces(types)? {
                    match (number, piece) {
                        (1, Piece::Bytes(bytes)) => version = text(bytes),
                        (2, Piece::Bytes(bytes)) => kind = text(bytes),
                        _ => {}
                    }
                }
            }
            (2, Piece::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let structure = structure(&version, &kind).ok_or(Unreadable::UnknownKind)?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(version));
    object.insert("kind".to_owned(), json!(kind));
    message(structure, raw, DEEPEST, &mut object)?;
    Ok(Value::Object(object))
}

fn structure(version: &str, kind: &str) -> Option<&'static Struct> {
    if matches!(kind, "DeleteOptions" | "Status") {
        return catalogue()
            .named(&format!("{META}.{kind}"))
            .map(|(_, one)| one);
    }
    let group = version.split_once('/').map_or("", |(group, _)| group);
    catalogue().structure(&type_named(group, kind))
}

/// The names of a structure's fields by number and, for fields inside a message that JSON does
/// not show, the number in there.
type Numbers = BTreeMap<(u32, Option<u32>), &'static str>;

/// All numbers, read once: by the structure's full name.
fn numbers() -> &'static BTreeMap<String, Numbers> {
    static ALL: OnceLock<BTreeMap<String, Numbers>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut package = "";
        let mut all = BTreeMap::new();
        for line in NUMBERS.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            if name == "package" {
                package = words.next().unwrap_or_default();
                continue;
            }
            let fields = words.filter_map(|word| {
                let (field, number) = word.split_once('=')?;
                let (outer, inner) = number.split_once('.').unwrap_or((number, ""));
                Some(((outer.parse().ok()?, inner.parse().ok()), field))
            });
            all.insert(format!("{package}.{name}"), fields.collect());
        }
        all
    })
}

/// Reads the fields of a message into an object.
fn message(
    structure: &'static Struct,
    bytes: &[u8],
    depth: u8,
    object: &mut Map<String, Value>,
) -> Result<(), Unreadable> {
    let depth = depth.checked_sub(1).ok_or(Unreadable::TooDeep)?;
    let Some(numbers) = numbers().get(&structure.full_name()) else {
        return Ok(());
    };
    for (number, piece) in pieces(bytes)? {
        if let Some(name) = numbers.get(&(number, None)) {
            field(structure, name, piece, depth, object)?;
        } else if let Piece::Bytes(inner) = piece {
            for (inner, piece) in hidden(numbers, number, inner)? {
                field(structure, inner, piece, depth, object)?;
            }
        }
    }
    Ok(())
}

/// The fields of a message that JSON does not show, if this is one.
fn hidden<'a>(
    numbers: &Numbers,
    outer: u32,
    bytes: &'a [u8],
) -> Result<Vec<(&'static str, Piece<'a>)>, Unreadable> {
    let mut inside = numbers.range((outer, Some(0))..=(outer, Some(u32::MAX)));
    if inside.next().is_none() {
        return Ok(Vec::new());
    }
    let named = pieces(bytes)?.into_iter().filter_map(|(inner, piece)| {
        let name = numbers.get(&(outer, Some(inner)))?;
        Some((*name, piece))
    });
    Ok(named.collect())
}

/// Reads one field, unless it is empty and JSON would leave it out.
fn field(
    structure: &'static Struct,
    name: &str,
    piece: Piece<'_>,
    depth: u8,
    object: &mut Map<String, Value>,
) -> Result<(), Unreadable> {
    let Some(field) = structure.field(name) else {
        return Ok(());
    };
    match &field.kind {
        Type::List(kind) => {
            let one = value(kind, piece, depth)?;
            if let Value::Array(list) = object
                .entry(name)
                .or_insert_with(|| Value::Array(Vec::new()))
            {
                list.push(one);
            }
        }
        Type::Map(kind) => {
            let (key, one) = entry(kind, piece, depth)?;
            if let Value::Object(map) = object
                .entry(name)
                .or_insert_with(|| Value::Object(Map::new()))
            {
                map.insert(key, one);
            }
        }
        kind => {
            let one = value(kind, piece, depth)?;
            if !is_left_out(field, &one) {
                object.insert(name.to_owned(), one);
            }
        }
    }
    Ok(())
}

/// Go writes unset fields of plain types into protobuf; JSON has no place for them.
fn is_left_out(field: &Field, value: &Value) -> bool {
    let empty = match value {
        Value::Null => true,
        Value::Bool(bit) => !bit,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    };
    empty && !field.optional && (value.is_null() || field.written != Written::Always)
}

/// One entry of a map. A value that is a list itself comes wrapped into a message.
fn entry(kind: &Type, piece: Piece<'_>, depth: u8) -> Result<(String, Value), Unreadable> {
    let (mut key, mut found) = (String::new(), Value::Null);
    for (number, piece) in pieces(piece.bytes()?)? {
        match (number, kind) {
            (1, _) => key = text(piece.bytes()?),
            (2, Type::List(kind)) => {
                let items = pieces(piece.bytes()?)?.into_iter();
                let items = items.map(|(_, piece)| value(kind, piece, depth));
                found = Value::Array(items.collect::<Result<_, _>>()?);
            }
            (2, kind) => found = value(kind, piece, depth)?,
            _ => {}
        }
    }
    if found.is_null() && *kind == Type::Text {
        found = json!("");
    }
    Ok((key, found))
}

fn value(kind: &Type, piece: Piece<'_>, depth: u8) -> Result<Value, Unreadable> {
    Ok(match kind {
        Type::Text => json!(text(piece.bytes()?)),
        Type::Boolean => json!(piece.number()? != 0),
        Type::Integer32 | Type::Integer64 => json!(piece.number()?.cast_signed()),
        Type::Bytes => json!(STANDARD.encode(piece.bytes()?)),
        Type::Quantity => first(piece)?.map_or(json!("0"), |bytes| json!(text(bytes))),
        Type::Raw => first(piece)?
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .unwrap_or_default(),
        Type::IntOrString => int_or_string(piece.bytes()?)?,
        Type::Time => time(piece.bytes()?)?.map_or(Value::Null, |time| {
            json!(Timestamp::from_second(time.as_second()).unwrap_or(time))
        }),
        Type::MicroTime => time(piece.bytes()?)?.map_or(Value::Null, |time| {
            json!(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
        }),
        Type::Struct(place) => {
            let known: &'static Catalogue = catalogue();
            let structure = known.at(*place).ok_or(Unreadable::UnknownKind)?;
            let mut object = Map::new();
            message(structure, piece.bytes()?, depth, &mut object)?;
            Value::Object(object)
        }
        // Lists of lists and maps of maps do not exist in the API.
        Type::List(_) | Type::Map(_) => Value::Null,
    })
}

/// The bytes of the first field of a message that has only this one.
fn first(piece: Piece<'_>) -> Result<Option<&[u8]>, Unreadable> {
    let mut fields = pieces(piece.bytes()?)?.into_iter();
    match fields.find(|(number, _)| *number == 1) {
        Some((_, piece)) => piece.bytes().map(Some),
        None => Ok(None),
    }
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Unreadable> {
    let (mut is_text, mut number, mut name) = (false, 0, String::new());
    for (field, piece) in pieces(bytes)? {
        match field {
            1 => is_text = piece.number()? == 1,
            2 => number = piece.number()?.cast_signed(),
            3 => name = text(piece.bytes()?),
            _ => {}
        }
    }
    Ok(if is_text { json!(name) } else { json!(number) })
}

/// A moment; none if it is unset.
fn time(bytes: &[u8]) -> Result<Option<Timestamp>, Unreadable> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    for (field, piece) in pieces(bytes)? {
        match field {
            1 => seconds = piece.number()?.cast_signed(),
            2 => nanoseconds = i32::try_from(piece.number()?).unwrap_or_default(),
            _ => {}
        }
    }
    let unset = (seconds, nanoseconds) == (0, 0);
    Ok(Timestamp::new(seconds, nanoseconds).ok().filter(|_| !unset))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
