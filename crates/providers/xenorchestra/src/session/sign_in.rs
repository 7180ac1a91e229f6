//! From a user and a password to a token, in the ways that servers of all ages know.
//!
//! ```text
//!  POST users/me/authentication_tokens ──201──▶ token
//!        │ 401, 404: an old server, or a wrong password?
//!        ▼
//!  GET ping ── pong: it knows the first way, so the password is wrong
//!        │ no pong: it is older
//!        ▼
//!  POST users/authentication_tokens ──200──▶ token
//!        │ not so
//!        ▼
//!  WebSocket: session.signIn, token.create ──▶ token
//! ```
//!
//! A password with a colon is cut at it by the first two ways and goes the last one at once.

use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, Secret};
use bowline_http::{Basic, CallError, Clock, Reply, RetryPolicy, Route};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{AFTER_REFUSAL, Way, rpc};
use crate::config::{Login, ServerConfig};
use crate::hash::short_hash;

/// How long a token lives, in the server's words. More than half a year is refused; this is its own
/// default.
const LIFE: &str = "30 days";
/// The same, for answers that do not say when the token ends.
const LIFE_IN_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// What people see in the list of their tokens.
const DESCRIPTION: &str = "Bowline cloud controller manager";

pub(super) struct Token {
    pub(super) value: Secret,
    pub(super) made: Timestamp,
    pub(super) expires: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) enum SignInError {
    /// The server knows better: trying the same again soon makes it worse.
    Refused(CloudError),
    Failed(CloudError),
}

/// The name under which the server keeps one token for us, however often we ask: by it a token is
/// prolonged instead of another one made.
pub(super) fn client_id(url: &str, user: &str) -> String {
    let text = format!("{}|{user}", url.trim().trim_end_matches('/'));
    format!("bowline-{}", short_hash(&text))
}

fn request(config: &ServerConfig, user: &str) -> Value {
    let id = client_id(&config.url.to_string(), user);
    json!({ "client": { "id": id }, "description": DESCRIPTION, "expiresIn": LIFE })
}

pub(super) async fn sign_in(way: &Way, clock: &Clock) -> Result<Token, SignInError> {
    let Login::Password { user, password } = &way.config.login else {
        let text = "there is no password to sign in with";
        let error = CloudError::new(CloudErrorKind::Invalid, text);
        return Err(SignInError::Failed(error));
    };
    let attempt = Attempt {
        way,
        clock,
        user,
        password,
        request: request(&way.config, user),
    };
    if password.reveal().contains(':') {
        return attempt.by_rpc().await;
    }
    match attempt.by_rest("users/me/authentication_tokens").await {
        Ok(reply) => attempt.read(&reply),
        Err(error) if matches!(error.status(), Some(401 | 404)) => {
            attempt.after_refusal(error).await
        }
        Err(error) => Err(SignInError::Failed(error.into())),
    }
}

struct Attempt<'a> {
    way: &'a Way,
    clock: &'a Clock,
    user: &'a str,
    password: &'a Secret,
    request: Value,
}

impl Attempt<'_> {
    async fn by_rest(&self, route: &'static str) -> Result<Reply, CallError> {
        let auth = Basic {
            user: self.user.to_owned(),
            password: self.password.clone(),
        };
        let call = self.way.http.post(Route::new(route)).json(&self.request);
        // Once: a wrong password tried again locks the user out for longer.
        call.auth(auth).retry(RetryPolicy::never()).send().await
    }

    async fn after_refusal(&self, refusal: CallError) -> Result<Token, SignInError> {
        let wrong_password = refusal.status() == Some(401);
        match self.pings().await {
            Ok(true) if wrong_password => return Err(SignInError::Refused(refusal.into())),
            Ok(_) => {}
            Err(error) => return Err(SignInError::Failed(error)),
        }
        match self.by_rest("users/authentication_tokens").await {
            Ok(reply) => return self.read(&reply),
            Err(error) if matches!(error.status(), Some(400..=499)) => {}
            Err(error) => return Err(SignInError::Failed(error.into())),
        }
        sleep(AFTER_REFUSAL).await;
        self.by_rpc().await
    }

    /// Whether the server knows the newer ways. One that does not is a server all the same.
    async fn pings(&self) -> Result<bool, CloudError> {
        let ping = self
            .way
            .http
            .get(Route::new("ping"))
            .anonymous()
            .send()
            .await;
        match ping {
            Ok(reply) => {
                let answer: Result<Value, _> = reply.json();
                Ok(answer.is_ok_and(|answer| answer["result"] == "pong"))
            }
            Err(error) if matches!(error.status(), Some(400..=499)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn by_rpc(&self) -> Result<Token, SignInError> {
        let value = rpc::token(
            &self.way.connector,
            &self.way.http,
            &self.way.config,
            json!({ "email": self.user, "password": self.password.reveal() }),
            self.request.clone(),
        );
        let value = value.await?;
        let made = self.clock.now();
        Ok(Token {
            value: Secret::new(value),
            made,
            expires: made.saturating_add(LIFE_IN_TIME).ok(),
        })
    }

    fn read(&self, reply: &Reply) -> Result<Token, SignInError> {
        #[derive(Deserialize)]
        struct Made {
            token: Described,
        }
        #[derive(Deserialize)]
        struct Described {
            id: String,
            #[serde(default)]
            expiration: Option<i64>,
        }
        let made: Result<Made, _> = reply.json();
        let Ok(Made { token }) = made else {
            // What came is not shown: it may hold a token.
            let text = "POST users/me/authentication_tokens answered without a token";
            let error = CloudError::new(CloudErrorKind::Unknown, text);
            return Err(SignInError::Failed(error));
        };
        let milliseconds = token.expiration;
        Ok(Token {
            value: Secret::new(token.id),
            made: self.clock.now(),
            expires: milliseconds.and_then(|it| Timestamp::from_millisecond(it).ok()),
        })
    }
}
