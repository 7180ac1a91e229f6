//! Go's text templates and regular expressions, as far as Bowline needs them.
//!
//! # What
//!
//! A provider may take rules whose values are Go templates, written for a program in Go. This
//! crate speaks that language: [`Template`] reads and renders, [`GoRegex`] is a regular expression in
//! Go's syntax. There is no I/O and no clock, and nothing here knows about machines.
//!
//! # Why not an engine that exists
//!
//! The best one there is follows `text/template` well but not to the end: `{{ else with }}` does not
//! parse, a missing map key prints `<no value>`, `eq 1 1.0` compares, `index` of a missing key is not
//! the empty text. None of that can be changed from outside.
//!
//! # The language
//!
//! All of `text/template`, with these differences:
//!
//! - Nil and what a map has not got print nothing. (`html/template` does so, `text/template` not.)
//! - Nothing is escaped.
//! - Values are texts, numbers, truth values, maps of texts and records of those. There are no lists,
//!   methods, channels, complex or hexadecimal fractional numbers; `call` is always an error.
//! - Texts are Unicode: an escape for a single byte beyond ASCII does not parse, and `slice` in the
//!   middle of a character is an error.
//! - `printf` knows neither argument numbers (`%[1]d`), widths from arguments (`%*d`), nor the bits of a
//!   fraction (`%x`, `%b`).
//!
//! # Limits
//!
//! A template's text, the rendered text and every text on the way, the steps of a rendering, and the
//! depth of blocks and calls are limited, each by a constant that says why. No template can hang or
//! fill the memory, whatever the data.
//!
//! ```text
//!  text ─▶ lex ─▶ parse ─▶ tree ─┐
//!                                ├─▶ execute ─▶ text
//!  functions, data (Value) ──────┘      │
//!                                       └─ builtins, format (printf), escape
//! ```
//!
//! ```
//! use bowline_templates::{Functions, Template, Value};
//!
//! let template = Template::parse("{{ . | printf \"<%s>\" }}", &Functions::builtin().into()).unwrap();
//! assert_eq!(template.render(&Value::text("a")).unwrap(), "<a>");
//! ```

mod buffer;
mod builtins;
mod escape;
mod execute;
mod format;
mod functions;
mod lex;
mod number;
mod parse;
mod regex;
mod tree;
mod value;

use std::sync::Arc;

pub use functions::{Function, Functions, Kind};
pub use regex::{GoRegex, RegexError};
use thiserror::Error;
pub use value::{Record, Value};

use parse::Parsed;

/// How long a template's text may be: a whole file of rules has less.
pub const LONGEST_TEMPLATE: usize = 64 * 1024;
/// How long any text may become while a template is rendered.
pub const LONGEST_TEXT: usize = buffer::LONGEST_TEXT;

/// A template that parses.
#[derive(Clone)]
pub struct Template {
    source: String,
    functions: Arc<Functions>,
    parsed: Arc<Parsed>,
}

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{line}: {message}")]
pub struct ParseError {
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl ParseError {
    pub(crate) fn at(source: &str, at: usize, message: String) -> Self {
        let (line, _) = position(source, at);
        Self { line, message }
    }
}

/// Why a template could not be rendered with that data.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{line}:{column}: {message}")]
pub struct RenderError {
    /// The line, from 1 on.
    pub line: usize,
    /// The byte of the line, from 0 on, as Go counts.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl RenderError {
    /// Whether it looks for a field that the data does not have, whatever the others say.
    pub fn is_unknown_field(&self) -> bool {
        self.message.contains("can't evaluate field")
    }

    pub(crate) fn at(source: &str, at: usize, message: String) -> Self {
        let (line, column) = position(source, at);
        Self {
            line,
            column,
            message,
        }
    }
}

fn position(source: &str, at: usize) -> (usize, usize) {
    let before = source.get(..at).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let column = before.len() - before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, column)
}

impl Template {
    /// Reads a template that may call these functions.
    pub fn parse(source: &str, functions: &Arc<Functions>) -> Result<Self, ParseError> {
        if source.len() > LONGEST_TEMPLATE {
            let message = format!("the template is longer than {LONGEST_TEMPLATE} bytes");
            return Err(ParseError::at(source, 0, message));
        }
        let parsed = parse::parse(source, &|name| functions.get(name).is_some())?;
        Ok(Self {
            source: source.to_owned(),
            functions: Arc::clone(functions),
            parsed: Arc::new(parsed),
        })
    }

    /// Its text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Fills it in.
    pub fn render(&self, data: &Value) -> Result<String, RenderError> {
        execute::render(self, data)
    }

    /// Whether a rendering may look at a field of that name, of whatever value.
    pub fn reads(&self, field: &str) -> bool {
        self.parsed.whole || self.parsed.fields.contains(field)
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Template").field(&self.source).finish()
    }
}

/// Two templates are equal if their texts are.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}
