//! What is wrong with a configuration: where, what, and what would be right.

use std::fmt;

use bowline_core::nearest;

use super::document::Place;

/// Letters of a value that are shown; a longer one is a pasted file.
const SHOWN: usize = 80;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where it is.
    pub(crate) place: Place,
    /// Which field: `clouds[1].settings.global.zone`; empty for the text as a whole.
    pub(crate) path: String,
    /// What is wrong, and what is allowed.
    pub(crate) what: String,
}

impl Problem {
    /// Something about a field.
    pub(crate) fn at(place: Place, path: &str, what: impl Into<String>) -> Self {
        Self {
            place,
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// A value that is not allowed.
    pub(crate) fn value(place: Place, path: &str, value: &str, allowed: &str) -> Self {
        let value = shown(value);
        Self::at(
            place,
            path,
            format!("{value} is not allowed; allowed is {allowed}"),
        )
    }

    /// A value that is none of a few words.
    pub(crate) fn choice(place: Place, path: &str, value: &str, choices: &[&str]) -> Self {
        let mut problem = Self::value(place, path, value, &choices.join(", "));
        problem.what.push_str(&hint(value, choices));
        problem
    }

    /// A key that means nothing here.
    pub(crate) fn key(place: Place, path: &str, key: &str, known: &[&str]) -> Self {
        let mut all = known.to_vec();
        all.sort_unstable();
        let hint = hint(key, known);
        let what = format!("is no key here; the keys are {}{hint}", all.join(", "));
        Self::at(place, path, what)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.what)
    }
}

/// A value in quotes, not without end.
fn shown(value: &str) -> String {
    if value.chars().count() <= SHOWN {
        return format!("{value:?}");
    }
    let start: String = value.chars().take(SHOWN).collect();
    format!("{start:?}…")
}

fn hint(word: &str, known: &[&str]) -> String {
    // Another spelling of the same letters is what was meant, however many of them differ.
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', '.'], "");
    let same = known.iter().find(|it| plain(it) == plain(word)).copied();
    let meant = same.or_else(|| nearest(word, known.iter().copied()));
    meant.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}
