//! What `bowline plan` and `bowline explain` share: the flags that name cluster and clouds, and a
//! connection to both that only reads.

use std::sync::Arc;

use anyhow::{Result, bail};
use bowline_controllers::election::Fence;
use bowline_controllers::options::{self, Options, Request};
use bowline_core::ServiceKey;

use crate::config::{self, Configuration};
use crate::providers::{self, Environment};
use crate::run::{self, Connections};
use crate::secrets::Patience;
use crate::{flags, logging};

/// Flags in the configuration that are for the manager alone: how much it logs is not how much a
/// command prints.
const MANAGERS_OWN: [&str; 2] = ["v", "vmodule"];

/// Which clouds and which cluster, and the format of the answer.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArguments {
    /// The output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: Output,
    /// Bowline's own configuration file; replaces --cloud-provider and --cloud-config
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cloud_provider", "cloud_config"])]
    config: Option<String>,
    /// The provider for cloud services
    #[arg(long, value_name = "NAME")]
    cloud_provider: Option<String>,
    /// The path to the cloud provider configuration file
    #[arg(long, value_name = "FILE")]
    cloud_config: Option<String>,
    /// The path to a kubeconfig file; not needed in a pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// The address of the API server; overrides the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    master: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

impl InspectArguments {
    /// The options of a manager with the same flags and these: limits, time-outs and the like are its
    /// defaults. The log is started by them.
    pub(crate) fn options(
        &self,
        program: &str,
        further: impl IntoIterator<Item = String>,
    ) -> Result<(Options, Option<Configuration>)> {
        let given = [
            ("cloud-provider", &self.cloud_provider),
            ("cloud-config", &self.cloud_config),
            ("kubeconfig", &self.kubeconfig),
            ("master", &self.master),
        ];
        let given = given.into_iter();
        let given = given.filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
        let line = given.chain(further).collect();
        let read = read(program, self.config.as_deref(), line)?;
        logging::start(&read.0.logging);
        Ok(read)
    }
}

/// The options of a manager with that command line, and the configuration in that file.
fn read(
    program: &str,
    config: Option<&str>,
    mut line: Vec<String>,
) -> Result<(Options, Option<Configuration>)> {
    let load = |path: &str| {
        let loaded = config::command::load(path);
        loaded.map_err(|unusable| anyhow::anyhow!(unusable.lines(path).join("\n")))
    };
    let configuration = config.map(load).transpose()?;
    line.extend(config.map(|path| format!("--config={path}")));
    let presets = configuration.iter().flat_map(|it| &it.manager);
    let presets: Vec<_> = presets
        .filter(|(name, _)| !MANAGERS_OWN.contains(name))
        .cloned()
        .collect();
    match options::parse_over(flags::table(), (program, None), &presets, &line)? {
        Request::Run(line) => Ok((line.options, configuration)),
        Request::Help(_) | Request::Version | Request::RawVersion => {
            bail!("the command line asks for something else")
        }
    }
}

/// Connects to the cluster, as a client of that name which cannot write, and to the clouds.
pub(crate) async fn connect(
    program: &str,
    identity: &str,
    options: &Options,
    configuration: Option<&Configuration>,
) -> Result<(Connections, kube::Client)> {
    options.validate()?;
    if configuration.is_none() {
        providers::named(&options.cloud.provider)?;
    }
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    let (outside, _) = run::reach(program, options, environment).await?;
    let settings = (options, configuration);
    let connections = Connections::open(outside, settings, Patience::None).await?;
    let observing = Fence::observing();
    let client = connections.clients().for_controller(identity, &observing);
    let client = client.await?;
    Ok((connections, client))
}

/// The Service that is meant; without a namespace, one of that.
pub(crate) fn service_key(text: &str, namespace: &str) -> Result<ServiceKey> {
    let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        bail!("{text:?} is not NAMESPACE/NAME");
    }
    Ok(ServiceKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_much_is_logged_is_told_by_the_command_and_never_by_the_configuration() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "clouds: [{name: t, provider: talos, settings: {endpoints: a}}]
manager: {v: 9, vmodule: {owners: 5}, cluster-name: blue}
";
        std::fs::write(file.path(), text).unwrap();
        for (line, verbosity) in [(vec![], 0), (vec!["--v=2".to_owned()], 2)] {
            let path = file.path().to_str().unwrap();
            let (options, _) = read("bowline", Some(path), line).unwrap();
            assert_eq!(options.logging.verbosity, verbosity);
            assert_eq!(options.logging.modules, []);
            assert_eq!(options.cloud.cluster_name, "blue");
        }
    }
}
