//! One way to serve every simulated API: TLS sockets, plain sockets or in-memory pipes.
//!
//! ```text
//!  connection ─▶ read the request ─▶ /_sim/… ? ─▶ faults ─▶ Api::answer ─▶ journal ─▶ answer
//! ```
//!
//! The API runs in a task of its own, so that a caller who goes away does not stop what it asked
//! for: as with a real server, the outcome of an abandoned call is not known to the caller.

mod any_client;
mod body;
mod call;
mod history;
mod server;
#[cfg(test)]
mod tests;
mod tls;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::sync::Notify;

use crate::control::Control;

pub use body::{empty, json, of_type, streamed, text, whole};
pub use server::{Limits, ServeError, Server, ServerBuilder};
pub use tls::{Gate, Identity};

/// The body of an answer: whole, or a stream (watches). An error in it cuts the connection.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What is known about the other end of the connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The certificate the client proved to own, in DER, if the connection has TLS and it sent one.
    pub certificate: Option<Vec<u8>>,
}

/// In the extensions of a request that came over TLS.
#[derive(Clone, Copy, Debug)]
pub struct Encrypted;

/// In the extensions of every request: ends when the server shuts down. For those who take over a
/// connection, as the server no longer knows of it then.
#[derive(Clone, Debug)]
pub struct Stopping(pub(crate) tokio::sync::watch::Receiver<bool>);

impl Stopping {
    /// Waits for it.
    pub async fn given(mut self) {
        call::stopped(&mut self.0).await;
    }
}

/// In the extensions of an answer that shall not be sent: the connection is cut instead.
#[derive(Clone, Copy, Debug)]
pub struct Cut;

/// In the extensions of an answer that shall never come: the caller waits until it gives up.
#[derive(Clone, Copy, Debug)]
pub struct Never;

/// In the extensions of an answer: its status for the journal, where that of HTTP says nothing.
#[derive(Clone, Copy, Debug)]
pub struct JournalStatus(pub u16);

/// In the extensions of a request: the connection that it came by.
#[derive(Clone, Debug, Default)]
pub struct Connection(Arc<Notify>);

impl Connection {
    /// Ends the connection at once, also in the middle of an answer.
    pub fn cut(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn is_cut(&self) {
        self.0.notified().await;
    }
}

/// What a call is about, for the journal and for fault rules, where method, query and body on the wire do
/// not say it.
#[derive(Clone, Debug)]
pub struct Gist {
    /// The method that it comes to: `GET` for what only reads.
    pub method: &'static str,
    /// What it asks for, as a query.
    pub query: String,
    /// Its body, readable.
    pub body: serde_json::Value,
}

/// What an API answers, and on whose behalf it was asked.
pub struct Answer {
    pub response: http::Response<Body>,
    /// Who asked, for the journal.
    pub caller: String,
}

/// A simulated API. The serving layer reads the whole request first, applies faults and writes
/// the journal; an API only answers.
pub trait Api: Send + Sync + 'static {
    /// The name in the journal and in fault rules: `kubernetes`, or that of a cloud.
    fn name(&self) -> &'static str;

    /// What a call is named in the API's own documentation (`create-load-balancer`), for fault rules
    /// and the journal; none where calls have no names.
    fn operation(&self, method: &http::Method, path: &str) -> Option<&'static str> {
        let _ = (method, path);
        None
    }

    /// What a call is about, where the wire does not show it; none: what the wire shows.
    fn gist(&self, request: &http::Request<Bytes>) -> Option<Gist> {
        let _ = request;
        None
    }

    fn answer<'a>(&'a self, request: http::Request<Bytes>, peer: &'a Peer)
    -> BoxFuture<'a, Answer>;

    /// Its own part of the control handle; none: it only has what all servers share.
    fn control(&self) -> Option<&dyn Control> {
        None
    }

    /// The body of an error that is not the API's own doing (faults), in the API's own form.
    fn error_body(&self, status: http::StatusCode, message: &str) -> serde_json::Value {
        let _ = status;
        serde_json::json!({ "detail": message })
    }
}
