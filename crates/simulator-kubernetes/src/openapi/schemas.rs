//! `components.schemas`: every structure that a group's kinds reach.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::{
    discovery::subresource,
    kinds::{KINDS, Kind, Role},
    schema::{Catalogue, Field, ListShape, Struct, Type, Written, catalogue, package},
};

/// Descriptions: `Struct` or `Struct.field`, a space, the text. In our own words, so written by hand,
/// unlike the facts of the schema.
const WORDS: &str = include_str!("words.txt");

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

pub(super) fn reference(full_name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{full_name}") })
}

/// The schema of a patch body.
pub(super) fn patch_name() -> String {
    format!("{META}.Patch")
}

/// The schema name of a kind, or of what a sub-resource takes.
pub(super) fn name_of(group: &str, kind: &str) -> String {
    format!("{}.{kind}", package(group))
}

pub(super) fn schemas(group: &str, version: &str) -> Map<String, Value> {
    let writer = SchemaWriter {
        catalogue: catalogue(),
        words: WORDS
            .lines()
            .filter_map(|line| line.split_once(' '))
            .collect(),
    };
    let mut schemas = special();
    let mut wanted: BTreeSet<String> = ["DeleteOptions", "Status", "ListMeta", "ObjectMeta"]
        .iter()
        .map(|name| format!("{META}.{name}"))
        .collect();
    for kind in KINDS {
        if (kind.group, kind.version) != (group, version) {
            continue;
        }
        wanted.insert(name_of(group, kind.kind));
        for name in kind.subresources {
            let sub = subresource(kind, name);
            let group = if sub.group.is_empty() {
                kind.group
            } else {
                sub.group
            };
            wanted.insert(name_of(group, sub.kind));
        }
        if kind.role == Role::Stored {
            schemas.insert(format!("{}List", name_of(group, kind.kind)), list_of(kind));
        }
    }
    while let Some(name) = wanted.pop_first() {
        if schemas.contains_key(&name) {
            continue;
        }
        if let Some((_, structure)) = writer.catalogue.named(&name) {
            wanted.extend(writer.reached(structure));
            schemas.insert(name, writer.structure(structure));
        }
    }
    schemas
}

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!([{ "group": group, "version": version, "kind": kind }])
}

fn list_of(kind: &Kind) -> Value {
    let item = reference(&name_of(kind.group, kind.kind));
    json!({
        "description": format!("A list of {}.", kind.plural),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "allOf": [reference(&format!("{META}.ListMeta"))], "default": {} },
            "items": { "type": "array", "items": { "allOf": [item], "default": {} } },
        },
        "x-kubernetes-group-version-kind": gvk(kind.group, kind.version, &format!("{}List", kind.kind)),
    })
}

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// Types that are scalars or opaque on the wire but have names.
fn special() -> Map<String, Value> {
    let named = [
        (
            QUANTITY.to_owned(),
            json!({
                "description": "An amount: a number with an optional suffix such as m, k, Mi, Gi.",
                "oneOf": [{ "type": "string" }, { "type": "number" }],
            }),
        ),
        (
            INT_OR_STRING.to_owned(),
            json!({
                "description": "A number or a name.", "format": "int-or-string",
                "oneOf": [{ "type": "integer" }, { "type": "string" }],
            }),
        ),
        (
            format!("{META}.Time"),
            json!({ "description": "A moment, to the second.", "type": "string", "format": "date-time" }),
        ),
        (
            format!("{META}.MicroTime"),
            json!({ "description": "A moment, to the microsecond.", "type": "string", "format": "date-time" }),
        ),
        (
            format!("{META}.FieldsV1"),
            json!({ "description": "A set of fields.", "type": "object" }),
        ),
        (
            patch_name(),
            json!({ "description": "A patch: its form is the content type's.", "type": "object" }),
        ),
    ];
    named.into_iter().collect()
}

struct SchemaWriter {
    catalogue: &'static Catalogue,
    words: BTreeMap<&'static str, &'static str>,
}

impl SchemaWriter {
    fn structure(&self, structure: &Struct) -> Value {
        let properties: Map<String, Value> = structure
            .fields
            .iter()
            .map(|field| {
                let words = self
                    .words
                    .get(format!("{}.{}", structure.name, field.name).as_str());
                let words = words.or_else(|| self.words.get(format!("*.{}", field.name).as_str()));
                (field.name.to_owned(), self.property(field, words.copied()))
            })
            .collect();
        let mut schema = json!({ "type": "object" });
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        if let Some(words) = self.words.get(structure.name) {
            schema["description"] = (*words).into();
        }
        let required: Vec<&str> = structure
            .fields
            .iter()
            .filter(|field| field.required)
            .map(|field| field.name)
            .collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if structure.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        if let Some(kind) = KINDS
            .iter()
            .find(|kind| name_of(kind.group, kind.kind) == structure.full_name())
        {
            schema["x-kubernetes-group-version-kind"] = gvk(kind.group, kind.version, kind.kind);
        }
        schema
    }

    fn property(&self, field: &Field, words: Option<&str>) -> Value {
        let mut property = self.kind(&field.kind);
        if let Some(reference) = property.get("$ref").cloned() {
            property = json!({ "allOf": [{ "$ref": reference }] });
            let structure = matches!(field.kind, Type::Struct(_));
            if structure && !field.optional && field.written != Written::WhenNotZero {
                property["default"] = json!({});
            }
        }
        if let Some(default) = &field.default {
            property["default"] = default.clone();
        }
        if let Some(words) = words {
            property["description"] = words.into();
        }
        if matches!(field.kind, Type::List(_)) {
            property["x-kubernetes-list-type"] = match &field.list {
                ListShape::Atomic => "atomic",
                ListShape::Set => "set",
                ListShape::Map(keys) => {
                    property["x-kubernetes-list-map-keys"] = json!(keys);
                    "map"
                }
            }
            .into();
        }
        if field.atomic {
            property["x-kubernetes-map-type"] = "atomic".into();
        }
        let strategies: Vec<&str> = [
            (field.patch.merge, "merge"),
            (field.patch.retain_keys, "retainKeys"),
        ]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect();
        if !strategies.is_empty() {
            property["x-kubernetes-patch-strategy"] = strategies.join(",").into();
        }
        if let Some(key) = field.patch.key {
            property["x-kubernetes-patch-merge-key"] = key.into();
        }
        property
    }

    fn kind(&self, kind: &Type) -> Value {
        match kind {
            Type::Text => json!({ "type": "string" }),
            Type::Boolean => json!({ "type": "boolean" }),
            Type::Integer32 => json!({ "type": "integer", "format": "int32" }),
            Type::Integer64 => json!({ "type": "integer", "format": "int64" }),
            Type::Bytes => json!({ "type": "string", "format": "byte" }),
            Type::List(element) => json!({ "type": "array", "items": self.element(element) }),
            Type::Map(element) => {
                json!({ "type": "object", "additionalProperties": self.element(element) })
            }
            named => self
                .name(named)
                .map_or_else(|| json!({}), |name| reference(&name)),
        }
    }

    fn element(&self, kind: &Type) -> Value {
        let element = self.kind(kind);
        match kind {
            Type::Struct(_) => json!({ "allOf": [element], "default": {} }),
            _ => element,
        }
    }

    fn name(&self, kind: &Type) -> Option<String> {
        Some(match kind {
            Type::Quantity => QUANTITY.to_owned(),
            Type::IntOrString => INT_OR_STRING.to_owned(),
            Type::Time => format!("{META}.Time"),
            Type::MicroTime => format!("{META}.MicroTime"),
            Type::Raw => format!("{META}.FieldsV1"),
            Type::Struct(place) => self.catalogue.at(*place)?.full_name(),
            _ => return None,
        })
    }

    /// The structures that a structure's fields name.
    fn reached(&self, structure: &Struct) -> Vec<String> {
        let inner = |mut kind: &'static Type| {
            while let Type::List(element) | Type::Map(element) = kind {
                kind = element;
            }
            self.catalogue.structure(kind).map(Struct::full_name)
        };
        let structure = self.catalogue.named(&structure.full_name());
        let fields = structure.map_or(&[][..], |(_, structure)| &structure.fields);
        fields
            .iter()
            .filter_map(|field| inner(&field.kind))
            .collect()
    }
}
