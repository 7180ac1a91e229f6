//! `bowline triton credentials`: proves a key and stores it in the cluster as a Secret.
//!
//! ```text
//!  key ─▶ fits its id? ─▶ CloudAPI: ping, account ─▶ [new key: add it, prove it] ─▶ Secret
//!                                                                   [rotate: loaded? ─▶ drop the old key]
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudErrorKind, CloudName, Secret};
use bowline_http::{Clock, Connector, ProxyRules, Random, Seams, Tls};
use bowline_triton::api::{Api, ApiError, Client, Setting};
use bowline_triton::config::{Config, ConfigError, Connection, Given, table};
use bowline_triton::keys::{KeyError, KeyId, PrivateKey};
use bowline_triton::{SecretContent, TritonMetrics};
use tokio::time::sleep;

use super::key::{Found, find, passphrase};
use super::store::{Content, Store, manifest};
use crate::output::{complain, tell};

/// What the names of keys begin with that this command makes.
const MADE: &str = "bowline-";
/// How often a new key is tried: what the server knows about keys takes seconds to be known everywhere.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_secs(2);

/// Stores Triton credentials in the cluster, after proving them
///
/// Reads a private key, checks it against the key id, asks CloudAPI for the account with it, and applies a
/// Secret with SDC_ENDPOINT, SDC_ACCOUNT, SDC_KEY_ID and SDC_PRIVATE_KEY (and SDC_USER for a sub-user),
/// which the manager takes from --triton-credentials-secret or as its environment.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:\n  \
    0  done\n  \
    1  wrong command line, or something is not said\n  \
    2  a problem with the key\n  \
    3  a problem with CloudAPI; with --rotate also: no manager uses the new key yet, both keys stay\n  \
    4  a problem with Kubernetes\n\n\
    The private key is shown only with --dry-run -o yaml, which is there to be piped to somebody.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Arguments {
    /// The namespace of the Secret
    #[arg(long, default_value = "kube-system")]
    namespace: String,
    /// The name of the Secret
    #[arg(long, default_value = "triton-credentials")]
    name: String,
    /// CloudAPI; from SDC_ENDPOINT, TRITON_URL or SDC_URL if not given
    #[arg(long)]
    url: Option<String>,
    /// The account's login; from TRITON_ACCOUNT or SDC_ACCOUNT if not given
    #[arg(long)]
    account: Option<String>,
    /// The sub-user's login; from TRITON_USER or SDC_USER if not given
    #[arg(long)]
    user: Option<String>,
    /// The key's fingerprint; from TRITON_KEY_ID or SDC_KEY_ID if not given
    #[arg(long)]
    key_id: Option<String>,
    /// The private key; if not given, the one in ~/.ssh with that fingerprint
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// A file with the passphrase of an encrypted key; if not given, it is asked for
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Store an encrypted key without its passphrase
    #[arg(long, conflicts_with = "with_passphrase")]
    store_decrypted: bool,
    /// Store the passphrase beside an encrypted key
    #[arg(long)]
    with_passphrase: bool,
    /// Make a new key, add it to the account with the given one, and store the new one
    #[arg(long)]
    generate: bool,
    /// Like --generate with the key that is stored now, and remove that, if this command made it, once a manager uses
    /// the new one
    #[arg(long, conflicts_with_all = ["generate", "skip_verify", "dry_run"])]
    rotate: bool,
    /// With --rotate, remove the old key also if this command did not make it: it may be somebody's own
    #[arg(long, requires = "rotate")]
    remove_old_key: bool,
    /// Do not ask CloudAPI
    #[arg(long, conflicts_with = "generate")]
    skip_verify: bool,
    /// Write nothing, neither to the cluster nor to the account
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run, show the Secret
    #[arg(short, long, value_enum, requires = "dry_run")]
    output: Option<Output>,
    /// The name of the cluster, in the name of a new key
    #[arg(long, default_value = "kubernetes")]
    cluster_name: String,
    /// Path to a kubeconfig; not needed in a pod
    #[arg(long, value_name = "FILE", default_value = "")]
    kubeconfig: String,
}

/// How a Secret is shown.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// As a manifest
    Yaml,
}

/// Why nothing, or not all, was done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something is not said, or not right.
    Usage(String),
    /// The key.
    Key(String),
    /// CloudAPI.
    Api(String),
    /// The cluster.
    Kubernetes(String),
}

impl Failure {
    /// What the program ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 1,
            Self::Key(_) => 2,
            Self::Api(_) => 3,
            Self::Kubernetes(_) => 4,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Key(text) | Self::Api(text) | Self::Kubernetes(text)) = self;
        f.write_str(text)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Key { .. }
            | ConfigError::KeyId { .. }
            | ConfigError::OtherKey { .. }
            | ConfigError::Unreadable { .. } => Self::Key(error.to_string()),
            _ => Self::Usage(error.to_string()),
        }
    }
}

/// Does what the arguments say.
pub(crate) fn main(given: &Arguments) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Usage(error.to_string()))?;
    runtime.block_on(given.run())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Arguments {
    async fn run(&self) -> Result<(), Failure> {
        let store = if self.dry_run {
            None
        } else {
            Some(Store::open(&self.kubeconfig, &self.namespace, &self.name).await?)
        };
        let (config, key) = self.current(store.as_ref()).await?;
        let connection = &config.connection;
        let setting = setting(&config)?;
        if !self.skip_verify {
            prove(connection, &setting).await?;
        }
        let mut content = content(connection, &key);
        let fingerprint = connection.key.fingerprint().md5();
        if self.dry_run {
            return self.show(&content, connection);
        }
        let Some(store) = store else {
            return Ok(());
        };
        let mut replaced = None;
        if self.generate || self.rotate {
            let new = self.replace(connection, &setting, &mut content).await?;
            replaced = Some(new);
        }
        store.apply(&content).await?;
        let stored = content.get("SDC_KEY_ID").map_or("", Secret::reveal);
        tell(format_args!(
            "Secret {}/{} has the key {stored}",
            self.namespace, self.name
        ));
        match replaced {
            Some(new) if self.rotate => self.retire(&store, &fingerprint, &new, &setting).await,
            _ => Ok(()),
        }
    }

    /// The configuration and the key as they are now.
    async fn current(&self, store: Option<&Store>) -> Result<(Config, StoredKey), Failure> {
        let stored = match store {
            Some(store) if self.rotate && self.key_file.is_none() => store.read().await?,
            _ => None,
        };
        if self.rotate && self.key_file.is_none() && stored.is_none() {
            let text = format!(
                "there is no Secret {}/{} to rotate",
                self.namespace, self.name
            );
            return Err(Failure::Kubernetes(text));
        }
        if let Some(stored) = stored {
            let config = self.read(&BTreeMap::new(), Some(&stored))?;
            let key = StoredKey {
                text: config.connection.key_text.clone(),
                passphrase: None,
            };
            return Ok((config, key));
        }
        let id = self.key_id.clone().or_else(|| {
            let mut names = table::KEY_ID.environment.iter();
            names.find_map(|name| variable(name))
        });
        let id = id.map(|id| KeyId::parse(&id)).transpose();
        let id = id.map_err(|error| Failure::Key(error.to_string()))?;
        let home = variable("HOME").map(PathBuf::from);
        let found = find(self.key_file.as_deref(), id.as_ref(), home.as_deref())?;
        let key = self.opened(&found)?;
        let mut known = BTreeMap::from([("SDC_PRIVATE_KEY", key.text.reveal().to_owned())]);
        if let Some(passphrase) = &key.passphrase {
            known.insert("TRITON_KEY_PASSPHRASE", passphrase.reveal().to_owned());
        }
        Ok((self.read(&known, None)?, key))
    }

    /// The key as it is to be stored.
    fn opened(&self, found: &Found) -> Result<StoredKey, Failure> {
        let wrong = |error: KeyError| Failure::Key(format!("{}: {error}", found.path.display()));
        match PrivateKey::parse(found.text.reveal(), None) {
            Ok(_) => {
                return Ok(StoredKey {
                    text: found.text.clone(),
                    passphrase: None,
                });
            }
            Err(KeyError::NoPassphrase) => {}
            Err(error) => return Err(wrong(error)),
        }
        if !self.store_decrypted && !self.with_passphrase && !self.generate {
            return Err(Failure::Key(format!(
                "{}: the key is encrypted; give --store-decrypted to store it without its passphrase, \
                 --with-passphrase to store both, or --generate to store a new key",
                found.path.display()
            )));
        }
        let passphrase = passphrase(self.passphrase_file.as_deref())?;
        PrivateKey::parse(found.text.reveal(), Some(passphrase.reveal())).map_err(wrong)?;
        if self.with_passphrase {
            return Ok(StoredKey {
                text: found.text.clone(),
                passphrase: Some(passphrase),
            });
        }
        let text = PrivateKey::decrypted(found.text.reveal(), passphrase.reveal());
        Ok(StoredKey {
            text: text.map_err(wrong)?,
            passphrase: None,
        })
    }

    /// Reads the rest of the configuration around a key.
    fn read(
        &self,
        known: &BTreeMap<&str, String>,
        secret: Option<&SecretContent>,
    ) -> Result<Config, Failure> {
        let said = [
            ("triton-endpoint", &self.url),
            ("triton-account", &self.account),
            ("triton-user", &self.user),
            ("triton-key-id", &self.key_id),
        ];
        let flags: BTreeMap<String, String> = said
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
            .collect();
        let keys = table::PRIVATE_KEY.environment;
        let files = table::PRIVATE_KEY_FILE.environment;
        let environment = |name: &str| match known.get(name) {
            Some(value) => Some(value.clone()),
            // Only the key that was found counts.
            None if keys.contains(&name) || files.contains(&name) => None,
            None => variable(name),
        };
        let config = Config::read(&Given {
            flags: &flags,
            secret,
            environment: &environment,
            file: None,
            read: &|path| std::fs::read_to_string(path),
            cluster_name: &self.cluster_name,
        });
        config.map_err(|errors| {
            let text = errors.to_string();
            let mut all = errors.0.into_iter().map(Failure::from);
            if all.any(|it| matches!(it, Failure::Key(_))) {
                Failure::Key(text)
            } else {
                Failure::Usage(text)
            }
        })
    }

    fn show(&self, content: &Content, connection: &Connection) -> Result<(), Failure> {
        match self.output {
            Some(Output::Yaml) => {
                let manifest = manifest(&self.namespace, &self.name, content);
                let text = serde_saphyr::to_string(&manifest);
                tell(
                    text.map_err(|error| Failure::Usage(error.to_string()))?
                        .trim_end(),
                );
            }
            None => {
                let keys: Vec<&str> = content.keys().copied().collect();
                tell(format_args!(
                    "Secret {}/{} would have the key {} ({})",
                    self.namespace,
                    self.name,
                    connection.key.fingerprint(),
                    keys.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Makes a new key, adds it to the account, proves it, and puts it into what is stored.
    async fn replace(
        &self,
        connection: &Connection,
        setting: &Setting,
        content: &mut Content,
    ) -> Result<Connection, Failure> {
        let (key, text) =
            PrivateKey::generate().map_err(|error| Failure::Key(error.to_string()))?;
        let key = Arc::new(key);
        let fingerprint = key.fingerprint().md5();
        let api = api(connection, setting)?;
        let name = format!("{MADE}{}", self.cluster_name);
        let taken = api
            .keys()
            .await
            .map_err(|error| refused(connection, &error))?;
        // A second key of one name is refused; the one that goes still has it.
        let name = if taken.iter().any(|key| key.name == name) {
            format!(
                "{name}-{}",
                fingerprint.replace(':', "").get(..8).unwrap_or_default()
            )
        } else {
            name
        };
        let added = api.add_key(&name, &key.public_line()).await;
        added.map_err(|error| refused(connection, &error))?;
        tell(format_args!(
            "added the key {fingerprint} to the account as {name}"
        ));
        let new = Connection {
            key,
            key_text: text.clone(),
            ..connection.clone()
        };
        prove_patiently(&new, setting).await?;
        content.insert("SDC_KEY_ID", Secret::new(fingerprint));
        content.insert("SDC_PRIVATE_KEY", text);
        content.remove("TRITON_KEY_PASSPHRASE");
        Ok(new)
    }

    /// Removes the old key, once the new one is in use.
    async fn retire(
        &self,
        store: &Store,
        old: &str,
        new: &Connection,
        setting: &Setting,
    ) -> Result<(), Failure> {
        let fingerprint = new.key.fingerprint().md5();
        if !store.wait_until_loaded(&fingerprint).await? {
            return Err(Failure::Api(format!(
                "no manager has said on Secret {}/{} that it uses the key {fingerprint}; both keys \
                 stay. Remove {old} yourself once the new one is in use",
                self.namespace, self.name
            )));
        }
        let api = api(new, setting)?;
        let keys = api.keys().await.map_err(|error| refused(new, &error))?;
        let name = keys.iter().find(|key| key.fingerprint == old);
        let name = name.map_or("", |key| key.name.as_str());
        if !self.remove_old_key && !name.starts_with(MADE) {
            complain(format_args!(
                "Warning: the key {old} ({name:?}) was not made by this command and may be somebody's own: it stays on the \
                 account. Remove it there once nobody uses it"
            ));
            return Ok(());
        }
        let deleted = api.delete_key(old).await;
        deleted.map_err(|error| refused(new, &error))?;
        tell(format_args!("removed the key {old} from the account"));
        Ok(())
    }
}

/// A key as it is stored.
struct StoredKey {
    text: Secret,
    passphrase: Option<Secret>,
}

/// How CloudAPI is reached.
fn setting(config: &Config) -> Result<Setting, Failure> {
    let usage = |error: &(dyn std::error::Error + 'static)| {
        Failure::Usage(bowline_core::error_chain(error))
    };
    let proxies = ProxyRules::from_environment(variable).map_err(|error| usage(&error))?;
    let tls = Tls::new()
        .environment(variable)
        .build()
        .map_err(|error| usage(&error))?;
    let name = CloudName::parse(bowline_triton::PROVIDER).map_err(|error| usage(&error))?;
    let seams = Seams {
        name,
        connector: Connector::real(tls, proxies),
        clock: Clock::system(),
        random: Random::from_system(),
        metrics: None,
    };
    let metrics = TritonMetrics::default();
    Ok(Setting::new(&seams, config.calls.clone(), &metrics))
}

fn api(connection: &Connection, setting: &Setting) -> Result<Api, Failure> {
    let client = Client::new(connection, setting);
    let client = client.map_err(|error| Failure::Usage(bowline_core::error_chain(&error)))?;
    Ok(Api::new(client))
}

/// Proves that CloudAPI is there and takes the key.
async fn prove(connection: &Connection, setting: &Setting) -> Result<(), Failure> {
    let api = api(connection, setting)?;
    api.ping()
        .await
        .map_err(|error| refused(connection, &error))?;
    api.account()
        .await
        .map_err(|error| refused(connection, &error))?;
    Ok(())
}

async fn prove_patiently(connection: &Connection, setting: &Setting) -> Result<(), Failure> {
    let api = api(connection, setting)?;
    let mut tries = 1;
    loop {
        match api.account().await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == CloudErrorKind::Denied && tries < TRIES => {
                complain("the new key is not known everywhere yet");
                tries += 1;
                sleep(BETWEEN_TRIES).await;
            }
            Err(error) => return Err(refused(connection, &error)),
        }
    }
}

/// What CloudAPI said, and everything that may be wrong about it.
fn refused(connection: &Connection, error: &ApiError) -> Failure {
    let text = bowline_core::error_chain(error);
    let user = connection.owner.user.as_deref();
    let user = user.map_or_else(String::new, |user| format!(", user {user}"));
    Failure::Api(format!(
        "{text} (account {}{user}, key {}, CloudAPI {})",
        connection.owner.account,
        connection.key.fingerprint(),
        connection.endpoint
    ))
}

fn content(connection: &Connection, key: &StoredKey) -> Content {
    let mut content = Content::from([
        (
            "SDC_ENDPOINT",
            Secret::new(connection.endpoint.to_string().trim_end_matches('/')),
        ),
        ("SDC_ACCOUNT", Secret::new(&*connection.owner.account)),
        (
            "SDC_KEY_ID",
            Secret::new(connection.key.fingerprint().md5()),
        ),
        ("SDC_PRIVATE_KEY", key.text.clone()),
    ]);
    if let Some(user) = &connection.owner.user {
        content.insert("SDC_USER", Secret::new(&**user));
    }
    if let Some(passphrase) = &key.passphrase {
        content.insert("TRITON_KEY_PASSPHRASE", passphrase.clone());
    }
    content
}
