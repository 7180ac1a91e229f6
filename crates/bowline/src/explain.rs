//! `bowline explain`: who looks after something, and why.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use bowline_controllers::election::Fence;
use bowline_controllers::explain_node;
use bowline_core::Ownership;
use bowline_http::Clock;

use crate::logging;
use crate::output::tell;
use crate::plan::told;
use crate::providers::{self, Environment};
use crate::run;
use crate::triton::secret::Patience;

/// The identity of the client.
const IDENTITY: &str = "explain";

/// Who looks after something, and why
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Arguments {
    /// Who looks after a node, and why
    ///
    /// Tells what each configured cloud says about the node, whose it is by that, and who describes it. Reads the
    /// cluster and the clouds; writes to neither.
    #[command(after_help = "Exit codes:\n  \
        0  a cloud looks after it\n  \
        2  nobody does: it is left alone\n  \
        1  that cannot be said")]
    Node(NodeArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct NodeArguments {
    /// The name of the Node
    name: String,
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
}

/// The exit code for a node that nobody looks after.
const LEFT_ALONE: u8 = 2;

/// Explains, and says by the exit code what came of it.
/// `own` are flags of single clouds.
pub(crate) fn main(program: &str, given: &Arguments, own: &[String]) -> Result<ExitCode> {
    let Arguments::Node(given) = given;
    let line = [
        ("cloud-provider", &given.cloud_provider),
        ("cloud-config", &given.cloud_config),
        ("kubeconfig", &given.kubeconfig),
        ("master", &given.master),
    ];
    let line = line
        .into_iter()
        .filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
    let line = line.chain(own.iter().cloned()).collect();
    let (options, configuration) = told(program, given.config.as_deref(), line)?;
    logging::start(&options.logging);
    options.validate()?;
    if configuration.is_none() {
        providers::named(&options.cloud.provider)?;
    }
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    let explained = run::block_on(Box::pin(async {
        let told = (&options, configuration.as_ref());
        let clock = Clock::system();
        let reached = run::reach(program, told, environment, &clock, Patience::None).await?;
        let clouds = reached.clouds();
        let client = reached
            .clients
            .for_controller(IDENTITY, &Fence::observing())
            .await?;
        let rules = Arc::new(configuration.as_ref().map(run::rules).unwrap_or_default());
        Ok(explain_node(&client, &clouds, rules, &given.name).await?)
    }))?;
    tell(&explained);
    Ok(match explained.owner {
        Ownership::Owned { .. } => ExitCode::SUCCESS,
        Ownership::Nobody(_) | Ownership::Contested(_) => ExitCode::from(LEFT_ALONE),
        Ownership::Undecided(_) => ExitCode::FAILURE,
    })
}
