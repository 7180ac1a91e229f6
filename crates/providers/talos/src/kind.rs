//! What the program knows about Talos.

use std::sync::Arc;

use bowline_core::{Cloud, Node, NodeMatch};
use bowline_provider::{
    BuildError, Capabilities, ConfigFile, Field, Finding, Kind, MigrateError, Migration, Original,
    ProviderContext, ProviderInput, ProviderKind, text,
};
use serde_json::{Map, Value, json};

use crate::config::{self, Config, ConfigError, Environment};
use crate::{Need, PROVIDER, Setup, build, ownership, register_metrics};

pub const KIND: ProviderKind = ProviderKind {
    name: PROVIDER,
    title: "Talos",
    replaces: Some("talos-cloud-controller-manager"),
    capabilities: Capabilities {
        load_balancers: false,
        networks: true,
    },
    settings,
    flags: Vec::new,
    input,
    check,
    migrate,
    match_node,
    build: |context| Box::pin(async move { make(context) }),
};

/// Variables and the settings that stand for them.
const CONFIG: (&str, &str) = ("TALOSCONFIG", "talosconfig");
const ENDPOINTS: (&str, &str) = ("TALOS_ENDPOINTS", "endpoints");

fn settings() -> Kind {
    use Kind::{Switch, Text};
    let row = |path: &str, kind| Field::of_row(config::keys(), path, kind);
    let operators = [
        "In",
        "NotIn",
        "Exists",
        "DoesNotExist",
        "Gt",
        "Lt",
        "Regexp",
    ];
    let base = "transformations[].nodeSelector[].matchExpressions";
    let expression = Kind::object([
        row(&format!("{base}[].key"), Text).required(),
        row(
            &format!("{base}[].operator"),
            Kind::Words(operators.to_vec()),
        )
        .required(),
        row(&format!("{base}[].values"), Text.list()),
    ]);
    let term = Kind::object([
        Field::new("name", Text, "Has no effect."),
        row(base, expression.list()),
    ]);
    let discovery = row("transformations[].features.publicIPDiscovery", Switch);
    let templates =
        |name, meaning: &str| Field::new(name, Text.map(), meaning).allows("a map of templates");
    let features = Kind::object([discovery]);
    let rule = Kind::object([
        row("transformations[].name", Text),
        row("transformations[].nodeSelector", term.list()),
        templates("annotations", "Annotations of the node."),
        templates("labels", "Labels of the node."),
        row("transformations[].taints", Text.map()),
        row("transformations[].platformMetadata", Text.map()),
        Field::new("features", features, "What else the rule does."),
    ]);
    let global = Kind::object([
        row("global.clusterName", Text),
        row("global.preferIPv6", Switch),
        row("global.enforceTransformations", Switch),
    ]);
    let endpoints = "Endpoints of the Talos API; they replace those of the talosconfig.";
    Kind::object([
        Field::new(
            CONFIG.1,
            Text,
            "Path of the talosconfig. Read again every few seconds.",
        )
        .or("/var/run/secrets/talos.dev/config")
        .allows("a path"),
        Field::new(ENDPOINTS.1, Kind::Texts, endpoints)
            .allows("addresses, host names or URLs, each with or without a port"),
        Field::new("global", global, "About the cluster."),
        row("transformations", rule.list()),
    ])
}

fn input(settings: &Value) -> ProviderInput {
    let mut settings = settings.clone();
    // Its file does not know them, and would report them.
    let mut take = |key| settings.as_object_mut().and_then(|map| map.remove(key));
    let (path, endpoints) = (take(CONFIG.1), take(ENDPOINTS.1));
    let mut input = ProviderInput::file(settings.to_string());
    input.environment.set(CONFIG.0, text(path.as_ref()));
    input.environment.set(ENDPOINTS.0, text(endpoints.as_ref()));
    input
}

fn check(input: &ProviderInput) -> Vec<Finding> {
    let text = match input.text() {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => return vec![Finding::wrong(error)],
    };
    match Config::read(&text) {
        Ok(config) => config.findings.iter().map(Finding::odd).collect(),
        Err(ConfigError::Rules(wrong)) => wrong.iter().map(Finding::wrong).collect(),
        Err(wrong) => vec![Finding::wrong(wrong)],
    }
}

fn migrate(
    original: &Original<'_>,
    migration: &mut dyn Migration,
) -> Result<Map<String, Value>, MigrateError> {
    let mut settings = migration.file()?;
    let home = original.variable("TALOS_HOME");
    let home = home.filter(|it| std::path::Path::new(it).is_absolute());
    let home = home.map(|it| format!("{}/config", it.trim_end_matches('/')));
    if let Some(path) = original.variable(CONFIG.0).or(home) {
        settings.insert(CONFIG.1.to_owned(), json!(path));
    }
    let endpoints = original.variable(ENDPOINTS.0);
    let endpoints = endpoints.map(|it| json!(it.split(',').collect::<Vec<_>>()));
    // A key of old files.
    let old = || migration.ignored("global.endpoints");
    if let Some(endpoints) = endpoints.or_else(old) {
        settings.insert(ENDPOINTS.1.to_owned(), endpoints);
    }
    Ok(settings)
}

fn match_node(node: &Node) -> NodeMatch {
    NodeMatch {
        claim: ownership::claim(node),
        other_account: false,
        describes: ownership::describe_policy(node),
    }
}

fn make(context: &ProviderContext) -> Result<Arc<dyn Cloud>, BuildError> {
    let input = &context.input;
    let (config_file, config_text) = match &input.file {
        None => (String::new(), None),
        Some(ConfigFile::Path(path)) => (path.display().to_string(), None),
        Some(ConfigFile::Text(text)) => (String::new(), Some(text.reveal().to_owned())),
    };
    let setup = Setup {
        environment: Environment::read(|name| input.environment.get(name)),
        config_file,
        config_text,
        need: if context.needs_machines {
            Need::Machines
        } else {
            Need::Nodes
        },
    };
    let metrics = context.metrics.register(register_metrics);
    let cloud = build(setup, context.seams(None), Some(metrics));
    cloud.map_err(|error| BuildError::NotYet(error.into()))
}
