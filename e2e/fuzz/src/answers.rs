//! An HTTP server in memory that sends the fuzzed bytes as its answers.
//!
//! An input is a script: a line with the question that the provider is asked, then the server's answers. Each begins with
//! a line that has its status and, if it is not for every request, a part of the request line; then come headers and the
//! body:
//!
//! ```text
//! nodes
//! > 200 GET /v1/servers
//! > content-type: application/json
//! [{"uuid": "…"}]
//! > 404
//! ```
//!
//! Of the answers that fit a request, those with the longest part of a request line count: the first that was not given
//! yet, otherwise the last. Without any it is 404. An event stream stays open behind its body.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_http::Pipes;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

/// A question is answered within this time of the simulated clock, or never: nobody waits as long for anything.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// What each line of a script begins with that is not of a body.
const MARK: &[u8] = b"> ";

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// One answer of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// What the request line has to contain.
    pub(crate) request: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Vec<u8>,
    is_given: bool,
}

/// What is asked, and what is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) question: String,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Script {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let question = crate::text(lines.next().unwrap_or_default());
        let question = question.trim().to_owned();
        let mut answers: Vec<Answer> = Vec::new();
        for line in lines {
            let marked = line.strip_prefix(MARK).map(crate::text);
            let begun = marked.as_deref().and_then(begin);
            match (
                begun,
                marked.as_deref().and_then(header),
                answers.last_mut(),
            ) {
                (Some(answer), _, _) => answers.push(answer),
                (None, Some(header), Some(last)) if last.body.is_empty() => {
                    last.headers.push(header);
                }
                (None, _, Some(last)) => last.body.extend_from_slice(line),
                (None, _, None) => {}
            }
        }
        Self {
            question,
            answers: Arc::new(Mutex::new(answers)),
        }
    }

    /// Takes a credential out of what is no refusal: clouds repeat what they were sent in errors, not as names of machines.
    pub(crate) fn refusals_alone_show(&self, credential: &str) {
        let mut answers = self.answers.lock().unwrap();
        for answer in answers.iter_mut().filter(|answer| answer.status < 400) {
            let body = crate::text(&answer.body);
            if body.contains(credential) {
                answer.body = body.replace(credential, "").into_bytes();
            }
        }
    }

    /// The answer to a request.
    pub(crate) fn answer(&self, request: &str) -> Option<Answer> {
        let mut answers = self.answers.lock().unwrap();
        let fits = |answer: &&mut Answer| request.contains(&answer.request);
        let mut fitting: Vec<&mut Answer> = answers.iter_mut().filter(fits).collect();
        let longest = fitting.iter().map(|answer| answer.request.len()).max()?;
        fitting.retain(|answer| answer.request.len() == longest);
        let fresh = fitting.iter().position(|answer| !answer.is_given);
        let place = fresh.unwrap_or(fitting.len() - 1);
        fitting[place].is_given = true;
        Some(fitting[place].clone())
    }

    /// Listens to HTTP/1 at that authority, as long as the runtime lives.
    pub(crate) fn serve(&self, pipes: &Pipes, authority: &str) {
        let (mut listener, script) = (pipes.listen(authority), self.clone());
        tokio::spawn(async move {
            while let Some(pipe) = listener.accept().await {
                let script = script.clone();
                let service = service_fn(move |request| {
                    let response = script.respond(&request);
                    async move { Ok::<_, Infallible>(response) }
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(pipe), service));
            }
        });
    }

    fn respond<B>(&self, request: &Request<B>) -> Response<Body> {
        let line = format!("{} {}", request.method(), request.uri());
        let answer = self.answer(&line).unwrap_or_default();
        let status = StatusCode::from_u16(answer.status).ok();
        // Those below 200 are not for servers to send as a whole.
        let status = status.filter(|status| !status.is_informational());
        let body = Full::new(Bytes::from(answer.body));
        let is_stream = |value: &HeaderValue| value.as_bytes().starts_with(b"text/event-stream");
        let body = if answer.headers.iter().any(|(_, value)| is_stream(value)) {
            let frames = body.into_data_stream().map_ok(Frame::data);
            StreamBody::new(frames.chain(stream::pending())).boxed_unsync()
        } else {
            body.boxed_unsync()
        };
        let mut response = Response::new(body);
        *response.status_mut() = status.unwrap_or(StatusCode::NOT_FOUND);
        response.headers_mut().extend(answer.headers);
        response
    }
}

/// `STATUS [REQUEST]`.
fn begin(line: &str) -> Option<Answer> {
    let (status, request) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    Some(Answer {
        status: status.parse().ok()?,
        request: request.to_owned(),
        ..Answer::default()
    })
}

/// `Name: value`. What frames a body is the server's matter.
fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let name: HeaderName = name.parse().ok()?;
    let frames = [
        http::header::CONTENT_LENGTH,
        http::header::TRANSFER_ENCODING,
        http::header::CONNECTION,
        http::header::UPGRADE,
    ];
    let value = HeaderValue::from_str(value.trim()).ok()?;
    (!frames.contains(&name)).then_some((name, value))
}

/// Runs that to its end in simulated time.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build();
    let ended = runtime
        .unwrap()
        .block_on(async { timeout(PATIENCE, work).await });
    ended.expect("an answer within a day of simulated time")
}
