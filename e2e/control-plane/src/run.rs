//! A run of the program: starts a control plane, answers commands, ends it.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use bowline_control_plane::{Assets, ControlPlane, Settings};

use crate::control::{read_lines, serve};
use crate::options::RunOptions;

/// Clients of the control socket at a time; a further one waits. Each test of a machine's worth has one.
const CLIENTS: usize = 256;

/// The line that says that all is ready.
#[derive(serde::Serialize)]
struct Ready {
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<PathBuf>,
    control: PathBuf,
    folder: PathBuf,
    kubeconfig: PathBuf,
    url: String,
    version: String,
}

/// Runs until it is told to end.
pub(crate) fn main(options: &RunOptions) -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let outcome = runtime.block_on(run(options));
    // A thread that reads the standard input can only be left behind.
    runtime.shutdown_background();
    outcome
}

async fn run(options: &RunOptions) -> anyhow::Result<()> {
    let RunOptions {
        assets,
        folder,
        audit,
        controller_manager,
        stay,
    } = options;
    let stop = Arc::new(Notify::new());
    listen_for_signals(&stop)?;
    let assets = match assets {
        Some(folder) => Assets::in_folder(folder),
        None => Assets::from_environment(),
    };
    let settings = Settings {
        assets: assets?,
        folder: folder.clone(),
        audit: *audit,
        controller_manager: *controller_manager,
    };
    // The parent may go away at any time, also during the start.
    let lines = read_lines(tokio::io::stdin(), (!stay).then(|| stop.clone()));
    let plane = Arc::new(ControlPlane::prepare(settings).await?);
    let mut clients = JoinSet::new();
    let outcome = attend(&plane, lines, &mut clients, &stop).await;
    // Commands that are under way end here, and let go of the control plane.
    clients.shutdown().await;
    if let Some(plane) = Arc::into_inner(plane) {
        plane.shutdown().await;
    }
    outcome
}

fn listen_for_signals(stop: &Arc<Notify>) -> anyhow::Result<()> {
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        let mut signal = signal(kind).context("listening for signals")?;
        let stop = stop.clone();
        tokio::spawn(async move {
            signal.recv().await;
            stop.notify_one();
        });
    }
    Ok(())
}

/// Starts the servers, says so, and answers commands until it is time to end.
async fn attend(
    plane: &Arc<ControlPlane>,
    lines: mpsc::Receiver<String>,
    clients: &mut JoinSet<()>,
    stop: &Arc<Notify>,
) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        () = stop.notified() => return Ok(()),
        started = plane.start_servers() => started?,
    }
    let path = plane.folder().join("control");
    let socket =
        UnixListener::bind(&path).with_context(|| format!("listening on {}", path.display()))?;
    announce(plane, path).await?;
    clients.spawn(serve(
        plane.clone(),
        lines,
        tokio::io::stdout(),
        stop.clone(),
    ));
    loop {
        tokio::select! {
            biased;
            () = stop.notified() => return Ok(()),
            failure = plane.failed() => return Err(failure.into()),
            Some(_) = clients.join_next() => {}
            accepted = socket.accept(), if clients.len() < CLIENTS => {
                let (input, output) = accepted.context("accepting a client")?.0.into_split();
                let lines = read_lines(input, None);
                clients.spawn(serve(plane.clone(), lines, output, stop.clone()));
            }
        }
    }
}

async fn announce(plane: &ControlPlane, control: PathBuf) -> anyhow::Result<()> {
    let ready = Ready {
        audit: plane.audit_log(),
        control,
        folder: plane.folder().to_owned(),
        kubeconfig: plane.kubeconfig(),
        url: plane.url(),
        version: plane.version().await?,
    };
    let line = serde_json::to_string(&ready).context("writing the ready line")?;
    // A reader that went away also ends our input.
    let _ = writeln!(std::io::stdout(), "{line}");
    Ok(())
}
