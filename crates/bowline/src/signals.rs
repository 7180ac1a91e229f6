//! SIGTERM and SIGINT: the first asks the program to stop, the second ends it at once. SIGHUP: look at the configuration.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The exit status of a program ended by a second signal: 128 + SIGINT, as shells report it.
const KILLED: i32 = 130;

/// Gives the signal to stop when the process gets one.
pub(crate) fn listen(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let name = first(&mut terminate, &mut interrupt).await;
        info!(signal = name, "stopping: finishing what is under way");
        stop.cancel();
        let name = first(&mut terminate, &mut interrupt).await;
        info!(signal = name, "a second signal: ending at once");
        std::process::exit(KILLED);
    });
    Ok(())
}

/// SIGHUP, by which people ask programs to look at their configuration. None if it cannot be had.
pub(crate) fn hangups() -> Option<Signal> {
    match signal(SignalKind::hangup()) {
        Ok(hangups) => Some(hangups),
        Err(error) => {
            warn!(%error, "SIGHUP is not listened to");
            None
        }
    }
}

/// Waits for the next one.
pub(crate) async fn next(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => {
            hangups.recv().await;
            info!(signal = "SIGHUP", "looking at the configuration");
        }
        None => std::future::pending().await,
    }
}

async fn first(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        biased;
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
