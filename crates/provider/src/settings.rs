//! What may stand in a configuration, as a tree.

use bowline_core::Variable;
use serde_json::Value as Json;

/// What a value may be.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A text; what looks like a number or a switch is taken as it is written.
    Text,
    /// One of these words.
    Words(Vec<&'static str>),
    /// `true` or `false`.
    Switch,
    /// A whole number in this range.
    Whole(i64, i64),
    /// A number.
    Number,
    /// A duration, as Go writes them.
    Duration,
    /// The name of a cloud.
    Name,
    /// A label selector.
    Selector,
    /// A secret: never written here, only where it is.
    Secret,
    /// A text that may also stand elsewhere, as a secret does.
    TextOrSecret,
    /// A list.
    List(Box<Kind>),
    /// Texts: a list, or one text with commas.
    Texts,
    /// `never`, `any`, or namespaces: a list, or one text with commas.
    Namespaces,
    /// Keys that are the operator's own.
    Map(Box<Kind>),
    /// These keys.
    Object(Vec<Field>),
    /// The settings of a provider, which its name tells.
    Settings,
}

/// One key.
#[derive(Clone, Debug)]
pub struct Field {
    /// The key.
    pub name: String,
    /// What its value may be.
    pub kind: Kind,
    /// Whether it must be there.
    pub required: bool,
    /// What holds without it; empty if that is nothing.
    pub default: String,
    /// Which values are taken, in words; empty where the kind says it all.
    pub allowed: String,
    /// What it is for.
    pub meaning: String,
    /// The key under which the path of a file is given instead of what it holds.
    pub file_as: Option<&'static str>,
    /// What the original calls it, where that differs: a variable, or a key of another form of its file.
    pub original: Option<&'static str>,
}

impl Field {
    /// A key that may be missing.
    pub fn new(name: impl Into<String>, kind: Kind, meaning: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            required: false,
            default: String::new(),
            allowed: String::new(),
            meaning: meaning.into(),
            file_as: None,
            original: None,
        }
    }

    /// The same with what holds without it.
    #[must_use]
    pub fn or(mut self, default: impl Into<String>) -> Self {
        self.default = default.into();
        self
    }

    /// The same with its values in words.
    #[must_use]
    pub fn allows(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = allowed.into();
        self
    }

    /// The same, which must be there.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same; a file that a secret is in is given by its path, under that key, and followed.
    #[must_use]
    pub fn file_as(mut self, key: &'static str) -> Self {
        self.file_as = Some(key);
        self
    }

    /// The setting at that path of an original's file, with what its row says.
    pub fn of_row(rows: &[Variable], path: &str, kind: Kind) -> Self {
        let name = path.rsplit('.').next().unwrap_or(path);
        let row = rows.iter().find(|row| row.name == path);
        let mut field = Self::new(name, kind, row.map_or("", |row| row.meaning));
        if let Some(row) = row {
            field.default = match row.default {
                "none" => String::new(),
                default => default.to_owned(),
            };
            if matches!(field.kind, Kind::Text | Kind::TextOrSecret | Kind::Texts) {
                row.allowed.clone_into(&mut field.allowed);
            }
        }
        field
    }
}

impl Kind {
    /// These keys, and no others.
    pub fn object(fields: impl IntoIterator<Item = Field>) -> Self {
        Self::Object(fields.into_iter().collect())
    }

    /// A list of it.
    #[must_use]
    pub fn list(self) -> Self {
        Self::List(Box::new(self))
    }

    /// Keys that are the operator's own, with such values.
    #[must_use]
    pub fn map(self) -> Self {
        Self::Map(Box::new(self))
    }

    /// Which values are taken, in words.
    pub fn allowed(&self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Words(words) => words.join(", "),
            Self::Switch => "true or false, without quotes".to_owned(),
            Self::Whole(least, i64::MAX) => format!("a whole number from {least}"),
            Self::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Self::Number => "a number".to_owned(),
            Self::Duration => "a duration such as 90s, 5m or 1h30m".to_owned(),
            Self::Name => "1 to 63 lower-case letters, digits and inner dashes".to_owned(),
            Self::Selector => "a label selector such as site=geneva,!old".to_owned(),
            Self::Secret => "{file: …}, {environment: …} or {secret: {name: …, key: …}}".to_owned(),
            Self::TextOrSecret => {
                "a text, {file: …}, {environment: …} or {secret: {name: …, key: …}}".to_owned()
            }
            Self::List(inner) => match inner.as_ref() {
                Self::Object(_) => "a list".to_owned(),
                inner => format!("a list; each {}", inner.allowed()),
            },
            Self::Namespaces => "never, any, or a list of namespaces".to_owned(),
            Self::Texts => "a list of texts, or texts separated by commas".to_owned(),
            Self::Map(_) | Self::Object(_) | Self::Settings => "keys and values".to_owned(),
        }
    }
}

/// A row of a provider's table of variables or keys.
pub const fn row(
    name: &'static str,
    default: &'static str,
    allowed: &'static str,
    meaning: &'static str,
) -> Variable {
    Variable {
        name,
        meaning,
        default,
        allowed,
    }
}

/// Everything that is wrong, so that nobody has to correct one mistake at a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ConfigErrors<E: std::fmt::Display>(pub Vec<E>);

/// A scalar, or texts with commas between them.
pub fn text(value: Option<&Json>) -> Option<String> {
    match value? {
        Json::String(text) => Some(text.clone()),
        Json::Bool(on) => Some(on.to_string()),
        Json::Number(number) => Some(number.to_string()),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(|it| text(Some(it))).collect();
            Some(items.join(","))
        }
        Json::Null | Json::Object(_) => None,
    }
}

/// A switch in any spelling of the originals; anything else stays what it is, and is reported when it is read.
pub fn switch(text: &str) -> Json {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "y" | "on" => Json::Bool(true),
        "false" | "f" | "0" | "no" | "n" | "off" => Json::Bool(false),
        _ => Json::from(text),
    }
}

/// A whole number; anything else stays what it is.
pub fn number(text: &str) -> Json {
    let number = text.trim().parse::<i64>();
    number.map_or_else(|_| Json::from(text), Json::from)
}

/// The path of a key.
pub fn below(path: &str, key: &str) -> String {
    let plain = key
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    match (path, plain) {
        ("", true) => key.to_owned(),
        (_, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}
