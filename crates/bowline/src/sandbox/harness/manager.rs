//! Starting the real manager: one cloud with the original's command line, environment and files, or
//! several with a configuration of our own.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use bowline_controllers::options::Request;
use bowline_simulator::sandbox::{Settings, SimulatorKind};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio_util::sync::CancellationToken;

use super::write;
use crate::invocation::Invocation;
use crate::providers::{self, Environment};
use crate::run::{self, Launch};

/// How the manager ended; anybody may wait for it.
pub(super) type Ended = Shared<BoxFuture<'static, Result<(), Arc<anyhow::Error>>>>;

/// The name under which a manager of several clouds is started.
const COMMAND: &str = "bowline";

/// Starts one for one cloud, with the command line of its original.
pub(super) fn start_as_original(
    kind: &SimulatorKind,
    folder: &Path,
    settings: Settings,
    (kubeconfig, secure_port): (&Path, u16),
    stop: CancellationToken,
) -> Result<Ended> {
    for (name, content) in &settings.files {
        write(folder, name, content)?;
    }
    let mut arguments = vec![
        "--allow-untagged-cloud".to_owned(),
        "--v=4".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={secure_port}"),
    ];
    arguments.extend(settings.arguments);
    let invocation = Invocation {
        program: providers::named(kind.server.name)?
            .replaces
            .unwrap_or("bowline")
            .to_owned(),
        provider: Some(kind.server.name.to_owned()),
        arguments,
    };
    let variables = settings.environment;
    start(
        invocation,
        Arc::new(move |name| variables.get(name).cloned()),
        stop,
    )
}

/// Starts one with that configuration of our own, and nothing else.
pub(super) fn start_with(configuration: &Path, stop: CancellationToken) -> Result<Ended> {
    let invocation = Invocation {
        program: COMMAND.to_owned(),
        provider: None,
        arguments: vec![format!("--config={}", configuration.display())],
    };
    start(invocation, Arc::new(|_| None), stop)
}

fn start(
    invocation: Invocation,
    environment: Environment,
    stop: CancellationToken,
) -> Result<Ended> {
    let read = invocation.read();
    let (asked, configuration) = read.map_err(|lines| anyhow!(lines.join("\n")))?;
    let Request::Run(line) = asked.map_err(|error| anyhow!(error.message))? else {
        bail!("the sandbox's own command line does not run a manager");
    };
    let job = Launch {
        invocation,
        line: *line,
        configuration,
    };
    let quiet = Arc::new(|_| Ok(()));
    let manager = tokio::spawn(run::manage(job, environment, quiet, stop));
    let ended = async move { manager.await.context("the manager's task").flatten() };
    Ok(ended.map(|ended| ended.map_err(Arc::new)).boxed().shared())
}
