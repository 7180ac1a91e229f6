//! `bowline explain`: which cloud manages a node or serves a Service, and why.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use bowline_controllers::{Explanation, ServiceExplanation, explain_node, explain_service};
use bowline_core::Ownership;
use serde_json::Value;

use crate::inspect::{InspectArguments, Output, connect, service_key};
use crate::output::tell;
use crate::run;

/// The identity of the client.
const IDENTITY: &str = "explain";

/// Show which cloud manages a node or serves a Service, and why
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Arguments {
    /// Show which cloud manages a node, and why
    ///
    /// Asks each configured cloud about the node and shows the answers, the cloud that owns the node, and the cloud
    /// that describes it (provider ID, addresses, labels). Only reads; nothing is written to the cluster or the clouds.
    #[command(after_help = "Exit codes:\n  \
        0  a cloud manages the node\n  \
        2  no cloud manages the node: Bowline leaves it alone\n  \
        1  error, or a cloud did not answer and the owner is not known")]
    Node(NodeArguments),
    /// Show which cloud serves a Service, and why
    ///
    /// Shows which configured cloud serves the Service (by its load balancer class, or as default cloud) or why none
    /// does, and which nodes can be its targets. Only reads; nothing is written. To see the changes that Bowline would
    /// make to its load balancer, use bowline plan.
    #[command(after_help = "Exit codes:\n  \
        0  a cloud serves the Service\n  \
        2  no cloud serves the Service\n  \
        1  error")]
    Service(ServiceArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct NodeArguments {
    /// The name of the Node
    name: String,
    #[command(flatten)]
    inspect: InspectArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServiceArguments {
    /// The Service; without NAMESPACE/, the namespace of the kubeconfig
    #[arg(value_name = "NAMESPACE/NAME")]
    service: String,
    #[command(flatten)]
    inspect: InspectArguments,
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

/// Prints the explanation; the exit code says whether a cloud is responsible.
/// `own` are flags of single clouds.
pub(crate) fn main(program: &str, given: &Arguments, own: &[String]) -> Result<ExitCode> {
    let (Arguments::Node(NodeArguments { inspect, .. })
    | Arguments::Service(ServiceArguments { inspect, .. })) = given;
    let (options, configuration) = inspect.options(program, own.iter().cloned())?;
    let explained = run::block_on(Box::pin(async {
        let connected = connect(program, IDENTITY, &options, configuration.as_ref());
        let (connections, client) = connected.await?;
        let clouds = connections.clouds();
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
    match inspect.output {
        Output::Text => tell(&explained.text),
        Output::Json => tell(format_args!("{:#}", explained.json)),
    }
    Ok(explained.code)
}
