//! Sets of field paths, and their JSON (`FieldsV1`): `f:name`, `k:{"key":…}`, `v:value`, and `.` for
//! the thing itself.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
};

use serde_json::{Map, Value, json};

use crate::schema::{Catalogue, Field, ListShape, Struct, Type};

/// A scalar that tells elements of a list apart, in the order the API sorts them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scalar {
    Integer(i64),
    Text(String),
    Boolean(bool),
    /// Anything else, as JSON.
    Other(String),
}

impl Scalar {
    pub(super) fn new(value: &Value) -> Self {
        match value {
            Value::Bool(flag) => Self::Boolean(*flag),
            Value::String(text) => Self::Text(text.clone()),
            Value::Number(number) => number
                .as_i64()
                .map_or_else(|| Self::Other(number.to_string()), Self::Integer),
            other => Self::Other(other.to_string()),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Integer(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Boolean(flag) => (*flag).into(),
            Self::Other(text) => serde_json::from_str(text).unwrap_or_default(),
        }
    }
}

impl Display for Scalar {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.to_value())
    }
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// A field of a structure or a key of a map.
    Field(String),
    /// The element of a list with these keys, sorted by name.
    Key(Vec<(String, Scalar)>),
    /// The element of a list with this value.
    Value(Scalar),
    /// The element at this place.
    Index(i64),
}

impl Step {
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let keys: Map<String, Value> = keys
                    .iter()
                    .map(|(name, value)| (name.clone(), value.to_value()))
                    .collect();
                format!("k:{}", Value::Object(keys))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn from_key(key: &str) -> Option<Self> {
        let (kind, rest) = key.split_once(':')?;
        match kind {
            "f" => Some(Self::field(rest)),
            "v" => Some(Self::Value(Scalar::new(&serde_json::from_str(rest).ok()?))),
            "i" => Some(Self::Index(rest.parse().ok()?)),
            "k" => {
                let keys: BTreeMap<String, Value> = serde_json::from_str(rest).ok()?;
                let keys = keys.into_iter();
                Some(Self::Key(
                    keys.map(|(name, value)| (name, Scalar::new(&value)))
                        .collect(),
                ))
            }
            _ => None,
        }
    }
}

impl Display for Step {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(keys) => {
                let texts: Vec<String> = keys
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                write!(formatter, "[{}]", texts.join(","))
            }
            Self::Value(value) => write!(formatter, "[={value}]"),
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// A path as messages show it: `.spec.ports[port=80,protocol="TCP"]`.
pub(super) fn path_text(path: &[Step]) -> String {
    path.iter().map(Step::to_string).collect()
}

/// A set of paths, as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Set(BTreeMap<Step, Node>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// The path that ends here is in the set.
    member: bool,
    below: Set,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl Set {
    pub(super) fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let steps: Vec<Step> = path.iter().copied().map(Step::field).collect();
            set.insert(&steps);
        }
        set
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, path: &[Step]) {
        match path {
            [] => {}
            [last] => self.0.entry(last.clone()).or_default().member = true,
            [first, rest @ ..] => self.0.entry(first.clone()).or_default().below.insert(rest),
        }
    }

    /// Whether the path of this one step is in the set.
    pub(super) fn has(&self, step: &Step) -> bool {
        self.0.get(step).is_some_and(|node| node.member)
    }

    /// What is in the set below that step.
    pub(super) fn below(&self, step: &Step) -> Option<&Self> {
        let below = &self.0.get(step)?.below;
        (!below.is_empty()).then_some(below)
    }

    fn build(nodes: impl Iterator<Item = (Step, Node)>) -> Self {
        Self(nodes.filter(|(_, node)| !node.is_empty()).collect())
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        for (step, node) in &other.0 {
            let into = result.0.entry(step.clone()).or_default();
            into.member |= node.member;
            into.below = into.below.union(&node.below);
        }
        result
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        Self::build(self.0.iter().filter_map(|(step, node)| {
            let other = other.0.get(step)?;
            let both = Node {
                member: node.member && other.member,
                below: node.below.intersection(&other.below),
            };
            Some((step.clone(), both))
        }))
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        Self::build(self.0.iter().map(|(step, node)| {
            let rest = match other.0.get(step) {
                None => node.clone(),
                Some(other) => Node {
                    member: node.member && !other.member,
                    below: node.below.difference(&other.below),
                },
            };
            (step.clone(), rest)
        }))
    }

    /// Without the other's paths and all that is below them.
    pub(super) fn without_trees(&self, other: &Self) -> Self {
        Self::build(self.0.iter().map(|(step, node)| {
            let rest = match other.0.get(step) {
                None => node.clone(),
                Some(other) if other.member => Node::default(),
                Some(other) => Node {
                    member: node.member,
                    below: node.below.without_trees(&other.below),
                },
            };
            (step.clone(), rest)
        }))
    }

    /// With every declared field on the way to a path, too.
    pub(super) fn with_parents(&self, shape: Shape) -> Self {
        Self::build(self.0.iter().map(|(step, node)| {
            let (inner, declared) = match (step, shape) {
                (Step::Field(name), Shape::Struct(structure)) => {
                    let field = structure.field(name);
                    (field.map_or(Shape::Leaf, Shape::of_field), field.is_some())
                }
                (Step::Field(_), Shape::Map(element))
                | (Step::Key(_), Shape::Keyed(element, _)) => (Shape::of_type(element), false),
                _ => (Shape::Leaf, false),
            };
            let node = Node {
                member: node.member || (declared && !node.below.is_empty()),
                below: node.below.with_parents(inner),
            };
            (step.clone(), node)
        }))
    }

    /// Every path: at each level first the paths that end there.
    pub(super) fn paths(&self) -> Vec<Vec<Step>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Step>, paths: &mut Vec<Vec<Step>>) {
        for (step, _) in self.0.iter().filter(|(_, node)| node.member) {
            paths.push(prefix.iter().chain([step]).cloned().collect());
        }
        for (step, node) in &self.0 {
            prefix.push(step.clone());
            node.below.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// `FieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let nodes = self.0.iter().map(|(step, node)| {
            let mut inner = node.below.to_json();
            if node.member && !node.below.is_empty() {
                inner["."] = json!({});
            }
            (step.to_key(), inner)
        });
        Value::Object(nodes.collect())
    }

    /// Reads `FieldsV1`; keys of a kind that is not known are dropped.
    pub(super) fn from_json(value: &Value) -> Self {
        let entries = value.as_object().into_iter().flatten();
        Self::build(entries.filter_map(|(key, value)| {
            let step = Step::from_key(key)?;
            let below = Self::from_json(value);
            let node = Node {
                member: below.is_empty() || value.get(".").is_some(),
                below,
            };
            Some((step, node))
        }))
    }
}

/// How ownership descends into a value.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Owned as one value: scalars and everything atomic.
    Leaf,
    Struct(&'static Struct),
    Map(&'static Type),
    /// A list of distinct scalars.
    Set,
    /// A list of structures with keys.
    Keyed(&'static Type, &'static [&'static str]),
}

impl Shape {
    pub(super) fn of_type(kind: &'static Type) -> Self {
        let catalogue: &'static Catalogue = crate::schema::catalogue();
        match kind {
            Type::Struct(place) => match catalogue.at(*place) {
                Some(structure) if !structure.atomic => Self::Struct(structure),
                _ => Self::Leaf,
            },
            Type::Map(element) => Self::Map(element),
            _ => Self::Leaf,
        }
    }

    pub(super) fn of_field(field: &'static Field) -> Self {
        match (&field.kind, &field.list) {
            (Type::List(_), ListShape::Set) => Self::Set,
            (Type::List(element), ListShape::Map(keys)) => Self::Keyed(element, keys),
            _ if field.atomic => Self::Leaf,
            (kind, _) => Self::of_type(kind),
        }
    }

    /// The shape of a member of a structure or map; `None` for an undeclared field.
    pub(super) fn member(self, name: &str) -> Option<Self> {
        match self {
            Self::Struct(structure) => structure.field(name).map(Self::of_field),
            Self::Map(element) => Some(Self::of_type(element)),
            _ => None,
        }
    }

    /// The shape of an element of a granular list.
    pub(super) fn element(self) -> Self {
        match self {
            Self::Keyed(element, _) => Self::of_type(element),
            _ => Self::Leaf,
        }
    }

    /// The step that leads to an element of a granular list; `None` if it has none of the keys.
    pub(super) fn step(self, item: &Value) -> Option<Step> {
        let Self::Keyed(element, keys) = self else {
            return (!item.is_null() && !item.is_object() && !item.is_array())
                .then(|| Step::Value(Scalar::new(item)));
        };
        let structure = crate::schema::catalogue().structure(element)?;
        let mut found: Vec<(String, Scalar)> = keys
            .iter()
            .filter_map(|name| {
                let default = || structure.field(name)?.default.as_ref();
                let value = item.as_object()?.get(*name).or_else(default)?;
                Some(((*name).to_owned(), Scalar::new(value)))
            })
            .collect();
        found.sort();
        (!found.is_empty()).then_some(Step::Key(found))
    }
}
