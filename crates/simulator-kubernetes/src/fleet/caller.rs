//! Calls to the API server: bounded in number, each with a deadline.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use jiff::Timestamp;
use kube::runtime::utils::Backoff;
use serde_json::Value;
use tokio::sync::Semaphore;

/// Calls that may be under way at once. Over HTTP/1.1 each needs a connection, and a listener
/// refuses more than its backlog; this stays far below and still keeps a server busy.
const CALLS_IN_FLIGHT: usize = 64;
/// No answer by then is no answer: the kubelet's own limit for a status or lease call.
const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// Pause before a broken watch is opened again. Fixed, so that runs repeat.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Kinds of patches.
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// A patch by RFC 7386.
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const OBJECT: &str = "application/json";

/// Why a call brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the API server answered {code} {reason}: {message}")]
    Refused {
        code: u16,
        reason: String,
        message: String,
    },
    #[error("the call failed")]
    Failed(#[source] Box<kube::Error>),
    #[error("the request is not valid HTTP")]
    Malformed(#[source] http::Error),
    #[error("no answer within {} s", CALL_DEADLINE.as_secs())]
    Late,
}

impl CallError {
    /// The status of a refusal; 0 if there was no answer.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Refused { code, .. } => *code,
            _ => 0,
        }
    }

    /// Whether the name was taken (and not just a version).
    pub(crate) fn already_exists(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason == "AlreadyExists")
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Value,
}

impl Call {
    pub(crate) fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            content_type: OBJECT,
            body: Value::Null,
        }
    }

    pub(crate) fn create(path: &str, body: Value) -> Self {
        Self {
            method: Method::POST,
            path: path.to_owned(),
            content_type: OBJECT,
            body,
        }
    }

    pub(crate) fn replace(path: String, body: Value) -> Self {
        Self {
            method: Method::PUT,
            path,
            content_type: OBJECT,
            body,
        }
    }

    pub(crate) fn patch(path: String, content_type: &'static str, body: Value) -> Self {
        Self {
            method: Method::PATCH,
            path,
            content_type,
            body,
        }
    }
}

/// Makes calls. Clones share the limit.
#[derive(Clone)]
pub(crate) struct Caller {
    client: kube::Client,
    permits: Arc<Semaphore>,
}

impl Caller {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self {
            client,
            permits: Arc::new(Semaphore::new(CALLS_IN_FLIGHT)),
        }
    }

    /// Makes the call, as that node if one is given.
    pub(crate) async fn make(&self, call: Call, node: Option<&str>) -> Result<Value, CallError> {
        let body = match &call.body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header(http::header::CONTENT_TYPE, call.content_type);
        if let Some(node) = node {
            request = request
                .header("impersonate-user", format!("system:node:{node}"))
                .header("impersonate-group", "system:nodes");
        }
        let request = request.body(body).map_err(CallError::Malformed)?;
        // The semaphore is never closed, so a permit always comes.
        let _permit = self.permits.acquire().await;
        match tokio::time::timeout(CALL_DEADLINE, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(CallError::Refused {
                code: status.code,
                reason: status.reason,
                message: status.message,
            }),
            Ok(Err(error)) => Err(CallError::Failed(Box::new(error))),
            Err(_) => Err(CallError::Late),
        }
    }
}

/// The same pause before every new try of a watch.
pub(crate) struct SteadyPause;

impl Iterator for SteadyPause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(WATCH_PAUSE)
    }
}

impl Backoff for SteadyPause {
    fn reset(&mut self) {}
}

/// A time as leases hold it: microseconds, always six digits.
pub(crate) fn microseconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
