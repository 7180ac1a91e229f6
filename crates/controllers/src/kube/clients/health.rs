//! Waits until the API server is healthy, before work starts.

use bowline_core::error_chain;
use std::time::Duration;

use http::Request;
use kube::Client;
use tokio::time::{Instant, sleep, timeout};

/// How long to wait for the API server before giving up.
pub const HEALTH_PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// The API server did not become healthy in time.
#[derive(Debug, thiserror::Error)]
#[error("API server {host} is not healthy after {}s: {reason}", waited.as_secs())]
pub struct Unhealthy {
    /// `host:port`.
    pub host: String,
    /// For how long it was looked at.
    pub waited: Duration,
    /// What the last look gave.
    pub reason: String,
}

/// Asks for `/healthz` once per second until it is well, for at most `patience`.
pub async fn wait_until_healthy(
    client: &Client,
    host: &str,
    patience: Duration,
) -> Result<(), Unhealthy> {
    let end = Instant::now() + patience;
    let mut reported = false;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // The last look gets its time too.
        let reason = match timeout(left.max(PERIOD), look(client)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(reason)) => reason,
            Err(_) => "no answer".to_owned(),
        };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let host = host.to_owned();
            return Err(Unhealthy {
                host,
                waited: patience,
                reason,
            });
        }
        if !std::mem::replace(&mut reported, true) {
            tracing::warn!(host, "waiting for the API server: {reason}");
        }
        sleep(PERIOD.min(left)).await;
    }
}

async fn look(client: &Client) -> Result<(), String> {
    let request = Request::get("/healthz")
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    match client.request_text(request).await {
        Ok(_) => Ok(()),
        // The library's word for "the connection" tells nobody anything.
        Err(error) => Err(error_chain(&error).replace("ServiceError: ", "")),
    }
}
