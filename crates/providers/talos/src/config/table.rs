//! The keys of the cloud config, and findings about keys that mean nothing, or meant something
//! once.

use std::fmt;

use bowline_provider::first_document;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Finding, Severity};

/// What was seen beside the keys that are known.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) findings: Vec<Finding>,
    /// `preferIPv6` in another spelling; the original's documentation has one.
    pub(super) prefer_ipv6: Option<bool>,
    /// `global.endpoints`.
    pub(super) endpoints: Vec<String>,
}

/// A file's shape: keys in order, and little of its values.
#[derive(Debug)]
enum Shape {
    Map(Vec<(String, Shape)>),
    List(Vec<Shape>),
    Switch(bool),
    Text(String),
    Other,
}

/// The known keys by section. Under the four sections of a rule every key is the operator's own.
fn known(path: &[Step<'_>]) -> Option<&'static [&'static str]> {
    let names: Vec<&str> = path
        .iter()
        .map(|step| match step {
            Step::Key(key) => *key,
            Step::Item(_) => "[]",
        })
        .collect();
    Some(match names.as_slice() {
        [] => &["global", "transformations"],
        ["global"] => &["clusterName", "preferIPv6", "enforceTransformations"],
        ["transformations", "[]"] => &[
            "name",
            "nodeSelector",
            "annotations",
            "labels",
            "taints",
            "platformMetadata",
            "features",
        ],
        ["transformations", "[]", "nodeSelector", "[]"] => &["name", "matchExpressions"],
        [
            "transformations",
            "[]",
            "nodeSelector",
            "[]",
            "matchExpressions",
            "[]",
        ] => &["key", "operator", "values"],
        ["transformations", "[]", "features"] => &["publicIPDiscovery"],
        _ => return None,
    })
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Item(usize),
}

fn shown(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Item(number) => text.extend(["[", &number.to_string(), "]"]),
        }
    }
    text
}

/// Looks through the first document of a text that has been read without an error.
pub(super) fn read(text: &str) -> Seen {
    let mut seen = Seen::default();
    if let Ok(Some(shape)) = first_document(text) {
        look(&shape, &mut Vec::new(), &mut seen);
    }
    seen
}

fn look<'a>(shape: &'a Shape, path: &mut Vec<Step<'a>>, seen: &mut Seen) {
    match shape {
        Shape::Map(entries) => {
            let known = known(path);
            for (key, value) in entries {
                path.push(Step::Key(key));
                match known {
                    Some(known) if !known.contains(&key.as_str()) => unknown(path, value, seen),
                    Some(_) => look(value, path, seen),
                    None => {}
                }
                path.pop();
            }
        }
        Shape::List(items) => {
            for (number, item) in items.iter().enumerate() {
                path.push(Step::Item(number));
                look(item, path, seen);
                path.pop();
            }
        }
        Shape::Switch(_) | Shape::Text(_) | Shape::Other => {}
    }
}

fn unknown(path: &[Step<'_>], value: &Shape, seen: &mut Seen) {
    let in_global = matches!(path, [Step::Key("global"), Step::Key(_)]);
    let key = match path.last() {
        Some(Step::Key(key)) => *key,
        _ => "",
    };
    let message = match key {
        "endpoints" if in_global => {
            seen.endpoints = texts(value);
            "is no longer a key; it is used while TALOS_ENDPOINTS is not set".to_owned()
        }
        "approveNodeCSR" if in_global => {
            "is no longer a key; the controller node-csr-approval does this".to_owned()
        }
        "skipForeignNode" if in_global => {
            "is no longer a key; which cloud owns a node is decided by its provider id".to_owned()
        }
        key if in_global && key.eq_ignore_ascii_case("preferIPv6") => match value {
            Shape::Switch(value) => {
                seen.prefer_ipv6 = Some(*value);
                "is taken for preferIPv6, which is how it is written".to_owned()
            }
            _ => "has no effect; preferIPv6 is how it is written".to_owned(),
        },
        _ => "is no known key and has no effect".to_owned(),
    };
    seen.findings.push(Finding {
        severity: Severity::Warning,
        path: shown(path),
        message,
    });
}

fn texts(value: &Shape) -> Vec<String> {
    match value {
        Shape::List(items) => items.iter().flat_map(texts).collect(),
        Shape::Text(text) => vec![text.clone()],
        Shape::Map(_) | Shape::Switch(_) | Shape::Other => Vec::new(),
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyShape)
    }
}

struct AnyShape;

/// Whatever number it is does not matter.
macro_rules! numbers {
    ($($visit:ident: $number:ty,)*) => {
        $(fn $visit<E>(self, _: $number) -> Result<Shape, E> {
            Ok(Shape::Other)
        })*
    };
}

impl<'de> Visitor<'de> for AnyShape {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Shape, E> {
        Ok(Shape::Switch(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Shape, E> {
        Ok(Shape::Text(value.to_owned()))
    }

    numbers! {
        visit_i64: i64,
        visit_u64: u64,
        visit_i128: i128,
        visit_u128: u128,
        visit_f64: f64,
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Other)
    }

    fn visit_none<E>(self) -> Result<Shape, E> {
        Ok(Shape::Other)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Shape, D::Error> {
        Shape::deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Shape::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Option<String>>()? {
            entries.push((key.unwrap_or_default(), map.next_value()?));
        }
        Ok(Shape::Map(entries))
    }
}
