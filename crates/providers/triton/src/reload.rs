//! Credentials that change: the Secret and the file are read again, and a new client is used only after
//! its first call has succeeded. Until then, and if it never does, the old one stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_http::SmallFile;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use crate::api::{Api, Client, Setting};
use crate::config::{Config, ConfigErrors, Connection, Given, SecretContent};
use crate::instances::Machines;
use crate::keys::LARGEST_KEY;
use crate::site::Site;

/// How often the file is read. Reading by its name covers renamed files and turned links alike.
pub const POLL: Duration = Duration::from_secs(5);
/// When credentials that could not be used are tried again: rights take seconds to be known.
const AGAIN: Duration = Duration::from_secs(60);
/// Bytes of a cloud config file.
const LARGEST_FILE: usize = 1024 * 1024;

/// Reads a variable of the environment.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Everything that the configuration is read from, again and again.
#[derive(Clone)]
pub struct Sources {
    /// Flags by name, without the dashes.
    pub flags: BTreeMap<String, String>,
    /// The environment.
    pub environment: Environment,
    /// The cloud config file, if there is one.
    pub file: Option<PathBuf>,
    /// What the Secret holds, if one is named; none: there is no such Secret now.
    pub secret: Option<watch::Receiver<Option<SecretContent>>>,
    /// `--cluster-name`.
    pub cluster_name: String,
}

/// Why the configuration cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("reading {path} (--cloud-config)")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It says something that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
}

impl Sources {
    /// Reads everything, blocking for as long as small files take.
    pub fn read(&self) -> Result<Config, SourceError> {
        let file = match &self.file {
            None => None,
            Some(path) => {
                Some(
                    text_of(path, LARGEST_FILE).map_err(|source| SourceError::File {
                        path: path.display().to_string(),
                        source,
                    })?,
                )
            }
        };
        let secret = self
            .secret
            .as_ref()
            .and_then(|secret| secret.borrow().clone());
        let environment = &self.environment;
        Ok(Config::read(&Given {
            flags: &self.flags,
            secret: secret.as_ref(),
            environment: &|name| environment(name),
            file: file.as_deref(),
            read: &|path| text_of(path, LARGEST_KEY),
            cluster_name: &self.cluster_name,
        })?)
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
    let bytes = SmallFile::new(path, limit).read_now()?;
    String::from_utf8(bytes).map_err(|_| std::io::ErrorKind::InvalidData.into())
}

/// Follows the Secret and the file.
pub(crate) struct Follower {
    pub(crate) sources: Sources,
    pub(crate) sites: Vec<(Arc<Site>, Setting)>,
    pub(crate) machines: Arc<Machines>,
    pub(crate) failures: prometheus_client::metrics::counter::Counter,
    pub(crate) loaded: watch::Sender<String>,
}

impl Follower {
    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut said = None;
        let mut next = Instant::now();
        loop {
            if self.wait().await {
                next = Instant::now();
            }
            if Instant::now() < next {
                continue;
            }
            let Err(reason) = self.look().await else {
                said = None;
                continue;
            };
            self.failures.inc();
            next = Instant::now() + AGAIN;
            if said.as_ref() != Some(&reason) {
                error!("changed credentials are not used, the old ones stay: {reason}");
                said = Some(reason);
            }
        }
    }

    /// Waits for the Secret to change, or for a while; says whether it changed.
    async fn wait(&mut self) -> bool {
        let Some(secret) = &mut self.sources.secret else {
            sleep(POLL).await;
            return false;
        };
        tokio::select! {
            biased;
            changed = secret.changed() => {
                if changed.is_err() {
                    // Nobody follows the Secret any more.
                    self.sources.secret = None;
                }
                true
            }
            () = sleep(POLL) => false,
        }
    }

    /// Reads everything, and tries what is new in it.
    async fn look(&self) -> Result<(), String> {
        let config = self.sources.read();
        let config = config.map_err(|error| bowline_core::error_chain(&error))?;
        for (site, setting) in &self.sites {
            let profile = config.profiles.iter().find(|it| it.name == site.name);
            let Some(profile) = profile else {
                return Err(format!(
                    "profile {} is gone; that needs a restart",
                    site.name
                ));
            };
            if profile.connection.is_like(site.api.client().connection()) {
                continue;
            }
            self.change(site, setting, &profile.connection).await?;
        }
        if config.profiles.len() > self.sites.len() {
            warn!("further profiles need a restart");
        }
        Ok(())
    }

    async fn change(
        &self,
        site: &Site,
        setting: &Setting,
        connection: &Connection,
    ) -> Result<(), String> {
        let client = try_out(connection, setting).await?;
        let fingerprint = connection.key.fingerprint().md5();
        site.api.replace(client);
        site.forget().await;
        self.machines.credentials_changed();
        info!(
            "Triton credentials changed, now using {}",
            site.api.client().signer().key_id()
        );
        self.loaded.send_replace(fingerprint);
        Ok(())
    }
}

/// A client for that connection, if CloudAPI takes it.
async fn try_out(connection: &Connection, setting: &Setting) -> Result<Arc<Client>, String> {
    let client = Client::new(connection, setting);
    let api = Api::new(client.map_err(|error| bowline_core::error_chain(&error))?);
    let tried = api.account().await;
    tried.map_err(|error| bowline_core::error_chain(&error))?;
    Ok(api.client())
}
