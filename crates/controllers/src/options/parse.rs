//! From command-line arguments to values, with the rules of the originals' flag library.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{nearest, quote};

use super::table::{Flag, FlagEffect, Table};
use super::value::Value;

/// Why a command line was not understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UsageError {
    /// The text after `Error: `.
    pub message: String,
    /// A flag that may have been meant, as `--name`.
    pub suggestion: Option<String>,
    /// Whether the usage text goes before the error.
    pub shows_usage: bool,
}

impl UsageError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            suggestion: None,
            shows_usage: true,
        }
    }

    /// The lines to print after the usage text.
    pub fn lines(&self) -> String {
        match &self.suggestion {
            Some(name) => format!("Error: {}\nDid you mean {name}?\n", self.message),
            None => format!("Error: {}\n", self.message),
        }
    }
}

/// The final value of every flag, given or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    values: BTreeMap<&'static str, Value>,
    given: BTreeSet<&'static str>,
}

impl Values {
    /// The defaults of the table, with the provider's name preset if there is one.
    pub fn defaults(table: Table, cloud_provider: Option<&str>) -> Self {
        let known = table
            .flags()
            .filter(|flag| flag.effect != FlagEffect::Removed);
        let mut values: BTreeMap<_, _> = known
            .map(|flag| (flag.name, flag.default_value()))
            .collect();
        if let Some(name) = cloud_provider {
            values.insert("cloud-provider", Value::Text(name.to_owned()));
        }
        Self {
            values,
            given: BTreeSet::new(),
        }
    }

    /// Whether the flag was on the command line.
    pub fn given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// The value of a flag; none if there is no such flag.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Every flag with its value, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.values.iter().map(|(name, value)| (*name, value))
    }

    /// Gives a flag another default: what these texts on a command line would say.
    fn preset(&mut self, table: Table, name: &str, texts: &[String]) -> Result<(), String> {
        let Some(flag) = table.find(name) else {
            return Err(format!("there is no flag {}", quote(name)));
        };
        let mut value = None;
        for text in texts {
            value = Some(flag.kind.read(text, value)?);
        }
        if let Some(value) = value {
            self.values.insert(flag.name, value);
        }
        Ok(())
    }

    /// What was given of the flags that single clouds have, as it would be written.
    pub(super) fn own(&self, table: Table) -> BTreeMap<String, String> {
        let given = table.own().iter().filter(|flag| self.given(flag.name));
        let text = |flag: &Flag| Some((flag.name.to_owned(), self.get(flag.name)?.to_string()));
        given.filter_map(text).collect()
    }

    fn set(&mut self, flag: &'static Flag, text: &str) -> Result<(), String> {
        let before = self
            .given
            .contains(flag.name)
            .then(|| self.values.remove(flag.name))
            .flatten();
        let value = flag.kind.read(text, before)?;
        self.values.insert(flag.name, value);
        self.given.insert(flag.name);
        Ok(())
    }

    /// The text of a flag that takes one.
    pub(super) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    pub(super) fn switch(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Switch(true)))
    }
}

/// What was read: the values, and what the user should know about them.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) values: Values,
    pub(super) warnings: Vec<String>,
}

/// Reads the arguments (without the program's name). `program` stands in error messages.
pub(super) fn read(
    table: Table,
    (program, cloud_provider): (&str, Option<&str>),
    presets: &[(&str, Vec<String>)],
    arguments: &[String],
) -> Result<Read, UsageError> {
    let mut values = Values::defaults(table, cloud_provider);
    for (name, texts) in presets {
        let preset = values.preset(table, name, texts);
        preset.map_err(|reason| UsageError::new(format!("--{name}: {reason}")))?;
    }
    let mut reader = Reader {
        table,
        values,
        warned: BTreeSet::new(),
        warnings: Vec::new(),
    };
    let mut rest = arguments.iter();
    let mut positional: Vec<&str> = Vec::new();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            positional.extend(rest.by_ref().map(String::as_str));
        } else if argument.starts_with("--") {
            reader.long(argument, &mut rest)?;
        } else if argument.starts_with('-') && argument.len() > 1 {
            reader.short(argument, &mut rest)?;
        } else {
            positional.push(argument);
        }
    }
    let wanted_text = reader.values.switch("help") || reader.values.text("version") != "false";
    if !wanted_text && positional.iter().any(|argument| !argument.is_empty()) {
        return Err(superfluous(program, &positional));
    }
    if let Some(Value::Gates(gates)) = reader.values.get("feature-gates") {
        reader.warnings.extend(super::gates::warnings(gates));
    }
    Ok(Read {
        values: reader.values,
        warnings: reader.warnings,
    })
}

fn superfluous(program: &str, arguments: &[&str]) -> UsageError {
    let list: Vec<_> = arguments.iter().map(|argument| quote(argument)).collect();
    let (program, list) = (quote(program), list.join(" "));
    let message = format!("{program} does not take any arguments, got [{list}]");
    UsageError {
        shows_usage: false,
        ..UsageError::new(message)
    }
}

struct Reader {
    table: Table,
    values: Values,
    warned: BTreeSet<&'static str>,
    warnings: Vec<String>,
}

type Rest<'a> = std::slice::Iter<'a, String>;

impl Reader {
    /// `--name`, `--name=value`, `--name value`.
    fn long(&mut self, argument: &str, rest: &mut Rest) -> Result<(), UsageError> {
        let body = &argument[2..];
        if body.starts_with(['-', '=']) {
            return Err(UsageError::new(format!("bad flag syntax: {argument}")));
        }
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let Some(flag) = self.table.find(name) else {
            let mut error = UsageError::new(format!("unknown flag: --{name}"));
            error.suggestion = suggestion(self.table, name).map(|name| format!("--{name}"));
            return Err(error);
        };
        let value = match value {
            Some(value) => value,
            None if flag.kind.stands_alone() => "true",
            None => rest
                .next()
                .ok_or_else(|| UsageError::new(format!("flag needs an argument: --{name}")))?,
        };
        self.give(flag, value)
    }

    /// `-v 3`, `-v=3`, `-v3`, `-h`; short switches may share one dash.
    fn short(&mut self, argument: &str, rest: &mut Rest) -> Result<(), UsageError> {
        let mut body = &argument[1..];
        while let Some(letter) = body.chars().next() {
            let after = &body[letter.len_utf8()..];
            let mut flags = self.table.flags();
            let Some(flag) = flags.find(|flag| flag.short == Some(letter)) else {
                let message = format!("unknown shorthand flag: '{letter}' in {argument}");
                return Err(UsageError::new(message));
            };
            if let Some(value) = after.strip_prefix('=') {
                return self.give(flag, value);
            }
            if flag.kind.stands_alone() {
                self.give(flag, "true")?;
                body = after;
            } else if after.is_empty() {
                let message = format!("flag needs an argument: '{letter}' in {argument}");
                let value = rest.next().ok_or_else(|| UsageError::new(message))?;
                return self.give(flag, value);
            } else {
                return self.give(flag, after);
            }
        }
        Ok(())
    }

    fn give(&mut self, flag: &'static Flag, value: &str) -> Result<(), UsageError> {
        if flag.effect == FlagEffect::Removed {
            self.warn(
                flag,
                format!("Flag --{} has been removed; it has no effect", flag.name),
            );
            return Ok(());
        }
        self.values.set(flag, value).map_err(|reason| {
            let name = match flag.short {
                Some(letter) => format!("-{letter}, --{}", flag.name),
                None => format!("--{}", flag.name),
            };
            let (value, name) = (quote(value), quote(&name));
            UsageError::new(format!(
                "invalid argument {value} for {name} flag: {reason}"
            ))
        })?;
        if let Some(instead) = flag.deprecated {
            self.warn(
                flag,
                format!("Flag --{} has been deprecated, {instead}", flag.name),
            );
        }
        Ok(())
    }

    /// One line per flag, however often it is given.
    fn warn(&mut self, flag: &'static Flag, line: String) {
        if self.warned.insert(flag.name) {
            self.warnings.push(line);
        }
    }
}

/// The known flag that was probably meant.
fn suggestion(table: Table, name: &str) -> Option<&'static str> {
    let name = name.replace('_', "-");
    let known = table
        .flags()
        .filter(|flag| flag.effect != FlagEffect::Removed);
    nearest(&name, known.map(|flag| flag.name))
}
