//! The tree of a template.

use std::sync::Arc;

use crate::number::Number;

pub(crate) type Body = Vec<Node>;

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Text(String),
    Action(Pipeline),
    /// What decides and what happens then, in turn; what happens otherwise.
    If(Vec<(Pipeline, Body)>, Body),
    With(Vec<(Pipeline, Body)>, Body),
    Range(Pipeline, Body, Body),
    Template {
        name: String,
        pipeline: Option<Pipeline>,
        at: usize,
    },
    Break,
    Continue,
}

/// Commands, each handed the value of the one before; the last value goes to the variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pipeline {
    pub(crate) declares: Vec<String>,
    /// `=` instead of `:=`.
    pub(crate) assigns: bool,
    pub(crate) commands: Vec<Command>,
}

#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) words: Vec<Word>,
}

/// An operand and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) operand: Operand,
    pub(crate) at: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    Text(Arc<str>),
    Field(Vec<String>),
    /// The name with its dollar, and fields of its value.
    Variable(String, Vec<String>),
    Function(String),
    /// In parentheses.
    Pipeline(Pipeline),
    /// Fields of what is not a field or variable itself.
    Chain(Box<Word>, Vec<String>),
}

impl Operand {
    /// Whether it can neither be called nor have fields.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(
            self,
            Self::Dot | Self::Nil | Self::Bool(_) | Self::Number(_) | Self::Text(_)
        )
    }
}
