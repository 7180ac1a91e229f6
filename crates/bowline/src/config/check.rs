//! What providers say about their settings, at the places that they are about.

use bowline_core::Secret;
use bowline_provider::{Finding, Severity};

use super::document::{Place, Shape, Value};
use super::problem::Problem;
use super::schema::below;
use super::{CloudEntry, Resolved, settings};

/// What stands for a secret that cannot be read here: every provider takes it for one.
const PLACEHOLDER: &str = "EXO0123456789abcdef01234567";

/// What a check brought.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// What is wrong.
    pub(crate) problems: Vec<Problem>,
    /// What is odd, and what could not be checked.
    pub(crate) remarks: Vec<String>,
}

/// Lets the provider of a cloud read its settings. Secrets that are not resolved are taken to be right.
pub(crate) fn settings_of(entry: &CloudEntry, resolved: &Resolved) -> Findings {
    let mut all = resolved.clone();
    for mention in &entry.mentions {
        let secret = all.entry(mention.reference.clone());
        secret.or_insert_with(|| Secret::new(PLACEHOLDER));
    }
    let mut findings = Findings::default();
    for Finding { text, severity } in (entry.provider.check)(&entry.input(&all)) {
        match severity {
            Severity::Odd => findings.remarks.push(format!("{}: {text}", entry.name)),
            Severity::Wrong => {
                let (place, path) = locate(entry, &text);
                let text = text.replace("configuration ", "");
                findings.problems.push(Problem::at(place, &path, text));
            }
        }
    }
    findings
}

/// The place that a message is about: that of the setting with the longest name in it.
fn locate(entry: &CloudEntry, message: &str) -> (Place, String) {
    let mut all = Vec::new();
    leaves(&entry.settings, "", &mut all);
    let found = all
        .iter()
        .flat_map(|(path, place)| names(entry, path).map(move |name| (name, path, place)))
        .filter(|(name, ..)| !name.is_empty() && message.contains(name.as_str()))
        .max_by_key(|(name, ..)| name.len());
    match found {
        Some((_, path, place)) => (*place, format!("{}.{path}", entry.path)),
        None => (entry.settings.place, entry.path.clone()),
    }
}

/// What a setting may be called in a message: by its path, by its key, by the original's name of it.
fn names(entry: &CloudEntry, path: &str) -> impl Iterator<Item = String> + use<> {
    let key = path.rsplit('.').next().unwrap_or(path).to_owned();
    let original = settings::original_name(&(entry.provider.settings)(), &key);
    let original = original.map(str::to_owned);
    // A short key is a word that any message may have.
    let key = if key.len() > 4 { key } else { String::new() };
    [path.to_owned(), key, original.unwrap_or_default()].into_iter()
}

fn leaves(value: &Value, path: &str, all: &mut Vec<(String, Place)>) {
    if !path.is_empty() {
        all.push((path.to_owned(), value.place));
    }
    match &value.shape {
        Shape::Map(entries) => {
            for entry in entries {
                leaves(&entry.value, &below(path, &entry.key), all);
            }
        }
        Shape::List(items) => {
            for (number, item) in items.iter().enumerate() {
                leaves(item, &format!("{path}[{number}]"), all);
            }
        }
        Shape::Nothing | Shape::Scalar { .. } => {}
    }
}
