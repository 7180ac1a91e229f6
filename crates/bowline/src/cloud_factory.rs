//! Builds the clouds of a configuration. Those that another configuration leaves as they are stay, with all that they
//! know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use bowline_controllers::options::{CLOUD_NODE, CLOUD_NODE_LIFECYCLE, NODE_IPAM, Options};
use bowline_core::{Cloud, CloudName, error_chain};
use bowline_provider::{BuildError, CloudRegistry, ConfigFile, ProviderContext, ProviderInput};
use futures::future::join_all;
use tokio::time::timeout;
use tracing::warn;

use crate::config::{CloudEntry, Configuration, Missing, Reference, Resolved, Resolver, check};
use crate::placeholder_cloud::PlaceholderCloud;
use crate::providers::{self, Environment};
use crate::run::{self, Outside};
use crate::secrets::{ClusterSecrets, Patience};

/// Variables that say which pod this is, and nothing about a cloud.
const POD: [&str; 3] = ["POD_NAME", "POD_NAMESPACE", "POD_UID"];

/// How long building a cloud may take that others wait for: a call or two to an API that answers. One that takes longer is
/// tried again.
const TRY_LIMIT: Duration = Duration::from_secs(30);

/// A cloud, and what it was built of.
#[derive(Clone)]
pub(crate) struct BuiltCloud {
    spec: CloudSpec,
    pub(crate) cloud: Arc<dyn Cloud>,
    registry: CloudRegistry,
    /// The cloud again, if it stands in for one that cannot be built yet.
    placeholder: Option<Arc<PlaceholderCloud>>,
}

/// Everything that a cloud is built of and that can differ. It holds secrets, and so is never shown.
#[derive(Clone, PartialEq)]
struct CloudSpec {
    name: Option<CloudName>,
    provider: &'static str,
    input: ProviderInput,
    needs_machines: bool,
    cluster_name: String,
    /// Where its secrets are, instead of the secrets, for one that is not built yet.
    references: Vec<Reference>,
}

impl CloudSpec {
    /// Whether it is the same account, endpoint and zone, with the same credentials, whatever it is called.
    fn is_same_account(&self, other: &Self) -> bool {
        let essence = |it: &Self| Self {
            name: None,
            needs_machines: false,
            cluster_name: String::new(),
            ..it.clone()
        };
        essence(self) == essence(other)
    }
}

impl BuiltCloud {
    /// Why it could not be built, if it is a placeholder.
    fn why_not(&self) -> Option<String> {
        self.placeholder.as_ref()?.ready().err()
    }
}

/// Where clouds are built.
pub(crate) struct CloudFactory {
    /// Credentials may be kept in the cluster.
    pub(crate) outside: Outside,
    /// Whether credentials that are not there yet are waited for.
    pub(crate) patience: Patience,
    /// Those that are in use.
    pub(crate) clouds: Vec<BuiltCloud>,
}

impl CloudFactory {
    /// The cloud that flags name.
    pub(crate) async fn build_named(&self, options: &Options) -> Result<BuiltCloud> {
        let file = &options.cloud.config_file;
        let spec = CloudSpec {
            name: None,
            provider: providers::named(&options.cloud.provider)?.name,
            input: ProviderInput {
                file: (!file.is_empty()).then(|| ConfigFile::Path(file.into())),
                environment: bowline_provider::Environment::of(self.outside.environment.clone()),
                flags: options.cloud.own.clone(),
            },
            needs_machines: needs_machines(options),
            cluster_name: options.cloud.cluster_name.clone(),
            references: Vec::new(),
        };
        self.make(spec).await
    }

    /// Gets the secrets of a configuration; those in Secrets that are known already are not asked for.
    pub(crate) fn resolver(&self, known: Resolved) -> Resolver {
        Resolver {
            environment: self.outside.environment.clone(),
            client: Some(self.outside.clients.root(run::SECRETS)),
            known,
        }
    }

    /// The clouds that a manager begins with, and their secrets. One that cannot be built now has a placeholder, unless
    /// none can; one whose settings are wrong is an error.
    pub(crate) async fn begin(
        &self,
        configuration: &Configuration,
        options: &Options,
    ) -> Result<(Vec<BuiltCloud>, Resolved)> {
        let resolver = self.resolver(Resolved::new());
        let (resolved, missing) = resolver.try_resolve(&configuration.clouds).await;
        let secrets = (&resolved, missing.as_slice());
        let beginning = configuration.clouds.iter();
        let beginning = beginning.map(|entry| self.begin_with(entry, secrets, options));
        let clouds: Result<Vec<BuiltCloud>> = join_all(beginning).await.into_iter().collect();
        let clouds = clouds?;
        let why = |it: &BuiltCloud| Some(format!("{}: {}", it.cloud.name(), it.why_not()?));
        let lacking: Vec<String> = clouds.iter().filter_map(why).collect();
        if lacking.len() == clouds.len() {
            // There is nothing that a manager could do meanwhile, and somebody may be waiting for the message.
            bail!("none of its clouds can be built: {}", lacking.join("; "));
        }
        Ok((clouds, resolved))
    }

    /// The clouds of a configuration, each with what its original would have been given. Those in use that are made of
    /// the same are among them, and so are placeholders, if they still cannot be built.
    pub(crate) async fn build(
        &self,
        configuration: &Configuration,
        secrets: (&Resolved, &[Missing]),
        options: &Options,
    ) -> Result<Vec<BuiltCloud>> {
        let building = configuration.clouds.iter();
        let building = building.map(|entry| self.build_one(entry, secrets, options));
        join_all(building).await.into_iter().collect()
    }

    /// Whether some clouds cannot be built yet.
    pub(crate) fn has_placeholders(&self) -> bool {
        self.clouds.iter().any(|it| it.placeholder.is_some())
    }

    /// Uses these from now on.
    pub(crate) fn use_them(&mut self, clouds: Vec<BuiltCloud>) {
        let metrics = &self.outside.metrics;
        metrics.show_clouds(clouds.iter().map(|it| it.registry.clone()).collect());
        self.clouds = clouds;
    }

    /// Clouds that are in use under another name and made of the same: that name, and the new one. Where several could
    /// be meant, none is.
    pub(crate) fn renamed(&self, clouds: &[BuiltCloud]) -> BTreeMap<CloudName, CloudName> {
        let (before, after) = (by_name(&self.clouds), by_name(clouds));
        let gone = before.iter().filter(|(name, _)| !after.contains_key(*name));
        let gone: Vec<&BuiltCloud> = gone.map(|(_, it)| *it).collect();
        let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
        let new: Vec<&BuiltCloud> = new.map(|(_, it)| *it).collect();
        let like = |one: &BuiltCloud, among: &[&BuiltCloud]| -> Vec<CloudName> {
            let alike = among.iter().filter(|it| it.spec.is_same_account(&one.spec));
            alike.map(|it| it.cloud.name().clone()).collect()
        };
        let renamed = gone.iter().filter_map(|it| {
            let [now] = <[CloudName; 1]>::try_from(like(it, &new)).ok()?;
            (like(it, &gone).len() == 1).then(|| (it.cloud.name().clone(), now))
        });
        renamed.collect()
    }

    /// What is different about these, for people; empty if nothing is.
    pub(crate) fn differences(
        &self,
        clouds: &[BuiltCloud],
        renamed: &BTreeMap<CloudName, CloudName>,
    ) -> Vec<String> {
        let (before, after) = (by_name(&self.clouds), by_name(clouds));
        let said = |what: &str, names: Vec<&str>| {
            (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
        };
        let was = |name: &&&str| renamed.keys().any(|it| it.as_str() == **name);
        let is = |name: &&&str| renamed.values().any(|it| it.as_str() == **name);
        let added = after
            .keys()
            .filter(|it| !before.contains_key(*it) && !is(it));
        let removed = before
            .keys()
            .filter(|it| !after.contains_key(*it) && !was(it));
        let other_names: Vec<String> = renamed
            .iter()
            .map(|(before, now)| format!("{before} to {now}"))
            .collect();
        let others = after.iter().filter_map(|(name, after)| {
            let before = before.get(name)?;
            let differs = !Arc::ptr_eq(&before.cloud, &after.cloud);
            differs.then_some((*name, before.placeholder.is_some()))
        });
        let (built, changed): (Vec<_>, Vec<_>) =
            others.partition(|(_, was_placeholder)| *was_placeholder);
        let all = [
            said("added", added.copied().collect()),
            said("built", built.into_iter().map(|it| it.0).collect()),
            said("changed", changed.into_iter().map(|it| it.0).collect()),
            said("removed", removed.copied().collect()),
            said("renamed", other_names.iter().map(String::as_str).collect()),
        ];
        all.into_iter().flatten().collect()
    }

    async fn begin_with(
        &self,
        entry: &CloudEntry,
        secrets: (&Resolved, &[Missing]),
        options: &Options,
    ) -> Result<BuiltCloud> {
        let (name, provider) = (&entry.name, entry.provider.name);
        let wrong = check::settings_of(entry, secrets.0).problems;
        if !wrong.is_empty() {
            let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            bail!(
                "cloud {name} ({provider}) could not be initialized: {}",
                all.join("; ")
            );
        }
        match self.try_now(entry, secrets, options).await {
            Err(error) if !is_refusal(&error) => {
                let why = error_chain(error.as_ref());
                warn!(cloud = %name, "it cannot be built now, and is left alone until it can: {why}");
                Ok(placeholder(entry, why))
            }
            made => made,
        }
    }

    async fn build_one(
        &self,
        entry: &CloudEntry,
        secrets: (&Resolved, &[Missing]),
        options: &Options,
    ) -> Result<BuiltCloud> {
        let spec = spec(entry, secrets.0, options);
        let mut built = self.clouds.iter().filter(|it| it.placeholder.is_none());
        if let Some(cloud) = built.find(|it| it.spec == spec)
            && lacking(entry, secrets.1).is_empty()
        {
            return Ok(cloud.clone());
        }
        let blank = blank(entry);
        let mut placeholders = self.clouds.iter();
        let known = placeholders.find_map(|it| {
            let placeholder = it.placeholder.as_ref()?;
            (it.spec == blank).then_some((it, placeholder))
        });
        let Some((cloud, placeholder)) = known else {
            return self.make_with(entry, secrets, options).await;
        };
        match self.try_now(entry, secrets, options).await {
            Ok(built) => Ok(built),
            Err(error) => {
                let why = error_chain(error.as_ref());
                if placeholder.still(why.clone()) {
                    warn!(cloud = %entry.name, "it still cannot be built: {why}");
                }
                Ok(cloud.clone())
            }
        }
    }

    async fn try_now(
        &self,
        entry: &CloudEntry,
        secrets: (&Resolved, &[Missing]),
        options: &Options,
    ) -> Result<BuiltCloud> {
        let making = self.make_with(entry, secrets, options);
        match timeout(TRY_LIMIT, making).await {
            Ok(made) => made,
            Err(_) => bail!("building it takes more than {TRY_LIMIT:?}"),
        }
    }

    async fn make_with(
        &self,
        entry: &CloudEntry,
        (resolved, missing): (&Resolved, &[Missing]),
        options: &Options,
    ) -> Result<BuiltCloud> {
        let lacking = lacking(entry, missing);
        if !lacking.is_empty() {
            bail!("secrets cannot be read: {}", lacking.join("; "));
        }
        let spec = spec(entry, resolved, options);
        self.make(spec).await
    }

    async fn make(&self, mut spec: CloudSpec) -> Result<BuiltCloud> {
        let (outside, provider) = (&self.outside, providers::named(spec.provider)?);
        let registry = CloudRegistry::new(spec.name.as_ref().map(CloudName::as_str));
        let name = match &spec.name {
            Some(name) => name.clone(),
            None => providers::default_name(provider)?,
        };
        if spec.name.is_some() {
            let process = outside.environment.clone();
            let pod: Environment =
                Arc::new(move |name| process(name).filter(|_| POD.contains(&name)));
            spec.input.environment = spec.input.environment.or(pod);
        }
        let context = ProviderContext {
            name,
            input: spec.input.clone(),
            connector: outside.connector.clone(),
            clock: outside.clock.clone(),
            random: outside.random.clone(),
            metrics: registry.clone(),
            secrets: Arc::new(ClusterSecrets::new(&outside.clients, &outside.random)),
            cluster_name: spec.cluster_name.clone(),
            needs_machines: spec.needs_machines,
            waits_for_secrets: self.patience == Patience::Endless,
        };
        let cloud = providers::build(provider, &context, spec.name.is_some()).await?;
        Ok(BuiltCloud {
            spec,
            cloud,
            registry,
            placeholder: None,
        })
    }
}

fn by_name(clouds: &[BuiltCloud]) -> BTreeMap<&str, &BuiltCloud> {
    let all = clouds.iter();
    all.map(|it| (it.cloud.name().as_str(), it)).collect()
}

/// What stands in for a cloud that cannot be built.
fn placeholder(entry: &CloudEntry, why: String) -> BuiltCloud {
    let (name, provider) = (entry.name.clone(), entry.provider);
    let placeholder = Arc::new(PlaceholderCloud::new(name, provider, why));
    BuiltCloud {
        spec: blank(entry),
        cloud: placeholder.clone(),
        registry: CloudRegistry::new(Some(entry.name.as_str())),
        placeholder: Some(placeholder),
    }
}

/// Secrets of a cloud that are missing, for people.
fn lacking(entry: &CloudEntry, missing: &[Missing]) -> Vec<String> {
    let is_its = |it: &&Missing| {
        let mut mentions = entry.mentions.iter();
        mentions.any(|mention| mention.reference == it.reference)
    };
    let its = missing.iter().filter(is_its);
    its.map(ToString::to_string).collect()
}

/// What a cloud is built of.
fn spec(entry: &CloudEntry, resolved: &Resolved, options: &Options) -> CloudSpec {
    CloudSpec {
        needs_machines: needs_machines(options),
        cluster_name: options.cloud.cluster_name.clone(),
        ..settings(entry, resolved)
    }
}

/// What tells a cloud from others while it cannot be built: what is written about it.
fn blank(entry: &CloudEntry) -> CloudSpec {
    let mentions = entry.mentions.iter();
    CloudSpec {
        references: mentions.map(|it| it.reference.clone()).collect(),
        ..settings(entry, &Resolved::new())
    }
}

fn settings(entry: &CloudEntry, resolved: &Resolved) -> CloudSpec {
    CloudSpec {
        name: Some(entry.name.clone()),
        provider: entry.provider.name,
        input: entry.input(resolved),
        needs_machines: false,
        cluster_name: String::new(),
        references: Vec::new(),
    }
}

/// Whether an error of building a cloud, all of whose secrets are there, is about its settings, so that it comes again.
fn is_refusal(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<BuildError>();
    matches!(error, Some(BuildError::Settings(_)))
}

/// Whether a controller runs that asks the cloud about machines or their networks. Services have members that
/// are machines too, but a cloud without load balancers is not asked about them.
fn needs_machines(options: &Options) -> bool {
    let set = options.controllers.set();
    let runs = |name| set.enabled(name);
    runs(CLOUD_NODE) || runs(CLOUD_NODE_LIFECYCLE) || (runs(NODE_IPAM) && options.ipam.allocate)
}
