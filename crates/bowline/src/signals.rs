//! SIGTERM and SIGINT: the first asks the program to stop, the second ends it at once.

use bowline_controllers::StopHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

/// The exit status of a program ended by a second signal: 128 + SIGINT, as shells report it.
const KILLED: i32 = 130;

/// Gives the signal to stop when the process gets one.
pub(crate) fn listen(stop: StopHandle) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let name = first(&mut terminate, &mut interrupt).await;
        info!(signal = name, "stopping: finishing what is under way");
        stop.stop();
        let name = first(&mut terminate, &mut interrupt).await;
        info!(signal = name, "a second signal: ending at once");
        std::process::exit(KILLED);
    });
    Ok(())
}

async fn first(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        biased;
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
