//! The functions that a template may call.

use std::collections::BTreeMap;

use crate::Value;
use crate::builtins;

/// What a function takes at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text and nothing else.
    Text,
    /// A whole number.
    Integer,
    /// A truth value.
    Boolean,
    /// Anything, nothing included.
    Anything,
}

impl Kind {
    /// As Go calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Integer => "int",
            Self::Boolean => "bool",
            Self::Anything => "interface {}",
        }
    }

    pub(crate) fn takes(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Self::Anything, _)
                | (Self::Text, Value::Text(_))
                | (Self::Integer, Value::Int(_))
                | (Self::Boolean, Value::Bool(_))
        )
    }
}

/// A function. Its arguments have been counted and are of the kinds it takes.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// What it takes, in order.
    pub parameters: &'static [Kind],
    /// What it takes after that, as often as wanted.
    pub rest: Option<Kind>,
    /// What it does; the error is a sentence without the function's name.
    pub call: fn(&[Value]) -> Result<Value, String>,
}

impl Function {
    /// One with a fixed number of parameters.
    pub const fn new(
        parameters: &'static [Kind],
        call: fn(&[Value]) -> Result<Value, String>,
    ) -> Self {
        Self {
            parameters,
            rest: None,
            call,
        }
    }

    /// One that takes more.
    pub const fn with_rest(
        parameters: &'static [Kind],
        rest: Kind,
        call: fn(&[Value]) -> Result<Value, String>,
    ) -> Self {
        Self {
            parameters,
            rest: Some(rest),
            call,
        }
    }

    /// What it takes at that place.
    pub(crate) fn kind_at(&self, place: usize) -> Kind {
        let kind = self.parameters.get(place).copied().or(self.rest);
        kind.unwrap_or(Kind::Anything)
    }

    /// Whether it can be called with that many arguments; otherwise why not.
    pub(crate) fn check_count(&self, name: &str, count: usize) -> Result<(), String> {
        let wanted = self.parameters.len();
        match self.rest {
            Some(_) if count < wanted => Err(format!(
                "wrong number of args for {name}: want at least {wanted} got {count}"
            )),
            None if count != wanted => Err(format!(
                "wrong number of args for {name}: want {wanted} got {count}"
            )),
            _ => Ok(()),
        }
    }
}

/// The functions of a kind of template, by name.
#[derive(Clone, Debug)]
pub struct Functions(BTreeMap<&'static str, Function>);

impl Functions {
    /// The language's own.
    pub fn builtin() -> Self {
        Self(builtins::FUNCTIONS.iter().copied().collect())
    }

    /// With more of them.
    #[must_use]
    pub fn with(mut self, more: &[(&'static str, Function)]) -> Self {
        self.0.extend(more.iter().copied());
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Function> {
        self.0.get(name)
    }
}

impl Default for Functions {
    fn default() -> Self {
        Self::builtin()
    }
}
