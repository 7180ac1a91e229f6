//! Where values come from, and which of them wins.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bowline_provider::SecretContent;

use super::file::FileContent;
use super::table::Row;

pub(crate) fn has_key(secret: &SecretContent) -> bool {
    let mut keys = super::table::PRIVATE_KEY.secret.iter();
    keys.any(|key| secret.get(key).is_some_and(|text| !text.trim().is_empty()))
}

pub struct Given<'a> {
    /// Flags by name, without the dashes: those of [`super::table::ROWS`] that have one.
    pub flags: &'a BTreeMap<String, String>,
    pub secret: Option<&'a SecretContent>,
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    pub file: Option<&'a str>,
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
    pub cluster_name: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Flag,
    Secret,
    Environment,
    File,
}

#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) source: Source,
    /// The flag, variable or key, for messages.
    pub(super) name: String,
    /// The variable or key alone.
    pub(super) key: String,
}

#[derive(Clone, Copy)]
pub(super) struct Finder<'a> {
    pub(super) given: &'a Given<'a>,
    pub(super) file: &'a FileContent,
}

impl Finder<'_> {
    /// The value of a row, from the first source that has it.
    pub(super) fn find(&self, row: &Row) -> Option<Found> {
        self.flag(row)
            .or_else(|| self.secret(row))
            .or_else(|| self.environment(row))
            .or_else(|| self.file(row))
    }

    fn flag(&self, row: &Row) -> Option<Found> {
        let text = self.given.flags.get(row.key()).filter(|_| row.is_flag())?;
        let name = format!("--{}", row.key());
        found(text, Source::Flag, name, row.key())
    }

    fn secret(&self, row: &Row) -> Option<Found> {
        let secret = self.given.secret?;
        let mut keys = row.secret.iter();
        let (key, text) = keys.find_map(|key| Some((key, secret.get(key)?)))?;
        found(
            text,
            Source::Secret,
            format!("key {key} of the Secret"),
            key,
        )
    }

    fn environment(&self, row: &Row) -> Option<Found> {
        row.environment.iter().find_map(|name| {
            let text = (self.given.environment)(name)?;
            found(&text, Source::Environment, (*name).to_owned(), name)
        })
    }

    fn file(&self, row: &Row) -> Option<Found> {
        let text = self.file.values.get(&(row.section, row.key()))?;
        found(text, Source::File, self.file.name(row), row.key())
    }
}

/// Nothing, and blanks, count as unset.
fn found(text: &str, source: Source, name: String, key: &str) -> Option<Found> {
    let text = text.trim().to_owned();
    let key = key.to_owned();
    (!text.is_empty()).then_some(Found {
        text,
        source,
        name,
        key,
    })
}
