//! The settings of each provider: the keys of its original's file, and what its original takes from the
//! environment alone.
//!
//! ```text
//!  settings of a cloud ─▶ check ─▶ references resolved ─┬─▶ the original's file, as a text
//!                                                       └─▶ the original's environment
//! ```
//!
//! A provider reads them as it reads those of its original, so that there is one reader, one set of checks and
//! one meaning. The environment of the process is not looked at: two clouds of one kind would share it.

use std::collections::BTreeMap;

use bowline_core::{Secret, Variable};
use bowline_triton::config::table::{CREDENTIALS_SECRET, ROWS, Row, Section};
use serde_json::{Map, Value as Json};

use super::document::{Shape, Value};
use super::reference::Reference;
use super::schema::{Field, Kind};

/// Longest time-out of a request to cloudscale, in seconds; as its reader has it.
const LONGEST_TIMEOUT: i64 = 3600;

/// Secrets by where they are.
pub(crate) type Resolved = BTreeMap<Reference, Secret>;

/// What a provider is given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// The original's file; it may hold secrets.
    pub(crate) file: Option<Secret>,
    /// The original's environment; it may hold secrets.
    pub(crate) environment: BTreeMap<String, Secret>,
    /// The flags that it alone has.
    pub(crate) flags: BTreeMap<String, String>,
}

/// The settings of a provider.
pub(crate) fn kind(provider: &str) -> Kind {
    match provider {
        bowline_cloudscale::PROVIDER => cloudscale(),
        bowline_exoscale::PROVIDER => exoscale(),
        bowline_talos::PROVIDER => talos(),
        bowline_xenorchestra::PROVIDER => xenorchestra(),
        bowline_triton::PROVIDER => triton(),
        _ => Kind::object([]),
    }
}

/// What the original of that provider would have been given. `value` has been checked; a reference that is not
/// resolved is left out.
pub(crate) fn given(provider: &str, value: &Value, resolved: &Resolved) -> Given {
    let mut given = Given::default();
    let mut rendered = render(value, &kind(provider), resolved);
    let mut set = |variable: &str, text: Option<String>| {
        if let Some(text) = text {
            let text = Secret::new(text);
            given.environment.insert(variable.to_owned(), text);
        }
    };
    match provider {
        bowline_cloudscale::PROVIDER => {
            for (key, variable) in cloudscale_keys() {
                set(variable.name, text(rendered.get(key)));
            }
            // A file is followed by its name.
            if let Some(path) = file_of(value.get("accessToken")) {
                let path = Secret::new(path);
                let name = bowline_cloudscale::config::ACCESS_TOKEN_FILE.name;
                given.environment.insert(name.to_owned(), path);
                let token = bowline_cloudscale::config::ACCESS_TOKEN.name;
                given.environment.remove(token);
            }
            return given;
        }
        bowline_exoscale::PROVIDER => {
            let global = rendered.get("global");
            let of = |key: &str| global.and_then(|global| global.get(key));
            let runners = bowline_exoscale::config::SKS_AGENT_RUNNERS.name;
            set(runners, text(of("sksAgentRunners")));
            let traced = of("trace") == Some(&Json::Bool(true));
            let trace = bowline_exoscale::config::TRACE.name;
            set(trace, traced.then(|| "true".to_owned()));
        }
        bowline_talos::PROVIDER => {
            // Its file does not know them, and would tell.
            let mut take = |key| rendered.as_object_mut().and_then(|map| map.remove(key));
            set("TALOSCONFIG", text(take("talosconfig").as_ref()));
            set("TALOS_ENDPOINTS", text(take("endpoints").as_ref()));
        }
        bowline_triton::PROVIDER => {
            let mut map = rendered.as_object_mut();
            let named = map.as_mut().and_then(|map| map.remove("credentialsSecret"));
            if let Some(named) = text(named.as_ref()) {
                let flag = CREDENTIALS_SECRET.name.to_owned();
                given.flags.insert(flag, named);
            }
        }
        _ => {}
    }
    given.file = Some(Secret::new(rendered.to_string()));
    given
}

/// What the original of a provider calls a key, where that differs: a variable, or a key of another form of its file.
pub(crate) fn original_name(provider: &str, key: &str) -> Option<String> {
    match provider {
        bowline_cloudscale::PROVIDER => {
            let keys = cloudscale_keys();
            let found = keys.iter().find(|(it, _)| *it == key);
            found.map(|(_, variable)| variable.name.to_owned())
        }
        bowline_triton::PROVIDER => {
            let found = ROWS.iter().find(|row| row.yaml_key() == key);
            found.map(|row| row.key().to_owned())
        }
        _ => None,
    }
}

/// A scalar, or texts with commas between them.
fn text(value: Option<&Json>) -> Option<String> {
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

/// The file that a reference names.
fn file_of(value: Option<&Value>) -> Option<String> {
    Some(value?.get("file")?.text()?.to_owned())
}

/// The value as JSON, which is YAML too: texts in quotes, switches and numbers without.
fn render(value: &Value, kind: &Kind, resolved: &Resolved) -> Json {
    match (kind, &value.shape) {
        (Kind::Secret | Kind::TextOrSecret, Shape::Map(_)) => {
            let reference = Reference::read(value, "").ok();
            let secret = reference.and_then(|it| resolved.get(&it));
            secret.map_or(Json::Null, |it| Json::String(it.reveal().to_owned()))
        }
        (Kind::Object(fields), Shape::Map(entries)) => {
            let mut map = Map::new();
            for entry in entries {
                let field = fields.iter().find(|field| field.name == entry.key);
                let Some(field) = field else { continue };
                // Triton's own key for a file is followed; what was read from one would not be.
                if let (Kind::Secret, "tritonPrivateKey", Some(path)) =
                    (&field.kind, entry.key.as_str(), file_of(Some(&entry.value)))
                {
                    map.insert("tritonPrivateKeyFile".to_owned(), Json::String(path));
                    continue;
                }
                let json = render(&entry.value, &field.kind, resolved);
                map.insert(entry.key.clone(), json);
            }
            Json::Object(map)
        }
        (Kind::Map(inner), Shape::Map(entries)) => {
            let all = entries.iter();
            let all = all.map(|it| (it.key.clone(), render(&it.value, inner, resolved)));
            Json::Object(all.collect())
        }
        (Kind::List(inner), Shape::List(items)) => {
            Json::Array(items.iter().map(|it| render(it, inner, resolved)).collect())
        }
        (Kind::Texts, Shape::List(items)) => {
            let all = items.iter().map(|it| render(it, &Kind::Text, resolved));
            Json::Array(all.collect())
        }
        (Kind::Switch, Shape::Scalar { text, .. }) => Json::Bool(text == "true"),
        (Kind::Whole(..), Shape::Scalar { text, .. }) => {
            text.parse::<i64>().map_or(Json::Null, Json::from)
        }
        (_, Shape::Scalar { text, .. }) => Json::String(text.clone()),
        (_, Shape::Nothing | Shape::List(_) | Shape::Map(_)) => Json::Null,
    }
}

/// A field with what its row says.
fn field(rows: &[Variable], path: &str, kind: Kind) -> Field {
    let name = path.rsplit('.').next().unwrap_or(path);
    let row = rows.iter().find(|row| row.name == path);
    let mut field = Field::new(name, kind, row.map_or("", |row| row.meaning));
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

pub(crate) fn cloudscale_keys() -> [(&'static str, Variable); 8] {
    use bowline_cloudscale::config as it;
    [
        ("accessToken", it::ACCESS_TOKEN),
        ("apiUrl", it::API_URL),
        ("apiTimeout", it::API_TIMEOUT),
        ("matchByAddress", it::MATCH_BY_ADDRESS),
        ("ownershipTags", it::OWNERSHIP_TAGS),
        ("serviceSourceRanges", it::SERVICE_SOURCE_RANGES),
        ("driftCheckPeriod", it::DRIFT_CHECK_PERIOD),
        ("clusterNameAnnotation", it::CLUSTER_NAME_ANNOTATION),
    ]
}

/// Its original has no file: the keys are named after the variables.
fn cloudscale() -> Kind {
    Kind::object(cloudscale_keys().map(|(key, row)| {
        let kind = match key {
            "accessToken" => Kind::Secret,
            "apiTimeout" => Kind::Whole(1, LONGEST_TIMEOUT),
            "matchByAddress" | "ownershipTags" | "serviceSourceRanges" => Kind::Switch,
            "driftCheckPeriod" => Kind::Duration,
            _ => Kind::Text,
        };
        let mut field = field(&[row], row.name, kind);
        key.clone_into(&mut field.name);
        field.required = key == "accessToken";
        if field.required {
            field.default.clear();
            "API token of the project, with read and write permission. A file is read again every few \
             seconds."
                .clone_into(&mut field.meaning);
        }
        field
    }))
}

fn exoscale() -> Kind {
    use Kind::{Secret, Switch, Text, TextOrSecret};
    let rows = &bowline_exoscale::config::KEYS;
    let row = |path, kind| field(rows, path, kind);
    let address = Kind::object([
        Field::new(
            "type",
            Kind::Words(vec![
                "Hostname",
                "InternalIP",
                "ExternalIP",
                "InternalDNS",
                "ExternalDNS",
            ]),
            "What kind of address it is.",
        )
        .required(),
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
    let global = Kind::object([
        row("global.apiKey", TextOrSecret),
        row("global.apiSecret", Secret),
        row("global.apiCredentialsFile", Text),
        row("global.apiEndpoint", Text),
        row("global.apiEnvironment", Text),
        row("global.zone", Text),
        Field::new(
            "sksAgentRunners",
            Kind::Texts,
            bowline_exoscale::config::SKS_AGENT_RUNNERS.meaning,
        )
        .allows(bowline_exoscale::config::SKS_AGENT_RUNNERS.allowed),
        Field::new(
            "trace",
            Switch,
            "Requests and answers of the API are logged, without credentials.",
        )
        .or("false"),
    ]);
    let instances = Kind::object([
        row("instances.disabled", Switch),
        row("instances.externalOnly", Switch),
        row("instances.overrides", overrides.list()),
    ]);
    let balancer = Kind::object([
        row("loadBalancer.disabled", Switch),
        row("loadBalancer.defaultInstancePoolID", Text),
        row(
            "loadBalancer.localPolicyHealthCheck",
            Kind::Words(vec!["tcp", "http"]),
        ),
    ]);
    Kind::object([
        Field::new("global", global, "The API, the credentials and the zone.").required(),
        Field::new("instances", instances, "About nodes."),
        Field::new("loadBalancer", balancer, "About Services."),
    ])
}

fn talos() -> Kind {
    use Kind::{Switch, Text};
    let rows = bowline_talos::config::keys();
    let row = |path: &str, kind| field(rows, path, kind);
    let operators = vec![
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
        row(&format!("{base}[].operator"), Kind::Words(operators)).required(),
        row(&format!("{base}[].values"), Text.list()),
    ]);
    let term = Kind::object([
        Field::new("name", Text, "Has no effect."),
        row(base, expression.list()),
    ]);
    let discovery = row("transformations[].features.publicIPDiscovery", Switch);
    let templates =
        |name, meaning: &str| Field::new(name, Text.map(), meaning).allows("a map of templates");
    let rule = Kind::object([
        row("transformations[].name", Text),
        row("transformations[].nodeSelector", term.list()),
        templates("annotations", "Annotations of the node."),
        templates("labels", "Labels of the node."),
        row("transformations[].taints", Text.map()),
        row("transformations[].platformMetadata", Text.map()),
        Field::new(
            "features",
            Kind::object([discovery]),
            "What else the rule does.",
        ),
    ]);
    let global = Kind::object([
        row("global.clusterName", Text),
        row("global.preferIPv6", Switch),
        row("global.enforceTransformations", Switch),
    ]);
    Kind::object([
        Field::new("talosconfig", Text, "Path of the talosconfig.")
            .or("/var/run/secrets/talos.dev/config")
            .allows("a path"),
        Field::new(
            "endpoints",
            Kind::Texts,
            "Endpoints of the Talos API; they replace those of the talosconfig.",
        )
        .allows("addresses, host names or URLs, each with or without a port"),
        Field::new("global", global, "About the cluster."),
        row("transformations", rule.list()),
    ])
}

fn xenorchestra() -> Kind {
    use Kind::{Duration, Secret, Switch, Text, Words};
    let rows = &bowline_xenorchestra::config::KEYS;
    let row = |path, kind| field(rows, path, kind);
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
    let mut one = vec![
        Field::new(
            "name",
            Kind::Name,
            "What messages and metrics call the server.",
        )
        .required(),
    ];
    one.extend(server());
    let mut all = server().to_vec();
    all.extend([
        row("addressMode", Words(vec!["compat", "internal", "classify"])),
        row("addressInclude", Text.list()),
        row("addressExclude", Text.list()),
        row("zoneSource", Words(vec!["host", "hostName", "pool"])),
        row("typeMemory", Words(vec!["current", "static"])),
        row("tagLabelPrefix", Text),
        row("events", Switch),
        row("servers", Kind::Object(one).list()),
    ]);
    Kind::Object(all)
}

fn triton() -> Kind {
    let of = |row: &Row| {
        let kind = match (row.key(), row.list) {
            ("triton-private-key" | "triton-key-passphrase", _) => Kind::Secret,
            (_, true) => Kind::Texts,
            _ => Kind::Text,
        };
        let mut field = field(&[row.variable], row.key(), kind);
        field.name = row.yaml_key();
        field
    };
    let mut sections: Vec<Field> = Section::ALL
        .into_iter()
        .map(|section| {
            let rows = ROWS.iter().filter(|row| row.section == section);
            let meaning = match section {
                Section::Global => "CloudAPI, the account and the key.",
                Section::Nodes => "About nodes.",
                Section::LoadBalancer => "About Services.",
                Section::Routes => "About routes.",
                Section::Metrics => "About metrics of machines.",
            };
            Field::new(section.yaml(), Kind::object(rows.map(of)), meaning)
        })
        .collect();
    let mut profile = vec![Field::new("name", Kind::Text, "The name of the profile.").required()];
    profile.extend(ROWS.iter().filter(|row| row.connection).map(of));
    let meaning =
        "Several data centers: each with the keys of `global` that are about CloudAPI and the key.";
    sections.push(
        Field::new("credentialsSecret", Kind::Text, CREDENTIALS_SECRET.meaning)
            .allows(CREDENTIALS_SECRET.allowed),
    );
    sections.push(Field::new(
        "profiles",
        Kind::Object(profile).list(),
        meaning,
    ));
    Kind::Object(sections)
}
