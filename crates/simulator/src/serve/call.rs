//! One call: read, strike with faults, answer, write down.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::watch;

use super::body::{End, Served, json, of_type};
use super::history::{History, is_list};
use super::{Answer, Api, Body, Connection, Cut, Gist, JournalStatus, Never, Peer};
use crate::World;
use crate::faults::{Call, Fate, FaultBody, Strike};
use crate::journal::Entry;

/// What every call to one server needs.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) world: World,
    pub(super) api: Arc<dyn Api>,
    /// In the journal and in fault rules.
    pub(super) name: Arc<str>,
    pub(super) body_limit: usize,
    /// HTTP/2 is not spoken.
    pub(super) http1_only: bool,
    /// Lists as they were.
    pub(super) history: Arc<Mutex<History>>,
    /// How many calls are under way.
    pub(super) under_way: Arc<AtomicU32>,
    /// Becomes true when the server shuts down.
    pub(super) stopping: watch::Receiver<bool>,
}

/// What came of a call.
enum Outcome {
    Answered(Response<Body>, Option<std::time::Duration>),
    Cut,
    NeverAnswered,
}

impl Outcome {
    /// What an API's answer comes to, with its status and its caller.
    fn of(answer: Answer, cut_after: Option<std::time::Duration>) -> (Self, u16, String) {
        let Answer { response, caller } = answer;
        if response.extensions().get::<Cut>().is_some() {
            return (Self::Cut, 0, caller);
        }
        if response.extensions().get::<Never>().is_some() {
            return (Self::NeverAnswered, 0, caller);
        }
        let reported = response.extensions().get::<JournalStatus>();
        let status = reported.map_or_else(|| response.status().as_u16(), |reported| reported.0);
        (Self::Answered(response, cut_after), status, caller)
    }
}

impl Handler {
    /// Answers one request of a connection.
    pub(super) async fn handle(
        self,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        connection: Connection,
    ) -> Response<Served> {
        let outcome = match read(request, self.body_limit).await {
            Err(TooLarge) => Outcome::Answered(self.too_large(), None),
            Ok(None) => Outcome::Cut,
            Ok(Some(request)) if crate::control::is_control(request.uri().path()) => {
                Outcome::Answered(
                    crate::control::answer(&self.world, &*self.api, &request),
                    None,
                )
            }
            Ok(Some(request)) => {
                let call = self.clone();
                let running = tokio::spawn(async move { call.run(request, &peer).await });
                running.await.unwrap_or_else(|failure| {
                    tracing::error!(server = &*self.name, %failure, "a simulated API failed");
                    let message = serde_json::json!({"detail": "the simulator failed"});
                    let status = StatusCode::INTERNAL_SERVER_ERROR;
                    Outcome::Answered(json(status, &message), None)
                })
            }
        };
        match outcome {
            Outcome::Answered(response, cut_after) => self.finish(response, cut_after),
            Outcome::Cut => {
                connection.cut();
                std::future::pending().await
            }
            Outcome::NeverAnswered => std::future::pending().await,
        }
    }

    /// Strikes with faults, asks the API and writes the journal.
    async fn run(&self, request: Request<Bytes>, peer: &Peer) -> Outcome {
        let path = request.uri().path();
        let operation = self.api.operation(request.method(), path);
        let gist = self.api.gist(&request);
        let (method, query) = match &gist {
            Some(gist) => (gist.method, gist.query.as_str()),
            None => (
                request.method().as_str(),
                request.uri().query().unwrap_or_default(),
            ),
        };
        let strike = self.world.faults.strike(&Call {
            server: &self.name,
            method,
            path,
            query,
            operation: operation.unwrap_or_default(),
        });
        let under_way = UnderWay::begin(&self.under_way);
        let entry = self.entry(&request, gist, &strike, under_way.count);
        if !strike.delay.is_zero() {
            tokio::time::sleep(strike.delay).await;
        }
        let (outcome, status, caller) = match strike.fate {
            Some(Fate::Reset) => (Outcome::Cut, 0, String::new()),
            Some(Fate::Hang) => (Outcome::NeverAnswered, 0, String::new()),
            Some(Fate::LostAnswer) => {
                let answer = self.api.answer(request, peer).await;
                (Outcome::Cut, 0, answer.caller)
            }
            Some(Fate::Silence) => {
                let answer = self.api.answer(request, peer).await;
                (Outcome::NeverAnswered, 0, answer.caller)
            }
            Some(Fate::Truncated) => {
                let mut answer = self.api.answer(request, peer).await;
                answer.response = halved(answer.response).await;
                Outcome::of(answer, None)
            }
            Some(Fate::Twice) => {
                let first = self.api.answer(request.clone(), peer).await;
                self.api.answer(request, peer).await;
                Outcome::of(first, None)
            }
            Some(Fate::EmptyList) => {
                let mut answer = self.api.answer(request, peer).await;
                answer.response = emptied(answer.response).await;
                Outcome::of(answer, None)
            }
            Some(Fate::Without(member)) => {
                let mut answer = self.api.answer(request, peer).await;
                answer.response = lacking(answer.response, &member).await;
                Outcome::of(answer, None)
            }
            Some(Fate::Answer {
                code,
                headers,
                body,
            }) => {
                let response = self.struck(code, headers, body);
                (Outcome::Answered(response, None), code, String::new())
            }
            Some(Fate::CutStream(after)) => {
                Outcome::of(self.api.answer(request, peer).await, Some(after))
            }
            Some(Fate::StaleList(age)) => {
                Outcome::of(self.answer(request, peer, Some(age)).await, None)
            }
            None => Outcome::of(self.answer(request, peer, None).await, None),
        };
        self.world.journal.record(Entry {
            time: self.world.clock.now(),
            status,
            caller,
            ..entry
        });
        outcome
    }

    /// The API's answer. Of lists it is remembered, and one of that age is given instead, if somebody wants it.
    async fn answer(
        &self,
        request: Request<Bytes>,
        peer: &Peer,
        age: Option<std::time::Duration>,
    ) -> Answer {
        let asked = (request.method() == Method::GET).then(|| request.uri().to_string());
        let mut answer = self.api.answer(request, peer).await;
        let response = &answer.response;
        let is_whole =
            response.status() == StatusCode::OK && response.body().size_hint().exact().is_some();
        if let Some(asked) = asked.filter(|_| is_whole) {
            let list = format!("{} {asked}", answer.caller);
            answer.response = self.remembered(answer.response, &list, age).await;
        }
        answer
    }

    async fn remembered(
        &self,
        response: Response<Body>,
        list: &str,
        age: Option<std::time::Duration>,
    ) -> Response<Body> {
        let (mut head, body) = response.into_parts();
        let mut body = all_of(body).await;
        if is_list(&body) {
            let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            history.note(list, (&head.headers, &body));
            if let Some(earlier) = age.and_then(|age| history.recall(list, age)) {
                (head.headers, body) = earlier;
            }
        }
        Response::from_parts(head, super::body::whole(body))
    }

    fn entry(
        &self,
        request: &Request<Bytes>,
        gist: Option<Gist>,
        strike: &Strike,
        concurrent: u32,
    ) -> Entry {
        let now = self.world.clock.now();
        let (method, query, body) = match gist {
            Some(gist) => (gist.method.to_owned(), gist.query, gist.body),
            None => (
                request.method().to_string(),
                request.uri().query().unwrap_or_default().to_owned(),
                readable(request.body()),
            ),
        };
        Entry {
            time: now,
            arrived: now,
            concurrent,
            server: self.name.as_ref().to_owned(),
            method,
            operation: {
                let operation = self.api.operation(request.method(), request.uri().path());
                operation.unwrap_or_default().to_owned()
            },
            path: request.uri().path().to_owned(),
            query,
            body,
            status: 0,
            caller: String::new(),
            fault: strike.rule.clone(),
        }
    }

    /// The answer that a rule gives instead of the API.
    fn struck(
        &self,
        code: u16,
        headers: Vec<(String, String)>,
        body: Option<FaultBody>,
    ) -> Response<Body> {
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = match body {
            Some(FaultBody::Html(page)) => of_type(status, "text/html", page),
            Some(FaultBody::Text(text)) => of_type(status, type_of(&text), text),
            Some(FaultBody::Lines(lines)) => {
                let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                of_type(status, "application/json", lines.join("\n") + "\n")
            }
            Some(FaultBody::Json(value)) => json(status, &value),
            None => {
                let reason = status.canonical_reason().unwrap_or("Simulated fault");
                json(status, &self.api.error_body(status, reason))
            }
        };
        for (name, value) in headers {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }

    fn too_large(&self) -> Response<Body> {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let message = format!("The request body is larger than {} bytes.", self.body_limit);
        let mut response = json(status, &self.api.error_body(status, &message));
        // The rest of the body is not read, so the connection cannot be used again.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
        response
    }

    /// Dates the answer by the world's clock and sees to it that streams can be ended.
    fn finish(
        &self,
        mut response: Response<Body>,
        cut_after: Option<std::time::Duration>,
    ) -> Response<Served> {
        let date = self
            .world
            .clock
            .now()
            .strftime("%a, %d %b %Y %H:%M:%S GMT")
            .to_string();
        if let Ok(date) = HeaderValue::try_from(date) {
            response.headers_mut().entry(header::DATE).or_insert(date);
        }
        if response.body().size_hint().exact().is_some() {
            return response.map(Served::untouched);
        }
        let mut stopping = self.stopping.clone();
        let cut = self.world.faults.cut(&self.name);
        let end = async move {
            let late = async {
                match cut_after {
                    Some(after) => tokio::time::sleep(after).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stopped(&mut stopping) => End::Finished,
                () = cut => End::Cut,
                () = late => End::Cut,
            }
        };
        response.map(|body| Served::until(body, end.boxed()))
    }
}

/// What a text that somebody wrote as a body looks like; a header of the rule says otherwise.
fn type_of(text: &str) -> &'static str {
    match text.trim_start().bytes().next() {
        Some(b'<') => "text/html",
        Some(b'{' | b'[') => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

/// The first half of an answer, as if that were all of it.
async fn halved(response: Response<Body>) -> Response<Body> {
    changed(response, |whole| whole.slice(..whole.len() / 2)).await
}

/// The same without what it lists: clouds give a list as it is, or as the only field of an object.
async fn emptied(response: Response<Body>) -> Response<Body> {
    changed(response, |whole| {
        let Ok(mut answer) = serde_json::from_slice::<Value>(&whole) else {
            return whole;
        };
        let list = match &mut answer {
            Value::Object(fields) if fields.len() == 1 => fields.values_mut().next(),
            other => Some(other),
        };
        match list.and_then(Value::as_array_mut) {
            Some(list) => list.clear(),
            None => return whole,
        }
        answer.to_string().into()
    })
    .await
}

/// An answer without the members of that name; what is not JSON stays as it is.
async fn lacking(response: Response<Body>, member: &str) -> Response<Body> {
    changed(response, |whole| {
        match serde_json::from_slice::<Value>(&whole) {
            Ok(mut value) => {
                leave_out(&mut value, member);
                value.to_string().into()
            }
            Err(_) => whole,
        }
    })
    .await
}

fn leave_out(value: &mut Value, member: &str) {
    match value {
        Value::Object(members) => {
            members.remove(member);
            members.values_mut().for_each(|it| leave_out(it, member));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| leave_out(it, member)),
        _ => {}
    }
}

/// An answer with another body. One that streams has none that could be changed.
async fn changed(response: Response<Body>, change: impl FnOnce(Bytes) -> Bytes) -> Response<Body> {
    if response.body().size_hint().exact().is_none() {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    let body = change(all_of(body).await);
    Response::from_parts(head, super::body::whole(body))
}

/// A body from memory comes without fail; of one that does not, nothing is left to send.
async fn all_of(body: Body) -> Bytes {
    let whole = body.collect().await;
    whole
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default()
}

/// Counts a call for as long as it lives.
struct UnderWay<'a> {
    counter: &'a AtomicU32,
    /// The calls under way when this one began, itself included.
    count: u32,
}

impl<'a> UnderWay<'a> {
    fn begin(counter: &'a AtomicU32) -> Self {
        let count = counter.fetch_add(1, Ordering::Relaxed) + 1;
        Self { counter, count }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends when the server shuts down, or is gone.
pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// The body of a request is larger than the server takes.
struct TooLarge;

/// Reads the whole request. `Ok(None)` means that the caller went away in the middle.
async fn read(
    request: Request<Incoming>,
    limit: usize,
) -> Result<Option<Request<Bytes>>, TooLarge> {
    let (head, body) = request.into_parts();
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(Some(Request::from_parts(head, body.to_bytes()))),
        Err(error) if error.is::<LengthLimitError>() => Err(TooLarge),
        Err(_) => Ok(None),
    }
}

/// A body for the journal: JSON where it is JSON, else text.
fn readable(body: &Bytes) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(body)
        .unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into())
}
