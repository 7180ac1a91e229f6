//! The API key and its secret: given once, or in a file that may change at any time.
//!
//! ```text
//!  read the file ─▶ new pair? ─▶ try it: GET zone, then GET instance ─┬─ accepted ─▶ in use
//!    ▲ every second                                                   ├─ refused ──▶ keep the old one
//!    └────────────────────────────────────────────────────────────────┴─ undecided ─▶ try again
//! ```
//!
//! Only an accepted pair is used, from the next request on: calls that are under way are not held
//! up, and none waits for the change. A file that is empty, half written or missing is not a change.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudErrorKind, Secret, error_chain};
use bowline_http::{
    AuthError, Authenticate, Background, CallError, HttpClient, Reloaded, RetryPolicy, Route,
    Signing, SmallFile, Source,
};
use http::HeaderMap;
use serde::Deserialize;
use thiserror::Error;
use tokio::time::timeout;
use tracing::{error, info, warn};

pub use crate::api::KeyPair;

/// How often the file is read: a few hundred bytes, from memory. Reading by its name covers renamed files, turned links
/// (mounted Secrets) and relative paths alike, and misses no event. What is new in it is tried at once.
pub const CREDENTIALS_POLL: Duration = Duration::from_secs(1);
/// The wait before a pair is tried for the second time; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// The file is a few hundred bytes long.
const LONGEST_FILE: usize = 64 * 1024;
/// How long the first look at the file may hold up the start; it goes on after that all the same.
const FIRST_LOOK: Duration = Duration::from_secs(15);
/// A file that cannot be used for so long is no moment of being rewritten: somebody should know.
const UNUSABLE_FOR: Duration = Duration::from_secs(30);
/// The longest wait before a pair is tried again that could not be decided about.
const LONGEST_UNDECIDED: Duration = Duration::from_secs(60);
/// The same for one that was refused: it may have been made a moment ago, or its role corrected.
const LONGEST_REFUSED: Duration = Duration::from_secs(300);

/// Why a key cannot be sent. Says nothing about the key itself.
pub(crate) fn key_problem(key: &str) -> Option<&'static str> {
    let sendable = |b: u8| b.is_ascii_graphic() && b != b',';
    if key.bytes().all(sendable) {
        None
    } else {
        Some("the key has characters that no key has (spaces, commas, non-ASCII)")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedPair {
    name: String,
    pair: KeyPair,
}

impl std::fmt::Display for NamedPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.pair.key)
    }
}

impl NamedPair {
    fn read(read: io::Result<Vec<u8>>) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            name: Option<String>,
            #[serde(default)]
            api_key: Option<String>,
            #[serde(default)]
            api_secret: Option<String>,
        }
        let bytes = read.map_err(|error| error.to_string())?;
        // What is wrong with the text is not quoted: it holds the secret.
        let file: File = serde_json::from_slice(&bytes).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!("it is not a JSON object of texts (line {line}, column {column})")
        })?;
        let text = |text: Option<String>| text.unwrap_or_default().trim().to_owned();
        let (key, secret) = (text(file.api_key), text(file.api_secret));
        if key.is_empty() || secret.is_empty() {
            return Err("api_key or api_secret is empty or missing".to_owned());
        }
        if let Some(problem) = key_problem(&key) {
            return Err(problem.to_owned());
        }
        let secret = Secret::new(secret);
        let pair = KeyPair { key, secret };
        let name = text(file.name);
        Ok(Self { name, pair })
    }
}

/// Why a pair is not used. Each text is a line of the log.
#[derive(Debug, Error)]
enum Problem {
    #[error("no valid API credentials yet")]
    NotYet,
    #[error("the credentials file {path} cannot be used: {reason}")]
    Unusable { path: String, reason: String },
    #[error("failed to switch client zone: {pair} is refused: {reason}")]
    Refused { pair: String, reason: String },
    #[error("new Exoscale API credentials {pair} not tried yet: {reason}")]
    Undecided { pair: String, reason: String },
}

/// Tries a pair: a signed list of zones, which every role written for the original allows, and if
/// that is denied, of instances.
async fn try_pair(http: &HttpClient, named: &NamedPair) -> Result<(), Problem> {
    let denied = |error: &CallError| error.kind() == CloudErrorKind::Denied;
    let tried = match ask(http, "zone", &named.pair).await {
        Err(error) if denied(&error) => ask(http, "instance", &named.pair).await,
        answer => answer,
    };
    tried.map_err(|error| {
        let (pair, reason) = (named.to_string(), error_chain(&error));
        if denied(&error) {
            Problem::Refused { pair, reason }
        } else {
            Problem::Undecided { pair, reason }
        }
    })
}

async fn ask(http: &HttpClient, what: &'static str, pair: &KeyPair) -> Result<(), CallError> {
    let call = http.get(Route::new(what)).auth(pair.clone());
    call.retry(RetryPolicy::never()).send().await.map(|_| ())
}

/// No credentials yet: nothing can be sent.
struct NotYet;

impl Authenticate for NotYet {
    fn authenticate(&self, _: Signing<'_>, _: &mut HeaderMap) -> Result<(), AuthError> {
        Err(AuthError(
            "there are no valid API credentials yet".to_owned(),
        ))
    }

    fn secrets(&self) -> Vec<Secret> {
        Vec::new()
    }
}

/// What is in the file, and who is to hear of another key.
struct PairFile {
    file: SmallFile,
    http: HttpClient,
    changed: Box<dyn Fn(&str) + Send + Sync>,
}

impl Source for PairFile {
    type Raw = NamedPair;
    type Value = NamedPair;
    type Problem = Problem;

    const EVERY: Duration = CREDENTIALS_POLL;

    fn read(&self) -> Result<NamedPair, Problem> {
        NamedPair::read(self.file.read_now()).map_err(|reason| Problem::Unusable {
            path: self.file.path().display().to_string(),
            reason,
        })
    }

    fn check(&self, named: &NamedPair) -> Result<NamedPair, Problem> {
        Ok(named.clone())
    }

    async fn apply(&self, named: &NamedPair, in_use: Option<&NamedPair>) -> Result<(), Problem> {
        if in_use.is_some_and(|in_use| in_use.pair == named.pair) {
            return Ok(());
        }
        try_pair(&self.http, named).await?;
        self.http.set_auth(named.pair.clone());
        (self.changed)(&named.pair.key);
        info!("Exoscale API credentials refreshed, now using {named}");
        Ok(())
    }

    fn complain(&self, problem: &Problem, _: bool) {
        if matches!(problem, Problem::Refused { .. }) {
            error!("{problem}");
        } else {
            warn!("{problem}");
        }
    }

    fn patience(&self, problem: &Problem) -> Duration {
        match problem {
            Problem::Unusable { .. } => UNUSABLE_FOR,
            _ => Duration::ZERO,
        }
    }

    fn retry(&self, problem: &Problem, failures: u32) -> Option<Duration> {
        let longest = match problem {
            Problem::Refused { .. } => LONGEST_REFUSED,
            _ => LONGEST_UNDECIDED,
        };
        Some(
            FIRST_WAIT
                .saturating_mul(1 << failures.min(16))
                .min(longest),
        )
    }
}

/// Credentials that follow a file. Ends with it.
pub(crate) struct CredentialsFile {
    pair: Arc<Reloaded<PairFile>>,
    _following: Background,
}

impl CredentialsFile {
    /// Follows the file at `path`; pairs are tried with `http` and used by it. Returns when the file
    /// has been looked at once, or after a while. `changed` is called after every change.
    pub(crate) async fn follow(
        path: PathBuf,
        http: HttpClient,
        changed: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        http.set_auth(NotYet);
        let source = PairFile {
            file: SmallFile::new(path, LONGEST_FILE),
            http,
            changed: Box::new(changed),
        };
        let pair = Arc::new(Reloaded::starting(source, Err(Problem::NotYet)));
        // A look that takes longer is made again by the task.
        let _ = timeout(FIRST_LOOK, pair.look()).await;
        Self {
            _following: pair.follow(),
            pair,
        }
    }

    /// What once was ready stays so: the last good pair is kept.
    pub(crate) fn ready(&self) -> Result<(), String> {
        let problem = self.pair.now().err();
        problem.map_or(Ok(()), |problem| {
            Err(match &*problem {
                Problem::Refused { pair, .. } => format!("the API credentials {pair} are refused"),
                Problem::Undecided { pair, .. } => {
                    format!("the API credentials {pair} are not tried yet")
                }
                other => other.to_string(),
            })
        })
    }
}

#[cfg(test)]
mod tests;
