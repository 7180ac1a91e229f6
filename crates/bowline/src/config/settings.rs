//! The settings of each provider: the keys of its original's file, and what its original takes from the
//! environment alone.
//!
//! ```text
//!  settings of a cloud ─▶ check ─▶ references resolved ─▶ ProviderKind::input ─▶ the original's file, environment, flags
//! ```
//!
//! A provider reads them as it reads those of its original, so that there is one reader, one set of checks and
//! one meaning. The environment of the process is not looked at: two clouds of one kind would share it.

use std::collections::BTreeMap;

use bowline_core::Secret;
use bowline_provider::{ProviderInput, ProviderKind};
use serde_json::{Map, Value as Json};

use super::document::{Shape, Value};
use super::reference::Reference;
use super::schema::{Field, Kind};

/// Secrets by where they are.
pub(crate) type Resolved = BTreeMap<Reference, Secret>;

/// What the original of that provider would have been given. `value` has been checked; a reference that is not
/// resolved is left out.
pub(crate) fn input(provider: &ProviderKind, value: &Value, resolved: &Resolved) -> ProviderInput {
    (provider.input)(&render(value, &(provider.settings)(), resolved))
}

/// What the original of a provider calls a key, where that differs.
pub(crate) fn original_name(kind: &Kind, key: &str) -> Option<&'static str> {
    match kind {
        Kind::Object(fields) => {
            let own = |field: &Field| field.original.filter(|_| field.name == key);
            let mut all = fields.iter();
            all.find_map(|field| own(field).or_else(|| original_name(&field.kind, key)))
        }
        Kind::List(inner) | Kind::Map(inner) => original_name(inner, key),
        _ => None,
    }
}

/// The file that a reference names.
fn file_of(value: &Value) -> Option<String> {
    Some(value.get("file")?.text()?.to_owned())
}

/// The value as JSON, which is YAML too: texts in quotes, switches and numbers without.
fn render(value: &Value, kind: &Kind, resolved: &Resolved) -> Json {
    match (kind, &value.shape) {
        (Kind::Secret | Kind::TextOrSecret, Shape::Map(_)) => {
            let reference = Reference::read(value, "").ok();
            let secret = reference.and_then(|it| resolved.get(&it));
            secret.map_or(Json::Null, |it| Json::String(it.reveal().to_owned()))
        }
        (Kind::Object(fields), Shape::Map(entries)) => {
            let mut map = Map::new();
            for entry in entries {
                let field = fields.iter().find(|field| field.name == entry.key);
                let Some(field) = field else { continue };
                // What was read from a file would not be followed.
                if let (Some(key), Some(path)) = (field.file_as, file_of(&entry.value)) {
                    map.insert(key.to_owned(), Json::String(path));
                    continue;
                }
                let json = render(&entry.value, &field.kind, resolved);
                map.insert(entry.key.clone(), json);
            }
            Json::Object(map)
        }
        (Kind::Map(inner), Shape::Map(entries)) => {
            let all = entries.iter();
            let all = all.map(|it| (it.key.clone(), render(&it.value, inner, resolved)));
            Json::Object(all.collect())
        }
        (Kind::List(inner), Shape::List(items)) => {
            Json::Array(items.iter().map(|it| render(it, inner, resolved)).collect())
        }
        (Kind::Texts, Shape::List(items)) => {
            let all = items.iter().map(|it| render(it, &Kind::Text, resolved));
            Json::Array(all.collect())
        }
        (Kind::Switch, Shape::Scalar { text, .. }) => Json::Bool(text == "true"),
        (Kind::Whole(..), Shape::Scalar { text, .. }) => {
            text.parse::<i64>().map_or(Json::Null, Json::from)
        }
        (_, Shape::Scalar { text, .. }) => Json::String(text.clone()),
        (_, Shape::Nothing | Shape::List(_) | Shape::Map(_)) => Json::Null,
    }
}
