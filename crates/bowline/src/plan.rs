//! `bowline plan`: what would be done about Services, without doing it.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bowline_controllers::clients::ConnectionError;
use bowline_controllers::election::Fence;
use bowline_controllers::options::{self, Options, Request};
use bowline_controllers::{Document, PreviewParts, PreviewScope, documents, preview};
use bowline_core::{Outlook, ServiceKey};
use bowline_http::Clock;

use crate::config::{self, Configuration};
use crate::output::tell;
use crate::providers::{self, Environment};
use crate::run;
use crate::secrets::Patience;
use crate::{flags, logging};

/// The identity of the client.
const IDENTITY: &str = "plan";
/// Bytes of a file of Services. A Service has less than two kilobytes.
const MOST_BYTES: u64 = 16 * 1024 * 1024;
/// The exit code for changes. That for errors and problems is 1, that for nothing to do is 0.
const CHANGES: u8 = 2;
/// Flags in the configuration that are for the manager alone: how much it logs is not how much a command tells.
const MANAGERS_OWN: [&str; 2] = ["v", "vmodule"];

/// What would be done about Services, without doing it
///
/// Shows what exists in the cloud, what is wanted, and the steps from one to the other with their
/// impact: for Services as they are in the cluster, or as they would be after `kubectl apply` of
/// files. Reads the cluster and the cloud; writes to neither.
///
/// The cluster is needed also with -f: it says what is live and which nodes there are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:\n  \
    0  nothing to do\n  \
    2  there are changes\n  \
    1  something is wrong: a problem with a setting, a cloud or a cluster that cannot be read, a\n     \
    wrong command line; even if there are changes as well\n\n\
    Flags that only one cloud has are those of the manager.")]
pub(crate) struct Arguments {
    /// A Service of the cluster; without a namespace, one of the kubeconfig's namespace
    #[arg(value_name = "NAMESPACE/NAME")]
    services: Vec<String>,
    /// Every Service that has, or is to have, a load balancer
    #[arg(long, conflicts_with = "services")]
    all: bool,
    /// Services as if that file were applied; - is standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<String>,
    /// How to show it
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    /// Bowline's own configuration, in place of the two flags after it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cloud_provider", "cloud_config"])]
    config: Option<String>,
    /// The provider for cloud services
    #[arg(long, value_name = "NAME")]
    cloud_provider: Option<String>,
    /// The path to the cloud provider configuration file
    #[arg(long, value_name = "FILE")]
    cloud_config: Option<String>,
    /// Path to a kubeconfig; not needed in a pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// The address of the API server, in place of the kubeconfig's
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    /// The name of the cluster, as the manager has it
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// How much is logged to standard error
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
}

/// How a plan is shown.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Plans, tells, and says by the exit code what came of it.
/// `own` are flags of single clouds.
pub(crate) fn main(program: &str, given: &Arguments, own: &[String]) -> Result<ExitCode> {
    let (options, configuration) = given.options(program, own)?;
    logging::start(&options.logging);
    if given.services.is_empty() && !given.all && given.files.is_empty() {
        bail!("which Services? Give NAMESPACE/NAME, --all, or -f FILE (bowline plan --help)");
    }
    options.validate()?;
    if configuration.is_none() {
        providers::named(&options.cloud.provider)?;
    }
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    let previews = run::block_on(Box::pin(async {
        let clock = Clock::system();
        let told = (&options, configuration.as_ref());
        let reached = run::reach(program, told, environment, &clock, Patience::None).await;
        let reached = reached.map_err(needs_cluster)?;
        let clouds = reached.clouds();
        let client = reached
            .clients
            .for_controller(IDENTITY, &Fence::observing())
            .await?;
        let namespace = client.default_namespace().to_owned();
        let files = read_all(&given.files, &namespace)?;
        let asked = given.asked(&namespace)?;
        let parts = PreviewParts {
            client,
            clouds,
            rules: Arc::new(run::rules(configuration.as_ref(), &options)),
            cluster_name: options.cloud.cluster_name.clone(),
            cluster_uid: options.cloud.cluster_uid().map(str::to_owned),
            clock,
        };
        Ok(preview(&parts, &asked, &files).await?)
    }))?;
    match given.output {
        Output::Text => tell(previews.text().trim_end()),
        Output::Json => tell(format_args!("{:#}", previews.json())),
    }
    Ok(exit_code(previews.outlook))
}

/// Says why the cluster is asked for at all, if that is what is missing.
fn needs_cluster(error: anyhow::Error) -> anyhow::Error {
    if error.is::<ConnectionError>() {
        error.context(
            "planning needs the cluster, also with -f: it says what is live and which nodes there are",
        )
    } else {
        error
    }
}

fn exit_code(outlook: Outlook) -> ExitCode {
    match outlook {
        Outlook::NotOurs | Outlook::Unchanged => ExitCode::SUCCESS,
        Outlook::Changes => ExitCode::from(CHANGES),
        Outlook::Problems | Outlook::Failed => ExitCode::FAILURE,
    }
}

impl Arguments {
    /// The options of a manager with the same flags: limits, time-outs and the like are its defaults.
    fn options(&self, program: &str, own: &[String]) -> Result<(Options, Option<Configuration>)> {
        let given = [
            ("cloud-provider", &self.cloud_provider),
            ("cloud-config", &self.cloud_config),
            ("kubeconfig", &self.kubeconfig),
            ("master", &self.master),
        ];
        let given = given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let mut line: Vec<String> = given
            .map(|(name, value)| format!("--{name}={value}"))
            .collect();
        line.extend(
            self.cluster_name
                .iter()
                .map(|name| format!("--cluster-name={name}")),
        );
        line.push(format!("--v={}", self.verbosity));
        line.extend_from_slice(own);
        told(program, self.config.as_deref(), line)
    }

    fn asked(&self, namespace: &str) -> Result<PreviewScope> {
        if self.all {
            return Ok(PreviewScope::All);
        }
        if self.services.is_empty() {
            return Ok(PreviewScope::OfFiles);
        }
        let keys = self
            .services
            .iter()
            .map(|text| service_key(text, namespace));
        Ok(PreviewScope::Named(keys.collect::<Result<_>>()?))
    }
}

/// The options of a manager with that command line, and the configuration in that file.
pub(crate) fn told(
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

fn read_all(files: &[String], namespace: &str) -> Result<Vec<Document>> {
    let mut all = Vec::new();
    for file in files {
        let (name, text) = if file == "-" {
            ("standard input", read(std::io::stdin()))
        } else {
            let open = std::fs::File::open(file);
            (file.as_str(), open.map_err(Into::into).and_then(read))
        };
        let text = text.with_context(|| format!("cannot read {name}"))?;
        all.extend(documents(name, &text, namespace)?);
    }
    Ok(all)
}

fn read(from: impl std::io::Read) -> Result<String> {
    let mut text = String::new();
    from.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        bail!("it is larger than {MOST_BYTES} bytes");
    }
    Ok(text)
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
            let (options, _) = told("bowline", Some(path), line).unwrap();
            assert_eq!(options.logging.verbosity, verbosity);
            assert_eq!(options.logging.modules, []);
            assert_eq!(options.cloud.cluster_name, "blue");
        }
    }
}
