//! Regular expressions in Go's syntax, on Rust's engine.
//!
//! Both are of the same family and search alike; they differ in what is written how. So a pattern is
//! read as Go reads it ([`translate`]) and written anew. Groups lose their names on the way, which Go
//! allows to be almost anything; they are kept here.

mod class;
mod literal;
mod translate;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::buffer::Buffer;

/// How long a pattern may be; a template's text cannot be longer, but what it computes can.
const LONGEST_PATTERN: usize = 8 * 1024;
/// What a compiled pattern may take. Go limits the counts instead, to 1000 in all, which fits.
const MOST_MEMORY: usize = 4 * 1024 * 1024;

/// A regular expression in Go's syntax.
#[derive(Clone, Debug)]
pub struct GoRegex {
    source: String,
    regex: Regex,
    /// The names of the groups, from group 1 on.
    names: Vec<Option<String>>,
}

/// Why a text is not a regular expression in Go's syntax.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("error parsing regexp: {0}")]
pub struct RegexError(String);

impl GoRegex {
    /// Reads a pattern.
    pub fn new(pattern: &str) -> Result<Self, RegexError> {
        if pattern.len() > LONGEST_PATTERN {
            let message = format!("the pattern is longer than {LONGEST_PATTERN} bytes");
            return Err(RegexError(message));
        }
        let translated = translate::translate(pattern).map_err(RegexError)?;
        let regex = RegexBuilder::new(&translated.pattern)
            .size_limit(MOST_MEMORY)
            .build()
            .map_err(|error| RegexError(last_line(&error)))?;
        Ok(Self {
            source: pattern.to_owned(),
            regex,
            names: translated.names,
        })
    }

    /// The pattern.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it matches anywhere.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The leftmost match.
    pub fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.regex.find(text).map(|found| found.as_str())
    }

    /// A group of the leftmost match, 0 being all of it; none if nothing matches, there is no such group,
    /// or it took no part.
    pub fn group<'t>(&self, text: &'t str, group: usize) -> Option<&'t str> {
        let captures = self.regex.captures(text)?;
        captures.get(group).map(|found| found.as_str())
    }

    /// Replaces every match; `$1`, `${1}`, `$name` and `${name}` stand for groups, `$$` for a dollar.
    pub fn replace_all(&self, text: &str, replacement: &str) -> Result<String, String> {
        let mut out = Buffer::default();
        let mut end = 0;
        for captures in self.regex.captures_iter(text) {
            let Some(whole) = captures.get(0) else {
                continue;
            };
            out.push(&text[end..whole.start()])?;
            let group = |name: &str| self.named(&captures, name);
            expand(&mut out, replacement, &group)?;
            end = whole.end();
        }
        out.push(&text[end..])?;
        Ok(out.finish())
    }

    /// A group by number, or by name if it is no number. Numbers have no leading zeros.
    fn named<'t>(&self, captures: &regex::Captures<'t>, name: &str) -> &'t str {
        let is_number =
            name.bytes().all(|b| b.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
        let found = if is_number {
            name.parse().ok().and_then(|group| captures.get(group))
        } else {
            // Several groups may have one name: the first that took part counts.
            let named = self.names.iter().zip(1..);
            named
                .filter(|(known, _)| known.as_deref() == Some(name))
                .find_map(|(_, group)| captures.get(group))
        };
        found.map_or("", |found| found.as_str())
    }
}

/// Writes a replacement.
fn expand<'t>(
    out: &mut Buffer,
    replacement: &str,
    group: &dyn Fn(&str) -> &'t str,
) -> Result<(), String> {
    let mut rest = replacement;
    while let Some(at) = rest.find('$') {
        out.push(&rest[..at])?;
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push("$")?;
            rest = after;
        } else if let Some((name, after)) = reference(after) {
            out.push(group(name))?;
            rest = after;
        } else {
            out.push("$")?;
            rest = after;
        }
    }
    out.push(rest)
}

/// The name after a dollar, and what follows it.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (inner, braced) = match text.strip_prefix('{') {
        Some(inner) => (inner, true),
        None => (text, false),
    };
    let after = inner.trim_start_matches(|c: char| c == '_' || c.is_alphanumeric());
    let name = &inner[..inner.len() - after.len()];
    if name.is_empty() {
        return None;
    }
    if braced {
        after.strip_prefix('}').map(|after| (name, after))
    } else {
        Some((name, after))
    }
}

/// The engine shows the pattern, which is not the one that was written; the last line says why.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}
