//! Connections to endpoints: one HTTP/2 connection to each, shared by all questions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_core::{BoxFuture, error_chain};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::error::ApiError;
use crate::credentials::Credentials;
use crate::endpoint::Endpoint;

/// How long a connection may take to be made: two lost SYNs (1 s + 2 s) and the handshake, so that
/// another endpoint can still answer within the call's deadline.
const CONNECT_DEADLINE: Duration = Duration::from_secs(4);
/// A connection with open calls that has been silent for so long is asked for a sign of life, …
const PROBE_AFTER: Duration = Duration::from_secs(3);
/// … and given up if there is none. Together they leave time to ask elsewhere.
const PROBE_DEADLINE: Duration = Duration::from_secs(3);

/// A connection. Clones share it.
#[derive(Clone)]
pub(super) struct Line {
    sender: http2::SendRequest<Body>,
    end: Arc<Mutex<Option<String>>>,
}

#[derive(Default)]
pub(super) struct Lines(Mutex<BTreeMap<Endpoint, Arc<Slot>>>);

#[derive(Default)]
struct Slot {
    /// The connection, and the credentials that it was made with.
    line: tokio::sync::Mutex<Option<(u64, Line)>>,
    /// How often connecting failed, and how it did last: whoever waited for it need not try again.
    failures: AtomicU64,
    failure: Mutex<Option<ApiError>>,
}

impl Lines {
    /// The connection to an endpoint, made if there is none.
    pub(super) async fn to(
        &self,
        credentials: &Credentials,
        endpoint: &Endpoint,
    ) -> Result<Line, ApiError> {
        let slot = Arc::clone(self.all().entry(endpoint.clone()).or_default());
        let failures = slot.failures.load(Ordering::Relaxed);
        let mut line = slot.line.lock().await;
        if let Some((generation, line)) = line.as_ref()
            && *generation == credentials.generation
            && !line.sender.is_closed()
        {
            return Ok(line.clone());
        }
        if failures != slot.failures.load(Ordering::Relaxed)
            && let Some(failure) = slot.failure().clone()
        {
            return Err(failure);
        }
        *line = None;
        match connect(credentials, endpoint).await {
            Ok(new) => {
                *line = Some((credentials.generation, new.clone()));
                Ok(new)
            }
            Err(error) => {
                *slot.failure() = Some(error.clone());
                slot.failures.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Forgets endpoints that are not among these.
    pub(super) fn keep(&self, endpoints: &[Endpoint]) {
        self.all()
            .retain(|endpoint, _| endpoints.contains(endpoint));
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Endpoint, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn failure(&self) -> MutexGuard<'_, Option<ApiError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect(credentials: &Credentials, endpoint: &Endpoint) -> Result<Line, ApiError> {
    let connector = credentials.connector.clone().deadline(CONNECT_DEADLINE);
    let stream = connector.connect(endpoint.uri()).await;
    let stream = stream.map_err(|error| ApiError::connect(&error))?;
    let lost = |error: hyper::Error| ApiError::Lost {
        endpoint: endpoint.to_string(),
        text: error_chain(&error),
    };
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PROBE_AFTER)
        .keep_alive_timeout(PROBE_DEADLINE)
        .handshake(stream)
        .await
        .map_err(lost)?;
    let end = Arc::new(Mutex::new(None));
    let shared = Arc::clone(&end);
    // Outside the fence, but it only carries requests of calls that are behind it.
    // Ends by itself when nobody holds the sender any more, or when the peer is gone.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            *shared = Some(error_chain(&error));
        }
    });
    Ok(Line { sender, end })
}

impl Line {
    /// The error of a call that ended with its connection.
    pub(super) fn loss(&self, endpoint: &Endpoint, status: &Status) -> ApiError {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let source = std::error::Error::source(status);
        let seen = source.map_or_else(|| status.message().to_owned(), error_chain);
        ApiError::Lost {
            endpoint: endpoint.to_string(),
            text: end.clone().unwrap_or(seen),
        }
    }
}

impl Service<http::Request<Body>> for Line {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, hyper::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}
