//! What templates compute with.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// A value of a template. Cheap to copy where it is large.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nil, or what a map has not got: prints nothing, is false, and equals nothing but itself.
    Nothing,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// One byte of a text, as `index` gives it.
    Byte(u8),
    /// A number with a fraction.
    Float(f64),
    Text(Arc<str>),
    /// Texts by name. One without entries is what Go calls a nil map.
    Map(Arc<BTreeMap<String, String>>),
    /// A value with a fixed set of fields.
    Record(Arc<Record>),
}

/// A value with a fixed set of fields: another name is an error, not absence.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What messages call it.
    pub name: &'static str,
    /// The fields, in order. Fields of a record among them are also reached directly, as those of
    /// an embedded struct are in Go.
    pub fields: Vec<(&'static str, Value)>,
}

impl Record {
    /// The value of a field; none if there is no such field.
    pub fn field(&self, name: &str) -> Option<&Value> {
        let own = self.fields.iter().find(|(field, _)| *field == name);
        own.map(|(_, value)| value).or_else(|| {
            self.fields.iter().find_map(|(_, value)| match value {
                Value::Record(embedded) => embedded.field(name),
                _ => None,
            })
        })
    }
}

impl Value {
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// Whether `if` takes its first branch.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Byte(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Record(_) => true,
        }
    }

    /// Whether it is what its kind begins as: nothing, false, 0, the empty text, a map without
    /// entries.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Record(record) => record.fields.iter().all(|(_, value)| value.is_zero()),
            other => !other.is_true(),
        }
    }

    /// The name of its type, as Go's messages have it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nothing => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Byte(_) => "uint8",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::Map(_) => "map[string]string",
            Self::Record(record) => record.name,
        }
    }
}

/// As an action prints it, but for nothing, which an action leaves out.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("<nil>"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Byte(value) => write!(f, "{value}"),
            Self::Float(value) => f.write_str(&crate::number::shortest(*value)),
            Self::Text(text) => f.write_str(text),
            Self::Map(map) => {
                f.write_str("map[")?;
                for (at, (key, value)) in map.iter().enumerate() {
                    let space = if at == 0 { "" } else { " " };
                    write!(f, "{space}{key}:{value}")?;
                }
                f.write_char(']')
            }
            Self::Record(record) => {
                f.write_char('{')?;
                for (at, (_, value)) in record.fields.iter().enumerate() {
                    let space = if at == 0 { "" } else { " " };
                    write!(f, "{space}{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}
