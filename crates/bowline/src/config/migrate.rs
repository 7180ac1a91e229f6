//! From an original's command line, environment and file to a configuration that says the same.
//!
//! Secrets stay where they are, or are asked to be put into a Secret; none is ever shown. Several originals become one
//! configuration by adding each to what was made of those before.

mod hold;
mod merge;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use bowline_controllers::options::{CommandLine, Value as FlagValue};
use bowline_core::{CloudName, format_duration};
use bowline_provider::{MigrateError, Migration, ProviderKind};
use serde_json::{Map, Value as Json, json};

use super::document::{self, Shape, Value};
use super::schema::{Field, Kind, below};
use super::{Problem, flags};

/// What an original is reported.
pub(crate) struct Original<'a> {
    pub(crate) provider: &'static ProviderKind,
    pub(crate) line: &'a CommandLine,
    pub(crate) environment: &'a dyn Fn(&str) -> Option<String>,
    /// The text of its `--cloud-config`, if there is one.
    pub(crate) file: Option<&'a str>,
}

/// A configuration that says the same.
#[derive(Debug)]
pub(crate) struct Migrated {
    /// The configuration.
    pub(crate) text: String,
    /// What to know and to do before it is used.
    pub(crate) remarks: Vec<String>,
    /// What is wrong with it, as it was with the original's.
    pub(crate) problems: Vec<Problem>,
}

/// Makes a configuration with one cloud of that name, or adds that cloud to the configuration `into`.
pub(crate) fn migrate(
    original: &Original<'_>,
    name: &CloudName,
    into: Option<&str>,
) -> Result<Migrated> {
    let before = into.map(merge::Before::read).transpose()?;
    let mut adopter = Adopter {
        name,
        provider: original.provider,
        file: original.file,
        variables: before
            .as_ref()
            .map_or_else(BTreeSet::new, merge::Before::variables),
        remarks: Vec::new(),
    };
    let reported = bowline_provider::Original {
        environment: original.environment,
        file: original.file,
        flags: &given_flags(original),
    };
    let settings = (original.provider.migrate)(&reported, &mut adopter)?;
    let cloud = json!({"name": name, "provider": original.provider.name, "settings": settings});
    let manager = manager(original.line);
    let election = &original.line.options.election;
    let mut remarks = adopter.remarks;
    let configuration = if let Some(before) = before {
        before.with(cloud, (manager, election), &mut remarks)?
    } else {
        let mut configuration = Map::new();
        configuration.insert("clouds".to_owned(), json!([cloud]));
        if !manager.is_empty() {
            configuration.insert("manager".to_owned(), Json::Object(manager));
        }
        configuration
    };
    let text = serde_saphyr::to_string(&Json::Object(configuration))
        .map_err(|error| anyhow!("the configuration cannot be written: {error}"))?;
    let problems = super::read(&text).err().unwrap_or_default();
    Ok(Migrated {
        text,
        remarks,
        problems,
    })
}

/// What was given of the flags that only this cloud has.
fn given_flags(original: &Original<'_>) -> BTreeMap<String, String> {
    let values = &original.line.values;
    let own = (original.provider.flags)().into_iter();
    let given = own.filter(|flag| values.given(flag.name));
    given
        .filter_map(|flag| Some((flag.name.to_owned(), values.get(flag.name)?.to_string())))
        .collect()
}

/// The flags that were given, but for those about the cloud.
fn manager(line: &CommandLine) -> Map<String, Json> {
    let known = flags::fields();
    let given = line.values.iter().filter(|(name, _)| {
        line.values.given(name) && known.iter().any(|field| field.name == *name)
    });
    given
        .map(|(name, value)| (name.to_owned(), flag_value(value)))
        .collect()
}

fn flag_value(value: &FlagValue) -> Json {
    match value {
        FlagValue::Text(text) => json!(text),
        FlagValue::Integer(number) => json!(number),
        // By its text, so that 20.5 does not become 20.499999.
        FlagValue::Float(number) => number
            .to_string()
            .parse::<f64>()
            .map_or(Json::Null, Json::from),
        FlagValue::Switch(on) => json!(on),
        FlagValue::Duration(duration) => json!(format_duration(*duration)),
        FlagValue::List(items) | FlagValue::Repeated(items) => json!(items),
        FlagValue::IntegerList(items) => json!(items),
        FlagValue::Gates(gates) => json!(gates),
        FlagValue::Levels(levels) => {
            let all = levels
                .iter()
                .map(|(name, level)| (name.clone(), json!(level)));
            Json::Object(all.collect())
        }
        FlagValue::Address(address) => json!(address.to_string()),
    }
}

struct Adopter<'a> {
    name: &'a CloudName,
    provider: &'static ProviderKind,
    file: Option<&'a str>,
    /// Variables that hold the secrets of other clouds.
    variables: BTreeSet<String>,
    remarks: Vec<String>,
}

impl Adopter<'_> {
    /// The original's file, with places.
    fn document(&self) -> Result<Option<Value>, MigrateError> {
        let Some(text) = self.file else {
            return Ok(None);
        };
        let value = document::read(text).map_err(|problems| {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let all = all.join("; ");
            MigrateError(format!("the cloud config file cannot be read: {all}"))
        });
        value.map(Some)
    }

    fn adopt(&mut self, value: &Value, kind: &Kind, path: &str) -> Json {
        match (kind, &value.shape) {
            (_, Shape::Nothing) => Json::Null,
            (Kind::Object(fields), Shape::Map(_)) => self.adopt_keys(value, fields, path),
            (Kind::Map(inner), Shape::Map(entries)) => {
                let one = |entry: &document::Entry| {
                    let value = self.adopt(&entry.value, inner, &below(path, &entry.key));
                    (entry.key.clone(), value)
                };
                Json::Object(entries.iter().map(one).collect())
            }
            (Kind::List(inner), Shape::List(items)) => {
                let numbered = items.iter().enumerate();
                let one = |(number, item)| self.adopt(item, inner, &format!("{path}[{number}]"));
                Json::Array(numbered.map(one).collect())
            }
            (Kind::Texts, Shape::List(items)) => {
                json!(items.iter().filter_map(Value::text).collect::<Vec<_>>())
            }
            (Kind::Secret | Kind::TextOrSecret, Shape::Scalar { text, .. }) => {
                if text.trim().is_empty() {
                    Json::Null
                } else {
                    self.store(path)
                }
            }
            (Kind::Switch, Shape::Scalar { text, .. }) => bowline_provider::switch(text),
            (Kind::Whole(..), Shape::Scalar { text, .. }) => bowline_provider::number(text),
            (_, Shape::Scalar { text, .. }) => json!(text.trim()),
            (_, Shape::List(_) | Shape::Map(_)) => {
                self.remarks.push(format!(
                    "{path}: its kind of value means nothing, so it is left out"
                ));
                Json::Null
            }
        }
    }

    fn adopt_keys(&mut self, value: &Value, fields: &[Field], path: &str) -> Json {
        let mut map = Map::new();
        for entry in value.entries() {
            let path = below(path, &entry.key);
            let Some(field) = fields.iter().find(|field| field.name == entry.key) else {
                // This one is read from the original elsewhere.
                if path != "global.endpoints" {
                    let place = entry.place;
                    self.remarks.push(format!(
                        "{path} ({place} of the file): means nothing, so it is left out"
                    ));
                }
                continue;
            };
            let value = self.adopt(&entry.value, &field.kind, &path);
            if !value.is_null() {
                map.insert(entry.key.clone(), value);
            }
        }
        Json::Object(map)
    }
}

impl Migration for Adopter<'_> {
    fn file(&mut self) -> Result<Map<String, Json>, MigrateError> {
        let Some(value) = self.document()? else {
            return Ok(Map::new());
        };
        match self.adopt(&value, &(self.provider.settings)(), "") {
            Json::Object(settings) => Ok(settings),
            _ => Ok(Map::new()),
        }
    }

    fn ignored(&mut self, path: &str) -> Option<Json> {
        let value = self.document().ok()??;
        let mut found = &value;
        for key in path.split('.') {
            found = found.get(key)?;
        }
        let texts = found.items().iter().filter_map(Value::text);
        Some(json!(texts.collect::<Vec<_>>()))
    }

    fn remark(&mut self, text: String) {
        self.remarks.push(text);
    }

    /// A secret in a variable: it stays there, unless another cloud has one of that name.
    fn variable(&mut self, name: &str, path: &str) -> Json {
        if self.variables.contains(name) {
            return self.store(path);
        }
        let (key, cloud) = (secret_key(path), self.name);
        self.remarks.push(format!(
            "settings.{path}: a reference to the variable {name}, which the manager's own process must have (with the \
             chart: extraEnv), and which is read once. Better, store it as key {key} of a Secret {cloud} in the \
             manager's namespace, and write {{secret: {{name: {cloud}, key: {key}}}}}: a changed Secret is used without a restart"
        ));
        json!({"environment": name})
    }

    /// A secret that the original has in its file or on its command line, or in a variable that is taken.
    fn store(&mut self, path: &str) -> Json {
        let (key, name) = (secret_key(path), self.name);
        self.remarks.push(format!(
            "settings.{path}: a secret does not stand in a configuration; store the original's as key {key} of a Secret \
             {name} in the manager's namespace"
        ));
        json!({"secret": {"name": name, "key": key}})
    }
}

/// The key of a Secret for what stands at that path.
fn secret_key(path: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '.';
    path.chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect()
}
