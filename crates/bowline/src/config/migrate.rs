//! From an original's command line, environment and file to a configuration that says the same.
//!
//! Secrets stay where they are, or are asked to be put into a Secret; none is ever shown. Several originals become one
//! configuration by adding each to what was made of those before.

mod hold;
mod merge;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use bowline_controllers::options::{CommandLine, Value as FlagValue};
use bowline_core::{CloudName, Variable, format_duration};
use bowline_triton::config::table::{CREDENTIALS_SECRET, ROWS};
use serde_json::{Map, Value as Json, json};

use super::document::{self, Shape, Value};
use super::schema::{Field, Kind, below};
use super::{Problem, flags, settings};

/// What an original is told.
pub(crate) struct Original<'a> {
    /// Its provider.
    pub(crate) provider: &'static str,
    /// Its command line.
    pub(crate) line: &'a CommandLine,
    /// Its environment.
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
        variables: before
            .as_ref()
            .map_or_else(BTreeSet::new, merge::Before::variables),
        remarks: Vec::new(),
    };
    let settings = adopter.settings(original)?;
    let cloud = json!({"name": name, "provider": original.provider, "settings": settings});
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
    /// Variables that hold the secrets of other clouds.
    variables: BTreeSet<String>,
    remarks: Vec<String>,
}

impl Adopter<'_> {
    fn settings(&mut self, original: &Original<'_>) -> Result<Json> {
        match original.provider {
            bowline_cloudscale::PROVIDER => Ok(self.cloudscale(original)),
            bowline_exoscale::PROVIDER => self.exoscale(original),
            bowline_talos::PROVIDER => self.talos(original),
            bowline_xenorchestra::PROVIDER => self.xenorchestra(original),
            bowline_triton::PROVIDER => self.triton(original),
            other => bail!("{other:?} is no provider"),
        }
    }

    fn cloudscale(&mut self, original: &Original<'_>) -> Json {
        let variable = |row: Variable| present(original, row.name);
        let mut settings = Map::new();
        for (key, row) in settings::cloudscale_keys() {
            let Some(text) = variable(row) else { continue };
            let value = match key {
                "accessToken" => self.variable(row.name, key),
                "apiTimeout" => number(&text),
                "matchByAddress" | "ownershipTags" | "serviceSourceRanges" => switch(&text),
                _ => json!(text),
            };
            settings.insert(key.to_owned(), value);
        }
        if let Some(path) = variable(bowline_cloudscale::config::ACCESS_TOKEN_FILE) {
            settings.insert("accessToken".to_owned(), json!({"file": path}));
        }
        if original.file.is_some() {
            let remark = "--cloud-config: cloudscale reads no file, so it is left out";
            self.remarks.push(remark.to_owned());
        }
        Json::Object(settings)
    }

    fn exoscale(&mut self, original: &Original<'_>) -> Result<Json> {
        use bowline_exoscale::config as it;
        let mut settings = self.file(original)?;
        let set_to = |row: Variable| (original.environment)(row.name);
        let mut global = taken(&mut settings, "global");
        // These take the place of the file's even when they are set to nothing.
        for (row, key) in [(it::API_KEY, "apiKey"), (it::API_SECRET, "apiSecret")] {
            if let Some(text) = set_to(row) {
                global.remove(key);
                if !text.trim().is_empty() {
                    let reference = self.variable(row.name, &below("global", key));
                    global.insert(key.to_owned(), reference);
                }
            }
        }
        for (row, key) in [
            (it::API_CREDENTIALS_FILE, "apiCredentialsFile"),
            (it::API_ENDPOINT, "apiEndpoint"),
        ] {
            if let Some(text) = set_to(row) {
                global.remove(key);
                if !text.trim().is_empty() {
                    global.insert(key.to_owned(), json!(text.trim()));
                }
            }
        }
        let environment = present(original, it::API_ENVIRONMENT.name);
        if let (Some(environment), None) = (environment, set_to(it::API_ENDPOINT)) {
            // It goes before the endpoint of the file.
            global.remove("apiEndpoint");
            global.insert("apiEnvironment".to_owned(), json!(environment));
        }
        let zone =
            present(original, it::API_ZONE.name).or_else(|| present(original, it::ZONE.name));
        if let Some(zone) = zone {
            global.insert("zone".to_owned(), json!(zone));
        }
        if let Some(runners) = present(original, it::SKS_AGENT_RUNNERS.name) {
            let runners: Vec<&str> = runners.split(',').collect();
            global.insert("sksAgentRunners".to_owned(), json!(runners));
        }
        if present(original, it::TRACE.name).is_some() {
            global.insert("trace".to_owned(), json!(true));
        }
        if !global.contains_key("zone") {
            let remark = "settings.global.zone: the original asks the machine that it runs on; say the zone, so \
                          that every replica means the same";
            self.remarks.push(remark.to_owned());
        }
        settings.insert("global".to_owned(), Json::Object(global));
        Ok(Json::Object(settings))
    }

    fn talos(&mut self, original: &Original<'_>) -> Result<Json> {
        let mut settings = self.file(original)?;
        let home = present(original, "TALOS_HOME").filter(|it| Path::new(it).is_absolute());
        let home = home.map(|it| Path::new(&it).join("config").display().to_string());
        if let Some(path) = present(original, "TALOSCONFIG").or(home) {
            settings.insert("talosconfig".to_owned(), json!(path));
        }
        let said = present(original, "TALOS_ENDPOINTS");
        let said = said.map(|it| it.split(',').map(str::to_owned).collect::<Vec<_>>());
        // A key of old files.
        let old = original.file.and_then(|text| document::read(text).ok());
        let old = old.and_then(|it| {
            let items = it.get("global")?.get("endpoints")?.items().to_vec();
            let texts = items.iter().filter_map(Value::text).map(str::to_owned);
            Some(texts.collect::<Vec<_>>())
        });
        if let Some(endpoints) = said.or(old) {
            settings.insert("endpoints".to_owned(), json!(endpoints));
        }
        Ok(Json::Object(settings))
    }

    fn xenorchestra(&mut self, original: &Original<'_>) -> Result<Json> {
        use bowline_xenorchestra::config as it;
        // Where there is a file, the environment is not looked at.
        if original.file.is_some() {
            let settings = self.file(original)?;
            return Ok(Json::Object(settings));
        }
        let mut settings = Map::new();
        for (row, key) in [
            (it::XOA_URL, "url"),
            (it::XOA_TOKEN, "token"),
            (it::XOA_USER, "username"),
            (it::XOA_PASSWORD, "password"),
            (it::XOA_INSECURE, "insecure"),
            (it::XOA_CLIENT_TIMEOUT, "clientTimeout"),
        ] {
            let Some(text) = present(original, row.name) else {
                continue;
            };
            let value = match key {
                "token" | "password" => self.variable(row.name, key),
                "insecure" => switch(&text),
                _ => json!(text),
            };
            settings.insert(key.to_owned(), value);
        }
        Ok(Json::Object(settings))
    }

    fn triton(&mut self, original: &Original<'_>) -> Result<Json> {
        let said = match original.file {
            Some(text) => bowline_triton::config::file_values(text)
                .map_err(|reason| anyhow!("the cloud config file cannot be read: {reason}"))?,
            None => std::collections::BTreeMap::new(),
        };
        let mut settings = match original.file {
            // Profiles are only in YAML, which has the keys that we have.
            Some(text) if is_yaml(text) => {
                let mut settings = self.file(original)?;
                settings.retain(|key, _| key == "profiles");
                settings
            }
            _ => Map::new(),
        };
        for row in &ROWS {
            let secret = ["triton-private-key", "triton-key-passphrase"].contains(&row.key());
            let flag = original.line.values.get(row.key());
            let flag = flag.filter(|_| original.line.values.given(row.key()));
            let variable = row
                .environment
                .iter()
                .find(|it| present(original, it).is_some());
            let path = below(row.section.yaml(), &row.yaml_key());
            let value = if let Some(flag) = flag {
                if secret {
                    self.store(&path)
                } else {
                    json!(flag.to_string())
                }
            } else if let Some(variable) = variable {
                match (secret, present(original, variable)) {
                    (true, _) => self.variable(variable, &path),
                    (false, text) => json!(text),
                }
            } else if let Some(text) = said.get(&(row.section, row.key())) {
                if secret {
                    self.store(&path)
                } else {
                    json!(text)
                }
            } else {
                continue;
            };
            let section = settings.entry(row.section.yaml());
            let section = section.or_insert_with(|| json!({}));
            section[row.yaml_key()] = value;
        }
        if let Some(named) = original.line.options.cloud.own.get(CREDENTIALS_SECRET.name) {
            settings.insert("credentialsSecret".to_owned(), json!(named));
            self.remarks.push(format!(
                "settings.credentialsSecret: what the Secret {named} holds goes before all other settings; flags of the \
                 original go before it, so take from it what they say otherwise"
            ));
        }
        Ok(Json::Object(settings))
    }

    /// What the original's file says that it means.
    fn file(&mut self, original: &Original<'_>) -> Result<Map<String, Json>> {
        let Some(text) = original.file else {
            return Ok(Map::new());
        };
        let value = document::read(text).map_err(|problems| {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            anyhow!("{}", all.join("; "))
        });
        let value = value.context("the cloud config file cannot be read")?;
        match self.adopt(&value, &settings::kind(original.provider), "") {
            Json::Object(settings) => Ok(settings),
            _ => Ok(Map::new()),
        }
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
            (Kind::Switch, Shape::Scalar { text, .. }) => switch(text),
            (Kind::Whole(..), Shape::Scalar { text, .. }) => number(text),
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

/// Whether a file of Triton's is YAML, by its first line that is no comment.
fn is_yaml(text: &str) -> bool {
    let lines = text.lines().map(str::trim_start);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    lines.next().is_some_and(|line| !line.starts_with('['))
}

/// A variable that says something.
fn present(original: &Original<'_>, name: &str) -> Option<String> {
    let text = (original.environment)(name)?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn taken(settings: &mut Map<String, Json>, key: &str) -> Map<String, Json> {
    match settings.remove(key) {
        Some(Json::Object(map)) => map,
        _ => Map::new(),
    }
}

/// A switch in any spelling of the originals; anything else stays what it is and is told.
fn switch(text: &str) -> Json {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "y" | "on" => json!(true),
        "false" | "f" | "0" | "no" | "n" | "off" => json!(false),
        _ => json!(text),
    }
}

fn number(text: &str) -> Json {
    text.trim()
        .parse::<i64>()
        .map_or_else(|_| json!(text), Json::from)
}
