//! Answers each path, once the caller is authorized.

use bowline_core::PageAnswer;
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use serde_json::json;

use super::health::{Endpoint, report};
use super::{Parts, ServingConfig};
use crate::metrics::Format;

/// The only body we read is a number.
const BODY_LIMIT: usize = 64;

pub(super) type Answer = Response<Full<Bytes>>;

const TEXT: &str = "text/plain; charset=utf-8";

fn answer(status: StatusCode, content: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content));
    let value = HeaderValue::from_static("no-cache, private");
    headers.insert(CACHE_CONTROL, value);
    let value = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, value);
    answer
}

/// The answer to HEAD has a length and no body; over HTTP/2 the library leaves that to us.
pub(super) fn without_body_if(head: bool, mut answer: Answer) -> Answer {
    if head {
        let length = answer.body().size_hint().lower();
        answer.headers_mut().insert(CONTENT_LENGTH, length.into());
        *answer.body_mut() = Full::default();
    }
    answer
}

pub(super) fn not_found() -> Answer {
    answer(StatusCode::NOT_FOUND, TEXT, "404 page not found\n")
}

pub(super) fn unauthorized() -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    let body = status.to_string() + "\n";
    answer(StatusCode::UNAUTHORIZED, "application/json", body)
}

pub(super) fn forbidden(user: &str, verb: &str, path: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("forbidden: User {user:?} cannot {verb} path {path:?}"),
        "reason": "Forbidden", "details": {}, "code": 403,
    });
    let body = status.to_string() + "\n";
    answer(StatusCode::FORBIDDEN, "application/json", body)
}

pub(super) fn review_failed(uri: &str, error: &str) -> Answer {
    let body = format!("Internal Server Error: {uri:?}: {error}\n");
    answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, body)
}

/// The answer to an allowed request.
pub(super) async fn serve<B>(request: Request<B>, options: &ServingConfig, parts: &Parts) -> Answer
where
    B: http_body::Body + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/metrics" => {
            let format = format_of(&request);
            let text = parts.metrics.encode(format);
            answer(StatusCode::OK, format.content_type(), text)
        }
        "/metrics/slis" if request.method() == Method::DELETE => {
            parts.metrics.health.reset();
            answer(StatusCode::OK, TEXT, "metrics reset\n")
        }
        "/metrics/slis" => {
            let format = format_of(&request);
            let text = parts.metrics.encode_slis(format);
            answer(StatusCode::OK, format.content_type(), text)
        }
        "/configz" => {
            let body = (parts.configz)().to_string();
            answer(StatusCode::OK, "application/json", body)
        }
        "/debug/flags/v" if options.profiling => verbosity(request, parts).await,
        path => health(path, request.uri().query(), parts)
            .or_else(|| (parts.pages)(path).map(page))
            .unwrap_or_else(not_found),
    }
}

/// A cloud's own page.
fn page(page: PageAnswer) -> Answer {
    match page {
        PageAnswer::Shown { content_type, body } => answer(StatusCode::OK, content_type, body),
        PageAnswer::NotNow(why) => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, why + "\n"),
    }
}

fn format_of<B>(request: &Request<B>) -> Format {
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    Format::from_accept(accept.unwrap_or(""))
}

async fn verbosity<B>(request: Request<B>, parts: &Parts) -> Answer
where
    B: http_body::Body + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if request.method() != Method::PUT {
        return answer(
            StatusCode::NOT_ACCEPTABLE,
            TEXT,
            "unsupported http method\n",
        );
    }
    let body = Limited::new(request.into_body(), BODY_LIMIT)
        .collect()
        .await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&body).trim().to_owned();
    let set = text
        .parse::<i32>()
        .map_err(|error| error.to_string())
        .and_then(|level| (parts.set_verbosity)(level));
    match set {
        Ok(()) => {
            let body = format!("successfully set klog.logging.verbosity to {text}");
            answer(StatusCode::OK, TEXT, body)
        }
        Err(error) => {
            let body = format!("failed to set klog.logging.verbosity {text}: {error}\n");
            answer(StatusCode::BAD_REQUEST, TEXT, body)
        }
    }
}

fn health(path: &str, query: Option<&str>, parts: &Parts) -> Option<Answer> {
    let mut segments = path.strip_prefix('/')?.splitn(2, '/');
    let endpoint = match segments.next()? {
        "healthz" => Endpoint::Healthz,
        "livez" => Endpoint::Livez,
        "readyz" => Endpoint::Readyz,
        _ => return None,
    };
    if let Some(name) = segments.next() {
        return single(endpoint, name, parts);
    }
    let pairs: Vec<(String, String)> = url::form_urlencoded::parse(query.unwrap_or("").as_bytes())
        .into_owned()
        .collect();
    let verbose = pairs.iter().any(|(key, _)| key == "verbose");
    let excluded: Vec<String> = (pairs.into_iter())
        .filter(|(key, value)| key == "exclude" && !value.is_empty())
        .map(|(_, value)| value)
        .collect();
    let findings = parts.health.examine(endpoint, &excluded);
    for finding in findings.iter().filter(|finding| !finding.excluded) {
        if let Some(error) = finding.error.as_ref().filter(|_| finding.is_fatal()) {
            tracing::warn!(check = finding.name, error, "health check failed");
        }
        let good = finding.error.is_none();
        parts
            .metrics
            .health
            .checked(endpoint.name(), &finding.name, good);
    }
    let (good, text) = report(endpoint, &findings, &excluded, verbose);
    let status = if good {
        StatusCode::OK
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    Some(answer(status, TEXT, text))
}

/// `/healthz/<check>` and its like.
fn single(endpoint: Endpoint, name: &str, parts: &Parts) -> Option<Answer> {
    let findings = parts.health.examine(endpoint, &[]);
    let finding = findings.into_iter().find(|finding| finding.name == name)?;
    Some(match finding.error {
        None => answer(StatusCode::OK, TEXT, "ok"),
        Some(error) => {
            let body = format!("internal server error: {error}\n");
            answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, body)
        }
    })
}
