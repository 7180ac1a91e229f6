//! What providers say about their settings, at the places that they are about.

use std::collections::BTreeMap;
use std::path::Path;

use bowline_core::Secret;
use bowline_triton::config::table::{CREDENTIALS_SECRET, ROWS};

use super::document::{Place, Shape, Value};
use super::problem::Problem;
use super::schema::below;
use super::{CloudEntry, Given, Resolved, settings};

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
    let given = entry.given(&all);
    let mut findings = Findings::default();
    let (wrong, odd) = said(entry.provider.name, &given);
    for text in wrong {
        let (place, path) = locate(entry, &text);
        let text = text.replace("configuration ", "");
        findings.problems.push(Problem::at(place, &path, text));
    }
    let odd = odd.into_iter().map(|it| format!("{}: {it}", entry.name));
    findings.remarks.extend(odd);
    findings
}

/// Whether an error of building a cloud, all of whose secrets are there, is about its settings, so that it comes again.
/// Those that are not here have passed the check.
pub(crate) fn is_refusal(entry: &CloudEntry, error: &anyhow::Error) -> bool {
    use bowline_triton::config::{ConfigError, ConfigErrors};
    let has_secret = entry.settings.get("credentialsSecret").is_some();
    let wrong = error.downcast_ref::<ConfigErrors>();
    wrong.is_some_and(|wrong| {
        wrong.0.iter().any(|it| match it {
            // Files and the Secret of the cluster can come and change at any time.
            ConfigError::Unreadable { .. } => false,
            ConfigError::Missing { .. }
            | ConfigError::Key { .. }
            | ConfigError::KeyId { .. }
            | ConfigError::OtherKey { .. }
            | ConfigError::Url { .. } => !has_secret,
            _ => true,
        })
    })
}

/// What a provider finds wrong with its settings, and what it finds odd.
fn said(provider: &str, given: &Given) -> (Vec<String>, Vec<String>) {
    let environment = |name: &str| {
        let value = given.environment.get(name);
        value.map(|it| it.reveal().to_owned())
    };
    let file = given.file.as_ref().map(Secret::reveal);
    let each = |all: Vec<String>| (all, Vec::new());
    match provider {
        bowline_cloudscale::PROVIDER => match bowline_cloudscale::Config::read(environment) {
            Ok(config) => (Vec::new(), config.warnings),
            Err(wrong) => each(wrong.0.iter().map(ToString::to_string).collect()),
        },
        bowline_exoscale::PROVIDER => match bowline_exoscale::Config::read(environment, file) {
            Ok(config) => (Vec::new(), config.warnings),
            Err(wrong) => each(wrong.0.iter().map(ToString::to_string).collect()),
        },
        bowline_xenorchestra::PROVIDER => {
            match bowline_xenorchestra::Config::read(environment, file) {
                Ok(_) => (Vec::new(), Vec::new()),
                Err(wrong) => each(vec![wrong.to_string()]),
            }
        }
        bowline_talos::PROVIDER => match bowline_talos::Config::read(file.unwrap_or_default()) {
            Ok(config) => {
                let odd = config.findings.iter().map(ToString::to_string);
                (Vec::new(), odd.collect())
            }
            Err(bowline_talos::ConfigError::Rules(wrong)) => {
                each(wrong.iter().map(ToString::to_string).collect())
            }
            Err(wrong) => each(vec![wrong.to_string()]),
        },
        bowline_triton::PROVIDER => {
            let secret = given.flags.get(CREDENTIALS_SECRET.name);
            triton(&environment, file, secret.map(String::as_str))
        }
        _ => (Vec::new(), Vec::new()),
    }
}

fn triton(
    environment: &dyn Fn(&str) -> Option<String>,
    file: Option<&str>,
    secret: Option<&str>,
) -> (Vec<String>, Vec<String>) {
    use bowline_triton::config::{ConfigError, Given};
    let read = bowline_triton::Config::read(&Given {
        flags: &BTreeMap::new(),
        secret: None,
        environment,
        file,
        read: &|path: &Path| std::fs::read_to_string(path),
        // Whether the manager's own name of the cluster fits is told at the start.
        cluster_name: "kubernetes",
    });
    let wrong = match read {
        Ok(config) => return (Vec::new(), config.warnings),
        Err(wrong) => wrong.0,
    };
    // A file that is not here may be where the manager runs, a placeholder is no key, and what is missing may be in the
    // Secret.
    let (unknown, wrong): (Vec<_>, Vec<_>) = wrong.into_iter().partition(|it| match it {
        ConfigError::Unreadable { .. } | ConfigError::Key { .. } | ConfigError::OtherKey { .. } => {
            true
        }
        ConfigError::Missing { names, .. } => secret.is_some() && is_of_connection(names),
        _ => false,
    });
    let remarks = unknown.iter().map(|it| match (it, secret) {
        (ConfigError::Missing { what, .. }, Some(secret)) => {
            format!("not checked: {what}, which has to be in the Secret {secret}")
        }
        _ => format!("not checked: {it}"),
    });
    (
        wrong.iter().map(ToString::to_string).collect(),
        remarks.collect(),
    )
}

/// Whether a message names a setting of Triton's that the Secret can have.
fn is_of_connection(names: &str) -> bool {
    let mut rows = ROWS.iter().filter(|row| row.connection);
    rows.any(|row| names.contains(row.key()))
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
    let original = settings::original_name(entry.provider.name, &key);
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
