//! The way to one server: where it is, and who we are to it. Both may change while we run.
//!
//! ```text
//!  token in the file ──────────────────────────────▶ cookie of every request
//!  user, password ──▶ sign in ──▶ token, 30 days ──▶ cookie; signed in anew when it is refused, or
//!                        ▲                             when a fifth of its life is left
//!                        └── refused: not within 2 s, then ever more patiently
//! ```

mod reload;
mod rpc;
mod sign_in;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_core::{CloudError, Secret};
use bowline_http::{
    AuthError, Authenticate, Connector, Cookie, HttpClient, RetryPolicy, Signing, Tls, TlsError,
};
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::Seams;
use crate::config::{Login, MAIN, ServerConfig};
pub(crate) use reload::{Reload, reload};
use sign_in::{SignInError, Token, sign_in};

pub(crate) const COOKIE: &str = "authenticationToken";
/// How long the server refuses a user after a wrong password; a try within that time only makes it
/// longer.
pub(crate) const AFTER_REFUSAL: Duration = Duration::from_secs(2);
/// The longest pause between two tries with a password that was refused: somebody may have to type a
/// new one.
const LONGEST_REFUSAL: Duration = Duration::from_secs(300);
/// The pause after a renewal that failed while the old token still holds.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);
/// A token younger than this is not replaced because it is refused: the next one would be, too.
const YOUNG: Duration = Duration::from_secs(10);
/// A token is replaced when this part of its life is over.
const RENEWED_AFTER: f64 = 0.8;

/// The way to one server.
pub(crate) struct Session {
    seams: Seams,
    way: Mutex<Way>,
    /// Held while a sign-in is under way: whoever comes meanwhile gets the same token.
    pass: tokio::sync::Mutex<Pass>,
}

#[derive(Clone)]
struct Way {
    connector: Connector,
    http: HttpClient,
    config: ServerConfig,
    /// Counts the changes.
    number: u64,
}

#[derive(Default)]
struct Pass {
    /// Of which way.
    number: u64,
    token: Option<Held>,
    refusals: u32,
    /// No try before this, and why.
    pause: Option<(Instant, CloudError)>,
}

struct Held {
    since: Instant,
    expires: Option<Timestamp>,
    renew: Option<Timestamp>,
}

/// How a request can be sent just now.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) http: HttpClient,
    number: u64,
}

impl Session {
    pub(crate) fn new(config: ServerConfig, seams: Seams) -> Result<Self, TlsError> {
        let way = Way::new(config, &seams, 0)?;
        Ok(Self {
            seams,
            way: Mutex::new(way),
            pass: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn name(&self) -> String {
        self.way().config.name
    }

    /// Where it is, and who we are there. Of a user the name is enough, and says nothing about the password.
    pub(crate) fn identity(&self) -> [Secret; 2] {
        let ServerConfig { url, login, .. } = self.way().config;
        let who = match login {
            Login::Token(token) => token,
            Login::Password { user, .. } => Secret::new(user),
        };
        [Secret::new(url.to_string()), who]
    }

    /// How a request can be sent: signs in first if that is needed.
    pub(crate) async fn access(&self) -> Result<Access, CloudError> {
        let way = self.way();
        if let Login::Password { .. } = &way.config.login {
            self.ensure_token(&way).await?;
        }
        let Way { http, number, .. } = way;
        Ok(Access { http, number })
    }

    /// Goes another way from now on. Says whether it is another one.
    pub(crate) fn change(&self, config: ServerConfig) -> Result<bool, TlsError> {
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        if way.config == config {
            return Ok(false);
        }
        *way = Way::new(config, &self.seams, way.number + 1)?;
        Ok(true)
    }

    /// The server did not know us that way. Says whether there is hope that it does now.
    pub(crate) async fn refused(&self, access: &Access) -> bool {
        let way = self.way();
        if way.number != access.number {
            return true;
        }
        if matches!(way.config.login, Login::Token(_)) {
            return false;
        }
        let mut pass = self.pass.lock().await;
        match &pass.token {
            Some(held) if pass.number == way.number && held.since.elapsed() < YOUNG => false,
            _ => {
                pass.token = None;
                true
            }
        }
    }

    /// Which way is gone, by number: what was asked on another one may be of another server.
    pub(crate) fn number(&self) -> u64 {
        self.way().number
    }

    /// The token that was given; none if there is a password.
    pub(crate) fn token(&self) -> Option<Secret> {
        match self.way().config.login {
            Login::Token(token) => Some(token),
            Login::Password { .. } => None,
        }
    }

    pub(crate) async fn expires(&self) -> Option<Timestamp> {
        self.pass.lock().await.token.as_ref()?.expires
    }

    async fn ensure_token(&self, way: &Way) -> Result<(), CloudError> {
        let mut pass = self.pass.lock().await;
        if pass.number != way.number {
            *pass = Pass {
                number: way.number,
                ..Pass::default()
            };
        }
        let now = self.seams.clock.now();
        let renew = pass.token.as_ref().map(|held| held.renew);
        if renew.is_some_and(|renew| renew.is_none_or(|renew| now < renew)) {
            return Ok(());
        }
        if let Some((until, why)) = &pass.pause
            && Instant::now() < *until
        {
            return if pass.token.is_some() {
                Ok(())
            } else {
                Err(why.copy())
            };
        }
        let name = &way.config.name;
        let signing_in = sign_in(way, &self.seams.clock);
        match Box::pin(signing_in).await {
            Ok(token) => {
                info!(server = name, "signed in to Xen Orchestra");
                pass.take(&way.http, token);
                Ok(())
            }
            Err(error) => pass.failed(error, name, now),
        }
    }

    fn way(&self) -> Way {
        let way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        way.clone()
    }
}

impl Way {
    fn new(config: ServerConfig, seams: &Seams, number: u64) -> Result<Self, TlsError> {
        let connector = if config.insecure {
            let tls = Tls::new().insecure(true).build()?;
            seams.connector.with_tls(tls)
        } else {
            seams.connector.clone()
        };
        Ok(Self {
            http: client(&config, seams, &connector),
            connector,
            config,
            number,
        })
    }
}

impl Pass {
    fn take(&mut self, http: &HttpClient, token: Token) {
        http.set_auth(Cookie {
            name: COOKIE,
            value: token.value,
        });
        let renew = token.expires.map(|expires| {
            let life = expires.duration_since(token.made).as_secs_f64();
            let life = Duration::try_from_secs_f64(life * RENEWED_AFTER).unwrap_or_default();
            token.made.saturating_add(life).unwrap_or(expires)
        });
        self.token = Some(Held {
            since: Instant::now(),
            expires: token.expires,
            renew,
        });
        self.refusals = 0;
        self.pause = None;
    }

    /// A token that still holds is used on; otherwise there is none.
    fn failed(
        &mut self,
        error: SignInError,
        server: &str,
        now: Timestamp,
    ) -> Result<(), CloudError> {
        let (pause, error) = match error {
            SignInError::Refused(error) => {
                let doublings = self.refusals.min(16);
                self.refusals += 1;
                let pause = AFTER_REFUSAL.saturating_mul(1 << doublings);
                (pause.min(LONGEST_REFUSAL), error)
            }
            SignInError::Failed(error) => (Duration::ZERO, error),
        };
        let holds = |held: &Held| held.expires.is_some_and(|expires| now < expires);
        if self.token.as_ref().is_some_and(holds) {
            warn!(
                server,
                error = error.chain(),
                "the token could not be renewed yet"
            );
            self.pause = Some((Instant::now() + pause.max(RENEWAL_PAUSE), error));
            return Ok(());
        }
        self.token = None;
        self.pause = Some((Instant::now() + pause, error.copy()));
        Err(error)
    }
}

/// Nobody yet: without a token nothing is sent.
struct NotYet;

impl Authenticate for NotYet {
    fn authenticate(&self, _: Signing<'_>, _: &mut HeaderMap) -> Result<(), AuthError> {
        Err(AuthError("nobody has signed in yet".to_owned()))
    }

    fn secrets(&self) -> Vec<Secret> {
        Vec::new()
    }
}

fn client(config: &ServerConfig, seams: &Seams, connector: &Connector) -> HttpClient {
    let Seams {
        name,
        clock,
        random,
        metrics,
        ..
    } = seams;
    let agent = concat!("bowline/", env!("CARGO_PKG_VERSION"), " (xenorchestra)");
    let base = config.url.clone().with_suffix("rest/v0");
    let called = if config.name == MAIN {
        name.to_string()
    } else {
        format!("{name} ({})", config.name)
    };
    let http = HttpClient::builder(called, base, connector.clone())
        .clock(clock.clone())
        .random(random.clone())
        .user_agent(HeaderValue::from_static(agent))
        .request_timeout(config.timeout)
        .call_deadline(config.timeout.saturating_mul(2) + Duration::from_secs(5))
        .retry(RetryPolicy {
            attempts: 2,
            ..RetryPolicy::default()
        });
    let http = match &config.login {
        Login::Token(token) => http.auth(Cookie {
            name: COOKIE,
            value: token.clone(),
        }),
        Login::Password { password, .. } => http.auth(NotYet).secret(password),
    };
    http.metrics(metrics.clone()).build()
}
