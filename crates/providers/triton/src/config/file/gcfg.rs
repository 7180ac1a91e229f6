//! The original's form: sections in brackets, `key = value`, values in quotes if they need it.

use super::super::table::Section;
use super::{FileContent, row};

pub(super) fn read(text: &str) -> Result<FileContent, String> {
    let mut content = FileContent::default();
    let mut section = None;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, _)) = rest.split_once(']') else {
                return Err(format!("line {number}: the section has no ]"));
            };
            section = known_section(name);
            if section.is_none() {
                let warning = format!("line {number}: section [{name}] is not known");
                content.warnings.push(warning);
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let key = key.trim().to_ascii_lowercase();
        let value = unquoted(value.trim()).map_err(|what| format!("line {number}: {what}"))?;
        let Some(section) = section else {
            continue;
        };
        match row(section, |row| row.key() == key) {
            Some(row) => {
                content.values.insert((section, row.key()), value);
            }
            None => content.warnings.push(format!(
                "line {number}: key {key} of [{}] is not known",
                section.gcfg()
            )),
        }
    }
    Ok(content)
}

fn known_section(name: &str) -> Option<Section> {
    let name = name.trim();
    let mut all = Section::ALL.into_iter();
    all.find(|section| section.gcfg().eq_ignore_ascii_case(name))
}

/// A value without its quotes and without a comment behind it. Backslashes mean something only
/// inside of quotes.
fn unquoted(value: &str) -> Result<String, &'static str> {
    let mut text = String::new();
    let mut quoted = false;
    // Blanks at the end count only if they are quoted.
    let mut kept = 0;
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                quoted = !quoted;
                kept = text.len();
            }
            '\\' if quoted => {
                let escaped = match letters.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('"') => '"',
                    Some('\\') => '\\',
                    _ => {
                        return Err("a backslash in quotes is followed by none of n, t, \" and \\");
                    }
                };
                text.push(escaped);
                kept = text.len();
            }
            '#' | ';' if !quoted => break,
            letter => {
                text.push(letter);
                if quoted || !letter.is_whitespace() {
                    kept = text.len();
                }
            }
        }
    }
    if quoted {
        return Err("a quote is not closed");
    }
    text.truncate(kept);
    Ok(text)
}
