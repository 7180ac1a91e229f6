//! What the program knows about cloudscale.ch.

use std::sync::Arc;

use bowline_core::{Cloud, NodeMatch, Variable};
use bowline_provider::{
    BuildError, Capabilities, ConfigFile, Field, Finding, Kind, MigrateError, Migration, Original,
    ProviderContext, ProviderInput, ProviderKind, text,
};
use serde_json::{Map, Value, json};
use tracing::warn;

use crate::config::{self, Config};
use crate::{PROVIDER, build, register_metrics};

/// Longest time-out of a request, in seconds.
const LONGEST_TIMEOUT: i64 = 3600;
/// The key of the token, and that of a file which holds it.
const TOKEN: &str = "accessToken";
const TOKEN_FILE: &str = "accessTokenFile";

pub const KIND: ProviderKind = ProviderKind {
    name: PROVIDER,
    title: "cloudscale.ch",
    replaces: Some("cloudscale-cloud-controller-manager"),
    capabilities: Capabilities {
        load_balancers: true,
        networks: false,
    },
    settings,
    flags: Vec::new,
    input,
    check,
    migrate,
    match_node: |node| NodeMatch::by_scheme(PROVIDER, node),
    build: |context| Box::pin(async move { make(context) }),
};

/// Its original has no file: the keys are named after the variables.
const KEYS: [(&str, Variable); 8] = [
    (TOKEN, config::ACCESS_TOKEN),
    ("apiUrl", config::API_URL),
    ("apiTimeout", config::API_TIMEOUT),
    ("matchByAddress", config::MATCH_BY_ADDRESS),
    ("ownershipTags", config::OWNERSHIP_TAGS),
    ("serviceSourceRanges", config::SERVICE_SOURCE_RANGES),
    ("driftCheckPeriod", config::DRIFT_CHECK_PERIOD),
    ("clusterNameAnnotation", config::CLUSTER_NAME_ANNOTATION),
];

fn settings() -> Kind {
    Kind::object(KEYS.map(|(key, row)| {
        let kind = match key {
            TOKEN => Kind::Secret,
            "apiTimeout" => Kind::Whole(1, LONGEST_TIMEOUT),
            "matchByAddress" | "ownershipTags" | "serviceSourceRanges" => Kind::Switch,
            "driftCheckPeriod" => Kind::Duration,
            _ => Kind::Text,
        };
        let mut field = Field::of_row(&[row], row.name, kind);
        key.clone_into(&mut field.name);
        field.original = Some(row.name);
        if key == TOKEN {
            field.default.clear();
            "API token of the project, with read and write permission."
                .clone_into(&mut field.meaning);
            return field.required().file_as(TOKEN_FILE);
        }
        field
    }))
}

fn input(settings: &Value) -> ProviderInput {
    let mut input = ProviderInput::default();
    for (key, row) in KEYS {
        input.environment.set(row.name, text(settings.get(key)));
    }
    let file = text(settings.get(TOKEN_FILE));
    input.environment.set(config::ACCESS_TOKEN_FILE.name, file);
    input
}

fn check(input: &ProviderInput) -> Vec<Finding> {
    match Config::read(|name| input.environment.get(name)) {
        Ok(config) => config.warnings.iter().map(Finding::odd).collect(),
        Err(wrong) => wrong.0.iter().map(Finding::wrong).collect(),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "other providers cannot read every file"
)]
fn migrate(
    original: &Original<'_>,
    migration: &mut dyn Migration,
) -> Result<Map<String, Value>, MigrateError> {
    let mut settings = Map::new();
    for (key, row) in KEYS {
        let Some(text) = original.variable(row.name) else {
            continue;
        };
        let value = match key {
            TOKEN => migration.variable(row.name, key),
            "apiTimeout" => bowline_provider::number(&text),
            "matchByAddress" | "ownershipTags" | "serviceSourceRanges" => {
                bowline_provider::switch(&text)
            }
            _ => json!(text),
        };
        settings.insert(key.to_owned(), value);
    }
    if let Some(path) = original.variable(config::ACCESS_TOKEN_FILE.name) {
        settings.insert(TOKEN.to_owned(), json!({"file": path}));
    }
    if original.file.is_some() {
        let remark = "--cloud-config: cloudscale reads no file, so it is left out";
        migration.remark(remark.to_owned());
    }
    Ok(settings)
}

fn make(context: &ProviderContext) -> Result<Arc<dyn Cloud>, BuildError> {
    if let Some(ConfigFile::Path(path)) = &context.input.file {
        let path = path.display().to_string();
        warn!("{}", config::cloud_config_warning(&path));
    }
    let config = Config::read(|name| context.input.environment.get(name));
    let config = config
        .map_err(|wrong| BuildError::Settings(wrong.0.iter().map(Finding::wrong).collect()))?;
    let metrics = context.metrics.register(register_metrics);
    let cloud = build(&config, context.seams(Some(metrics)));
    cloud.map_err(|error| BuildError::NotYet(error.into()))
}
