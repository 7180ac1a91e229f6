//! What the server knows about the fields of its kinds: types, list semantics, patch strategies,
//! defaults. The facts are data (`types.txt`, described in its head) and are read once;
//! `e2e/control-plane/facts` writes them from Kubernetes' own types and OpenAPI documents.
//!
//! Decoding ([`check_fields`]), patching, server-side apply and the OpenAPI documents all ask here.

mod check;
mod load;
mod quantity;
mod scalar;
#[cfg(test)]
mod tests;
mod twice;

use std::{collections::BTreeMap, sync::OnceLock};

use serde_json::Value;

use super::kinds::Kind;

pub use check::{
    FieldValidation, Unfit, check_fields, check_patched, check_sent, decode, refuse_patched,
};
pub use twice::twice;

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A string, also one with a closed set of values.
    Text,
    Boolean,
    Integer32,
    Integer64,
    /// An amount such as `500m` or `2Gi`.
    Quantity,
    /// A number or a name, such as a target port.
    IntOrString,
    /// A moment, to the second.
    Time,
    /// A moment, to the microsecond.
    MicroTime,
    /// Bytes, base64 on the wire.
    Bytes,
    /// Any JSON, not looked into.
    Raw,
    /// A structure: its place in the [`Catalogue`].
    Struct(usize),
    List(Box<Type>),
    Map(Box<Type>),
}

/// When a field appears in what the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// When it is not empty; structures always.
    WhenSet,
    /// Always, `null` included.
    Always,
    /// When it is not zero, structures included.
    WhenNotZero,
}

/// What server-side apply owns in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListShape {
    /// The list as one value.
    Atomic,
    /// Each element, by its value.
    Set,
    /// Each element, by the value of these fields.
    Map(Vec<&'static str>),
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged; without it they are replaced.
    pub merge: bool,
    /// The patch names the keys to retain.
    pub retain_keys: bool,
    /// The field by which elements of a merged list are recognised.
    pub key: Option<&'static str>,
}

/// One field of a structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// JSON name.
    pub name: &'static str,
    pub kind: Type,
    /// Absence and zero are told apart.
    pub optional: bool,
    pub required: bool,
    pub written: Written,
    /// List semantics; meaningless for other types.
    pub list: ListShape,
    /// A map that server-side apply owns whole.
    pub atomic: bool,
    /// Strategic merge patch.
    pub patch: PatchStrategy,
    /// Its static default, of which keys of lists are made.
    pub default: Option<Value>,
    /// Type name in messages, where it is not the obvious one.
    pub go: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    /// `NodeStatus`.
    pub name: &'static str,
    /// `io.k8s.api.core.v1`.
    pub package: &'static str,
    /// Server-side apply owns it as one value.
    pub atomic: bool,
    /// Fields, in the order of the API.
    pub fields: Vec<Field>,
}

impl Struct {
    /// The field of that JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Its name in OpenAPI documents.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.package, self.name)
    }
}

/// Every structure that can be reached from a served kind.
#[derive(Debug, Default)]
pub struct Catalogue {
    structs: Vec<Struct>,
    places: BTreeMap<String, usize>,
}

impl Catalogue {
    /// The structure at a place.
    pub fn at(&self, place: usize) -> Option<&Struct> {
        self.structs.get(place)
    }

    /// The structure with that OpenAPI name.
    pub fn named(&self, full_name: &str) -> Option<(usize, &Struct)> {
        let place = *self.places.get(full_name)?;
        Some((place, self.structs.get(place)?))
    }

    /// The structure behind a type, if it is one.
    pub fn structure(&self, kind: &Type) -> Option<&Struct> {
        match kind {
            Type::Struct(place) => self.at(*place),
            _ => None,
        }
    }

    pub fn structs(&self) -> &[Struct] {
        &self.structs
    }
}

/// The structures, read once.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    // A test reads the text; a broken one never ships.
    CATALOGUE.get_or_init(|| load::read(TEXT).unwrap_or_default())
}

const TEXT: &str = include_str!("schema/types.txt");

/// The OpenAPI package of an API group.
pub fn package(group: &str) -> String {
    let short = match group {
        "" => "core",
        other => other.split('.').next().unwrap_or(other),
    };
    format!("io.k8s.api.{short}.v1")
}

/// The type of a served kind.
pub fn type_of(kind: &Kind) -> Type {
    type_named(kind.group, kind.kind)
}

/// The type of that name in a group; also finds what only sub-resources take (`Binding`,
/// `TokenRequest`, `Eviction`). Unknown names are opaque.
pub fn type_named(group: &str, name: &str) -> Type {
    catalogue()
        .named(&format!("{}.{name}", package(group)))
        .map_or(Type::Raw, |(place, _)| Type::Struct(place))
}
