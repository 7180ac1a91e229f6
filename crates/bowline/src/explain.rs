//! `bowline explain`: who looks after something, and why.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use bowline_controllers::election::Fence;
use bowline_controllers::{Explanation, ServiceExplanation, explain_node, explain_service};
use bowline_core::Ownership;
use bowline_http::Clock;
use serde_json::Value;

use crate::logging;
use crate::output::tell;
use crate::plan::{Output, service_key, told};
use crate::providers::{self, Environment};
use crate::run;
use crate::secrets::Patience;

/// The identity of the client.
const IDENTITY: &str = "explain";

/// Who looks after something, and why
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Arguments {
    /// Which cloud manages a node, and why
    ///
    /// Tells what each configured cloud says about the node, whose it is by that, and who describes it. Reads the
    /// cluster and the clouds; writes to neither.
    #[command(after_help = "Exit codes:\n  \
        0  a cloud looks after it\n  \
        2  nobody does: it is left alone\n  \
        1  that cannot be said")]
    Node(NodeArguments),
    /// Which cloud serves a Service, and why
    ///
    /// Tells which configured cloud serves the Service, by its class or by default, or why none does, and whose nodes
    /// there are to be its members. Reads the cluster; writes nothing. What would be done: bowline plan.
    #[command(after_help = "Exit codes:\n  \
        0  a cloud serves it\n  \
        2  none does\n  \
        1  that cannot be said")]
    Service(ServiceArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct NodeArguments {
    /// The name of the Node
    name: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServiceArguments {
    /// The Service; without a namespace, one of the kubeconfig's namespace
    #[arg(value_name = "NAMESPACE/NAME")]
    service: String,
    #[command(flatten)]
    place: Place,
}

/// Which clouds and which cluster, and how it is told.
#[derive(Debug, clap::Args)]
struct Place {
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
}

/// The exit code for what no cloud manages.
const LEFT_ALONE: u8 = 2;

/// Something explained: for people, for programs, and as an exit code.
struct Explained {
    text: String,
    json: Value,
    code: ExitCode,
}

impl From<Explanation> for Explained {
    fn from(explained: Explanation) -> Self {
        Self {
            text: explained.to_string(),
            json: explained.json(),
            code: match explained.owner {
                Ownership::Owned { .. } => ExitCode::SUCCESS,
                Ownership::Nobody(_) | Ownership::Contested(_) => ExitCode::from(LEFT_ALONE),
                Ownership::Undecided(_) => ExitCode::FAILURE,
            },
        }
    }
}

impl From<ServiceExplanation> for Explained {
    fn from(explained: ServiceExplanation) -> Self {
        Self {
            text: explained.to_string(),
            json: explained.json(),
            code: if explained.is_served() {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(LEFT_ALONE)
            },
        }
    }
}

/// Explains, and says by the exit code what came of it.
/// `own` are flags of single clouds.
pub(crate) fn main(program: &str, given: &Arguments, own: &[String]) -> Result<ExitCode> {
    let (Arguments::Node(NodeArguments { place, .. })
    | Arguments::Service(ServiceArguments { place, .. })) = given;
    let line = place.line().chain(own.iter().cloned()).collect();
    let (options, configuration) = told(program, place.config.as_deref(), line)?;
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
        let rules = Arc::new(run::rules(configuration.as_ref(), &options));
        let lease = options.election.lease();
        Ok(match given {
            Arguments::Node(NodeArguments { name, .. }) => {
                explain_node(&client, &clouds, rules, name, &lease)
                    .await?
                    .into()
            }
            Arguments::Service(ServiceArguments { service, .. }) => {
                let key = service_key(service, client.default_namespace())?;
                let explained = explain_service(&client, &clouds, rules, &key, &lease).await?;
                Explained::from(explained)
            }
        })
    }))?;
    match place.output {
        Output::Text => tell(&explained.text),
        Output::Json => tell(format_args!("{:#}", explained.json)),
    }
    Ok(explained.code)
}

impl Place {
    /// As the manager would be told.
    fn line(&self) -> impl Iterator<Item = String> {
        let line = [
            ("cloud-provider", &self.cloud_provider),
            ("cloud-config", &self.cloud_config),
            ("kubeconfig", &self.kubeconfig),
            ("master", &self.master),
        ];
        line.into_iter()
            .filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)))
    }
}
