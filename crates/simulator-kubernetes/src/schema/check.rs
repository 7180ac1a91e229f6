//! Decoding: an object as sent becomes the object as a server with typed objects would keep it.
//!
//! Unknown fields are found and left out, wrong types refused, and what remains is written the way
//! the server writes it: empty fields gone, structures that are always there present (`status: {}`).
//! Fields given twice cannot be seen here, because the JSON reader has already kept the last one:
//! the caller finds them in the bytes ([`twice`]).

use serde_json::{Map, Value, json};

use super::{
    Catalogue, Field, Struct, Type, Written, catalogue,
    scalar::{Problem, scalar},
    type_of,
};
use crate::{kinds::Kind, status::Refusal};

/// What to do about unknown fields: the `fieldValidation` parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and warn: what the server does when nothing was asked for.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

impl FieldValidation {
    /// Reads the query parameter; `None` if it is not one of the three words.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Warn" => Some(Self::Warn),
            "Ignore" => Some(Self::Ignore),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// A value does not have the type of its field; the text is the JSON decoder's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub String);

/// Checks a whole object: returns it as it is kept, and warnings.
pub fn check_fields(
    kind: &Kind,
    object: Value,
    mode: FieldValidation,
) -> Result<(Value, Vec<String>), Refusal> {
    let (object, warnings) = check_sent(kind, object, Vec::new(), mode)?;
    let kept = decode(&type_of(kind), object.clone()).map_or(object, |(kept, _)| kept);
    Ok((kept, warnings))
}

/// Checks an object that was sent whole (create, update): returns it as it is kept, and warnings.
/// `duplicates` are the paths of fields that were given twice.
pub fn check_sent(
    kind: &Kind,
    object: Value,
    duplicates: Vec<String>,
    mode: FieldValidation,
) -> Result<(Value, Vec<String>), Refusal> {
    let refuse = |why: &str| {
        let (name, version) = (kind.kind, kind.version);
        Refusal::bad_request(format!(
            "{name} in version \"{version}\" cannot be handled as a {name}: {why}"
        ))
    };
    let (object, unknown) =
        decode_as(&type_of(kind), object, true).map_err(|Unfit(error)| refuse(&error))?;
    judge(duplicates, unknown, mode)
        .map(|warnings| (object, warnings))
        .map_err(|error| refuse(&error))
}

/// Checks an object that a patch made. `shown` is what the message quotes: the patched object's
/// JSON after a JSON or merge patch, the patch (`patch::go_text`) after a
/// strategic one.
pub fn check_patched(
    kind: &Kind,
    object: Value,
    mode: FieldValidation,
    shown: &str,
) -> Result<(Value, Vec<String>), Refusal> {
    let refuse = |why: &str| refuse_patched(shown, why);
    let (object, unknown) =
        decode_as(&type_of(kind), object, true).map_err(|Unfit(error)| refuse(&error))?;
    judge(Vec::new(), unknown, mode)
        .map(|warnings| (object, warnings))
        .map_err(|error| refuse(&error))
}

/// 422 about what a patch made.
pub fn refuse_patched(shown: &str, why: &str) -> Refusal {
    // A strategic patch is applied to fields, not to JSON.
    let is_strategic = shown.starts_with("map[");
    let restores = why.contains("unmarshal array into") && why.contains("of type map[");
    let why = if is_strategic && restores {
        "cannot restore map from slice"
    } else {
        why
    };
    let quoted = Value::from(shown).to_string();
    let problem = format!("Invalid value: {quoted}: {why}");
    let mut refusal = Refusal::new(
        422,
        "Invalid",
        format!(" \"\" is invalid: patch: {problem}"),
    );
    refusal.details = json!({
        "causes": [{ "reason": "FieldValueInvalid", "message": problem, "field": "patch" }]
    });
    refusal
}

fn judge(
    duplicates: Vec<String>,
    unknown: Vec<String>,
    mode: FieldValidation,
) -> Result<Vec<String>, String> {
    let duplicates = duplicates
        .into_iter()
        .map(|path| format!("duplicate field \"{path}\""));
    let unknown = unknown
        .into_iter()
        .map(|path| format!("unknown field \"{path}\""));
    let texts = duplicates.chain(unknown);
    match mode {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(texts.collect()),
        FieldValidation::Strict => {
            let texts: Vec<String> = texts.collect();
            if texts.is_empty() {
                Ok(texts)
            } else {
                Err(format!("strict decoding error: {}", texts.join(", ")))
            }
        }
    }
}

/// Decodes a value of any type: returns it as it is kept, and the paths of unknown fields.
pub fn decode(kind: &Type, value: Value) -> Result<(Value, Vec<String>), Unfit> {
    decode_as(kind, value, false)
}

fn decode_as(kind: &Type, value: Value, sent: bool) -> Result<(Value, Vec<String>), Unfit> {
    let mut decoder = Decoder {
        catalogue: catalogue(),
        unknown: Vec::new(),
        sent,
    };
    let place = Place::default();
    let value = decoder.value(kind, None, value, &place)?;
    // In the order of the document, in which keys are sorted.
    decoder.unknown.sort();
    Ok((value, decoder.unknown))
}

/// Where the decoder is.
#[derive(Clone, Default)]
struct Place {
    /// `spec.taints[0]`.
    path: String,
    /// Structure that holds the field, and the fields on the way: how messages name it.
    owner: Option<(&'static str, String)>,
}

impl Place {
    fn field(&self, owner: &Struct, name: &str) -> Self {
        let join = |before: &str| match before {
            "" => name.to_owned(),
            before => format!("{before}.{name}"),
        };
        let fields = self.owner.as_ref().map_or("", |(_, fields)| fields);
        Self {
            path: join(&self.path),
            owner: Some((owner.name, join(fields))),
        }
    }

    fn inside(&self, suffix: &str) -> Self {
        Self {
            path: format!("{}{suffix}", self.path),
            owner: self.owner.clone(),
        }
    }

    fn unfit(&self, found: &str, wanted: &str) -> Unfit {
        let place = self.owner.as_ref().map_or_else(
            || "Go value".to_owned(),
            |(owner, fields)| format!("Go struct field {owner}.{fields}"),
        );
        Unfit(format!(
            "json: cannot unmarshal {found} into {place} of type {wanted}"
        ))
    }
}

struct Decoder {
    catalogue: &'static Catalogue,
    unknown: Vec<String>,
    /// Empty collections that were sent are still there: their sender owns them.
    sent: bool,
}

impl Decoder {
    fn value(
        &mut self,
        kind: &Type,
        go: Option<&str>,
        value: Value,
        place: &Place,
    ) -> Result<Value, Unfit> {
        match (kind, value) {
            (Type::Raw, value) => Ok(value),
            (_, Value::Null) => Ok(self.zero(kind)),
            (Type::Struct(index), Value::Object(map)) => match self.catalogue.at(*index) {
                Some(structure) => self.structure(structure, map, place),
                None => Ok(Value::Object(map)),
            },
            (Type::Map(element), Value::Object(map)) => {
                let go = go.and_then(|go| go.strip_prefix("map[string]"));
                map.into_iter()
                    .map(|(key, value)| {
                        let inside = place.inside(&format!(".{key}"));
                        let value = self.value(element, go, value, &inside)?;
                        Ok((key, without_null(element, value)))
                    })
                    .collect::<Result<Map<String, Value>, Unfit>>()
                    .map(Value::Object)
            }
            (Type::List(element), Value::Array(items)) => {
                let go = go.and_then(|go| go.strip_prefix("[]"));
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, value)| {
                        self.value(element, go, value, &place.inside(&format!("[{index}]")))
                    })
                    .collect::<Result<Vec<Value>, Unfit>>()
                    .map(Value::Array)
            }
            (kind, value) => scalar(kind, value).map_err(|problem| match problem {
                Problem::Kind(found) => {
                    let wanted = go.map_or_else(|| self.go_name(kind), str::to_owned);
                    place.unfit(&found, &wanted)
                }
                Problem::Text(text) => Unfit(text),
            }),
        }
    }

    fn structure(
        &mut self,
        structure: &'static Struct,
        mut map: Map<String, Value>,
        place: &Place,
    ) -> Result<Value, Unfit> {
        for name in map.keys() {
            if structure.field(name).is_none() {
                self.unknown.push(place.field(structure, name).path);
            }
        }
        let mut kept = Map::new();
        for field in &structure.fields {
            let value = match map.remove(field.name) {
                None | Some(Value::Null) => self.absent(field),
                Some(value) => {
                    let inside = place.field(structure, field.name);
                    let value = self.value(&field.kind, field.go, value, &inside)?;
                    present(field, value, self.sent)
                }
            };
            if let Some(value) = value {
                kept.insert(field.name.to_owned(), value);
            }
        }
        Ok(Value::Object(kept))
    }

    /// What is written for a field that was not given.
    fn absent(&self, field: &Field) -> Option<Value> {
        let nothing = match field.kind {
            Type::List(_) | Type::Map(_) | Type::Raw | Type::Bytes => true,
            _ => field.optional,
        };
        match field.written {
            Written::Always if nothing => Some(Value::Null),
            Written::Always => Some(self.zero(&field.kind)),
            Written::WhenNotZero => None,
            Written::WhenSet if nothing => None,
            // These are structures to the server, and structures are always written.
            Written::WhenSet => match field.kind {
                Type::Struct(_)
                | Type::Quantity
                | Type::IntOrString
                | Type::Time
                | Type::MicroTime => Some(self.zero(&field.kind)),
                _ => None,
            },
        }
    }

    fn zero(&self, kind: &Type) -> Value {
        match kind {
            Type::Text => "".into(),
            Type::Boolean => false.into(),
            Type::Integer32 | Type::Integer64 | Type::IntOrString => 0.into(),
            Type::Quantity => "0".into(),
            Type::Struct(index) => {
                let fields = self.catalogue.at(*index).map_or(&[][..], |s| &s.fields);
                fields
                    .iter()
                    .filter_map(|field| Some((field.name.to_owned(), self.absent(field)?)))
                    .collect::<Map<String, Value>>()
                    .into()
            }
            Type::Time
            | Type::MicroTime
            | Type::Bytes
            | Type::Raw
            | Type::List(_)
            | Type::Map(_) => Value::Null,
        }
    }

    fn go_name(&self, kind: &Type) -> String {
        match kind {
            Type::Text | Type::Time | Type::MicroTime => "string".to_owned(),
            Type::Boolean => "bool".to_owned(),
            Type::Integer32 | Type::IntOrString => "int32".to_owned(),
            Type::Integer64 => "int64".to_owned(),
            Type::Quantity => "resource.Quantity".to_owned(),
            Type::Bytes => "[]uint8".to_owned(),
            Type::Raw => "runtime.RawExtension".to_owned(),
            Type::Struct(index) => {
                let name = self.catalogue.at(*index).map_or("", |s| s.name);
                format!("v1.{name}")
            }
            Type::List(element) => format!("[]{}", self.go_name(element)),
            Type::Map(element) => format!("map[string]{}", self.go_name(element)),
        }
    }
}

/// An entry of a map is there, even if it is empty.
fn without_null(kind: &Type, value: Value) -> Value {
    match (kind, value) {
        (Type::List(_), Value::Null) => json!([]),
        (Type::Bytes, Value::Null) => "".into(),
        (_, value) => value,
    }
}

/// What is written for a field that was given.
fn present(field: &Field, value: Value, sent: bool) -> Option<Value> {
    if field.optional {
        return Some(value);
    }
    let empty = match &value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        _ if field.kind == Type::IntOrString => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && matches!(field.kind, Type::Map(_)),
    };
    match (field.written, &field.kind) {
        // Storage does not tell an empty collection from none.
        (Written::Always, Type::List(_) | Type::Map(_)) if empty && !sent => Some(Value::Null),
        (Written::WhenSet | Written::WhenNotZero, _) if empty => None,
        _ => Some(value),
    }
}
