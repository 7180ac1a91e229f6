//! The talosconfig: who we are to machines, whom we trust, and where they are.
//!
//! ```text
//!  candidates ─▶ the first that exists ─▶ its context ─▶ base64 ─▶ PEM ─▶ Talosconfig
//! ```
//!
//! The file is never written. What is wrong with it names the file and the cause, and quotes nothing: it
//! holds a private key.

mod key;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_core::Secret;
use bowline_http::{Clock, ProxyRules, SmallFile, Tls};
use bowline_provider::first_document;
use jiff::Timestamp;
use rustls::ClientConfig;
use serde::Deserialize;
use thiserror::Error;
use x509_parser::pem::Pem;

pub use key::KeyError;

/// A talosconfig is a few kilobytes long; one with many contexts has a few for each.
pub const LARGEST: usize = 1024 * 1024;
/// gRPC is spoken over HTTP/2 alone.
const PROTOCOL: &str = "h2";

#[derive(Clone)]
pub struct Talosconfig {
    pub endpoints: Vec<String>,
    pub cluster: Option<String>,
    /// The value of `authorization`, where the context has a user name and a password.
    pub authorization: Option<Secret>,
    /// Which way connections go, where the file says so.
    pub proxies: Option<ProxyRules>,
    pub tls: Arc<ClientConfig>,
    /// When the client certificate ends; none if there is no certificate.
    pub expires: Option<Timestamp>,
}

impl std::fmt::Debug for Talosconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Talosconfig")
            .field("endpoints", &self.endpoints)
            .field("cluster", &self.cluster)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Error)]
pub enum TalosconfigError {
    #[error("there is no talosconfig: none of {} exists", shown(.0))]
    Nowhere(Vec<PathBuf>),
    #[error("cannot read the talosconfig {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("the talosconfig {} cannot be used: {reason}", path.display())]
    Unusable { path: PathBuf, reason: Unusable },
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unusable {
    #[error("it is empty")]
    Empty,
    #[error("it is not the YAML of a talosconfig ({0})")]
    Form(String),
    #[error("it says in `context` no name of a context{}", there_are(.0))]
    NoContext(Vec<String>),
    #[error("its context {name:?} is not found{}", there_are(has))]
    MissingContext { name: String, has: Vec<String> },
    #[error("`{field}` of context {context:?} is not base64")]
    Base64 {
        context: String,
        field: &'static str,
    },
    #[error("context {context:?} has `{has}` without `{lacks}`")]
    HalfAPair {
        context: String,
        has: &'static str,
        lacks: &'static str,
    },
    #[error("`key` of context {context:?} {error}")]
    Key { context: String, error: KeyError },
    #[error("{0}")]
    Certificates(String),
    /// Omni's way of signing requests.
    #[error(
        "context {0:?} signs requests with `auth.siderov1` (Omni), which is not supported; use a client \
         certificate"
    )]
    Siderov1(String),
    #[error("{error} (context {context:?})")]
    Proxy { context: String, error: String },
}

fn shown(paths: &[PathBuf]) -> String {
    let all: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
    all.join(", ")
}

fn there_are(contexts: &[String]) -> String {
    if contexts.is_empty() {
        return ", and it has no contexts".to_owned();
    }
    let all: Vec<String> = contexts.iter().map(|it| format!("{it:?}")).collect();
    format!("; there are: {}", all.join(", "))
}

/// The file as it is written. None of it can be printed.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Raw {
    context: Option<String>,
    contexts: Option<BTreeMap<String, Option<RawContext>>>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct RawContext {
    endpoints: Option<Vec<String>>,
    /// Deprecated: one more endpoint.
    target: Option<String>,
    ca: Option<String>,
    crt: Option<String>,
    key: Option<String>,
    cluster: Option<String>,
    auth: Option<RawAuth>,
    #[serde(rename = "proxy-url")]
    proxy_url: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct RawAuth {
    basic: Option<RawBasic>,
    siderov1: Option<RawSiderov1>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct RawBasic {
    username: Option<String>,
    password: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct RawSiderov1 {}

/// The file that counts among the candidates: the first that is there.
pub fn find(candidates: &[PathBuf]) -> Result<SmallFile, TalosconfigError> {
    let there = |path: &&PathBuf| std::fs::metadata(path).is_ok();
    match candidates.iter().find(there) {
        Some(path) => Ok(SmallFile::new(path, LARGEST)),
        None => Err(TalosconfigError::Nowhere(candidates.to_vec())),
    }
}

impl Talosconfig {
    /// Reads the text of the file at `path`, which is only named. Whether machines' certificates are valid
    /// follows from `clock`.
    pub fn read(path: &Path, text: &str, clock: &Clock) -> Result<Self, TalosconfigError> {
        parse(text, clock).map_err(|reason| TalosconfigError::Unusable {
            path: path.to_owned(),
            reason,
        })
    }
}

fn parse(text: &str, clock: &Clock) -> Result<Talosconfig, Unusable> {
    let raw = raw(text)?;
    let has = || -> Vec<String> {
        raw.contexts
            .iter()
            .flatten()
            .map(|it| it.0.clone())
            .collect()
    };
    let name = raw.context.clone().unwrap_or_default();
    let found = raw.contexts.as_ref().and_then(|all| all.get(&name));
    let Some(context) = found.cloned() else {
        return Err(if name.is_empty() {
            Unusable::NoContext(has())
        } else {
            Unusable::MissingContext { name, has: has() }
        });
    };
    context.unwrap_or_default().checked(&name, clock)
}

fn raw(text: &str) -> Result<Raw, Unusable> {
    if text.trim().is_empty() {
        return Err(Unusable::Empty);
    }
    match first_document(text) {
        Ok(first) => first.ok_or(Unusable::Empty),
        Err(error) => Err(Unusable::Form(match error.location() {
            Some(at) => format!("line {}, column {}", at.line(), at.column()),
            None => "no place is known".to_owned(),
        })),
    }
}

impl RawContext {
    fn checked(self, name: &str, clock: &Clock) -> Result<Talosconfig, Unusable> {
        let auth = self.auth.unwrap_or_default();
        if auth.siderov1.is_some() {
            return Err(Unusable::Siderov1(name.to_owned()));
        }
        let ca = decoded(name, "ca", self.ca.as_deref())?;
        let crt = decoded(name, "crt", self.crt.as_deref())?;
        let key = decoded(name, "key", self.key.as_deref())?;
        let mut tls = Tls::new().protocols(&[PROTOCOL]).clock(clock.clone());
        if let Some(ca) = ca {
            let what = format!("`ca` of context {name:?}");
            tls = tls
                .authority_pem(what, ca.reveal())
                .only_given_authorities();
        }
        let half = |has, lacks| Unusable::HalfAPair {
            context: name.to_owned(),
            has,
            lacks,
        };
        let expires = match (crt, key) {
            (None, None) => None,
            (Some(_), None) => return Err(half("crt", "key")),
            (None, Some(_)) => return Err(half("key", "crt")),
            (Some(crt), Some(key)) => {
                let key = key::plain(&key).map_err(|error| Unusable::Key {
                    context: name.to_owned(),
                    error,
                })?;
                let what = format!("context {name:?}");
                tls = tls.client_certificate_pem(&what, crt.reveal(), key);
                expiry(&crt)
            }
        };
        let tls = tls.build();
        let mut endpoints = self.endpoints.unwrap_or_default();
        endpoints.extend(self.target.filter(|it| !it.is_empty()));
        Ok(Talosconfig {
            endpoints,
            cluster: self.cluster.filter(|it| !it.is_empty()),
            authorization: auth.basic.map(RawBasic::value),
            proxies: proxies(name, self.proxy_url.as_deref())?,
            tls: tls.map_err(|error| Unusable::Certificates(error.to_string()))?,
            expires,
        })
    }
}

impl RawBasic {
    fn value(self) -> Secret {
        let user = self.username.unwrap_or_default();
        let password = self.password.unwrap_or_default();
        let pair = STANDARD.encode(format!("{user}:{password}"));
        Secret::new(format!("Basic {pair}"))
    }
}

/// The text that a field holds in base64; none if it is absent or empty.
fn decoded(
    context: &str,
    field: &'static str,
    value: Option<&str>,
) -> Result<Option<Secret>, Unusable> {
    let Some(value) = value.filter(|it| !it.is_empty()) else {
        return Ok(None);
    };
    let wrong = || Unusable::Base64 {
        context: context.to_owned(),
        field,
    };
    // A value that is folded over lines has breaks in it, which do not count.
    let value: String = value.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(value).map_err(|_| wrong())?;
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    Ok(Some(Secret::new(text)))
}

/// When the first certificate of a chain, which is the client's own, ends.
fn expiry(chain: &Secret) -> Option<Timestamp> {
    let first = Pem::iter_from_buffer(chain.reveal().as_bytes())
        .next()?
        .ok()?;
    let certificate = first.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

fn proxies(context: &str, url: Option<&str>) -> Result<Option<ProxyRules>, Unusable> {
    match url {
        None | Some("") => Ok(None),
        Some("direct") => Ok(Some(ProxyRules::default())),
        Some(url) => match ProxyRules::always("proxy-url", url) {
            Ok(rules) => Ok(Some(rules)),
            Err(error) => Err(Unusable::Proxy {
                context: context.to_owned(),
                error: error.to_string(),
            }),
        },
    }
}
