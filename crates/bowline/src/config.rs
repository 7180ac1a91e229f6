//! Bowline's own configuration, `--config`: several clouds, and everything else about the manager, in one file.
//!
//! ```text
//!  text ─▶ document ─▶ schema ─▶ Configuration ─▶ settings ─▶ each provider's own reader
//!          (places)    (strict)                   (what its original would have been given)
//! ```
//!
//! It is strict: a key that means nothing, a value of another kind, a key given twice are errors, and all of them
//! are reported at once, each with its line, column and path. The check, the JSON schema and the reference page are made
//! of one tree ([`schema`]).

mod balancers;
pub(crate) mod check;
pub(crate) mod command;
mod document;
mod flags;
mod guard;
mod migrate;
mod problem;
mod publish;
mod reference;
mod resolve;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bowline_core::{BalancerRules, CloudName, GuardPolicy, Selector};

use bowline_provider::{ProviderInput, ProviderKind};

use crate::providers::PROVIDERS;
use document::{Place, Shape, Value};
use schema::{Field, Kind};

pub(crate) use flags::Preset;
pub(crate) use problem::Problem;
pub(crate) use reference::{Mention, Reference};
pub(crate) use resolve::{Missing, Resolver};
pub(crate) use settings::Resolved;

/// The version of the format.
const API_VERSION: &str = "bowline.dev/v1";
/// The kind of document.
const KIND: &str = "Configuration";
/// Clouds of one cluster. Each costs a list of machines and a few tasks; more than this many is a mistake.
const MOST_CLOUDS: usize = 64;
/// The word for no cloud, where one can be named.
const NO_CLOUD: &str = "none";
/// A configuration that was understood.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// As it was written.
    pub(crate) text: String,
    /// The clouds, at least one, each with a name of its own.
    pub(crate) clouds: Vec<CloudEntry>,
    /// Which cloud serves Services that name none.
    pub(crate) default_cloud: Option<CloudName>,
    /// Flags of the manager.
    pub(crate) manager: Vec<Preset>,
}

pub(crate) struct CloudEntry {
    /// What it is called.
    pub(crate) name: CloudName,
    pub(crate) provider: &'static ProviderKind,
    /// The nodes that are its own, if that is said.
    pub(crate) selector: Option<Selector>,
    /// What its deletion guard insists on.
    pub(crate) guard: GuardPolicy,
    /// The fingerprint of its account, if the operator says that it is the right one.
    pub(crate) account: Option<String>,
    /// What Services may do there; none if nothing is said.
    pub(crate) balancers: Option<BalancerRules>,
    /// Where its secrets are.
    pub(crate) mentions: Vec<Mention>,
    /// Where its settings are in the file.
    path: String,
    settings: Value,
}

impl std::fmt::Debug for CloudEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("CloudEntry");
        debug.field("name", &self.name).finish_non_exhaustive()
    }
}

impl CloudEntry {
    /// What its provider is given, with these secrets.
    pub(crate) fn input(&self, resolved: &Resolved) -> ProviderInput {
        settings::input(self.provider, &self.settings, resolved)
    }
}

/// All keys there are.
fn fields() -> Vec<Field> {
    let providers = PROVIDERS.iter().map(|provider| provider.name).collect();
    let cloud = Kind::object([
        Field::new(
            "name",
            Kind::Name,
            "What the cloud is called: in messages, events, metrics, and in the class of Services, \
             `bowline.dev/<name>`. It stays the same for as long as the cloud has load balancers.",
        )
        .required(),
        Field::new(
            "provider",
            Kind::Words(providers),
            "What kind of cloud it is.",
        )
        .required(),
        Field::new(
            "settings",
            Kind::Settings,
            "The settings of the provider, under the names of its original's file.",
        )
        .required(),
        Field::new(
            "nodeSelector",
            Kind::Selector,
            "Only nodes with these labels are this cloud's, as far as their provider id does not say \
             otherwise; clouds of its kind without a selector are not asked about them. Give one to every cloud of \
             a kind, or to none.",
        ),
        Field::new(
            "guard",
            Kind::Object(guard::fields()),
            "What the deletion guard insists on before a Node of this cloud is deleted.",
        ),
        Field::new(
            "account",
            Kind::Text,
            "The fingerprint of the cloud's account, which events `AccountUnproven` and `AccountContradicted` \
             show: with it you confirm that the credentials in use see the account of this cluster.",
        ),
        Field::new(
            "loadBalancers",
            Kind::Object(balancers::fields()),
            "What Services may do with load balancers of this cloud that are not theirs.",
        ),
    ]);
    let services = Kind::object([
        Field::new(
            "clusterUid",
            Kind::Text,
            "What tells this cluster from others in the marks of its load balancers (`--cluster-uid`). Give one \
             where clusters were cloned from one etcd, since those share all uids.",
        )
        .or("the uid of namespace `kube-system`"),
        Field::new(
        "defaultCloud",
        Kind::Text,
        "The cloud that serves Services without a class, or `none`. Required where several clouds have \
         load balancers.",
    )
    .or("the only cloud with load balancers")
    .allows("the name of a cloud, or none"),
    ]);
    vec![
        Field::new(
            "apiVersion",
            Kind::Words(vec![API_VERSION]),
            "The version of the format.",
        )
        .or(API_VERSION),
        Field::new("kind", Kind::Words(vec![KIND]), "The kind of document.").or(KIND),
        Field::new("clouds", cloud.list(), "The clouds of the cluster.").required(),
        Field::new("services", services, "About Services of type LoadBalancer."),
        Field::new(
            "manager",
            Kind::Object(flags::fields()),
            "Flags of the manager under their names. A flag on the command line takes precedence.",
        ),
    ]
}

/// Reads a configuration, or tells everything that is wrong with it.
pub(crate) fn read(text: &str) -> Result<Configuration, Vec<Problem>> {
    let value = document::read(text)?;
    let mut problems = Vec::new();
    let root = Kind::Object(fields());
    if value.is_nothing() {
        let what = "there is nothing; a configuration has clouds, a list";
        return Err(vec![Problem::at(Place::START, "", what)]);
    }
    schema::check(&value, &root, "", &mut problems);
    let mut clouds = Vec::new();
    let mut named: BTreeMap<CloudName, Place> = BTreeMap::new();
    let items = value.get("clouds").map_or(&[][..], Value::items);
    for (number, item) in items.iter().enumerate() {
        clouds.extend(cloud(item, number, &mut named, &mut problems));
    }
    if let Some(list) = value.get("clouds")
        && (list.items().len() > MOST_CLOUDS || list.items().is_empty() && problems.is_empty())
    {
        let what = format!("there are 1 to {MOST_CLOUDS} clouds");
        problems.push(Problem::at(list.place, "clouds", what));
    }
    let default_cloud = default_cloud(&value, &clouds, &mut problems);
    let mut manager = value
        .get("manager")
        .map(|it| flags::read(it, &mut problems))
        .unwrap_or_default();
    let uid = value.get("services").and_then(|it| it.get("clusterUid"));
    if let Some(uid) = uid.and_then(Value::text) {
        manager.push(("cluster-uid", vec![uid.to_owned()]));
    }
    if problems.is_empty() {
        return Ok(Configuration {
            text: text.to_owned(),
            clouds,
            default_cloud,
            manager,
        });
    }
    problems.sort_by_key(|problem| problem.place);
    Err(problems)
}

/// What is wrong with a configuration, each with its place, as `bowline config check` says it; nothing if it can be used.
/// Secrets are taken to be right.
pub fn problems_of(text: &str) -> Vec<String> {
    let clouds = match read(text) {
        Ok(configuration) => configuration.clouds,
        Err(problems) => return problems.iter().map(ToString::to_string).collect(),
    };
    let found = clouds
        .iter()
        .map(|entry| check::settings_of(entry, &Resolved::new()));
    let problems = found.flat_map(|found| found.problems);
    problems.map(|problem| problem.to_string()).collect()
}

/// One cloud, as far as it can be understood.
fn cloud(
    value: &Value,
    number: usize,
    named: &mut BTreeMap<CloudName, Place>,
    problems: &mut Vec<Problem>,
) -> Option<CloudEntry> {
    let path = format!("clouds[{number}]");
    let text = |key: &str| value.get(key).and_then(Value::text);
    let provider =
        text("provider").and_then(|it| PROVIDERS.iter().copied().find(|row| row.name == it));
    let settings = value.get("settings").filter(|it| !it.is_nothing());
    let mut mentions = Vec::new();
    if let (Some(provider), Some(settings)) = (provider, settings) {
        let (kind, path) = ((provider.settings)(), format!("{path}.settings"));
        if matches!(settings.shape, Shape::Map(_)) {
            schema::check(settings, &kind, &path, problems);
        }
        mentions = reference::mentions(settings, &kind, &path);
    }
    let name = text("name").and_then(|it| CloudName::parse(it).ok())?;
    let place = value.get("name").map_or(value.place, |it| it.place);
    if name.as_str() == NO_CLOUD {
        let what = format!("{NO_CLOUD:?} means no cloud, and cannot be the name of one");
        problems.push(Problem::at(place, &format!("{path}.name"), what));
    }
    if let Some(first) = named.get(&name) {
        let what = format!("{name} is the name of another cloud already, at {first}");
        problems.push(Problem::at(place, &format!("{path}.name"), what));
    }
    named.entry(name.clone()).or_insert(place);
    Some(CloudEntry {
        name,
        provider: provider?,
        selector: text("nodeSelector").and_then(|it| Selector::parse(it).ok()),
        guard: value.get("guard").map(guard::read).unwrap_or_default(),
        account: text("account").map(str::to_owned),
        balancers: value.get("loadBalancers").map(balancers::read),
        mentions,
        path: format!("{path}.settings"),
        settings: settings?.clone(),
    })
}

/// The cloud of Services without a class.
fn default_cloud(
    value: &Value,
    clouds: &[CloudEntry],
    problems: &mut Vec<Problem>,
) -> Option<CloudName> {
    let path = "services.defaultCloud";
    let serving: Vec<&CloudName> = clouds
        .iter()
        .filter(|it| it.provider.capabilities.load_balancers)
        .map(|it| &it.name)
        .collect();
    let said = value.get("services").and_then(|it| it.get("defaultCloud"));
    let Some((text, said)) = said.and_then(|it| Some((it.text()?, it))) else {
        if serving.len() > 1 {
            let near = value.get("services").or_else(|| value.get("clouds"));
            let place = near.unwrap_or(value).place;
            let names: Vec<&str> = serving.iter().map(|it| it.as_str()).collect();
            let what = format!(
                "is missing: several clouds have load balancers, so say which one serves Services without a \
                 class: {}, or {NO_CLOUD}",
                names.join(", ")
            );
            problems.push(Problem::at(place, path, what));
        }
        return serving.first().map(|name| (*name).clone());
    };
    if text == NO_CLOUD {
        return None;
    }
    let found = serving.iter().find(|it| it.as_str() == text);
    if found.is_none() {
        let mut names: Vec<&str> = serving.iter().map(|it| it.as_str()).collect();
        names.push(NO_CLOUD);
        problems.push(Problem::choice(said.place, path, text, &names));
    }
    found.map(|name| (*name).clone())
}
