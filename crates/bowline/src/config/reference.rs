//! Secrets by reference: where they are, and getting them from there.

use std::fmt;
use std::path::PathBuf;

use super::document::{Shape, Value};
use super::problem::Problem;
use super::schema::{Field, Kind, below, check};

/// Where a secret is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reference {
    /// In a file, which holds nothing else.
    File(PathBuf),
    /// In a variable of the environment.
    Environment(String),
    /// In a Secret of the cluster.
    Secret {
        /// Its namespace; none: that of the manager.
        namespace: Option<String>,
        name: String,
        key: String,
    },
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Environment(name) => write!(f, "the variable {name}"),
            Self::Secret {
                namespace,
                name,
                key,
            } => {
                let place = namespace.as_ref().map(|it| format!("{it}/"));
                let place = place.unwrap_or_default();
                write!(f, "the key {key} of the Secret {place}{name}")
            }
        }
    }
}

/// The keys of a reference.
pub(crate) fn fields() -> Vec<Field> {
    let secret = Kind::object([
        Field::new("name", Kind::Text, "The name of the Secret.").required(),
        Field::new("key", Kind::Text, "Which of its keys.").required(),
        Field::new("namespace", Kind::Text, "Its namespace.").or("that of the manager"),
    ]);
    vec![
        Field::new(
            "file",
            Kind::Text,
            "The path of a file that holds it and nothing else.",
        ),
        Field::new(
            "environment",
            Kind::Text,
            "The variable of the environment that holds it.",
        ),
        Field::new("secret", secret, "The Secret of the cluster that holds it."),
    ]
}

impl Reference {
    /// Reads one from a map.
    pub(crate) fn read(value: &Value, path: &str) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        check(value, &Kind::Object(fields()), path, &mut problems);
        let given: Vec<&Value> = value
            .entries()
            .iter()
            .map(|entry| &entry.value)
            .filter(|value| !value.is_nothing())
            .collect();
        if problems.is_empty() && given.len() != 1 {
            let what = "exactly one of file, environment and secret says where it is";
            problems.push(Problem::at(value.place, path, what));
        }
        for scalar in given.iter().filter(|it| it.text() == Some("")) {
            problems.push(Problem::at(scalar.place, path, "it is empty"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let text = |value: &Value, key: &str| value.get(key)?.text().map(str::to_owned);
        if let Some(path) = text(value, "file") {
            return Ok(Self::File(path.into()));
        }
        if let Some(name) = text(value, "environment") {
            return Ok(Self::Environment(name));
        }
        let secret = value.get("secret");
        let part = |key| secret.and_then(|secret| text(secret, key));
        Ok(Self::Secret {
            namespace: part("namespace"),
            name: part("name").unwrap_or_default(),
            key: part("key").unwrap_or_default(),
        })
    }
}

/// A reference and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Which field it is for.
    pub(crate) path: String,
    /// What it says.
    pub(crate) reference: Reference,
}

/// All references under a value that has been checked.
pub(crate) fn mentions(value: &Value, kind: &Kind, path: &str) -> Vec<Mention> {
    match (kind, &value.shape) {
        (Kind::Secret | Kind::TextOrSecret, Shape::Map(_)) => Reference::read(value, path)
            .map(|reference| Mention {
                path: path.to_owned(),
                reference,
            })
            .into_iter()
            .collect(),
        (Kind::Object(fields), Shape::Map(entries)) => {
            let all = entries.iter().filter_map(|entry| {
                let field = fields.iter().find(|field| field.name == entry.key)?;
                Some(mentions(
                    &entry.value,
                    &field.kind,
                    &below(path, &entry.key),
                ))
            });
            all.flatten().collect()
        }
        (Kind::List(inner), Shape::List(items)) => {
            let all = items.iter().enumerate();
            all.flat_map(|(number, item)| mentions(item, inner, &format!("{path}[{number}]")))
                .collect()
        }
        _ => Vec::new(),
    }
}
