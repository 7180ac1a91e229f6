//! The providers this program knows: the only place that sees them all.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bowline_controllers::metrics::Metrics;
use bowline_core::{Cloud, CloudName};
use bowline_http::{Clock, Connector, Random};
use tracing::warn;

/// Reads a variable of the environment.
pub(crate) type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a provider is built with.
pub(crate) struct Surroundings {
    /// Its variables.
    pub environment: Environment,
    /// How it reaches its API.
    pub connector: Connector,
    /// The time of day.
    pub clock: Clock,
    /// Jitter.
    pub random: Random,
    /// Where its call metrics go.
    pub metrics: Arc<Metrics>,
    /// `--cloud-config`; empty for none.
    pub config_file: String,
}

/// One provider.
pub(crate) struct Provider {
    /// Its name, as in `--cloud-provider`.
    pub name: &'static str,
    /// The command name of the controller manager it replaces; started under it, the program
    /// presets `--cloud-provider`.
    pub command: &'static str,
    build: fn(&Surroundings) -> Result<Arc<dyn Cloud>>,
}

/// Every provider.
pub(crate) const PROVIDERS: &[Provider] = &[Provider {
    name: "cloudscale",
    command: "cloudscale-cloud-controller-manager",
    build: cloudscale,
}];

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

/// Builds the cloud of `--cloud-provider`.
pub(crate) fn build(name: &str, surroundings: &Surroundings) -> Result<Arc<dyn Cloud>> {
    (named(name)?.build)(surroundings)
        .with_context(|| format!("cloud provider {name:?} could not be initialized"))
}

fn cloudscale(surroundings: &Surroundings) -> Result<Arc<dyn Cloud>> {
    if !surroundings.config_file.is_empty() {
        let file = &surroundings.config_file;
        warn!("{}", bowline_cloudscale::config::cloud_config_warning(file));
    }
    let environment = surroundings.environment.clone();
    let config = bowline_cloudscale::Config::read(|name| environment(name))?;
    let metrics = surroundings
        .metrics
        .register(bowline_cloudscale::register_metrics);
    let cloud = bowline_cloudscale::build(
        &config,
        bowline_cloudscale::Surroundings {
            name: CloudName::parse(bowline_cloudscale::PROVIDER)?,
            connector: surroundings.connector.clone(),
            clock: surroundings.clock.clone(),
            random: surroundings.random.fork(),
            metrics: Some(metrics),
        },
    )?;
    Ok(cloud)
}

#[cfg(test)]
mod tests {
    use super::PROVIDERS;

    #[test]
    fn the_image_has_a_link_for_every_original() {
        let links: Vec<&str> = include_str!("../../../deploy/commands").lines().collect();
        let commands: Vec<&str> = PROVIDERS.iter().map(|provider| provider.command).collect();
        assert_eq!(links, commands);
    }
}
