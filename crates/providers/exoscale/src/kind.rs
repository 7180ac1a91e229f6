//! What the program knows about Exoscale.

use std::sync::Arc;

use bowline_core::{Claim, Cloud, Node, NodeMatch};
use bowline_provider::{
    BuildError, Capabilities, Field, Finding, Kind, MigrateError, Migration, Original,
    ProviderContext, ProviderInput, ProviderKind, below, text,
};
use serde_json::{Map, Value, json};

use crate::config::{self, Config};
use crate::{PROVIDER, build, id, register_metrics};

pub const KIND: ProviderKind = ProviderKind {
    name: PROVIDER,
    title: "Exoscale",
    replaces: Some("exoscale-cloud-controller-manager"),
    capabilities: Capabilities {
        load_balancers: true,
        networks: false,
    },
    settings,
    flags: Vec::new,
    input,
    check,
    migrate,
    match_node,
    build: |context| Box::pin(make(context)),
};

fn settings() -> Kind {
    use Kind::{Secret, Switch, Text, TextOrSecret};
    let row = |path, kind| Field::of_row(&config::KEYS, path, kind);
    let kinds = [
        "Hostname",
        "InternalIP",
        "ExternalIP",
        "InternalDNS",
        "ExternalDNS",
    ];
    let kinds = Kind::Words(kinds.to_vec());
    let address = Kind::object([
        Field::new("type", kinds, "What kind of address it is.").required(),
        Field::new("address", Text, "The address.").required(),
    ]);
    let overrides = Kind::object([
        row("instances.overrides[].name", Text).required(),
        row("instances.overrides[].external", Switch),
        row("instances.overrides[].externalID", Text),
        row("instances.overrides[].type", Text),
        row("instances.overrides[].region", Text),
        row("instances.overrides[].addresses", address.list()),
    ]);
    let runners = config::SKS_AGENT_RUNNERS;
    let trace = "Requests and answers of the API are logged, without credentials.";
    let global = Kind::object([
        row("global.apiKey", TextOrSecret),
        row("global.apiSecret", Secret),
        row("global.apiCredentialsFile", Text),
        row("global.apiEndpoint", Text),
        row("global.apiEnvironment", Text),
        row("global.zone", Text),
        Field::new("sksAgentRunners", Kind::Texts, runners.meaning).allows(runners.allowed),
        Field::new("trace", Switch, trace).or("false"),
    ]);
    let instances = Kind::object([
        row("instances.disabled", Switch),
        row("instances.externalOnly", Switch),
        row("instances.overrides", overrides.list()),
    ]);
    let health_check = Kind::Words(vec!["tcp", "http"]);
    let balancer = Kind::object([
        row("loadBalancer.disabled", Switch),
        row("loadBalancer.defaultInstancePoolID", Text),
        row("loadBalancer.localPolicyHealthCheck", health_check),
    ]);
    Kind::object([
        Field::new("global", global, "The API, the credentials and the zone.").required(),
        Field::new("instances", instances, "About nodes."),
        Field::new("loadBalancer", balancer, "About Services."),
    ])
}

fn input(settings: &Value) -> ProviderInput {
    let mut input = ProviderInput::file(settings.to_string());
    let of = |key: &str| settings.get("global").and_then(|global| global.get(key));
    let runners = text(of("sksAgentRunners"));
    input
        .environment
        .set(config::SKS_AGENT_RUNNERS.name, runners);
    let is_traced = of("trace") == Some(&Value::Bool(true));
    let trace = is_traced.then(|| "true".to_owned());
    input.environment.set(config::TRACE.name, trace);
    input
}

fn read(input: &ProviderInput) -> Result<Config, Vec<Finding>> {
    let file = input.text().map_err(|error| vec![Finding::wrong(error)])?;
    let config = Config::read(|name| input.environment.get(name), file.as_deref());
    config.map_err(|wrong| wrong.0.iter().map(Finding::wrong).collect())
}

fn check(input: &ProviderInput) -> Vec<Finding> {
    match read(input) {
        Ok(config) => config.warnings.iter().map(Finding::odd).collect(),
        Err(wrong) => wrong,
    }
}

fn migrate(
    original: &Original<'_>,
    migration: &mut dyn Migration,
) -> Result<Map<String, Value>, MigrateError> {
    let mut settings = migration.file()?;
    let set_to = |name: &str| (original.environment)(name);
    let mut global = match settings.remove("global") {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    // These replace the file's even when they are set to nothing.
    for (row, key, is_secret) in [
        (config::API_KEY, "apiKey", true),
        (config::API_SECRET, "apiSecret", true),
        (config::API_CREDENTIALS_FILE, "apiCredentialsFile", false),
        (config::API_ENDPOINT, "apiEndpoint", false),
    ] {
        let Some(text) = set_to(row.name) else {
            continue;
        };
        global.remove(key);
        if !text.trim().is_empty() {
            let value = if is_secret {
                migration.variable(row.name, &below("global", key))
            } else {
                json!(text.trim())
            };
            global.insert(key.to_owned(), value);
        }
    }
    let environment = original.variable(config::API_ENVIRONMENT.name);
    if let (Some(environment), None) = (environment, set_to(config::API_ENDPOINT.name)) {
        // It goes before the endpoint of the file.
        global.remove("apiEndpoint");
        global.insert("apiEnvironment".to_owned(), json!(environment));
    }
    let zone = original.variable(config::API_ZONE.name);
    if let Some(zone) = zone.or_else(|| original.variable(config::ZONE.name)) {
        global.insert("zone".to_owned(), json!(zone));
    }
    if let Some(runners) = original.variable(config::SKS_AGENT_RUNNERS.name) {
        let runners: Vec<&str> = runners.split(',').collect();
        global.insert("sksAgentRunners".to_owned(), json!(runners));
    }
    if original.variable(config::TRACE.name).is_some() {
        global.insert("trace".to_owned(), json!(true));
    }
    if !global.contains_key("zone") {
        let remark = "settings.global.zone: the original asks the machine that it runs on; say the zone, so that every \
                      replica means the same";
        migration.remark(remark.to_owned());
    }
    settings.insert("global".to_owned(), Value::Object(global));
    Ok(settings)
}

/// An ID without a scheme is one of Exoscale's, too.
fn match_node(node: &Node) -> NodeMatch {
    match node.provider_id.as_deref().and_then(id::instance_id) {
        Some(_) => Claim::Mine.into(),
        None => NodeMatch::by_scheme(PROVIDER, node),
    }
}

async fn make(context: &ProviderContext) -> Result<Arc<dyn Cloud>, BuildError> {
    let config = read(&context.input).map_err(BuildError::Settings)?;
    let metrics = context.metrics.register(register_metrics);
    let cloud = build(&config, context.seams(Some(metrics))).await;
    cloud.map_err(|error| BuildError::NotYet(error.into()))
}
