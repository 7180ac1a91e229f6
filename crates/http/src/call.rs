//! One call: build the request, send it, try again where that is safe, and read the answer.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bowline_core::CloudErrorKind;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, PROXY_AUTHORIZATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::debug;

use crate::auth::Signing;
use crate::client::HttpClient;
use crate::connect::ConnectError;
use crate::error::{CallError, Cause, Failure, kind_of};
use crate::redact::excerpt;
use crate::reply::{Reply, Subject};
use crate::retry::{Decision, Effect, Outcome, RetryPolicy, decide, retry_after};
use crate::route::Route;

/// Links followed in one request: http to https, then one to the object, and room for two more.
const REDIRECTS: u32 = 4;
/// How much of a cloud's own error text goes into an error.
const ERROR_TEXT: usize = 1000;

/// A call that has not been sent yet.
#[must_use = "a call does nothing until it is sent"]
pub struct Call {
    client: HttpClient,
    method: Method,
    route: Route,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Option<Result<Bytes, serde_json::Error>>,
    effect: Effect,
    signed: bool,
    timeout: Duration,
    deadline: Duration,
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
            signed: true,
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
    pub fn anonymous(mut self) -> Self {
        self.signed = false;
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
    pub async fn send(self) -> Result<Reply, CallError> {
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

    async fn attempts(self, start: Instant) -> Result<Reply, CallError> {
        let deadline = start + self.deadline;
        let policy = self.retry.as_ref().unwrap_or(&self.client.0.retry).clone();
        let prepared = self.prepare()?;
        let mut attempt = 1;
        loop {
            let ended = prepared.attempt(attempt, deadline).await;
            let outcome = ended.outcome(&prepared.call.client);
            let left = deadline.saturating_duration_since(Instant::now());
            match decide(attempt, prepared.call.effect, outcome, left, &policy) {
                Decision::GiveUp => return prepared.finish(ended, outcome),
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
        let query = url::form_urlencoded::Serializer::new("?".to_owned())
            .extend_pairs(&self.query)
            .finish();
        f.debug_struct("Call")
            .field("method", &self.method)
            .field("route", &redactor.text(&self.route.describe()))
            .field("query", &redactor.text(&query))
            .field("headers", &redactor.headers(&self.headers))
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}

struct Prepared {
    call: Call,
    subject: Subject,
    uri: Uri,
    body: Option<Bytes>,
}

/// How one attempt ended.
enum Ended {
    Answer {
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
    Failed {
        outcome: Outcome,
        what: String,
        cause: Option<String>,
    },
}

impl Ended {
    fn failed(outcome: Outcome, what: impl Into<String>, cause: Option<String>) -> Self {
        Self::Failed {
            outcome,
            what: what.into(),
            cause,
        }
    }

    fn status(&self) -> Option<u16> {
        match self {
            Self::Answer { status, .. } => Some(status.as_u16()),
            Self::Failed { .. } => None,
        }
    }

    fn outcome(&self, client: &HttpClient) -> Outcome {
        match self {
            Self::Failed { outcome, .. } => *outcome,
            Self::Answer {
                status, headers, ..
            } => {
                let hint = headers
                    .get(RETRY_AFTER)
                    .and_then(|value| value.to_str().ok());
                Outcome::Answered {
                    status: status.as_u16(),
                    hint: hint.and_then(|value| retry_after(value, client.0.clock.now())),
                }
            }
        }
    }
}

impl Prepared {
    /// Waits for its turn, then sends one request.
    async fn attempt(&self, number: u32, deadline: Instant) -> Ended {
        let shared = &self.call.client.0;
        let Ok(_place) = timeout_at(deadline, shared.gate.enter()).await else {
            let what = format!(
                "was not sent: no turn within {} s",
                self.call.deadline.as_secs_f64()
            );
            return Ended::failed(Outcome::NotSent, what, None);
        };
        let start = Instant::now();
        let limit = self
            .call
            .timeout
            .min(deadline.saturating_duration_since(start));
        let flying = shared
            .metrics
            .as_ref()
            .map(crate::metrics::CallMetrics::fly);
        let ended = match timeout(limit, self.exchange()).await {
            Ok(ended) => ended,
            Err(_) => {
                let what = format!("got no complete answer within {} s", limit.as_secs_f64());
                Ended::failed(Outcome::TimedOut, what, None)
            }
        };
        drop(flying);
        self.report(number, &ended, start.elapsed());
        ended
    }

    /// The one place where a request is logged and counted.
    fn report(&self, attempt: u32, ended: &Ended, took: Duration) {
        let Call {
            client,
            method,
            route,
            ..
        } = &self.call;
        let status = ended.status();
        if let Some(metrics) = &client.0.metrics {
            metrics.request(method, route.template(), status, took);
        }
        let failure = match ended {
            Ended::Answer { .. } => String::new(),
            Ended::Failed { what, cause, .. } => {
                let cause = cause.as_deref().unwrap_or_default();
                self.subject.redactor.text(&format!("{what} {cause}"))
            }
        };
        debug!(
            cloud = client.0.cloud,
            method = method.as_str(),
            route = route.template(),
            status = status.unwrap_or_default(),
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            attempt,
            failure = failure.trim_end(),
            "request"
        );
    }

    /// One request and its answer, following links on the same host.
    async fn exchange(&self) -> Ended {
        let mut uri = self.uri.clone();
        for _ in 0..=REDIRECTS {
            let ended = self.request(&uri).await;
            let Ended::Answer {
                status, headers, ..
            } = &ended
            else {
                return ended;
            };
            let followed = match status.as_u16() {
                301..=303 => self.call.effect == Effect::Read,
                307 | 308 => true,
                _ => false,
            };
            let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.filter(|_| followed) else {
                return ended;
            };
            match self.call.client.0.base.resolve(&uri, location) {
                Ok(next) => uri = next,
                Err(error) => {
                    let what = format!("was redirected ({}) and not followed", status.as_u16());
                    return Ended::failed(Outcome::Unusable, what, Some(error.to_string()));
                }
            }
        }
        let what = format!("was redirected more than {REDIRECTS} times");
        Ended::failed(Outcome::Unusable, what, None)
    }

    async fn request(&self, uri: &Uri) -> Ended {
        let shared = &self.call.client.0;
        let request = match self.build(uri) {
            Ok(request) => request,
            Err(reason) => return Ended::failed(Outcome::Refused, "was not sent", Some(reason)),
        };
        let response = match shared.hyper.request(request).await {
            Ok(response) => response,
            Err(error) => return not_answered(&error),
        };
        let (parts, body) = response.into_parts();
        match Limited::new(body, shared.body_limit).collect().await {
            Ok(body) => Ended::Answer {
                status: parts.status,
                headers: parts.headers,
                body: body.to_bytes(),
            },
            Err(error) if error.is::<LengthLimitError>() => {
                let what = format!("answered with more than {} bytes", shared.body_limit);
                Ended::failed(Outcome::Unusable, what, None)
            }
            Err(error) => {
                let what = format!("lost its answer ({}) midway", parts.status.as_u16());
                Ended::failed(Outcome::Broken, what, Some(chain(error.as_ref())))
            }
        }
    }

    fn build(&self, uri: &Uri) -> Result<Request<Full<Bytes>>, String> {
        let shared = &self.call.client.0;
        let body = self.body.clone().unwrap_or_default();
        let mut headers = shared.headers.clone();
        if self.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.extend(self.call.headers.clone());
        if self.call.signed {
            let signing = Signing {
                method: &self.call.method,
                uri,
                body: &body,
                now: shared.clock.now(),
            };
            let auth = self.call.client.auth();
            let signed = auth.authenticate(signing, &mut headers);
            signed.map_err(|error| error.to_string())?;
        }
        if let Some(authorization) = shared.connector.proxy_authorization(uri) {
            headers.insert(PROXY_AUTHORIZATION, authorization);
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.call.method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn finish(&self, ended: Ended, outcome: Outcome) -> Result<Reply, CallError> {
        let subject = &self.subject;
        let effect = self.call.effect;
        let failure = match ended {
            Ended::Answer {
                status,
                headers,
                body,
            } if status.is_success() => {
                return Ok(Reply {
                    subject: subject.clone(),
                    status: status.as_u16(),
                    headers,
                    body,
                });
            }
            Ended::Answer {
                status,
                headers,
                body,
            } => Failure {
                kind: kind_of(outcome, effect, &body),
                message: self.answer_message(status, &body),
                cause: None,
                status: Some(status.as_u16()),
                headers,
                body,
                hint: match outcome {
                    Outcome::Answered { hint, .. } => hint,
                    _ => None,
                },
            },
            Ended::Failed { what, cause, .. } => Failure {
                kind: kind_of(outcome, effect, b""),
                message: subject.says(&what),
                cause: cause.map(|cause| Cause(subject.redactor.text(&cause))),
                status: None,
                headers: HeaderMap::new(),
                body: Bytes::new(),
                hint: None,
            },
        };
        Err(CallError::new(failure))
    }

    fn answer_message(&self, status: StatusCode, body: &[u8]) -> String {
        let extracted = (self.call.client.0.error_text)(body);
        let redactor = &self.subject.redactor;
        let text = match extracted.filter(|text| !text.trim().is_empty()) {
            Some(text) => excerpt(&redactor.text(&text), ERROR_TEXT),
            None => redactor.body(body),
        };
        let reason = status.canonical_reason().unwrap_or_default();
        let code = status.as_u16();
        let answer = format!("answered {code} {reason}");
        let answer = answer.trim_end();
        if text.is_empty() {
            self.subject.says(answer)
        } else {
            self.subject.says(&format!("{answer}: {text}"))
        }
    }
}

/// What is known when there was no answer: whether the request can have reached the server.
fn not_answered(error: &hyper_util::client::legacy::Error) -> Ended {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(source) = next {
        if let Some(connect) = source.downcast_ref::<ConnectError>() {
            let permanent = matches!(
                connect,
                ConnectError::Untrusted { .. } | ConnectError::Address { .. }
            );
            let outcome = if permanent {
                Outcome::Refused
            } else {
                Outcome::NotSent
            };
            return Ended::failed(outcome, "was not sent", Some(chain(connect)));
        }
        next = source.source();
    }
    let (outcome, what) = if error.is_connect() {
        (Outcome::NotSent, "was not sent")
    } else {
        (Outcome::Broken, "got no answer")
    };
    let cause = error.source().map_or_else(|| error.to_string(), chain);
    Ended::failed(outcome, what, Some(cause))
}

/// A message and those of its causes, leaving out what only repeats the one before.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let message = source.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = source.source();
    }
    text
}
