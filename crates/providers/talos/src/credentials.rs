//! The credentials in use: a talosconfig that may change at any time.
//!
//! ```text
//!  read the file ─▶ other text? ─▶ usable? ─┬─ yes ─▶ in use, from the next call on
//!    ▲ every 5 s, and when a connection is   └─ no ──▶ the old ones stay, told once
//!    └ refused
//! ```
//!
//! Talos renews a certificate an hour before it ends, so that reading the file often is all there is to
//! do. Calls that are under way end with the credentials that they began with.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{Secret, error_chain};
use bowline_http::{Clock, Connector, Followed, Offer};
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

/// What credentials are made of: the same source gives the same ones.
#[derive(Clone, PartialEq, Eq)]
struct Source {
    path: PathBuf,
    text: Secret,
    endpoints: Vec<String>,
}

pub(crate) struct Keyring {
    candidates: Vec<PathBuf>,
    connector: Connector,
    clock: Clock,
    held: Mutex<Held>,
    /// One look at a time: whoever comes meanwhile waits for it and sees what it brought.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Held {
    current: Option<Arc<Credentials>>,
    source: Followed<Source>,
    /// Why the last look brought nothing.
    problem: Option<String>,
    generations: u64,
    warned_of: Option<Timestamp>,
}

impl Keyring {
    /// Takes what the files say now, blocking: for the start of the program. `endpoints` is what is said
    /// beside the talosconfig, and goes before it.
    pub(crate) fn open(
        candidates: Vec<PathBuf>,
        endpoints: &[String],
        connector: Connector,
        clock: Clock,
    ) -> (Self, Result<(), CredentialsError>) {
        let keyring = Self {
            candidates,
            connector,
            clock,
            held: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        };
        let found = talosconfig::find(&keyring.candidates).and_then(|file| {
            let read = file.read_now();
            source(file.path().to_owned(), read, endpoints)
        });
        let taken = keyring.take(found);
        (keyring, taken)
    }

    /// What calls are made with, or why none can be made.
    pub(crate) fn current(&self) -> Result<Arc<Credentials>, String> {
        let held = self.held();
        match &held.current {
            Some(current) => Ok(Arc::clone(current)),
            None => Err(held.problem.clone().unwrap_or_default()),
        }
    }

    /// Looks at the files, and takes what is new in them. What cannot be used changes nothing.
    pub(crate) async fn look(&self, endpoints: &[String]) {
        let _turn = self.looking.lock().await;
        let found = match talosconfig::find(&self.candidates) {
            Ok(file) => source(file.path().to_owned(), file.read().await, endpoints),
            Err(error) => Err(error),
        };
        // What is wrong is kept, and told from there.
        let _ = self.take(found);
        self.complain();
        self.look_at_the_end();
    }

    /// Whether there is something to make calls with, or why not.
    pub(crate) fn ready(&self) -> Result<(), String> {
        let current = self.current()?;
        match current.expires {
            Some(end) if end <= self.clock.now() => Err(format!(
                "the client certificate of the talosconfig ended at {end}"
            )),
            _ => Ok(()),
        }
    }

    fn take(&self, found: Result<Source, TalosconfigError>) -> Result<(), CredentialsError> {
        let mut held = self.held();
        let generation = held.generations + 1;
        let offer = match found {
            Ok(source) => (held.source).offer(source, |source| self.check(source, generation)),
            Err(error) => {
                // Whatever comes back is looked at anew.
                held.source.forget();
                Offer::Refused(error.into())
            }
        };
        match offer {
            Offer::Same => Ok(()),
            Offer::Taken(credentials) => {
                if held.current.is_some() {
                    info!(expires = ?credentials.expires.map(|it| it.to_string()), "using a new talosconfig");
                }
                held.generations = generation;
                held.current = Some(Arc::new(credentials));
                held.problem = None;
                Ok(())
            }
            Offer::Refused(error) => {
                held.problem = Some(error_chain(&error));
                Err(error)
            }
        }
    }

    fn check(&self, source: &Source, generation: u64) -> Result<Credentials, CredentialsError> {
        let read = Talosconfig::read(&source.path, source.text.reveal(), &self.clock)?;
        let said = if source.endpoints.is_empty() {
            &read.endpoints
        } else {
            &source.endpoints
        };
        if said.is_empty() {
            let path = source.path.clone();
            return Err(CredentialsError::NoEndpoints { path });
        }
        let mut connector = self.connector.with_tls(read.tls);
        if let Some(proxies) = read.proxies {
            connector = connector.through(proxies);
        }
        Ok(Credentials {
            generation,
            endpoints: endpoints(said)?,
            connector,
            cluster: read.cluster,
            authorization: read.authorization,
            expires: read.expires,
        })
    }

    /// Says once that a file cannot be used: at once if there is nothing else, otherwise after a while.
    fn complain(&self) {
        let mut held = self.held();
        let Some(problem) = held.problem.clone() else {
            return;
        };
        let in_use = held.current.is_some();
        let patience = if in_use { UNUSABLE_FOR } else { Duration::ZERO };
        if held.source.is_news(&problem, patience) {
            if in_use {
                warn!("{problem}; the last one that could stays in use");
            } else {
                warn!("{problem}");
            }
        }
    }

    /// Says once that a certificate nears its end, which nobody has renewed.
    fn look_at_the_end(&self) {
        let mut held = self.held();
        let end = held.current.as_ref().and_then(|it| it.expires);
        let Some(end) = end.filter(|end| held.warned_of != Some(*end)) else {
            return;
        };
        if end.duration_since(self.clock.now()) < RENEWAL_OVERDUE {
            held.warned_of = Some(end);
            error!(
                "the client certificate of the talosconfig ends at {end}, and there is no newer one"
            );
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn source(
    path: PathBuf,
    read: std::io::Result<Vec<u8>>,
    endpoints: &[String],
) -> Result<Source, TalosconfigError> {
    let text = read.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| std::io::ErrorKind::InvalidData.into())
    });
    match text {
        Ok(text) => Ok(Source {
            path,
            text: Secret::new(text),
            endpoints: endpoints.to_vec(),
        }),
        Err(source) => Err(TalosconfigError::Unreadable { path, source }),
    }
}

/// Those that can be used; an unusable one beside them is told, and no reason not to start.
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
