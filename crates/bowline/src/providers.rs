//! The providers this program knows: the only place that sees them all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bowline_controllers::clients::Clients;
use bowline_controllers::metrics::CloudRegistry;
use bowline_core::{BoxFuture, Cloud, CloudName, Secret};
use bowline_http::{Clock, Connector, Random};
use tracing::warn;

use crate::triton::secret::{self, Patience};

/// Reads a variable of the environment.
pub(crate) type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a provider is built with.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// What the operator calls it; none: what its provider is called, and nothing needs to tell clouds apart.
    pub name: Option<CloudName>,
    /// Its variables.
    pub environment: Environment,
    /// How it reaches its API.
    pub connector: Connector,
    /// The time of day.
    pub clock: Clock,
    /// Jitter.
    pub random: Random,
    /// Where its metrics go.
    pub registry: CloudRegistry,
    /// `--cloud-config`; empty for none.
    pub config_file: String,
    /// What stands in the place of that file, if anything does.
    pub config_text: Option<Secret>,
    /// Whether a controller runs that needs to know about machines.
    pub needs_machines: bool,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// What was given of the flags that only single clouds have, by name.
    pub flags: BTreeMap<String, String>,
    /// Clients of the cluster, for credentials that are kept there.
    pub clients: Clients,
    /// Whether credentials that are not there yet are waited for.
    pub patience: Patience,
}

impl Surroundings {
    fn name(&self, provider: &str) -> Result<CloudName> {
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => Ok(CloudName::parse(provider)?),
        }
    }

    /// What it is called, where clouds have to be told apart.
    fn label(&self) -> Option<&str> {
        self.name.as_ref().map(CloudName::as_str)
    }

    /// What its original's file says, if there is one.
    fn file(&self) -> Result<Option<String>> {
        match &self.config_text {
            Some(text) => Ok(Some(text.reveal().to_owned())),
            None => cloud_config(&self.config_file),
        }
    }
}

/// A cloud that is on its way.
type Building<'a> = BoxFuture<'a, Result<Arc<dyn Cloud>>>;

/// One provider.
pub(crate) struct Provider {
    /// Its name, as in `--cloud-provider`.
    pub name: &'static str,
    /// The command name of the controller manager it replaces; started under it, the program
    /// presets `--cloud-provider`.
    pub command: &'static str,
    build: for<'a> fn(&'a Surroundings) -> Building<'a>,
}

/// Every provider.
pub(crate) const PROVIDERS: &[Provider] = &[
    Provider {
        name: bowline_cloudscale::PROVIDER,
        command: "cloudscale-cloud-controller-manager",
        build: |surroundings| Box::pin(async move { cloudscale(surroundings) }),
    },
    Provider {
        name: bowline_exoscale::PROVIDER,
        command: "exoscale-cloud-controller-manager",
        build: |surroundings| Box::pin(exoscale(surroundings)),
    },
    Provider {
        name: bowline_talos::PROVIDER,
        command: "talos-cloud-controller-manager",
        build: |surroundings| Box::pin(async move { talos(surroundings) }),
    },
    Provider {
        name: bowline_xenorchestra::PROVIDER,
        command: "xenorchestra-cloud-controller-manager",
        build: |surroundings| Box::pin(async move { xenorchestra(surroundings) }),
    },
    Provider {
        name: bowline_triton::PROVIDER,
        command: "triton-cloud-controller-manager",
        build: |surroundings| Box::pin(triton(surroundings)),
    },
];

/// Bytes of a cloud config file. The largest there are list a few hundred nodes.
const LARGEST_CONFIG: u64 = 1024 * 1024;

/// The provider whose original has this command name.
pub(crate) fn by_command(program: &str) -> Option<&'static Provider> {
    PROVIDERS
        .iter()
        .find(|provider| provider.command == program)
}

/// The names of all providers, for people.
pub(crate) fn names() -> String {
    let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
    names.join(", ")
}

/// The provider of that name.
pub(crate) fn named(name: &str) -> Result<&'static Provider> {
    let found = PROVIDERS.iter().find(|provider| provider.name == name);
    let known = names();
    match found {
        Some(provider) => Ok(provider),
        // What a kubelet says when a cloud controller manager does the work; here it is the worker.
        None if name == "external" => bail!(
            "--cloud-provider=external is for kubelets; a cloud controller manager needs the name \
             of its cloud: {known}"
        ),
        None => bail!("unknown cloud provider {name:?} (--cloud-provider); known are: {known}"),
    }
}

/// Builds the cloud of `--cloud-provider`. Some ask their API where things are before they can work.
pub(crate) async fn build(name: &str, surroundings: &Surroundings) -> Result<Arc<dyn Cloud>> {
    warn_of_others(name, &surroundings.flags);
    (named(name)?.build)(surroundings)
        .await
        .with_context(|| match surroundings.label() {
            Some(cloud) => format!("cloud {cloud} ({name}) could not be initialized"),
            None => format!("cloud provider {name:?} could not be initialized"),
        })
}

/// Tells of flags that belong to another cloud.
fn warn_of_others(name: &str, flags: &BTreeMap<String, String>) {
    if name != bowline_triton::PROVIDER {
        for flag in flags.keys() {
            warn!("--{flag} is a flag of Triton's and means nothing to --cloud-provider={name}");
        }
    }
}

fn cloudscale(surroundings: &Surroundings) -> Result<Arc<dyn Cloud>> {
    if !surroundings.config_file.is_empty() {
        let file = &surroundings.config_file;
        warn!("{}", bowline_cloudscale::config::cloud_config_warning(file));
    }
    let environment = surroundings.environment.clone();
    let config = bowline_cloudscale::Config::read(|name| environment(name))?;
    let metrics = surroundings
        .registry
        .register(bowline_cloudscale::register_metrics);
    let cloud = bowline_cloudscale::build(
        &config,
        bowline_cloudscale::Surroundings {
            name: surroundings.name(bowline_cloudscale::PROVIDER)?,
            connector: surroundings.connector.clone(),
            clock: surroundings.clock.clone(),
            random: surroundings.random.fork(),
            metrics: Some(metrics),
        },
    )?;
    Ok(cloud)
}

async fn exoscale(surroundings: &Surroundings) -> Result<Arc<dyn Cloud>> {
    let file = surroundings.file()?;
    let environment = surroundings.environment.clone();
    let config = bowline_exoscale::Config::read(|name| environment(name), file.as_deref())?;
    let metrics = surroundings
        .registry
        .register(bowline_exoscale::register_metrics);
    let surroundings = bowline_exoscale::Surroundings {
        name: surroundings.name(bowline_exoscale::PROVIDER)?,
        connector: surroundings.connector.clone(),
        clock: surroundings.clock.clone(),
        random: surroundings.random.fork(),
        metrics: Some(metrics),
    };
    Ok(bowline_exoscale::build(&config, surroundings).await?)
}

fn talos(surroundings: &Surroundings) -> Result<Arc<dyn Cloud>> {
    use bowline_talos::{Environment, Need, Setup};

    let environment = surroundings.environment.clone();
    let setup = Setup {
        environment: Environment::read(|name| environment(name)),
        config_file: surroundings.config_file.clone(),
        config_text: surroundings
            .config_text
            .as_ref()
            .map(|text| text.reveal().to_owned()),
        need: if surroundings.needs_machines {
            Need::Machines
        } else {
            Need::Nodes
        },
    };
    let metrics = surroundings
        .registry
        .register(bowline_talos::register_metrics);
    let surroundings = bowline_talos::Surroundings {
        name: surroundings.name(bowline_talos::PROVIDER)?,
        connector: surroundings.connector.clone(),
        clock: surroundings.clock.clone(),
        random: surroundings.random.fork(),
        metrics: None,
    };
    Ok(bowline_talos::build(setup, surroundings, Some(metrics))?)
}

fn xenorchestra(surroundings: &Surroundings) -> Result<Arc<dyn Cloud>> {
    let file = surroundings.file()?;
    let environment = surroundings.environment.clone();
    let config = bowline_xenorchestra::Config::read(|name| environment(name), file.as_deref())?;
    let config = match file {
        Some(_) if surroundings.config_text.is_none() => {
            config.following(&surroundings.config_file)
        }
        _ => config,
    };
    let metrics = surroundings
        .registry
        .register(bowline_xenorchestra::register_metrics);
    let surroundings = bowline_xenorchestra::Surroundings {
        name: surroundings.name(bowline_xenorchestra::PROVIDER)?,
        connector: surroundings.connector.clone(),
        clock: surroundings.clock.clone(),
        random: surroundings.random.fork(),
        metrics: Some(metrics.calls),
    };
    Ok(bowline_xenorchestra::build(
        &config,
        &surroundings,
        &metrics.gauges,
    )?)
}

async fn triton(surroundings: &Surroundings) -> Result<Arc<dyn Cloud>> {
    use bowline_triton::config::table::CREDENTIALS_SECRET;
    use bowline_triton::{BuildError, SourceError};

    let file = &surroundings.config_file;
    let mut flags = surroundings.flags.clone();
    let secret = flags.remove(CREDENTIALS_SECRET.name);
    let secret = match secret.filter(|name| !name.is_empty()) {
        Some(name) => {
            let (clients, random) = (&surroundings.clients, &surroundings.random);
            Some(secret::follow(&name, clients, random, surroundings.patience).await?)
        }
        None => None,
    };
    let mut sources = bowline_triton::Sources {
        flags,
        environment: surroundings.environment.clone(),
        file: (!file.is_empty()).then(|| PathBuf::from(file)),
        text: surroundings.config_text.clone(),
        secret,
        cluster_name: surroundings.cluster_name.clone(),
    };
    let metrics = surroundings
        .registry
        .register(bowline_triton::TritonMetrics::register);
    let patience = surroundings.patience;
    let surroundings = bowline_triton::Surroundings {
        name: surroundings.name(bowline_triton::PROVIDER)?,
        connector: surroundings.connector.clone(),
        clock: surroundings.clock.clone(),
        random: surroundings.random.fork(),
        metrics: metrics.calls.clone(),
    };
    loop {
        let built = bowline_triton::build(sources.clone(), &surroundings, &metrics);
        let lacking = match built {
            Ok(cloud) => return Ok(cloud),
            Err(BuildError::Source(SourceError::Config(lacking))) => lacking,
            Err(error) => return Err(error.into()),
        };
        match &mut sources.secret {
            Some(secret) if patience == Patience::Endless && secret.now().is_none() => {
                secret::appear(secret, &lacking.to_string()).await?;
            }
            Some(secret) if secret.now().is_none() => {
                let (namespace, name) = (&secret.namespace, &secret.name);
                return Err(lacking).context(format!(
                    "Secret {namespace}/{name} (--triton-credentials-secret) does not exist"
                ));
            }
            _ => return Err(lacking.into()),
        }
    }
}

/// The text of `--cloud-config`; none if there is no such flag.
fn cloud_config(path: &str) -> Result<Option<String>> {
    if path.is_empty() {
        return Ok(None);
    }
    let read = || -> Result<String> {
        let mut text = String::new();
        let file = File::open(path)?;
        file.take(LARGEST_CONFIG + 1).read_to_string(&mut text)?;
        if text.len() as u64 > LARGEST_CONFIG {
            bail!("it is larger than {LARGEST_CONFIG} bytes");
        }
        Ok(text)
    };
    let text = read().with_context(|| format!("reading {path} (--cloud-config)"))?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::{LARGEST_CONFIG, PROVIDERS, cloud_config};

    #[test]
    fn a_cloud_config_is_read_whole_or_not_at_all() {
        assert_eq!(cloud_config("").unwrap(), None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cloud.yaml");
        let name = path.to_str().unwrap();
        let wrong = |words: &str| {
            let error = format!("{:#}", cloud_config(name).unwrap_err());
            assert!(error.contains(name) && error.contains(words), "{error}");
        };
        wrong("No such file");
        std::fs::write(&path, "global: {}").unwrap();
        assert_eq!(cloud_config(name).unwrap().as_deref(), Some("global: {}"));
        let largest = usize::try_from(LARGEST_CONFIG).unwrap();
        std::fs::write(&path, "#".repeat(largest + 1)).unwrap();
        wrong("larger than 1048576 bytes");
    }

    #[test]
    fn the_image_has_a_link_for_every_original() {
        let links: Vec<&str> = include_str!("../../../deploy/commands").lines().collect();
        let commands: Vec<&str> = PROVIDERS.iter().map(|provider| provider.command).collect();
        assert_eq!(links, commands);
    }
}
