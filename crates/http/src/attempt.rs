//! One attempt at a call: wait for a slot, sign, send, follow links, read the answer.

use std::error::Error as StdError;
use std::mem::take;
use std::time::Duration;

use bowline_core::error_chain;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, LOCATION, PROXY_AUTHORIZATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info};

use crate::auth::Signing;
use crate::call::Call;
use crate::client::{HttpClient, RequestBody};
use crate::connect::ConnectError;
use crate::error::{CallError, Cause, Failure, kind_of};
use crate::redact::excerpt;
use crate::reply::{Reply, Subject};
use crate::retry::{CallOutcome, Effect, retry_after};

/// Links followed in one request: http to https, then one to the object, and room for two more.
const REDIRECTS: u32 = 4;
/// How much of a cloud's own error text goes into an error.
const ERROR_TEXT: usize = 1000;
/// A longer answer is a large one: a list of hundreds of machines.
const LARGE: usize = 1024 * 1024;
/// How much of a body a trace shows: a dozen objects, not a list of a thousand.
const TRACED_BODY: usize = 16 * 1024;

/// A call in the form in which it is sent.
pub(crate) struct Prepared {
    pub(crate) call: Call,
    pub(crate) subject: Subject,
    pub(crate) uri: Uri,
    pub(crate) body: Option<Bytes>,
}

/// How one attempt ended.
pub(crate) enum Ended {
    Answer {
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
    Failed {
        outcome: CallOutcome,
        what: String,
        cause: Option<String>,
    },
}

impl Ended {
    fn failed(outcome: CallOutcome, what: impl Into<String>, cause: Option<String>) -> Self {
        Self::Failed {
            outcome,
            what: what.into(),
            cause,
        }
    }

    /// No complete answer within that time.
    pub(crate) fn too_late(limit: Duration) -> Self {
        let what = format!("got no complete answer within {} s", limit.as_secs_f64());
        Self::failed(CallOutcome::TimedOut, what, None)
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Answer { status, .. } => Some(status.as_u16()),
            Self::Failed { .. } => None,
        }
    }

    /// Whether the cloud's own words tell that another attempt ends the same way.
    pub(crate) fn is_settled(&self, client: &HttpClient) -> bool {
        match self {
            Self::Answer { status, body, .. } => (client.0.settled)(status.as_u16(), body),
            Self::Failed { .. } => false,
        }
    }

    /// The same as far as a decision needs it.
    pub(crate) fn outcome(&self, client: &HttpClient) -> CallOutcome {
        match self {
            Self::Failed { outcome, .. } => *outcome,
            Self::Answer {
                status, headers, ..
            } => {
                let hint = headers
                    .get(RETRY_AFTER)
                    .and_then(|value| value.to_str().ok());
                CallOutcome::Answered {
                    status: status.as_u16(),
                    hint: hint.and_then(|value| retry_after(value, client.0.clock.now())),
                }
            }
        }
    }
}

impl Prepared {
    /// Waits for a slot, then sends one request.
    pub(crate) async fn attempt(&self, number: u32, deadline: Instant) -> Ended {
        let shared = &self.call.client.0;
        let Ok(_place) = timeout_at(deadline, shared.gate.enter()).await else {
            let what = format!(
                "was not sent: no slot within {} s",
                self.call.deadline.as_secs_f64()
            );
            return Ended::failed(CallOutcome::NotSent, what, None);
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
        let exchanged = timeout(limit, self.exchange()).await;
        let ended = exchanged.unwrap_or_else(|_| Ended::too_late(limit));
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
            Ended::Answer { .. } => None,
            Ended::Failed { what, cause, .. } => {
                let text = format!("{what} {}", cause.as_deref().unwrap_or_default());
                Some(self.subject.redactor.text(text.trim_end()))
            }
        };
        debug!(
            cloud = client.0.cloud,
            method = method.as_str(),
            route = route.template(),
            status,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            attempt,
            failure,
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
            match self.next(&uri, *status, headers) {
                None => return ended,
                Some(Ok(next)) => uri = next,
                Some(Err(failed)) => return *failed,
            }
        }
        too_far()
    }

    /// Where an answer leads, if it leads anywhere that is followed.
    fn next(
        &self,
        uri: &Uri,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<Result<Uri, Box<Ended>>> {
        if !matches!(status.as_u16(), 301..=303 | 307 | 308) {
            return None;
        }
        let location = headers.get(LOCATION)?.to_str().ok()?;
        let next = self.call.client.0.base.resolve(uri, location);
        // Another method than GET is repeated where it was not looked at: the server only wants to
        // hear it over TLS.
        let is_repeated = matches!(status.as_u16(), 307 | 308)
            || self.call.effect == Effect::Read
            || next.as_ref().is_ok_and(|next| only_secures(uri, next));
        is_repeated.then(|| {
            next.map_err(|error| {
                let what = format!("was redirected ({}) and not followed", status.as_u16());
                let why = Some(error.to_string());
                Box::new(Ended::failed(CallOutcome::Unusable, what, why))
            })
        })
    }

    /// One request whose answer is not waited for to its end, following links on the same host.
    pub(crate) async fn open(&self) -> Result<Response<Incoming>, Box<Ended>> {
        let mut uri = self.uri.clone();
        for _ in 0..=REDIRECTS {
            let response = self.dispatch(&uri).await?;
            match self.next(&uri, response.status(), response.headers()) {
                None => return Ok(response),
                Some(next) => uri = next?,
            }
        }
        Err(Box::new(too_far()))
    }

    async fn dispatch(&self, uri: &Uri) -> Result<Response<Incoming>, Box<Ended>> {
        let request = self.build(uri).map_err(|reason| {
            let why = Some(reason);
            Box::new(Ended::failed(CallOutcome::Refused, "was not sent", why))
        })?;
        self.trace_request(&request);
        let sent = self.call.client.0.hyper.request(request).await;
        sent.map_err(|error| Box::new(not_answered(&error)))
    }

    async fn request(&self, uri: &Uri) -> Ended {
        match self.dispatch(uri).await {
            Ok(response) => self.read(response).await,
            Err(ended) => *ended,
        }
    }

    /// Reads an answer to its end.
    pub(crate) async fn read(&self, response: Response<Incoming>) -> Ended {
        let shared = &self.call.client.0;
        let (parts, body) = response.into_parts();
        match whole(body, shared.body_limit, &shared.large).await {
            Ok(body) => {
                self.trace_answer(parts.status, &parts.headers, &body);
                Ended::Answer {
                    status: parts.status,
                    headers: parts.headers,
                    body,
                }
            }
            Err(error) if error.is::<LengthLimitError>() => {
                let what = format!("answered with more than {} bytes", shared.body_limit);
                Ended::failed(CallOutcome::Unusable, what, None)
            }
            Err(error) => {
                let what = format!("lost its answer ({}) midway", parts.status.as_u16());
                Ended::failed(CallOutcome::Broken, what, Some(error_chain(error.as_ref())))
            }
        }
    }

    fn trace_request(&self, request: &Request<RequestBody>) {
        let shared = &self.call.client.0;
        if !shared.trace {
            return;
        }
        let body = self.body.clone().unwrap_or_default();
        info!(
            cloud = shared.cloud,
            method = request.method().as_str(),
            uri = shared.redactor.text(&request.uri().to_string()),
            headers = ?shared.redactor.headers(request.headers()),
            body = shared.redactor.body_up_to(&body, TRACED_BODY),
            "request sent"
        );
    }

    fn trace_answer(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) {
        let shared = &self.call.client.0;
        if !shared.trace {
            return;
        }
        info!(
            cloud = shared.cloud,
            status = status.as_u16(),
            headers = ?shared.redactor.headers(headers),
            body = shared.redactor.body_up_to(body, TRACED_BODY),
            "answer received"
        );
    }

    fn build(&self, uri: &Uri) -> Result<Request<RequestBody>, String> {
        let shared = &self.call.client.0;
        let body = self.body.clone().unwrap_or_default();
        let mut headers = shared.headers.clone();
        if self.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.extend(self.call.headers.clone());
        let auth = self.call.auth.clone();
        let auth = auth.unwrap_or_else(|| self.call.client.auth());
        let signing = Signing {
            method: &self.call.method,
            uri,
            body: &body,
            now: shared.clock.now(),
        };
        let signed = auth.authenticate(signing, &mut headers);
        signed.map_err(|error| error.to_string())?;
        if let Some(authorization) = shared.connector.proxy_authorization(uri) {
            headers.insert(PROXY_AUTHORIZATION, authorization);
        }
        let body = Full::new(body).map_err(|never| match never {});
        let mut request = Request::new(body.boxed_unsync());
        *request.method_mut() = self.call.method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// What the caller gets when nothing more is tried.
    pub(crate) fn finish(&self, ended: Ended, outcome: CallOutcome) -> Result<Reply, CallError> {
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
                    CallOutcome::Answered { hint, .. } => hint,
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

/// Whether a link goes to the very same place, over TLS.
fn only_secures(from: &Uri, to: &Uri) -> bool {
    from.scheme_str() == Some("http")
        && to.scheme_str() == Some("https")
        && from.path_and_query() == to.path_and_query()
}

fn too_far() -> Ended {
    let what = format!("was redirected more than {REDIRECTS} times");
    Ended::failed(CallOutcome::Unusable, what, None)
}

/// A body in one piece. Each part is given back as soon as it is read: the list of a large account is there once,
/// not twice. Of several large ones that come at the same time, one after the other is read: a cloud that answers
/// everything at its full length must not have all of them kept at once.
///
/// A large one is read into the memory of the last one, once nobody has that any more. What is freed between two lists
/// is filled with small things, and each list would make the process grow.
async fn whole(
    body: Incoming,
    limit: usize,
    large: &Mutex<Bytes>,
) -> Result<Bytes, Box<dyn StdError + Send + Sync>> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(limit);
    let announced = announced.min(limit);
    let mut whole = BytesMut::with_capacity(announced.min(LARGE));
    let mut turn = None;
    let mut body = Limited::new(body, limit);
    while let Some(frame) = body.frame().await {
        let Ok(part) = frame?.into_data() else {
            continue;
        };
        if turn.is_none() && whole.len() + part.len() > LARGE {
            let mut last = large.lock().await;
            let mut memory = take(&mut *last).try_into_mut().unwrap_or_default();
            memory.clear();
            memory.reserve(announced.max(whole.len()));
            memory.extend_from_slice(&whole);
            whole = memory;
            turn = Some(last);
        }
        whole.extend_from_slice(&part);
    }
    let whole = whole.freeze();
    if let Some(mut last) = turn {
        *last = whole.clone();
    }
    Ok(whole)
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
                CallOutcome::Refused
            } else {
                CallOutcome::NotSent
            };
            return Ended::failed(outcome, "was not sent", Some(error_chain(connect)));
        }
        next = source.source();
    }
    let (outcome, what) = if error.is_connect() {
        (CallOutcome::NotSent, "was not sent")
    } else {
        (CallOutcome::Broken, "got no answer")
    };
    let cause = error
        .source()
        .map_or_else(|| error.to_string(), error_chain);
    Ended::failed(outcome, what, Some(cause))
}
