//! The credentials in use: a talosconfig that may change at any time.
//!
//! ```text
//!  read the file ─▶ other text? ─▶ usable? ─┬─ yes ─▶ in use, from the next call on
//!    ▲ every 5 s, and when a connection is   └─ no ──▶ the old ones stay, reported once
//!    └ refused
//! ```
//!
//! Talos renews a certificate an hour before it ends, so that reading the file often is all there is to
//! do. Calls that are under way end with the credentials that they began with.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::Secret;
use bowline_http::{Clock, Connector, Reloaded, Source};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use tracing::{error, info, warn};

use crate::endpoint::Endpoint;
use crate::talosconfig::{self, Talosconfig, TalosconfigError};

/// How often files are read. Reading by name covers renamed files and turned links (mounted Secrets), and
/// misses no event.
pub const POLL: Duration = Duration::from_secs(5);
/// A certificate that ends sooner should have been renewed: Talos does so an hour before.
const RENEWAL_OVERDUE: SignedDuration = SignedDuration::from_mins(10);
/// A file that cannot be used for so long is no moment of being rewritten: somebody should know.
const UNUSABLE_FOR: Duration = Duration::from_secs(30);
/// Endpoints that are used of a longer list: more control planes than anybody has.
const ENDPOINTS: usize = 64;

#[derive(Debug, Error)]
pub enum CredentialsError {
    #[error(transparent)]
    Talosconfig(#[from] TalosconfigError),
    #[error(
        "failed to determine endpoints: neither TALOS_ENDPOINTS nor the talosconfig {} names one",
        path.display()
    )]
    NoEndpoints { path: PathBuf },
    #[error("none of the endpoints can be used: {0}")]
    Endpoints(String),
}

/// What calls are made with.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// Counts the credentials: those of another number are other ones.
    pub(crate) generation: u64,
    /// Where to call, as it is said.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The network, with our identity.
    pub(crate) connector: Connector,
    pub(crate) cluster: Option<String>,
    /// The value of `authorization`.
    pub(crate) authorization: Option<Secret>,
    expires: Option<Timestamp>,
}

#[cfg(test)]
impl Credentials {
    /// Those of nobody, for these endpoints.
    pub(crate) fn of(generation: u64, endpoints: Vec<Endpoint>, connector: Connector) -> Self {
        Self {
            generation,
            endpoints,
            connector,
            cluster: None,
            authorization: None,
            expires: None,
        }
    }
}

/// What credentials are made of: the same origin gives the same ones.
#[derive(PartialEq, Eq)]
struct Origin {
    path: PathBuf,
    text: Secret,
    endpoints: Vec<String>,
}

pub(crate) struct Keyring {
    files: Reloaded<CredentialFiles>,
    clock: Clock,
    warned_of: Mutex<Option<Timestamp>>,
}

impl Keyring {
    /// Takes what the files say now, blocking: for the start of the program. `endpoints` is what is said
    /// beside the talosconfig, and goes before it.
    pub(crate) fn open(
        candidates: Vec<PathBuf>,
        endpoints: impl Fn() -> Vec<String> + Send + Sync + 'static,
        connector: Connector,
        clock: Clock,
    ) -> Self {
        let source = CredentialFiles {
            candidates,
            endpoints: Box::new(endpoints),
            connector,
            clock: clock.clone(),
            generations: AtomicU64::default(),
        };
        let first = source.load();
        Self {
            files: Reloaded::starting(source, first),
            clock,
            warned_of: Mutex::default(),
        }
    }

    /// What calls are made with, or why none can be made.
    pub(crate) fn current(&self) -> Result<Arc<Credentials>, Arc<CredentialsError>> {
        self.files.now()
    }

    /// Looks at the files, and takes what is new in them. Reports once that a certificate nears its
    /// end, which nobody has renewed.
    pub(crate) async fn look(&self) {
        self.files.look().await;
        let end = self.current().ok().and_then(|current| current.expires);
        let mut warned_of = self
            .warned_of
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = end
            && *warned_of != Some(end)
            && end.duration_since(self.clock.now()) < RENEWAL_OVERDUE
        {
            *warned_of = Some(end);
            error!(
                "the client certificate of the talosconfig ends at {end}, and there is no newer one"
            );
        }
    }

    /// Whether there is something to make calls with, or why not.
    pub(crate) fn ready(&self) -> Result<(), String> {
        let current = self.current().map_err(|error| error.to_string())?;
        match current.expires {
            Some(end) if end <= self.clock.now() => Err(format!(
                "the client certificate of the talosconfig ended at {end}"
            )),
            _ => Ok(()),
        }
    }
}

/// Where credentials come from.
struct CredentialFiles {
    candidates: Vec<PathBuf>,
    endpoints: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    connector: Connector,
    clock: Clock,
    generations: AtomicU64,
}

impl Source for CredentialFiles {
    type Raw = Origin;
    type Value = Credentials;
    type Problem = CredentialsError;

    fn read(&self) -> Result<Origin, CredentialsError> {
        let file = talosconfig::find(&self.candidates)?;
        let path = file.path().to_owned();
        match file.text() {
            Ok(text) => Ok(Origin {
                path,
                text: Secret::new(text),
                endpoints: (self.endpoints)(),
            }),
            Err(error) => Err(TalosconfigError::Unreadable { path, error }.into()),
        }
    }

    fn check(&self, origin: &Origin) -> Result<Credentials, CredentialsError> {
        let read = Talosconfig::read(&origin.path, origin.text.reveal(), &self.clock)?;
        let said = if origin.endpoints.is_empty() {
            &read.endpoints
        } else {
            &origin.endpoints
        };
        if said.is_empty() {
            let path = origin.path.clone();
            return Err(CredentialsError::NoEndpoints { path });
        }
        let mut connector = self.connector.with_tls(read.tls);
        if let Some(proxies) = read.proxies {
            connector = connector.through(proxies);
        }
        Ok(Credentials {
            endpoints: endpoints(said)?,
            generation: self.generations.fetch_add(1, Ordering::Relaxed) + 1,
            connector,
            cluster: read.cluster,
            authorization: read.authorization,
            expires: read.expires,
        })
    }

    async fn apply(
        &self,
        new: &Credentials,
        in_use: Option<&Credentials>,
    ) -> Result<(), CredentialsError> {
        if in_use.is_some() {
            info!(expires = ?new.expires.map(|end| end.to_string()), "using a new talosconfig");
        }
        Ok(())
    }

    fn complain(&self, problem: &CredentialsError, in_use: bool) {
        if in_use {
            warn!("{problem}; the last one that could stays in use");
        } else {
            warn!("{problem}");
        }
    }

    fn patience(&self, _: &CredentialsError) -> Duration {
        UNUSABLE_FOR
    }
}

/// Those that can be used; an unusable one beside them is reported, and no reason not to start.
fn endpoints(said: &[String]) -> Result<Vec<Endpoint>, CredentialsError> {
    let mut usable = Vec::new();
    let mut wrong = Vec::new();
    for text in said.iter().take(ENDPOINTS) {
        match Endpoint::parse(text) {
            Ok(endpoint) if usable.contains(&endpoint) => {}
            Ok(endpoint) => usable.push(endpoint),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if usable.is_empty() {
        return Err(CredentialsError::Endpoints(wrong.join("; ")));
    }
    for error in wrong {
        warn!("leaving an endpoint out: {error}");
    }
    Ok(usable)
}

#[cfg(test)]
mod tests;
