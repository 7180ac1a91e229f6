//! Credentials that change: the Secret and the file are read again, and a new client is used only after
//! its first call has succeeded. Until then, and if it never does, the old one stays.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Regarding, error_chain};
use bowline_http::SmallFile;
use bowline_provider::FollowedSecret;
use tokio::time::{Instant, sleep};
use tracing::{error, info};

use crate::api::{Api, Client, Setting};
use crate::config::{Config, ConfigErrors, Connection, Given, SecretContent, has_key};
use crate::context::Context;
use crate::instances::Machines;
use crate::keys::LARGEST_KEY;

/// How often the file is read. Reading by its name covers renamed files and turned links alike.
pub const POLL: Duration = Duration::from_secs(5);
/// When credentials that could not be used are tried again: permissions take seconds to be known.
const AGAIN: Duration = Duration::from_secs(60);
const LARGEST_FILE: usize = 1024 * 1024;

pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Everything that the configuration is read from, again and again.
#[derive(Clone)]
pub struct Sources {
    pub flags: BTreeMap<String, String>,
    pub environment: Environment,
    pub file: Option<PathBuf>,
    /// Replaces that file, if there is one; it does not change.
    pub text: Option<bowline_core::Secret>,
    pub secret: Option<FollowedSecret>,
    pub cluster_name: String,
}

fn about(secret: &FollowedSecret, uid: &str) -> Regarding {
    Regarding {
        kind: "Secret",
        namespace: secret.namespace.clone(),
        name: secret.name.clone(),
        uid: uid.to_owned(),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("reading {path} (--cloud-config)")]
    File {
        path: String,
        source: std::io::Error,
    },
    #[error(transparent)]
    Config(#[from] ConfigErrors),
}

/// What a configuration was read from, to see whether it would be the same again.
#[derive(Clone, PartialEq, Eq)]
struct Inputs {
    /// Nothing if there is no file, or it cannot be read.
    file: Option<String>,
    secret: Option<SecretContent>,
    /// Files that values name, and what they held.
    named: Vec<(PathBuf, Option<String>)>,
}

impl Sources {
    /// Reads everything, blocking for as long as small files take.
    pub fn read(&self) -> Result<Config, SourceError> {
        self.read_inputs().0
    }

    fn read_inputs(&self) -> (Result<Config, SourceError>, Inputs) {
        let mut inputs = Inputs {
            file: None,
            secret: self.secret_now(),
            named: Vec::new(),
        };
        if let Some(text) = &self.text {
            inputs.file = Some(text.reveal().to_owned());
        } else if let Some(path) = &self.file {
            match text_of(path, LARGEST_FILE) {
                Ok(text) => inputs.file = Some(text),
                Err(source) => {
                    let path = path.display().to_string();
                    return (Err(SourceError::File { path, source }), inputs);
                }
            }
        }
        let named = RefCell::new(Vec::new());
        let environment = &self.environment;
        let config = Config::read(&Given {
            flags: &self.flags,
            secret: inputs.secret.as_ref(),
            environment: &|name| environment(name),
            file: inputs.file.as_deref(),
            read: &|path| {
                let read = text_of(path, LARGEST_KEY);
                let held = read.as_ref().ok().cloned();
                named.borrow_mut().push((path.to_owned(), held));
                read
            },
            cluster_name: &self.cluster_name,
        });
        inputs.named = named.into_inner();
        (config.map_err(Into::into), inputs)
    }

    fn is_as(&self, inputs: &Inputs) -> bool {
        let now = |path: &PathBuf, limit| text_of(path, limit).ok();
        let mut named = inputs.named.iter();
        let file = match &self.text {
            Some(text) => Some(text.reveal().to_owned()),
            None => self.file.as_ref().and_then(|path| now(path, LARGEST_FILE)),
        };
        file == inputs.file
            && self.secret_now() == inputs.secret
            && named.all(|(path, held)| now(path, LARGEST_KEY) == *held)
    }

    fn secret_now(&self) -> Option<SecretContent> {
        self.secret.as_ref().and_then(FollowedSecret::now)
    }

    /// The Secret that the key is taken from; none if it is taken from elsewhere.
    fn keeper(&self) -> Option<Regarding> {
        let secret = self.secret.as_ref()?;
        let content = secret.now()?;
        has_key(&content).then(|| about(secret, content.uid()))
    }

    fn about(&self) -> Option<Regarding> {
        let secret = self.secret.as_ref()?;
        let content = secret.now();
        Some(about(
            secret,
            content.as_ref().map_or("", SecretContent::uid),
        ))
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

fn text_of(path: &Path, limit: usize) -> std::io::Result<String> {
    SmallFile::new(path, limit).text()
}

/// Not an `http::Reloaded`: a Secret wakes it, and which files count is known only once it has read.
pub(crate) struct Follower {
    pub(crate) sources: Sources,
    pub(crate) context: Arc<Context>,
    pub(crate) machines: Arc<Machines>,
}

/// What the event on the Secret is called once its key is in use; the credentials tool waits for it.
pub const LOADED: &str = "CredentialsLoaded";
/// And if it cannot be used.
pub const REJECTED: &str = "CredentialsRejected";

impl Follower {
    pub(crate) async fn run(mut self) {
        let mut said: Option<String> = None;
        // Whether it was reported which key is in use.
        let mut reported = false;
        // What was read last, and when to read it again although it is the same.
        let mut last: Option<(Inputs, Option<Instant>)> = None;
        loop {
            self.wait().await;
            if !reported && self.context.events.is_wanted() {
                // What was said while nobody listened is said again.
                said = None;
                reported = self.tell_first().await;
            }
            if let Some((inputs, again)) = &last
                && again.is_none_or(|again| Instant::now() < again)
                && self.sources.is_as(inputs)
            {
                continue;
            }
            let (config, inputs) = self.sources.read_inputs();
            let Err(reason) = self.take(config).await else {
                said = None;
                last = Some((inputs, None));
                continue;
            };
            self.context.metrics.reload_failures.inc();
            last = Some((inputs, Some(Instant::now() + AGAIN)));
            // Every refusal has an id of its own.
            let (words, _) = reason.split_once(" (request id").unwrap_or((&reason, ""));
            if said.as_deref() != Some(words) {
                error!("changed credentials are not used, the old ones stay: {reason}");
                if let Some(secret) = self.sources.about() {
                    let text = format!("The old credentials stay in use: {reason}");
                    self.context.events.warn(secret, REJECTED, text);
                }
                said = Some(words.to_owned());
            }
        }
    }

    async fn wait(&mut self) {
        let Some(secret) = &mut self.sources.secret else {
            sleep(POLL).await;
            return;
        };
        tokio::select! {
            biased;
            changed = secret.content.changed() => {
                if changed.is_err() {
                    // Nobody follows the Secret any more.
                    sleep(POLL).await;
                }
            }
            () = sleep(POLL) => {}
        }
    }

    /// Tells which key is in use from the start, once it has opened something; says whether that is done.
    async fn tell_first(&self) -> bool {
        let is_open = self.context.data_center.account().await.is_ok();
        if is_open {
            self.tell_loaded();
        }
        is_open
    }

    fn tell_loaded(&self) {
        let Some(secret) = self.sources.keeper() else {
            return;
        };
        let client = self.context.data_center.api.client();
        let text = format!(
            "Using key {} of account {}",
            client.connection().key.fingerprint().md5(),
            client.connection().owner.account
        );
        self.context.events.tell(secret, LOADED, text);
    }

    async fn take(&self, config: Result<Config, SourceError>) -> Result<(), String> {
        let config = config.map_err(|error| error_chain(&error))?;
        let (connection, site) = (&config.connection, &self.context.data_center);
        if connection.is_like(site.api.client().connection()) {
            return Ok(());
        }
        site.api
            .replace(try_out(connection, &self.context.setting).await?);
        site.forget();
        self.machines.credentials_changed();
        info!(
            "Triton credentials changed, now using {}",
            site.api.client().signer().key_id()
        );
        if self.context.events.is_wanted() {
            self.tell_loaded();
        }
        Ok(())
    }
}

/// A client for that connection, if CloudAPI takes it.
async fn try_out(connection: &Connection, setting: &Setting) -> Result<Arc<Client>, String> {
    let client = Client::new(connection, setting).map_err(|error| error_chain(&error))?;
    let api = Api::new(client);
    let tried = api.account().await;
    tried.map_err(|error| error_chain(&error))?;
    Ok(api.client())
}
