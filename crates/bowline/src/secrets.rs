//! Secrets of the cluster that hold a cloud's credentials, on their way to its provider.

use std::error::Error;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_controllers::clients::Clients;
use bowline_controllers::secrets::{SecretName, SecretSight, follow_secret};
use bowline_core::BoxFuture;
use bowline_http::Random;
use bowline_provider::{FollowedSecret, SecretContent, SecretReader, SecretRequest};
use tokio::sync::watch;
use tracing::{info, warn};

/// How often it is reported that the start waits for a Secret.
const REMINDER: Duration = Duration::from_secs(60);

/// Whether a start waits for a Secret that is not there, or cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A manager does: whoever installs it may make the Secret later.
    Endless,
    /// A command does not: somebody is waiting for it.
    None,
}

/// Follows Secrets with the manager's client.
pub(crate) struct ClusterSecrets {
    clients: Clients,
    random: Random,
}

impl ClusterSecrets {
    pub(crate) fn new(clients: &Clients, random: &Random) -> Self {
        Self {
            clients: clients.clone(),
            random: random.clone(),
        }
    }
}

impl SecretReader for ClusterSecrets {
    fn follow<'a>(
        &'a self,
        request: SecretRequest<'a>,
    ) -> BoxFuture<'a, Result<FollowedSecret, Box<dyn Error + Send + Sync>>> {
        Box::pin(async move {
            let followed = follow(request, &self.clients, &self.random).await;
            followed.map_err(Into::into)
        })
    }
}

/// Follows the Secret, and waits until it is known whether it is there.
///
/// What other sources say must not be used while nobody knows what the Secret says: it goes before them, and
/// may mean another account.
async fn follow(
    request: SecretRequest<'_>,
    clients: &Clients,
    random: &Random,
) -> Result<FollowedSecret> {
    let name = SecretName::parse(request.name).context(request.setting)?;
    let client = clients.root(request.client);
    let mut sight = follow_secret(client, name.clone(), random.fork());
    let first = known(&name, &mut sight, request).await?;
    if first.is_none() {
        info!(secret = %name, "there is no such Secret; flags, environment and file count for now");
    }
    let (content, receiver) = watch::channel(first);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                biased;
                () = content.closed() => return,
                changed = sight.changed() => if changed.is_err() { return },
            }
            let seen = sight.borrow_and_update().clone();
            if !matches!(seen, SecretSight::Unknown(_)) {
                content.send_replace(content_of(&seen));
            }
        }
    });
    Ok(FollowedSecret {
        namespace: name.namespace,
        name: name.name,
        content: receiver,
    })
}

/// Waits until it is known whether the Secret is there, and what it holds.
async fn known(
    name: &SecretName,
    sight: &mut watch::Receiver<SecretSight>,
    request: SecretRequest<'_>,
) -> Result<Option<SecretContent>> {
    loop {
        let why = match &*sight.borrow_and_update() {
            SecretSight::Unknown(why) => why.clone(),
            seen => return Ok(content_of(seen)),
        };
        if let (false, Some(why)) = (request.waits, &why) {
            bail!("Secret {name} ({}) cannot be read: {why}", request.setting);
        }
        tokio::select! {
            biased;
            changed = sight.changed() => changed.context("nobody follows the Secret")?,
            () = tokio::time::sleep(REMINDER) => {
                let why = why.as_deref().unwrap_or("the API server has not answered");
                warn!(secret = %name, why, "the start waits for the Secret to be readable");
            }
        }
    }
}

/// What the provider is reported.
fn content_of(sight: &SecretSight) -> Option<SecretContent> {
    let SecretSight::There { uid, values } = sight else {
        return None;
    };
    let values = values.iter();
    let values = values.map(|(key, value)| (key.clone(), value.reveal().to_owned()));
    Some(SecretContent::new(values).of(uid))
}
