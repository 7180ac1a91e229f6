//! One way to serve every simulated API: TLS sockets, plain sockets or in-memory pipes.

use std::convert::Infallible;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;

/// The body of an answer: whole, or a stream (watches).
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// What is known about the other end of the connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The certificate the client proved to own, in DER, if the connection has TLS and it sent one.
    pub certificate: Option<Vec<u8>>,
}

/// What an API answers, and on whose behalf it was asked.
pub struct Answer {
    /// The answer.
    pub response: http::Response<Body>,
    /// Who asked, for the journal.
    pub caller: String,
}

/// A simulated API. The serving layer reads the whole request first, applies faults and writes
/// the journal; an API only answers.
pub trait Api: Send + Sync + 'static {
    /// The name in the journal and in fault rules: `kubernetes`, `cloudscale`, …
    fn name(&self) -> &'static str;

    /// Answers one request.
    fn answer<'a>(&'a self, request: http::Request<Bytes>, peer: &'a Peer)
    -> BoxFuture<'a, Answer>;

    /// The whole state as JSON, for `GET /_sim/state`.
    fn state(&self) -> serde_json::Value;

    /// The control handle over HTTP: `POST /_sim/<verb>` with a JSON body. The serving layer
    /// answers the words all servers share (faults, delays, journal, reset of these) itself.
    fn control(&self, verb: &str, body: &serde_json::Value) -> Result<serde_json::Value, String>;
}
