//! Asks the API server who a token belongs to and what a user may do, and remembers the answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_http::Random;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::identity::{User, UserClaim};
use super::options::{AuthenticationConfig, AuthorizationConfig};
use crate::lru::Lru;
use crate::metrics::{DelegatedMetrics, Metrics};
use bowline_core::TokenBucket;

/// How long one call may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// How long all tries of one review may take together.
const REVIEW_LIMIT: Duration = Duration::from_secs(30);
/// How often a review is asked for when the server itself fails.
const TRIES: u32 = 5;
/// The first pause between two tries; each further one is half as long again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Answers remembered per kind; with 10 s of life this is 400 callers a second.
const CACHE_LIMIT: usize = 4096;
/// 200 reviews a second, with a burst of 400.
const REVIEW_INTERVAL: Duration = Duration::from_millis(5);
const REVIEW_BURST: u32 = 400;
/// A path or token longer than this is not remembered, so that the cache stays small.
const REMEMBERED_LENGTH: usize = 10_000;

type Remembered<K, V> = Mutex<Lru<K, (Instant, V)>>;

/// The two reviewers; none where there is no client for them.
pub(super) struct ReviewCache {
    tokens: Option<kube::Client>,
    access: Option<kube::Client>,
    token_life: Duration,
    allowed_life: Duration,
    denied_life: Duration,
    users: Remembered<Vec<u8>, Option<User>>,
    verdicts: Remembered<(User, String, String), bool>,
    bucket: Mutex<TokenBucket<Instant>>,
    random: Random,
    metrics: Arc<Metrics>,
}

/// Either review: how it counts in the metrics.
type Count = fn(&DelegatedMetrics, Option<u16>, Duration);

impl ReviewCache {
    pub(super) fn new(
        tokens: Option<kube::Client>,
        access: Option<kube::Client>,
        authentication: &AuthenticationConfig,
        authorization: &AuthorizationConfig,
        random: Random,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            tokens,
            access,
            token_life: authentication.token_cache,
            allowed_life: authorization.allowed_cache,
            denied_life: authorization.denied_cache,
            users: Mutex::new(Lru::new(CACHE_LIMIT)),
            verdicts: Mutex::new(Lru::new(CACHE_LIMIT)),
            bucket: Mutex::new(TokenBucket::new(REVIEW_INTERVAL, REVIEW_BURST)),
            random,
            metrics,
        }
    }

    /// Whose token this is. Without a client tokens are ignored.
    pub(super) async fn token(&self, token: &str) -> UserClaim {
        let Some(client) = &self.tokens else {
            return UserClaim::None;
        };
        // The digest is kept, never the token.
        let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        let digest = digest.as_ref().to_vec();
        let known = recall(&self.users, &digest);
        let user = match known {
            Some(user) => user,
            None => match self.ask_token(client, token).await {
                Ok(user) => {
                    remember(&self.users, digest, user.clone(), self.token_life);
                    user
                }
                Err(error) => return UserClaim::Bad(error),
            },
        };
        user.map_or_else(
            || UserClaim::Bad("invalid bearer token".to_owned()),
            UserClaim::User,
        )
    }

    async fn ask_token(&self, client: &kube::Client, token: &str) -> Result<Option<User>, String> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(client.clone());
        let review = self
            .ask(&api, &review, DelegatedMetrics::token_review)
            .await?;
        let status = review.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(None);
        }
        let user = status.user.unwrap_or_default();
        Ok(Some(User {
            name: user.username.unwrap_or_default(),
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }))
    }

    /// Whether that user may. Without a client nobody may anything that needs asking.
    pub(super) async fn allowed(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<bool, String> {
        let Some(client) = &self.access else {
            return Ok(false);
        };
        let key = (user.clone(), verb.to_owned(), path.to_owned());
        if let Some(allowed) = recall(&self.verdicts, &key) {
            return Ok(allowed);
        }
        let allowed = self.ask_access(client, user, verb, path).await?;
        let life = if allowed {
            self.allowed_life
        } else {
            self.denied_life
        };
        if path.len() <= REMEMBERED_LENGTH {
            remember(&self.verdicts, key, allowed, life);
        }
        Ok(allowed)
    }

    async fn ask_access(
        &self,
        client: &kube::Client,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<bool, String> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: user.uid.clone(),
                groups: Some(user.groups.clone()),
                extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path.to_owned()),
                    verb: Some(verb.to_owned()),
                }),
                resource_attributes: None,
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(client.clone());
        let answer = self.ask(&api, &review, DelegatedMetrics::access_review);
        let status = answer.await?.status.unwrap_or_default();
        Ok(status.allowed && status.denied != Some(true))
    }

    /// Posts a review; a failure of the server itself is worth another try.
    async fn ask<K>(&self, api: &Api<K>, review: &K, count: Count) -> Result<K, String>
    where
        K: Serialize + DeserializeOwned + Clone + std::fmt::Debug,
    {
        let started = Instant::now();
        let wait = lock(&self.bucket).reserve(started);
        if wait > CALL_LIMIT {
            return Err("too many reviews at once".to_owned());
        }
        tokio::time::sleep(wait).await;
        let mut pause = FIRST_PAUSE;
        for tried in 1.. {
            let begin = Instant::now();
            let parameters = PostParams::default();
            let answer = tokio::time::timeout(CALL_LIMIT, api.create(&parameters, review)).await;
            let (code, again, error) = match answer {
                Ok(Ok(review)) => {
                    count(&self.metrics.delegated, Some(201), begin.elapsed());
                    return Ok(review);
                }
                Ok(Err(kube::Error::Api(status))) => {
                    let again = status.code == 429 || status.code >= 500;
                    (Some(status.code), again, status.message.clone())
                }
                Ok(Err(error)) => (None, false, error.to_string()),
                Err(_) => (None, false, format!("no answer within {CALL_LIMIT:?}")),
            };
            count(&self.metrics.delegated, code, begin.elapsed());
            if !again || tried >= TRIES || started.elapsed() + pause > REVIEW_LIMIT {
                return Err(error);
            }
            tokio::time::sleep(self.random.jitter(pause, 0.2)).await;
            pause = pause.mul_f64(1.5);
        }
        Err("not asked".to_owned())
    }
}

fn recall<K: Ord + Clone, V: Clone>(cache: &Remembered<K, V>, key: &K) -> Option<V> {
    let mut cache = lock(cache);
    let (until, value) = cache.get_mut(key)?;
    if *until > Instant::now() {
        return Some(value.clone());
    }
    cache.remove(key);
    None
}

fn remember<K: Ord + Clone, V>(cache: &Remembered<K, V>, key: K, value: V, life: Duration) {
    if !life.is_zero() {
        lock(cache).insert(key, (Instant::now() + life, value));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
