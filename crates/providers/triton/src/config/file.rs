//! The cloud config file as it is written, in either of its forms, as texts by section and key.
//!
//! The original's form is gcfg, which is that of git's own configuration: `[Section]`, `key =
//! value`. The other is YAML. Which one it is says the first character that is no blank and no
//! comment.

mod gcfg;
mod yaml;

use std::collections::BTreeMap;

use super::table::{ROWS, Row, Section};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileContent {
    /// Texts by section and key (as in gcfg). Lists are joined by commas.
    pub(super) values: BTreeMap<(Section, &'static str), String>,
    /// Whether it has `profiles`, which were several data centers once.
    pub(super) profiles: bool,
    /// What is odd but means nothing.
    pub(super) warnings: Vec<String>,
    /// Whether it is YAML: then keys are named so in messages.
    pub(super) yaml: bool,
}

impl FileContent {
    /// Reads a file. The error names the place and never the content, which may be a key.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let first = text
            .lines()
            .map(str::trim_start)
            .find(|line| !line.is_empty() && !line.starts_with(['#', ';']));
        match first {
            None => Ok(Self::default()),
            Some(line) if line.starts_with('[') => gcfg::read(text),
            Some(_) => yaml::read(text),
        }
    }

    /// How the value of a row is called in this file, for messages.
    pub(super) fn name(&self, row: &Row) -> String {
        if self.yaml {
            format!("{}.{}", row.section.yaml(), row.yaml_key())
        } else {
            format!("[{}] {}", row.section.gcfg(), row.key())
        }
    }
}

fn row(section: Section, matches: impl Fn(&Row) -> bool) -> Option<&'static Row> {
    ROWS.iter()
        .find(|row| row.section == section && matches(row))
}
