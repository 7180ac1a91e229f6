//! `bowline plan`: what the manager would change for Services, without changing it.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bowline_controllers::clients::ConnectionError;
use bowline_controllers::{Document, PreviewParts, PreviewScope, documents, preview};
use bowline_core::Outlook;
use bowline_http::Clock;

use crate::inspect::{InspectArguments, Output, connect, service_key};
use crate::output::tell;
use crate::run;

/// The identity of the client.
const IDENTITY: &str = "plan";
/// Bytes of a file of Services. A Service has less than two kilobytes.
const MOST_BYTES: u64 = 16 * 1024 * 1024;
/// The exit code for changes. That for errors and problems is 1, that for nothing to do is 0.
const CHANGES: u8 = 2;

/// Show what Bowline would change for Services, without changing it
///
/// For each Service: the load balancer that exists, the one that the Service asks for, and the steps
/// between them, each with its impact on traffic. Services are taken from the cluster, or with -f
/// as they would be after `kubectl apply`. Only reads; nothing is written to the cluster or the
/// clouds.
///
/// The cluster is needed with -f, too: its nodes are the targets, and its Services are compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:\n  \
    0  nothing to do\n  \
    2  there are changes\n  \
    1  error: an invalid setting, a cluster or a cloud that cannot be read, a wrong command line;\n     \
    also if there are changes as well\n\n\
    The manager's flags for a single cloud (bowline --help) can be given, too.")]
pub(crate) struct Arguments {
    /// Services of the cluster; without NAMESPACE/, the namespace of the kubeconfig
    #[arg(value_name = "NAMESPACE/NAME")]
    services: Vec<String>,
    /// All Services that have a load balancer or ask for one
    #[arg(long, conflicts_with = "services")]
    all: bool,
    /// Plan as if this manifest were applied; - reads standard input; can be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<String>,
    #[command(flatten)]
    inspect: InspectArguments,
    /// The name of the cluster; must be the manager's --cluster-name
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// The log level; the log goes to standard error
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
}

/// Prints the plan; the exit code says whether there are changes.
/// `own` are flags of single clouds.
pub(crate) fn main(program: &str, given: &Arguments, own: &[String]) -> Result<ExitCode> {
    let further = given.cluster_name.iter();
    let further = further.map(|name| format!("--cluster-name={name}"));
    let further = further.chain([format!("--v={}", given.verbosity)]);
    let further = further.chain(own.iter().cloned());
    let (options, configuration) = given.inspect.options(program, further)?;
    if given.services.is_empty() && !given.all && given.files.is_empty() {
        bail!("which Services? Give NAMESPACE/NAME, --all, or -f FILE (bowline plan --help)");
    }
    let previews = run::block_on(Box::pin(async {
        let connected = connect(program, IDENTITY, &options, configuration.as_ref()).await;
        let (connections, client) = connected.map_err(needs_cluster)?;
        let namespace = client.default_namespace().to_owned();
        let files = read_all(&given.files, &namespace)?;
        let asked = given.asked(&namespace)?;
        let parts = PreviewParts {
            client,
            clouds: connections.clouds(),
            rules: Arc::new(run::rules(configuration.as_ref(), &options)),
            cluster_name: options.cloud.cluster_name.clone(),
            cluster_uid: options.cloud.cluster_uid().map(str::to_owned),
            lease: options.election.lease(),
            clock: Clock::system(),
        };
        Ok(preview(&parts, &asked, &files).await?)
    }))?;
    match given.inspect.output {
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
