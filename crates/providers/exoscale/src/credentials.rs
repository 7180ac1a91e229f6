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
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::{CloudErrorKind, Secret, error_chain};
use bowline_http::{
    AuthError, Authenticate, Background, CallError, Followed, HttpClient, RetryPolicy, Route,
    Signing, SmallFile,
};
use http::HeaderMap;
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};
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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Refused(String),
    Undecided(String),
}

/// Tries a pair: a signed list of zones, which every role written for the original allows, and if
/// that is denied, of instances.
async fn try_pair(http: &HttpClient, pair: &KeyPair) -> Verdict {
    match ask(http, "zone", pair).await {
        Ok(()) => return Verdict::Accepted,
        Err(error) if error.kind() == CloudErrorKind::Denied => {}
        Err(error) => return Verdict::Undecided(error_chain(&error)),
    }
    match ask(http, "instance", pair).await {
        Ok(()) => Verdict::Accepted,
        Err(error) if error.kind() == CloudErrorKind::Denied => {
            Verdict::Refused(error_chain(&error))
        }
        Err(error) => Verdict::Undecided(error_chain(&error)),
    }
}

async fn ask(http: &HttpClient, what: &'static str, pair: &KeyPair) -> Result<(), CallError> {
    let call = http.get(Route::new(what)).auth(pair.clone());
    call.retry(RetryPolicy::never()).send().await.map(|_| ())
}

/// Decides what to do about what the file says. Pure.
#[derive(Debug, Default)]
struct Decisions {
    in_use: Option<KeyPair>,
    trial: Option<Trial>,
    followed: Followed<KeyPair>,
}

/// A pair that was tried and is not in use.
#[derive(Debug)]
struct Trial {
    pair: KeyPair,
    trials: u32,
    next: Instant,
    said: Option<Verdict>,
}

impl Decisions {
    fn is_due(&mut self, pair: &KeyPair, now: Instant) -> bool {
        self.followed.is_well();
        if self.in_use.as_ref() == Some(pair) {
            self.trial = None;
            return false;
        }
        let trial = self.trial.as_ref().filter(|trial| trial.pair == *pair);
        trial.is_none_or(|trial| trial.next <= now)
    }

    /// Takes the verdict about a pair; says whether somebody should hear of it.
    fn tried(&mut self, pair: &KeyPair, verdict: &Verdict, now: Instant) -> bool {
        let former = self.trial.take().filter(|trial| trial.pair == *pair);
        let (trials, said) = former.map_or((0, None), |trial| (trial.trials, trial.said));
        let longest = match verdict {
            Verdict::Accepted => {
                self.in_use = Some(pair.clone());
                return true;
            }
            Verdict::Refused(_) => LONGEST_REFUSED,
            Verdict::Undecided(_) => LONGEST_UNDECIDED,
        };
        let doublings = trials.min(16);
        let wait = FIRST_WAIT.saturating_mul(1 << doublings).min(longest);
        let news = said.as_ref() != Some(verdict);
        self.trial = Some(Trial {
            pair: pair.clone(),
            trials: trials + 1,
            next: now + wait,
            said: Some(verdict.clone()),
        });
        news
    }

    /// The file cannot be used; says whether somebody should hear of it.
    fn unusable(&mut self, reason: &str) -> bool {
        let patience = self
            .in_use
            .as_ref()
            .map_or(Duration::ZERO, |_| UNUSABLE_FOR);
        self.followed.is_news(reason, patience)
    }
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

/// Credentials that follow a file. Ends with it.
#[derive(Debug)]
pub(crate) struct CredentialsFile {
    ready: Arc<Mutex<Result<(), String>>>,
    _task: Background,
}

impl CredentialsFile {
    /// Follows the file at `path`; pairs are tried with `http` and used by it. Returns when the file
    /// has been looked at once, or after a while. `changed` is called after every change.
    pub(crate) async fn follow(
        path: PathBuf,
        http: HttpClient,
        changed: impl Fn(&str) + Send + 'static,
    ) -> Self {
        http.set_auth(NotYet);
        let ready = Arc::new(Mutex::new(Err("no valid API credentials yet".to_owned())));
        let mut follower = Follower {
            file: SmallFile::new(path, LONGEST_FILE),
            http,
            changed,
            decisions: Decisions::default(),
            ready: Arc::clone(&ready),
        };
        // A look that takes longer is made again by the task.
        let _ = timeout(FIRST_LOOK, follower.look()).await;
        let task = Background::start(async move {
            loop {
                sleep(CREDENTIALS_POLL).await;
                follower.look().await;
            }
        });
        Self { ready, _task: task }
    }

    pub(crate) fn ready(&self) -> Result<(), String> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.clone()
    }
}

struct Follower<F> {
    file: SmallFile,
    http: HttpClient,
    changed: F,
    decisions: Decisions,
    ready: Arc<Mutex<Result<(), String>>>,
}

impl<F: Fn(&str) + Send> Follower<F> {
    /// Reads the file, tries what is new in it, and uses it if it is accepted.
    async fn look(&mut self) {
        let named = match NamedPair::read(self.file.read().await) {
            Ok(named) => named,
            Err(reason) => {
                self.unusable(&reason);
                return;
            }
        };
        if !self.decisions.is_due(&named.pair, Instant::now()) {
            return;
        }
        let verdict = try_pair(&self.http, &named.pair).await;
        let news = self.decisions.tried(&named.pair, &verdict, Instant::now());
        let NamedPair { name, pair } = named;
        let key = pair.key.clone();
        match verdict {
            Verdict::Accepted => {
                self.http.set_auth(pair);
                self.set_ready(Ok(()));
                (self.changed)(&key);
                info!("Exoscale API credentials refreshed, now using {name} ({key})");
            }
            Verdict::Refused(reason) => {
                if news {
                    error!("failed to switch client zone: {name} ({key}) is refused: {reason}");
                }
                self.not_ready(&format!("the API credentials {name} ({key}) are refused"));
            }
            Verdict::Undecided(reason) => {
                if news {
                    warn!("new Exoscale API credentials {name} ({key}) not tried yet: {reason}");
                }
                self.not_ready(&format!(
                    "the API credentials {name} ({key}) are not tried yet"
                ));
            }
        }
    }

    fn unusable(&mut self, reason: &str) {
        let path = self.file.path().display().to_string();
        if self.decisions.unusable(reason) {
            warn!("the credentials file {path} cannot be used: {reason}");
        }
        self.not_ready(&format!(
            "the credentials file {path} cannot be used: {reason}"
        ));
    }

    /// What once was ready stays so: the last good pair is kept.
    fn not_ready(&self, reason: &str) {
        if self.decisions.in_use.is_none() {
            self.set_ready(Err(reason.to_owned()));
        }
    }

    fn set_ready(&self, ready: Result<(), String>) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = ready;
    }
}

#[cfg(test)]
mod tests;
