//! Follows one Secret from the start of the process on: credentials of a cloud, which standbys need too.
//!
//! It asks for that Secret by name, so that a role for this name alone is enough.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::time::Duration;

use bowline_core::{Secret, error_chain};
use bowline_http::Random;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret as Object;
use kube::Api;
use kube::runtime::watcher::watch_object;
use tokio::sync::watch;
use tracing::{debug, warn};

/// The first wait after a failed list or watch; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// A Secret that could not be read is one that somebody is waiting for.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    pub namespace: String,
    pub name: String,
}

/// Why a text names no Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not <namespace>/<name> of a Secret")]
pub struct SecretNameError(String);

impl SecretName {
    /// Reads `<namespace>/<name>`.
    pub fn parse(text: &str) -> Result<Self, SecretNameError> {
        let wrong = || SecretNameError(text.to_owned());
        let (namespace, name) = text.split_once('/').ok_or_else(wrong)?;
        let is_label = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let well_formed = (1..=63).contains(&namespace.len())
            && (1..=253).contains(&name.len())
            && namespace.bytes().all(is_label)
            && name.bytes().all(|b| is_label(b) || b == b'.');
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        well_formed
            .then_some(Self { namespace, name })
            .ok_or_else(wrong)
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is known about a Secret.
#[derive(Clone, Debug)]
pub enum SecretSight {
    /// It could not be read yet; why, if it was tried.
    Unknown(Option<String>),
    /// It does not exist.
    Missing,
    /// It exists.
    There {
        uid: String,
        /// What it holds, as far as it is text.
        values: BTreeMap<String, Secret>,
    },
}

impl From<Option<Object>> for SecretSight {
    fn from(object: Option<Object>) -> Self {
        let Some(object) = object else {
            return Self::Missing;
        };
        let text = |(key, bytes): (String, k8s_openapi::ByteString)| {
            Some((key, Secret::new(String::from_utf8(bytes.0).ok()?)))
        };
        let values = object.data.unwrap_or_default().into_iter();
        Self::There {
            uid: object.metadata.uid.unwrap_or_default(),
            values: values.filter_map(text).collect(),
        }
    }
}

/// Follows a Secret for as long as somebody holds the receiver. What is known stays while it cannot be
/// read. Needs a tokio runtime.
pub fn follow_secret(
    client: kube::Client,
    name: SecretName,
    random: Random,
) -> watch::Receiver<SecretSight> {
    let (sight, receiver) = watch::channel(SecretSight::Unknown(None));
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = sight.closed() => {}
            () = keep(&sight, client, &name, &random) => {}
        }
    });
    receiver
}

async fn keep(
    sight: &watch::Sender<SecretSight>,
    client: kube::Client,
    name: &SecretName,
    random: &Random,
) {
    let api: Api<Object> = Api::namespaced(client, &name.namespace);
    let mut failures: u32 = 0;
    loop {
        let mut changes = pin!(watch_object(api.clone(), &name.name));
        while let Some(change) = changes.next().await {
            match change {
                Ok(object) => {
                    failures = 0;
                    debug!(secret = %name, exists = object.is_some(), "seen");
                    sight.send_replace(object.into());
                }
                Err(error) => {
                    let error = error_chain(&error);
                    let wait = FIRST_WAIT.saturating_mul(1 << failures.min(6));
                    let wait = random.jitter(wait.min(LONGEST_WAIT), 0.25);
                    if failures == 0 {
                        warn!(secret = %name, error, "the Secret cannot be read; trying again");
                    }
                    failures = failures.saturating_add(1);
                    sight.send_if_modified(|sight| match sight {
                        SecretSight::Unknown(why) => why.replace(error.clone()) != Some(error),
                        SecretSight::Missing | SecretSight::There { .. } => false,
                    });
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_named_by_namespace_and_name() {
        let name = SecretName::parse("kube-system/triton-credentials").unwrap();
        assert_eq!(name.to_string(), "kube-system/triton-credentials");
        for wrong in ["", "x", "/x", "x/", "a/b/c", "A/b", "a/b c", "a.b/c"] {
            let error = SecretName::parse(wrong).unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }
}
