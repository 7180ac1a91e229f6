//! The providers that this program has: the only place that sees them all.

#[cfg(feature = "triton")]
mod triton;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use bowline_core::{Cloud, CloudName};
use bowline_provider::{ProviderContext, ProviderKind};
use tracing::warn;

pub(crate) use bowline_provider::Reader as Environment;

pub(crate) const PROVIDERS: &[&ProviderKind] = &[
    #[cfg(feature = "cloudscale")]
    &bowline_cloudscale::KIND,
    #[cfg(feature = "exoscale")]
    &bowline_exoscale::KIND,
    #[cfg(feature = "talos")]
    &bowline_talos::KIND,
    #[cfg(feature = "xenorchestra")]
    &bowline_xenorchestra::KIND,
    #[cfg(feature = "triton")]
    &bowline_triton::KIND,
    #[cfg(feature = "static")]
    &bowline_static::KIND,
];

const _: () = assert!(
    !PROVIDERS.is_empty(),
    "bowline needs a cloud: build it with --features clouds, or with one of them"
);

/// A command that only one cloud has.
pub(crate) struct ProviderCommand {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    /// Takes the name of the program and the rest of the command line, from the command's name on.
    main: fn(&str, &[String]) -> ExitCode,
}

/// The commands of single clouds.
pub(crate) const COMMANDS: &[ProviderCommand] = &[
    #[cfg(feature = "triton")]
    triton::COMMAND,
];

/// Runs the command of a single cloud, or shows its help, if that is what the words ask for.
pub(crate) fn run_command(program: &str, words: &[&str]) -> Option<ExitCode> {
    let (words, help) = match words {
        ["help", words @ ..] => (words, Some("--help")),
        words => (words, None),
    };
    let command = COMMANDS.iter().find(|it| words.first() == Some(&it.name))?;
    let line: Vec<String> = words
        .iter()
        .copied()
        .chain(help)
        .map(str::to_owned)
        .collect();
    Some((command.main)(program, &line))
}

/// The provider whose original has this command name.
pub(crate) fn by_command(program: &str) -> Option<&'static ProviderKind> {
    let mut all = PROVIDERS.iter().copied();
    all.find(|provider| provider.replaces == Some(program))
}

/// The names of all providers, for people.
pub(crate) fn names() -> String {
    let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
    names.join(", ")
}

pub(crate) fn named(name: &str) -> Result<&'static ProviderKind> {
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

/// Builds a cloud. Some ask their API where things are before they can work. `called`: whether the operator has named it.
pub(crate) async fn build(
    provider: &ProviderKind,
    context: &ProviderContext,
    called: bool,
) -> Result<Arc<dyn Cloud>> {
    warn_of_others(provider, context);
    let built = (provider.build)(context).await;
    built.map_err(|error| {
        let name = provider.name;
        let text = if called {
            format!("cloud {} ({name}) could not be initialized", context.name)
        } else {
            format!("cloud provider {name:?} could not be initialized")
        };
        anyhow::Error::new(error).context(text)
    })
}

/// Reports flags that belong to another cloud.
fn warn_of_others(provider: &ProviderKind, context: &ProviderContext) {
    let own = (provider.flags)();
    for name in context.input.flags.keys() {
        let is_it = |kind: &&&ProviderKind| (kind.flags)().iter().any(|it| it.name == name);
        let owner = PROVIDERS.iter().find(is_it).map(|it| it.title);
        if let (false, Some(owner)) = (own.iter().any(|it| it.name == name), owner) {
            let provider = provider.name;
            warn!(
                "--{name} is a flag of {owner}'s and means nothing to --cloud-provider={provider}"
            );
        }
    }
}

/// What a cloud is called that the operator has not named.
pub(crate) fn default_name(provider: &ProviderKind) -> Result<CloudName> {
    Ok(CloudName::parse(provider.name)?)
}

#[cfg(test)]
mod tests {
    use super::PROVIDERS;

    #[test]
    fn the_image_has_a_link_for_every_original() {
        let links: Vec<&str> = include_str!("../../../deploy/commands").lines().collect();
        let commands: Vec<&str> = PROVIDERS.iter().filter_map(|it| it.replaces).collect();
        assert_eq!(links, commands);
    }
}
