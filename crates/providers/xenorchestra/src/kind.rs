//! What the program knows about Xen Orchestra.

use std::sync::Arc;

use bowline_core::{Cloud, NodeMatch};
use bowline_provider::{
    BuildError, Capabilities, ConfigFile, Field, Finding, Kind, MigrateError, Migration, Original,
    ProviderContext, ProviderInput, ProviderKind, switch,
};
use serde_json::{Map, Value, json};

use crate::config::{self, Config};
use crate::{PROVIDER, build, register_metrics};

pub const KIND: ProviderKind = ProviderKind {
    name: PROVIDER,
    title: "Xen Orchestra",
    replaces: Some("xenorchestra-cloud-controller-manager"),
    capabilities: Capabilities {
        load_balancers: false,
        networks: false,
    },
    settings,
    flags: Vec::new,
    input: |settings| ProviderInput::file(settings.to_string()),
    check,
    migrate,
    match_node: |node| NodeMatch::by_scheme(PROVIDER, node),
    build: |context| Box::pin(async move { make(context) }),
};

fn settings() -> Kind {
    use Kind::{Duration, Secret, Switch, Text, Words};
    let row = |path, kind| Field::of_row(&config::KEYS, path, kind);
    let server = || {
        [
            row("url", Text),
            row("token", Secret),
            row("username", Text),
            row("password", Secret),
            row("insecure", Switch),
            row("clientTimeout", Duration),
        ]
    };
    let name = "What messages and metrics call the server.";
    let name = Field::new("name", Kind::Name, name).required();
    let one: Vec<Field> = std::iter::once(name).chain(server()).collect();
    let others = [
        row("addressMode", Words(vec!["compat", "internal", "classify"])),
        row("addressInclude", Text.list()),
        row("addressExclude", Text.list()),
        row("zoneSource", Words(vec!["host", "hostName", "pool"])),
        row("typeMemory", Words(vec!["current", "static"])),
        row("tagLabelPrefix", Text),
        row("events", Switch),
        row("servers", Kind::Object(one).list()),
    ];
    Kind::object(server().into_iter().chain(others))
}

fn read(input: &ProviderInput) -> Result<Config, Vec<Finding>> {
    let file = input.text().map_err(|error| vec![Finding::wrong(error)])?;
    let config = Config::read(|name| input.environment.get(name), file.as_deref());
    let config = config.map_err(|error| vec![Finding::wrong(error)])?;
    Ok(match &input.file {
        Some(ConfigFile::Path(path)) => config.following(path),
        _ => config,
    })
}

fn check(input: &ProviderInput) -> Vec<Finding> {
    read(input).err().unwrap_or_default()
}

fn migrate(
    original: &Original<'_>,
    migration: &mut dyn Migration,
) -> Result<Map<String, Value>, MigrateError> {
    // Where there is a file, the environment is not looked at.
    if original.file.is_some() {
        return migration.file();
    }
    let mut settings = Map::new();
    for (row, key) in [
        (config::XOA_URL, "url"),
        (config::XOA_TOKEN, "token"),
        (config::XOA_USER, "username"),
        (config::XOA_PASSWORD, "password"),
        (config::XOA_INSECURE, "insecure"),
        (config::XOA_CLIENT_TIMEOUT, "clientTimeout"),
    ] {
        let Some(text) = original.variable(row.name) else {
            continue;
        };
        let value = match key {
            "token" | "password" => migration.variable(row.name, key),
            "insecure" => switch(&text),
            _ => json!(text),
        };
        settings.insert(key.to_owned(), value);
    }
    Ok(settings)
}

fn make(context: &ProviderContext) -> Result<Arc<dyn Cloud>, BuildError> {
    let config = read(&context.input).map_err(BuildError::Settings)?;
    let metrics = context.metrics.register(register_metrics);
    let seams = context.seams(Some(metrics.calls));
    let cloud = build(&config, &seams, &metrics.gauges);
    cloud.map_err(|error| BuildError::NotYet(error.into()))
}
