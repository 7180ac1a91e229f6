//! One call to the API server: agent, token, bucket, writes in flight, fence, deadline, `Retry-After`, metrics.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bowline_http::Bucket;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};
use tower::{BoxError, Service, ServiceExt as _};

use super::accounts::Token;
use super::connection::{AnyBody, ApiService};
use super::in_flight::{Permit, WritesInFlight};
use crate::kube::election::{Fence, Fenced};
use crate::metrics::Metrics;

/// Longest time of one call with all its repetitions, from the token to the last byte. A watch has
/// to begin within it, and to end at most so long after the time it asked for.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// How often a call is repeated because the server said when to come back. The server sheds load
/// with such answers before it does anything, so that repeating is safe for every verb.
const REPETITIONS: u32 = 5;
/// A wait that is worth a log line.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// The call took longer than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server did not answer in time")]
pub struct DeadlineExceeded;

/// The calls of one client.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) connection: ApiService,
    pub(super) agent: HeaderValue,
    pub(super) token: Option<Arc<Token>>,
    pub(super) bucket: Option<Arc<Bucket>>,
    /// Of a controller; other clients write when they have to.
    pub(super) writes: Option<WritesInFlight>,
    /// Asked before everything that could change something.
    pub(super) fence: Fence,
    pub(super) host: String,
    pub(super) metrics: Arc<Metrics>,
}

impl Service<Request<Body>> for Calls {
    type Response = Response<LimitedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let calls = self.clone();
        Box::pin(async move { calls.make(request).await })
    }
}

impl Calls {
    async fn make(&self, mut request: Request<Body>) -> Result<Response<LimitedBody>, BoxError> {
        request.headers_mut().insert(USER_AGENT, self.agent.clone());
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.header()?);
        }
        let method = request.method().as_str().to_owned();
        // Events are written one after another, and hold up nothing else.
        let is_limited = !reads(request.method()) && !is_event(request.uri());
        let writes = self.writes.as_ref().filter(|_| is_limited);
        let permit = self.wait(&method, writes).await;
        if let Some(bytes) = request.body().size_hint().exact() {
            self.metrics.rest.sent(&method, &self.host, bytes);
        }
        let deadline = Instant::now() + CALL_DEADLINE;
        let end = end(request.uri(), deadline);
        for _ in 0..REPETITIONS {
            let Some(copy) = copy(&request) else { break };
            let response = self.send(copy, &method, deadline, permit.as_ref()).await?;
            match come_back(&response, deadline) {
                Some(delay) => {
                    let status = response.status().as_u16();
                    self.metrics.rest.retried(&method, &self.host, Some(status));
                    tracing::debug!(method, status, ?delay, "the API server asks to come back");
                    sleep(delay).await;
                }
                None => return Ok(self.limited(response, &method, end)),
            }
        }
        let response = self
            .send(request, &method, deadline, permit.as_ref())
            .await?;
        Ok(self.limited(response, &method, end))
    }

    /// Waits for the client's own limits.
    async fn wait(&self, method: &str, writes: Option<&WritesInFlight>) -> Option<Permit> {
        let from = Instant::now();
        if let Some(bucket) = &self.bucket {
            bucket.wait().await;
        }
        let permit = match writes {
            Some(writes) => writes.permit().await,
            None => None,
        };
        if self.bucket.is_some() || permit.is_some() {
            let waited = from.elapsed();
            self.metrics.rest.waited(method, &self.host, waited);
            if waited > LONG_WAIT {
                tracing::info!(method, ?waited, "a call waited for the client's own limit");
            }
        }
        permit
    }

    /// Reading is always allowed; changing only while the lease is certainly ours.
    fn may(&self, method: &Method) -> Result<(), Fenced> {
        if reads(method) {
            return Ok(());
        }
        self.fence.check()
    }

    async fn send(
        &self,
        request: Request<Body>,
        method: &str,
        deadline: Instant,
        permit: Option<&Permit>,
    ) -> Result<Response<AnyBody>, BoxError> {
        // As late as possible: the wait for the bucket, or a pause, may have outlasted the lease.
        self.may(request.method())?;
        let from = Instant::now();
        let answer = self.connection.clone().oneshot(request);
        let result = match timeout_at(deadline, answer).await {
            Ok(result) => result,
            Err(_) => Err(DeadlineExceeded.into()),
        };
        let status = result
            .as_ref()
            .ok()
            .map(|response| response.status().as_u16());
        if let Some(permit) = permit {
            permit.answered(from, status == Some(StatusCode::TOO_MANY_REQUESTS.as_u16()));
        }
        self.metrics
            .rest
            .answered(method, &self.host, status, from.elapsed());
        result
    }

    fn limited(
        &self,
        response: Response<AnyBody>,
        method: &str,
        end: Option<Instant>,
    ) -> Response<LimitedBody> {
        if let Some(bytes) = response.body().size_hint().exact() {
            self.metrics.rest.received(method, &self.host, bytes);
        }
        let timer = end.map(|end| Box::pin(sleep_until(end)));
        response.map(|body| LimitedBody { body, timer })
    }
}

fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Whether it is about events: `/api/v1/namespaces/NAMESPACE/events`.
fn is_event(uri: &http::Uri) -> bool {
    uri.path().split('/').nth(5) == Some("events")
}

/// The same request once more, if its body can be had twice.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// How long to wait before trying again; none if the server did not ask for it, or too late.
fn come_back(response: &Response<AnyBody>, deadline: Instant) -> Option<Duration> {
    let status = response.status();
    if !matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        return None;
    }
    let seconds = response
        .headers()
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    let delay = Duration::from_secs(seconds);
    (Instant::now() + delay < deadline).then_some(delay)
}

/// When the last byte has to be there: a watch has as much longer as it asked for, and no such
/// time if it did not say.
fn end(uri: &http::Uri, deadline: Instant) -> Option<Instant> {
    let pairs = || uri.query().unwrap_or_default().split('&');
    if !pairs().any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true")) {
        return Some(deadline);
    }
    let seconds = pairs().find_map(|pair| pair.strip_prefix("timeoutSeconds=")?.parse().ok())?;
    deadline.checked_add(Duration::from_secs(seconds))
}

/// A body that must be read to its end before the deadline.
pub(super) struct LimitedBody {
    body: AnyBody,
    timer: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for LimitedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        match &mut self.timer {
            Some(timer) => {
                ready!(timer.as_mut().poll(context));
                Poll::Ready(Some(Err(DeadlineExceeded.into())))
            }
            None => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
