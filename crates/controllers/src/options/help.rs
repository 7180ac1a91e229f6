//! Texts made from the table: usage, the lines that list all values, the reference page.

use std::fmt::Write as _;

use bowline_core::quote;

use super::Values;
use super::controllers::CONTROLLERS;
use super::table::{Category, Flag, FlagEffect, Table};
use super::value::{Kind, Value};

/// Width of the help text; terminals of 80 columns wrap nothing important.
const WIDTH: usize = 90;
/// Where a flag's explanation starts.
const INDENT: usize = 10;

/// The usage text: what `--help` prints after the description, and what goes before a flag error.
pub fn usage(table: Table, program: &str, cloud_provider: Option<&str>) -> String {
    let mut text = format!("Usage:\n  {program} [flags]\n");
    for category in table.categories() {
        let _ = write!(text, "\n{} flags:\n\n", category.title());
        for flag in table.flags().filter(|flag| flag.category == category) {
            describe(&mut text, flag, cloud_provider);
        }
    }
    text
}

fn describe(text: &mut String, flag: &Flag, cloud_provider: Option<&str>) {
    let short = flag
        .short
        .map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
    let placeholder = match flag.kind {
        Kind::Version => "[=true|raw]".to_owned(),
        kind if kind.placeholder().is_empty() => String::new(),
        kind => format!(" {}", kind.placeholder()),
    };
    let name = flag.name;
    let _ = writeln!(text, "  {short}--{name}{placeholder}");
    let mut sentence = flag.help.to_owned();
    if flag.name == "controllers" {
        let names = |on| {
            let known = CONTROLLERS.iter().filter(|known| known.on_by_default == on);
            known.map(|known| known.name).collect::<Vec<_>>().join(", ")
        };
        let _ = write!(sentence, " On by default: {}.", names(true));
        let _ = write!(sentence, " Off by default: {}.", names(false));
    }
    if let Some(default) = shown_default(flag, cloud_provider) {
        let _ = write!(sentence, " (default {default})");
    }
    if let Some(instead) = flag.deprecated {
        let _ = write!(sentence, " (DEPRECATED: {instead})");
    }
    for line in wrap(&sentence, WIDTH - INDENT) {
        let _ = writeln!(text, "{:INDENT$}{line}", "");
    }
}

/// The default as the originals show it; nothing for the empty value of a kind.
fn shown_default(flag: &Flag, cloud_provider: Option<&str>) -> Option<String> {
    if flag.effect == FlagEffect::Removed {
        return None;
    }
    let value = match cloud_provider {
        Some(name) if flag.name == "cloud-provider" => Value::Text(name.to_owned()),
        _ => flag.default_value(),
    };
    match &value {
        Value::Text(text) if text.is_empty() || text == "0" || text == "false" => None,
        Value::Text(text) => Some(quote(text)),
        Value::List(items) if items.is_empty() => None,
        Value::IntegerList(items) if items.is_empty() => None,
        Value::Switch(false)
        | Value::Integer(0)
        | Value::Repeated(_)
        | Value::Gates(_)
        | Value::Levels(_) => None,
        Value::Duration(duration) if duration.is_zero() => None,
        _ => Some(value.to_string()),
    }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// One line per flag with its final value: `FLAG: --name="value"`, by name.
pub fn flag_lines(values: &Values) -> Vec<String> {
    values
        .iter()
        .map(|(name, value)| format!("FLAG: --{name}={}", quote(&value.to_string())))
        .collect()
}

/// The reference page of all flags, in Markdown.
pub fn reference_markdown(table: Table) -> String {
    let mut page = String::from(
        "# Command-line flags\n\n\
         Written from the table in the source; do not edit by hand.\n\n\
         `--name value` and `--name=value` mean the same; a switch may stand alone. Underscores\n\
         and hyphens are interchangeable. Lists are comma separated or repeated: the first\n\
         occurrence replaces the default, later ones append. Durations look like `1m30s`.\n",
    );
    for category in table.categories() {
        let _ = write!(page, "\n## {}\n\n", category.title());
        if let Category::Own(cloud) = category {
            let _ = write!(page, "Only with the provider of {cloud}.\n\n");
        }
        page.push_str("| Flag | Type | Default | Meaning |\n|---|---|---|---|\n");
        for flag in table.flags().filter(|flag| flag.category == category) {
            reference_row(&mut page, flag);
        }
    }
    page
}

fn reference_row(page: &mut String, flag: &Flag) {
    let short = flag
        .short
        .map_or_else(String::new, |letter| format!("`-{letter}`, "));
    let kind = match flag.kind.placeholder() {
        "" => "switch".to_owned(),
        placeholder => placeholder.replace('|', "\\|"),
    };
    let default = if flag.default.is_empty() {
        String::new()
    } else {
        format!("`{}`", flag.default)
    };
    let mut meaning = flag.help.replace('|', "\\|");
    match flag.effect {
        FlagEffect::Used => {}
        FlagEffect::Ignored => meaning.push_str(" *Accepted and ignored.*"),
        FlagEffect::Removed => meaning.push_str(" *Accepted with a warning.*"),
    }
    if let Some(instead) = flag.deprecated {
        let _ = write!(meaning, " *Deprecated: {instead}.*");
    }
    let _ = writeln!(
        page,
        "| {short}`--{}` | {kind} | {default} | {meaning} |",
        flag.name
    );
}
