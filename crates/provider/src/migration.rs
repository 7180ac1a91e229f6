//! From an original's flags, environment and file to settings that say the same.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What an original is reported.
pub struct Original<'a> {
    /// Its environment.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The text of its `--cloud-config`.
    pub file: Option<&'a str>,
    /// What was given of the flags that it alone has, by name.
    pub flags: &'a BTreeMap<String, String>,
}

impl Original<'_> {
    /// A variable that says something.
    pub fn variable(&self, name: &str) -> Option<String> {
        let text = (self.environment)(name)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// What becomes of an original's file and secrets. None is ever shown.
pub trait Migration {
    /// What the original's file says that has a meaning here, by the provider's settings.
    fn file(&mut self) -> Result<Map<String, Value>, MigrateError>;

    /// What the original's file says at a path that has no meaning here.
    fn ignored(&mut self, path: &str) -> Option<Value>;

    /// A secret in a variable: a reference to where it is, for the setting at that path.
    fn variable(&mut self, name: &str, path: &str) -> Value;

    /// A secret that has to be put into a Secret, for the setting at that path.
    fn store(&mut self, path: &str) -> Value;

    /// What people have to know.
    fn remark(&mut self, text: String);
}

/// Why settings cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MigrateError(pub String);
