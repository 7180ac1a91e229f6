//! What the program knows about Triton.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bowline_core::{Cloud, NodeMatch};
use bowline_provider::{
    BuildError, Capabilities, ConfigFile, Field, Finding, FollowedSecret, Kind, MigrateError,
    Migration, Original, ProviderContext, ProviderFlag, ProviderInput, ProviderKind, SecretRequest,
    below, text,
};
use serde_json::{Map, Value, json};

use crate::config::table::{self, CREDENTIALS_SECRET, ROWS, Row, Section};
use crate::config::{self, Config, ConfigError, ConfigErrors, Given};
use crate::{PROVIDER, SourceError, Sources, TritonMetrics, build};

pub const KIND: ProviderKind = ProviderKind {
    name: PROVIDER,
    title: "Triton",
    replaces: Some("triton-cloud-controller-manager"),
    capabilities: Capabilities {
        load_balancers: true,
        networks: false,
    },
    settings,
    flags,
    input,
    check,
    migrate,
    match_node: |node| NodeMatch::by_scheme(PROVIDER, node),
    build: |context| Box::pin(make(context)),
};

const SECRET: &str = "credentialsSecret";
const SECRETS: [&str; 2] = ["triton-private-key", "triton-key-passphrase"];

fn flags() -> Vec<ProviderFlag> {
    let flag = |(name, is_switch, meaning)| ProviderFlag {
        name,
        meaning,
        is_switch,
    };
    table::flags().map(flag).collect()
}

fn field(row: &Row) -> Field {
    let kind = match (row.key(), row.list) {
        (key, _) if SECRETS.contains(&key) => Kind::Secret,
        (_, true) => Kind::Texts,
        _ => Kind::Text,
    };
    let mut field = Field::of_row(&[row.variable], row.key(), kind);
    field.name = row.yaml_key();
    field.original = Some(row.key());
    // A key in a file is followed; what was read from it would not be.
    if row.key() == SECRETS[0] {
        field.file_as = Some("tritonPrivateKeyFile");
    }
    field
}

fn settings() -> Kind {
    let section = |section: Section| {
        let rows = ROWS.iter().filter(|row| row.section == section);
        let meaning = match section {
            Section::Global => "CloudAPI, the account and the key.",
            Section::Nodes => "About nodes.",
            Section::LoadBalancer => "About Services.",
            Section::Routes => "About routes.",
            Section::Metrics => "About metrics of machines.",
        };
        Field::new(section.yaml(), Kind::object(rows.map(field)), meaning)
    };
    let secret = Field::new(SECRET, Kind::Text, CREDENTIALS_SECRET.meaning);
    let secret = secret.allows(CREDENTIALS_SECRET.allowed);
    Kind::object(Section::ALL.into_iter().map(section).chain([secret]))
}

fn input(settings: &Value) -> ProviderInput {
    let mut settings = settings.clone();
    let named = settings.as_object_mut().and_then(|map| map.remove(SECRET));
    let mut input = ProviderInput::file(settings.to_string());
    if let Some(named) = text(named.as_ref()) {
        input
            .flags
            .insert(CREDENTIALS_SECRET.name.to_owned(), named);
    }
    input
}

fn check(input: &ProviderInput) -> Vec<Finding> {
    let file = match input.text() {
        Ok(file) => file,
        Err(error) => return vec![Finding::wrong(error)],
    };
    let read = Config::read(&Given {
        flags: &BTreeMap::new(),
        secret: None,
        environment: &|name| input.environment.get(name),
        file: file.as_deref(),
        read: &|path: &Path| std::fs::read_to_string(path),
        // Whether the manager's own name of the cluster fits is reported at the start.
        cluster_name: "kubernetes",
    });
    let secret = input.flags.get(CREDENTIALS_SECRET.name);
    match read {
        Ok(config) => config.warnings.iter().map(Finding::odd).collect(),
        Err(wrong) => wrong.0.iter().map(|it| finding(it, secret)).collect(),
    }
}

/// A file that is not here may be where the manager runs, a placeholder is no key, and what is
/// missing may be in the Secret.
fn finding(error: &ConfigError, secret: Option<&String>) -> Finding {
    match (error, secret) {
        (ConfigError::Missing { what, names }, Some(secret)) if is_of_connection(names) => {
            Finding::odd(format!(
                "not checked: {what}, which has to be in the Secret {secret}"
            ))
        }
        (
            ConfigError::Unreadable { .. } | ConfigError::Key { .. } | ConfigError::OtherKey { .. },
            _,
        ) => Finding::odd(format!("not checked: {error}")),
        _ => Finding::wrong(error),
    }
}

/// Whether a message names a setting that the Secret can have.
fn is_of_connection(names: &str) -> bool {
    let mut rows = ROWS.iter().filter(|row| row.connection);
    rows.any(|row| names.contains(row.key()))
}

fn migrate(
    original: &Original<'_>,
    migration: &mut dyn Migration,
) -> Result<Map<String, Value>, MigrateError> {
    let said = match original.file {
        Some(text) => config::file_values(text).map_err(|reason| {
            MigrateError(format!("the cloud config file cannot be read: {reason}"))
        })?,
        None => BTreeMap::new(),
    };
    if migration.ignored("profiles").is_some() {
        return Err(MigrateError(
            "profiles: each data center is a cloud of its own; write a file for each, and add them one after the other \
             with bowline config migrate --into"
                .to_owned(),
        ));
    }
    let mut settings = Map::new();
    for row in &ROWS {
        let is_secret = SECRETS.contains(&row.key());
        let path = below(row.section.yaml(), &row.yaml_key());
        let mut variables = row.environment.iter();
        let variable = variables.find(|it| original.variable(it).is_some());
        let in_file = said.get(&(row.section, row.key()));
        let value = match (original.flags.get(row.key()), variable, in_file) {
            (Some(_), ..) | (None, None, Some(_)) if is_secret => migration.store(&path),
            (Some(flag), ..) => json!(flag),
            (None, Some(variable), _) if is_secret => migration.variable(variable, &path),
            (None, Some(variable), _) => json!(original.variable(variable)),
            (None, None, Some(text)) => json!(text),
            (None, None, None) => continue,
        };
        let section = settings.entry(row.section.yaml());
        let section = section.or_insert_with(|| json!({}));
        section[row.yaml_key()] = value;
    }
    if let Some(named) = original.flags.get(CREDENTIALS_SECRET.name) {
        settings.insert(SECRET.to_owned(), json!(named));
        migration.remark(format!(
            "settings.{SECRET}: what the Secret {named} holds goes before all other settings; flags of the original go \
             before it, so take from it what they say otherwise"
        ));
    }
    Ok(settings)
}

async fn make(context: &ProviderContext) -> Result<Arc<dyn Cloud>, BuildError> {
    let mut flags = context.input.flags.clone();
    let named = flags.remove(CREDENTIALS_SECRET.name);
    let secret = match named.filter(|name| !name.is_empty()) {
        Some(name) => {
            let following = context.secrets.follow(SecretRequest {
                name: &name,
                setting: "--triton-credentials-secret",
                client: "triton-credentials",
                waits: context.waits_for_secrets,
            });
            Some(following.await.map_err(BuildError::NotYet)?)
        }
        None => None,
    };
    let (file, text) = match context.input.file.clone() {
        None => (None, None),
        Some(ConfigFile::Path(path)) => (Some(path), None),
        Some(ConfigFile::Text(text)) => (None, Some(text)),
    };
    let environment = context.input.environment.clone();
    let mut sources = Sources {
        flags,
        environment: Arc::new(move |name: &str| environment.get(name)),
        file,
        text,
        secret,
        cluster_name: context.cluster_name.clone(),
    };
    let metrics = context.metrics.register(TritonMetrics::register);
    let seams = context.seams(metrics.calls.clone());
    loop {
        let lacking = match build(sources.clone(), &seams, &metrics) {
            Ok(cloud) => return Ok(cloud),
            Err(crate::BuildError::Source(SourceError::Config(lacking))) => lacking,
            Err(error) => return Err(BuildError::NotYet(error.into())),
        };
        match &mut sources.secret {
            Some(secret) if context.waits_for_secrets && secret.now().is_none() => {
                secret.appear(&lacking.to_string()).await;
            }
            Some(secret) if secret.now().is_none() => return Err(absent(secret, &lacking)),
            secret => return Err(refused(lacking, secret.is_some())),
        }
    }
}

fn absent(secret: &FollowedSecret, lacking: &ConfigErrors) -> BuildError {
    let FollowedSecret {
        namespace, name, ..
    } = secret;
    let text = format!(
        "Secret {namespace}/{name} (--{}) does not exist: {lacking}",
        CREDENTIALS_SECRET.name
    );
    BuildError::NotYet(text.into())
}

/// Files and the Secret can come and change at any time; the rest is wrong for good.
fn refused(wrong: ConfigErrors, has_secret: bool) -> BuildError {
    let comes_again = wrong.0.iter().any(|it| match it {
        ConfigError::Unreadable { .. } => false,
        ConfigError::Missing { .. }
        | ConfigError::Key { .. }
        | ConfigError::KeyId { .. }
        | ConfigError::OtherKey { .. }
        | ConfigError::Url { .. } => !has_secret,
        _ => true,
    });
    if comes_again {
        BuildError::Settings(wrong.0.iter().map(Finding::wrong).collect())
    } else {
        BuildError::NotYet(wrong.into())
    }
}
