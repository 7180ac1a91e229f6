//! Gets secrets from where they are.

use std::fmt;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use bowline_core::{Secret, error_chain};
use bowline_http::SmallFile;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;

use super::reference::Reference;
use super::{CloudEntry, Resolved};
use crate::providers::Environment;

/// Bytes of a secret: a key with its chain has a few thousand.
const LARGEST: usize = 64 * 1024;

/// How secrets are reached.
pub(crate) struct Resolver {
    /// The variables of the process.
    pub(crate) environment: Environment,
    /// The cluster, if it can be asked.
    pub(crate) client: Option<kube::Client>,
    /// What Secrets said before, as far as that is good enough.
    pub(crate) known: Resolved,
}

/// A secret that cannot be got.
pub(crate) struct Missing {
    /// Where it should be.
    pub(crate) reference: Reference,
    /// For which field, and why not.
    said: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl Resolver {
    /// Everything that these clouds mention, or all that cannot be got.
    pub(crate) async fn resolve(&self, clouds: &[CloudEntry]) -> Result<Resolved> {
        let (resolved, missing) = self.try_resolve(clouds).await;
        if missing.is_empty() {
            return Ok(resolved);
        }
        let all: Vec<String> = missing.iter().map(ToString::to_string).collect();
        bail!("secrets cannot be read: {}", all.join("; "))
    }

    /// What can be got, and what cannot.
    pub(crate) async fn try_resolve(&self, clouds: &[CloudEntry]) -> (Resolved, Vec<Missing>) {
        let (mut resolved, mut missing) = (Resolved::new(), Vec::new());
        for mention in clouds.iter().flat_map(|cloud| &cloud.mentions) {
            if resolved.contains_key(&mention.reference) {
                continue;
            }
            match self.one(&mention.reference).await {
                Ok(secret) => {
                    resolved.insert(mention.reference.clone(), secret);
                }
                Err(error) => {
                    let (path, place) = (&mention.path, &mention.reference);
                    let why = error_chain(error.as_ref());
                    missing.push(Missing {
                        reference: mention.reference.clone(),
                        said: format!("{path}: {place}: {why}"),
                    });
                }
            }
        }
        (resolved, missing)
    }

    async fn one(&self, reference: &Reference) -> Result<Secret> {
        let known = self.known.get(reference);
        if let (Reference::Secret { .. }, Some(secret)) = (reference, known) {
            return Ok(secret.clone());
        }
        let text = match reference {
            Reference::File(path) => read(path)?,
            Reference::Environment(name) => {
                let text = (self.environment)(name);
                text.ok_or_else(|| anyhow!("it is not set"))?
            }
            Reference::Secret {
                namespace,
                name,
                key,
            } => self.of_cluster(namespace.as_deref(), name, key).await?,
        };
        // Editors and shells end files with a line break.
        let text = text.trim();
        if text.is_empty() {
            bail!("it is empty");
        }
        Ok(Secret::new(text))
    }

    async fn of_cluster(&self, namespace: Option<&str>, name: &str, key: &str) -> Result<String> {
        let Some(client) = &self.client else {
            bail!("the cluster is not asked");
        };
        let namespace = namespace.unwrap_or_else(|| client.default_namespace());
        let api: Api<SecretObject> = Api::namespaced(client.clone(), namespace);
        let object = api.get(name).await.map_err(|error| match error {
            // With all that the API server says beside it, nobody would find the message.
            kube::Error::Api(status) => anyhow!("{}", status.message),
            other => other.into(),
        })?;
        let data = object.data.unwrap_or_default();
        let Some(value) = data.get(key) else {
            let keys: Vec<&str> = data.keys().map(String::as_str).collect();
            bail!("there is no such key; its keys are {}", keys.join(", "));
        };
        if value.0.len() > LARGEST {
            bail!("it is larger than {LARGEST} bytes");
        }
        let text = String::from_utf8(value.0.clone());
        text.map_err(|_| anyhow!("it is no text"))
    }
}

fn read(path: &Path) -> Result<String> {
    let bytes = SmallFile::new(path, LARGEST).read_now()?;
    String::from_utf8(bytes).map_err(|_| anyhow!("it is no text"))
}
