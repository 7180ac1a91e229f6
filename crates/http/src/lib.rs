//! How Bowline speaks to a cloud over HTTP: sign, limit, retry, page, poll, redact.
//!
//! ```text
//!  Call ─ wait for a slot ─ sign ─ send ─ read ─ decide ─▶ Reply or CallError (→ CloudError)
//!            (limit)       (auth)  (connect)    (retry)         redacted, counted, logged
//! ```
//!
//! [`Connector`] is the one seam to the network: TCP, TLS and proxies in production, in-memory
//! [`Pipes`] in simulated runs. [`Clock`] and [`Random`] are the seams to time and chance.
//!
//! ```
//! use bowline_core::{CloudError, Secret};
//! use bowline_http::{BaseUrl, Bearer, Connector, HttpClient, ProxyRules, Route, Tls};
//!
//! # #[derive(serde::Deserialize)] struct Server { name: String }
//! async fn name_of(client: &HttpClient, id: &str) -> Result<String, CloudError> {
//!     let route = Route::new("v1/servers/:id").with("id", id);
//!     let server: Server = client.get(route).send().await?.json()?;
//!     Ok(server.name)
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = |name: &str| std::env::var(name).ok();
//! let proxies = ProxyRules::from_environment(environment)?;
//! let tls = Tls::new().environment(environment).build()?;
//! let base = BaseUrl::parse("https://api.example.com/v1/")?.without_suffix("v1");
//! let client = HttpClient::builder("example", base, Connector::real(tls, proxies))
//!     .auth(Bearer(Secret::new("a token")))
//!     .build();
//! # Ok(()) }
//! ```

#![warn(missing_docs)]

mod attempt;
mod auth;
mod base;
mod cached_read;
mod call;
mod client;
mod clock;
mod connect;
mod error;
mod file;
mod keyed_mutex;
mod limit;
pub mod lookup;
mod metrics;
mod own_writes;
mod page;
mod peers;
mod pipe;
mod poll;
mod proxy;
mod random;
mod redact;
mod reloaded;
mod reply;
mod response_stream;
mod retry;
mod route;
mod seams;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

pub use auth::{Anonymous, AuthError, Authenticate, Basic, Bearer, Cookie, Signing, sensitive};
pub use base::{BaseUrl, BaseUrlError, LinkError};
pub use cached_read::{Cached, CachedRead, Freshness, Generation};
pub use call::Call;
pub use client::{
    BODY_LIMIT, CALL_DEADLINE, ClientBuilder, ErrorText, HttpClient, IN_FLIGHT, REQUEST_TIMEOUT,
    RequestBody, Settled, Transport,
};
pub use clock::Clock;
pub use connect::{CONNECT_DEADLINE, ConnectError, Connector, READ_AT_ONCE};
pub use error::{CallError, kind_of, usual_error_text};
pub use file::{Background, SmallFile};
pub use keyed_mutex::{KeyedGuard, KeyedMutex};
pub use limit::{Bucket, Rate};
pub use metrics::{CallMetrics, DEFAULT_BUCKETS, PlainCount};
pub use own_writes::{OwnWrites, Writing};
pub use page::{LIST_LIMIT, PAGES, Page, pages};
pub use peers::PeerCertificates;
pub use pipe::{PipeListener, Pipes};
pub use poll::{Cadence, Polled, poll};
pub use proxy::{ProxyError, ProxyRules, ProxyUrl};
pub use random::Random;
pub use redact::{BODY_EXCERPT, HIDDEN, Redactor};
pub use reloaded::{First, Reloaded, Source};
pub use reply::{BadItem, Reply};
pub use response_stream::{ResponseStream, ResponseStreamError};
pub use retry::{CallOutcome, Decision, Effect, RetryPolicy, decide, retry_after};
pub use route::{Route, RouteError};
pub use seams::Seams;
pub use stream::{Stream, Wire};
pub use tls::{Tls, TlsError};
