//! The check at the start: whether a server answers, and whether it shows anything. It is made
//! until it succeeds; meanwhile the cloud reports that it is not ready, and everything else goes
//! on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::ProviderEvent;
use bowline_http::Random;
use bowline_provider::EventOutbox;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::metrics::Gauges;
use crate::reporter::Reporter;
use crate::server::Server;

/// The waits between two checks: the first, doubled up to the longest, stretched by up to half.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const JITTER: f64 = 0.5;
/// How often it is looked when the token ends: a token lives a month or more.
const TOKEN_LOOK: Duration = Duration::from_secs(6 * 3600);
/// A token that ends sooner than this should be replaced by somebody.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);
/// What the original calls this, in its event.
const ACTION: &str = "CheckClient";
const REASON: &str = "FailedToCheckClient";

pub(crate) struct Checks {
    /// For each server: none once it succeeded, or why not.
    states: Mutex<Vec<Option<String>>>,
    /// The last failure alone.
    failures: EventOutbox,
    reporter: Reporter,
}

impl Checks {
    pub(crate) fn new(servers: &[Arc<Server>], reporter: Reporter) -> Arc<Self> {
        let not_yet = servers
            .iter()
            .map(|it| Some(format!("Xen Orchestra {} was not reached yet", it.name())));
        Arc::new(Self {
            states: Mutex::new(not_yet.collect()),
            failures: EventOutbox::keeping(1),
            reporter,
        })
    }

    /// Whether all have succeeded, or what is in the way.
    pub(crate) fn ready(&self) -> Result<(), String> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<&str> = states.iter().flatten().map(String::as_str).collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(missing.join("; "))
        }
    }

    pub(crate) async fn next_event(&self) -> ProviderEvent {
        self.failures.next().await
    }

    fn set(&self, number: usize, state: Option<String>) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states[number] = state;
    }

    fn failed(&self, number: usize, error: &str) {
        self.set(number, Some(error.to_owned()));
        let message = format!("Failed to check Xen Orchestra client: {error}");
        self.failures
            .put(self.reporter.event(ACTION, REASON, message));
    }
}

/// Checks that server until it answers, then keeps an eye on its token.
pub(crate) async fn watch(
    checks: Arc<Checks>,
    server: Arc<Server>,
    number: usize,
    random: Random,
    gauges: Gauges,
) {
    let mut wait = FIRST_WAIT;
    loop {
        match server.api().check().await {
            Ok(any) => {
                checks.set(number, None);
                gauges.set_empty(server.name(), !any);
                if any {
                    info!(server = server.name(), "Xen Orchestra answers");
                } else {
                    warn!(
                        server = server.name(),
                        "Xen Orchestra answers, and shows no VM at all: has the user permission to read \
                         VMs, hosts and pools?"
                    );
                }
                break;
            }
            Err(error) => {
                let text = error.chain();
                warn!(
                    server = server.name(),
                    error = text,
                    "Xen Orchestra does not answer"
                );
                checks.failed(number, &text);
            }
        }
        sleep(random.jitter(wait, JITTER)).await;
        wait = wait.saturating_mul(2).min(LONGEST_WAIT);
    }
    loop {
        look_at_token(&server, &gauges).await;
        sleep(TOKEN_LOOK).await;
    }
}

/// Whether a token's end is known depends on the server's age and the user's permissions.
async fn look_at_token(server: &Server, gauges: &Gauges) {
    let Ok(Some(end)) = server.api().token_end().await else {
        return;
    };
    gauges.set_token_end(server.name(), end);
    let left = end.duration_since(server.now());
    if server.api().session().token().is_some()
        && Duration::try_from(left).unwrap_or_default() < SOON
    {
        warn!(
            server = server.name(),
            "the token of Xen Orchestra ends at {end}: put another one into the configuration"
        );
    }
}
