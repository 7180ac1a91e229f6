//! What a provider is built with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::{BoxFuture, CloudName};
use bowline_http::{CallMetrics, Clock, Connector, Random, Seams};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tracing::warn;

use crate::{Finding, ProviderInput};

/// How often it is reported that a start waits for a Secret.
const REMINDER: Duration = Duration::from_secs(60);

/// What a provider is built with.
#[derive(Clone)]
pub struct ProviderContext {
    /// What the operator calls the cloud.
    pub name: CloudName,
    /// What its original would have been given.
    pub input: ProviderInput,
    /// How it reaches its API.
    pub connector: Connector,
    /// The time of day.
    pub clock: Clock,
    /// Jitter.
    pub random: Random,
    /// Where its metrics go.
    pub metrics: CloudRegistry,
    /// Secrets of the cluster that hold its credentials.
    pub secrets: Arc<dyn SecretReader>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// Whether a controller runs that asks for machines.
    pub needs_machines: bool,
    /// Whether credentials that are not there yet are waited for.
    pub waits_for_secrets: bool,
}

impl ProviderContext {
    /// The seams, for a provider whose calls are counted there.
    pub fn seams(&self, metrics: Option<CallMetrics>) -> Seams {
        Seams {
            name: self.name.clone(),
            connector: self.connector.clone(),
            clock: self.clock.clone(),
            random: self.random.fork(),
            metrics,
        }
    }
}

/// Why a cloud was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Its settings are wrong: that comes again.
    #[error("{}", all(.0))]
    Settings(Vec<Finding>),
    /// Something that may be otherwise later.
    #[error(transparent)]
    NotYet(Box<dyn std::error::Error + Send + Sync>),
}

fn all(findings: &[Finding]) -> String {
    let texts: Vec<&str> = findings.iter().map(|it| it.text.as_str()).collect();
    texts.join("; ")
}

/// A Secret of the cluster that somebody follows for the provider.
#[derive(Clone, Debug)]
pub struct FollowedSecret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it holds; none: there is no such Secret now.
    pub content: watch::Receiver<Option<SecretContent>>,
}

impl FollowedSecret {
    /// What it holds now.
    pub fn now(&self) -> Option<SecretContent> {
        self.content.borrow().clone()
    }

    /// Waits until it is there, while nothing else says what it should.
    pub async fn appear(&mut self, lacking: &str) {
        while self.now().is_none() {
            warn!(
                secret = format!("{}/{}", self.namespace, self.name),
                lacking,
                "the start waits for the Secret: it does not exist, and without it something is missing"
            );
            let changed = tokio::time::timeout(REMINDER, self.content.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                // Nobody follows it any more: the process ends.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// What a Secret holds, decoded. Values that are no text are left out.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretContent {
    uid: String,
    values: BTreeMap<String, String>,
}

impl SecretContent {
    /// Takes keys and values.
    pub fn new(values: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            uid: String::new(),
            values: values.into_iter().collect(),
        }
    }

    /// The same of the Secret with that uid.
    #[must_use]
    pub fn of(mut self, uid: &str) -> Self {
        uid.clone_into(&mut self.uid);
        self
    }

    /// The Secret's uid; empty if it is not known.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }
}

impl fmt::Debug for SecretContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// Which Secret a provider wants to follow.
#[derive(Clone, Copy, Debug)]
pub struct SecretRequest<'a> {
    /// `[namespace/]name`.
    pub name: &'a str,
    /// The setting that names it, for messages.
    pub setting: &'static str,
    /// What the client calls itself that watches it.
    pub client: &'static str,
    /// Whether a Secret that cannot be read yet is waited for.
    pub waits: bool,
}

/// Follows Secrets of the cluster.
pub trait SecretReader: Send + Sync {
    /// Follows a Secret, once it is known whether it is there.
    fn follow<'a>(
        &'a self,
        request: SecretRequest<'a>,
    ) -> BoxFuture<'a, Result<FollowedSecret, Box<dyn std::error::Error + Send + Sync>>>;
}

/// A cluster without Secrets.
#[derive(Clone, Copy, Debug)]
pub struct NoSecrets;

impl SecretReader for NoSecrets {
    fn follow<'a>(
        &'a self,
        request: SecretRequest<'a>,
    ) -> BoxFuture<'a, Result<FollowedSecret, Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move { Err(format!("there is no Secret {}", request.name).into()) })
    }
}

/// The families of one cloud's metrics.
#[derive(Clone, Debug)]
pub struct CloudRegistry(Arc<Mutex<Registry>>);

impl CloudRegistry {
    /// Without any families. Where clouds have to be told apart, everything in it has a label `cloud` with that name.
    pub fn new(cloud: Option<&str>) -> Self {
        let registry = match cloud {
            Some(name) => {
                let label = ("cloud".into(), name.to_owned().into());
                Registry::with_labels(std::iter::once(label))
            }
            None => Registry::default(),
        };
        Self(Arc::new(Mutex::new(registry)))
    }

    /// Lets the cloud register its families.
    pub fn register<T>(&self, add: impl FnOnce(&mut Registry) -> T) -> T {
        add(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
