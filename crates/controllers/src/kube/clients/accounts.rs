//! Service accounts for the controllers: made if missing, signed in, kept signed in.

use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use bowline_core::{Secret, error_chain};
use bowline_http::Clock;
use http::HeaderValue;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::sleep;
use tower::BoxError;

/// Where the accounts are.
pub(super) const NAMESPACE: &str = "kube-system";
/// For how long a token is asked for.
const LIFETIME_SECONDS: i64 = 3600;
/// The least life a token is believed to have, whatever our clock thinks of its end.
const SHORTEST_LIFE: Duration = Duration::from_secs(600);
/// The part of its life after which a token is renewed.
const RENEW_AT: f64 = 0.8;
/// Tries for one token.
const TRIES: u32 = 4;
/// The pause after the first failed try; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The pause after a failed renewal. A token has 12 minutes left then, so there are many.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// Why a controller has no account of its own.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The account can neither be read nor made.
    #[error("cannot read or create service account {NAMESPACE}/{name}")]
    Account {
        name: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// There is no token for it.
    #[error("cannot get a token for service account {NAMESPACE}/{name}")]
    Token {
        name: String,
        /// Why the last try failed.
        source: BoxError,
    },
}

/// The token in use, swapped in place when it is renewed.
#[derive(Debug)]
pub(super) struct Token(RwLock<Secret>);

impl Token {
    /// The value of `Authorization`, never printed.
    pub(super) fn header(&self) -> Result<HeaderValue, http::Error> {
        let secret = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut value = HeaderValue::from_str(&format!("Bearer {}", secret.reveal()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn swap(&self, secret: Secret) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = secret;
    }
}

/// Makes sure that the account exists, gets its first token and renews it for as long as somebody
/// uses it.
pub(super) async fn sign_in(
    root: Client,
    name: &str,
    clock: &Clock,
) -> Result<Arc<Token>, AccountError> {
    let api: Api<ServiceAccount> = Api::namespaced(root, NAMESPACE);
    ensure(&api, name)
        .await
        .map_err(|error| AccountError::Account {
            name: name.to_owned(),
            source: Box::new(error),
        })?;
    let (secret, life) = request(&api, name, clock).await?;
    let token = Arc::new(Token(RwLock::new(secret)));
    let keeping = keep(
        Arc::downgrade(&token),
        api,
        name.to_owned(),
        clock.clone(),
        life,
    );
    // The task ends by itself when the last client that uses the token is gone.
    drop(tokio::spawn(keeping));
    Ok(token)
}

async fn ensure(api: &Api<ServiceAccount>, name: &str) -> kube::Result<()> {
    if api.get_opt(name).await?.is_some() {
        return Ok(());
    }
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    match api.create(&PostParams::default(), &account).await {
        // Somebody else, perhaps the API server itself, was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => api.get(name).await.map(drop),
        result => result.map(drop),
    }
}

/// A new token and for how long it is good.
async fn request(
    api: &Api<ServiceAccount>,
    name: &str,
    clock: &Clock,
) -> Result<(Secret, Duration), AccountError> {
    let wanted = TokenRequest {
        spec: TokenRequestSpec {
            audiences: Vec::new(),
            expiration_seconds: Some(LIFETIME_SECONDS),
            bound_object_ref: None,
        },
        ..TokenRequest::default()
    };
    let mut pause = FIRST_PAUSE;
    let mut tries = 1;
    loop {
        let answer = api
            .create_token_request(name, &PostParams::default(), &wanted)
            .await;
        let failed: BoxError = match answer.map(|answer| answer.status) {
            Ok(Some(status)) if !status.token.is_empty() => {
                let left = status.expiration_timestamp.0.duration_since(clock.now());
                let left = Duration::try_from(left).unwrap_or_default();
                return Ok((Secret::new(status.token), left.max(SHORTEST_LIFE)));
            }
            Ok(_) => "the answer holds no token".into(),
            Err(error) => error.into(),
        };
        if tries == TRIES {
            return Err(AccountError::Token {
                name: name.to_owned(),
                source: failed,
            });
        }
        sleep(pause).await;
        tries += 1;
        pause *= 2;
    }
}

async fn keep(
    token: Weak<Token>,
    api: Api<ServiceAccount>,
    name: String,
    clock: Clock,
    mut life: Duration,
) {
    loop {
        sleep(life.mul_f64(RENEW_AT)).await;
        loop {
            if token.strong_count() == 0 {
                return;
            }
            match request(&api, &name, &clock).await {
                Ok((secret, new_life)) => {
                    let Some(token) = token.upgrade() else { return };
                    token.swap(secret);
                    life = new_life;
                    break;
                }
                Err(error) => {
                    tracing::warn!("renewal failed: {}", error_chain(&error));
                    sleep(RENEWAL_PAUSE).await;
                }
            }
        }
    }
}
