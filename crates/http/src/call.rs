//! One call: what is asked, and how often it is tried.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::CloudErrorKind;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};

use crate::attempt::{Ended, Prepared};
use crate::auth::{Anonymous, Authenticate};
use crate::client::HttpClient;
use crate::error::{CallError, Cause, Failure};
use crate::reply::{Reply, Subject};
use crate::response_stream::ResponseStream;
use crate::retry::{Decision, Effect, RetryPolicy, decide};
use crate::route::Route;

/// A call that has not been sent yet.
#[must_use = "a call does nothing until it is sent"]
pub struct Call {
    pub(crate) client: HttpClient,
    pub(crate) method: Method,
    pub(crate) route: Route,
    query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    body: Option<Result<Bytes, serde_json::Error>>,
    pub(crate) effect: Effect,
    /// Other credentials than the client's.
    pub(crate) auth: Option<Arc<dyn Authenticate>>,
    pub(crate) timeout: Duration,
    pub(crate) deadline: Duration,
    retry: Option<RetryPolicy>,
}

impl Call {
    pub(crate) fn new(client: HttpClient, method: Method, route: Route) -> Self {
        let effect = match method {
            Method::GET | Method::HEAD | Method::OPTIONS => Effect::Read,
            _ => Effect::Write,
        };
        let (timeout, deadline) = (client.0.request_timeout, client.0.call_deadline);
        Self {
            client,
            method,
            route,
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: None,
            effect,
            auth: None,
            timeout,
            deadline,
            retry: None,
        }
    }

    /// Adds a query parameter.
    pub fn query(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sends `value` as JSON.
    pub fn json(mut self, value: &impl Serialize) -> Self {
        self.body = Some(serde_json::to_vec(value).map(Bytes::from));
        self
    }

    /// Says that doing this twice is the same as doing it once, so that it may be tried again when
    /// the outcome of the first attempt is not known.
    pub fn repeatable(mut self) -> Self {
        if self.effect == Effect::Write {
            self.effect = Effect::Repeatable;
        }
        self
    }

    /// Sends no credentials.
    pub fn anonymous(self) -> Self {
        self.auth(Anonymous)
    }

    /// Sends other credentials than the client's (to try new ones, say).
    pub fn auth(mut self, auth: impl Authenticate + 'static) -> Self {
        for secret in auth.secrets() {
            self.client.0.redactor.register(&secret);
        }
        self.auth = Some(Arc::new(auth));
        self
    }

    /// Another limit for each request of this call.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Another limit for the whole call.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Another policy for this call.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Sends it. Only an answer of the 200s is a success.
    ///
    /// Boxed, so that HTTP and TLS are compiled here, once, and not in each crate that waits for an answer.
    pub fn send(self) -> BoxFuture<'static, Result<Reply, CallError>> {
        Box::pin(self.sent())
    }

    async fn sent(self) -> Result<Reply, CallError> {
        let start = Instant::now();
        let (client, method, template) = (
            self.client.clone(),
            self.method.clone(),
            self.route.template(),
        );
        let result = self.attempts(start).await;
        if let Some(metrics) = &client.0.metrics {
            metrics.call(&method, template, result.is_err(), start.elapsed());
        }
        result
    }

    /// Sends it once and follows an answer that does not end by itself, such as a stream of events. The
    /// limit for a request counts until the answer begins. It takes no place among the client's
    /// requests, or a few of these would leave none to others.
    pub fn follow(self) -> BoxFuture<'static, Result<ResponseStream, CallError>> {
        Box::pin(self.followed())
    }

    async fn followed(self) -> Result<ResponseStream, CallError> {
        let start = Instant::now();
        let limit = self.timeout;
        let prepared = self.prepare()?;
        let opened = timeout(limit, async {
            match prepared.open().await {
                Ok(response) if response.status().is_success() => Ok(response),
                Ok(response) => Err(Box::new(prepared.read(response).await)),
                Err(ended) => Err(ended),
            }
        });
        let too_late = |_| Err(Box::new(Ended::too_late(limit)));
        let opened = opened.await.unwrap_or_else(too_late);
        let (status, failed) = match &opened {
            Ok(response) => (Some(response.status().as_u16()), false),
            Err(ended) => (ended.status(), true),
        };
        let Call {
            client,
            method,
            route,
            ..
        } = &prepared.call;
        if let Some(metrics) = &client.0.metrics {
            metrics.request(method, route.template(), status, start.elapsed());
            metrics.call(method, route.template(), failed, start.elapsed());
        }
        match opened {
            Ok(response) => Ok(ResponseStream::new(response, prepared.subject.clone())),
            Err(ended) => {
                let outcome = ended.outcome(client);
                let failure = prepared.finish(*ended, outcome);
                Err(match failure {
                    Err(error) => error,
                    Ok(reply) => reply.not_understood(&"it ended before it began"),
                })
            }
        }
    }

    async fn attempts(self, start: Instant) -> Result<Reply, CallError> {
        let deadline = start + self.deadline;
        let policy = self.retry.as_ref().unwrap_or(&self.client.0.retry).clone();
        let prepared = self.prepare()?;
        let mut attempt = 1;
        loop {
            let ended = prepared.attempt(attempt, deadline).await;
            let outcome = ended.outcome(&prepared.call.client);
            let left = deadline.saturating_duration_since(Instant::now());
            let settled = ended.is_settled(&prepared.call.client);
            match decide(attempt, prepared.call.effect, outcome, left, &policy) {
                Decision::GiveUp => return prepared.finish(ended, outcome),
                Decision::Retry(_) if settled => return prepared.finish(ended, outcome),
                Decision::Retry(wait) => {
                    let wait = prepared.call.client.0.random.jitter(wait, policy.jitter);
                    if wait >= left {
                        return prepared.finish(ended, outcome);
                    }
                    sleep(wait).await;
                }
            }
            attempt += 1;
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            cloud: self.client.0.cloud.clone(),
            method: self.method.clone(),
            route: self.route.describe(),
            redactor: self.client.0.redactor.clone(),
        }
    }

    /// Everything that can be wrong before a byte is sent.
    fn prepare(mut self) -> Result<Prepared, CallError> {
        let subject = self.subject();
        let wrong = |reason: String| {
            CallError::new(Failure {
                kind: CloudErrorKind::Invalid,
                message: subject.says("cannot be sent"),
                cause: Some(Cause(subject.redactor.text(&reason))),
                status: None,
                headers: HeaderMap::new(),
                body: Bytes::new(),
                hint: None,
            })
        };
        let body = self.body.take().transpose();
        let body = body.map_err(|error| wrong(error.to_string()))?;
        let path = self
            .route
            .path()
            .map_err(|error| wrong(error.to_string()))?;
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&self.query)
            .finish();
        let uri = self.client.0.base.join(&path, &query);
        let uri = uri.map_err(|error| wrong(error.to_string()))?;
        Ok(Prepared {
            call: self,
            subject,
            uri,
            body,
        })
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redactor = &self.client.0.redactor;
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&self.query)
            .finish();
        let query = format!("?{query}");
        f.debug_struct("Call")
            .field("method", &self.method)
            .field("route", &redactor.text(&self.route.describe()))
            .field("query", &redactor.text(&query))
            .field("headers", &redactor.headers(&self.headers))
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}
