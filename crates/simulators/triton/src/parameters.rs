//! Path, query and body, merged into one map as the API does it: the body wins, even over the path.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, header};
use md5::{Digest, Md5};
use serde_json::{Map, Value};

use super::refusals::{OrRefusal, Refusal};

/// The largest body, in bytes.
pub(super) const BODY_LIMIT: usize = 100_000;

/// The merged parameters of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters(pub(super) Map<String, Value>);

impl Parameters {
    /// Merges what a request carries.
    pub(super) fn of(request: &Request<Bytes>, path: &[(&'static str, String)]) -> OrRefusal<Self> {
        let mut merged = Map::new();
        for (name, value) in path {
            merged.insert((*name).to_owned(), value.as_str().into());
        }
        let query = request.uri().query().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let place = merged.entry(name).or_insert(Value::Null);
            if place.is_null() {
                *place = value.into();
            }
        }
        for (name, value) in body(request)? {
            merged.insert(name, value);
        }
        Ok(Self(merged))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A string; other scalars as they are written.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
            scalar => Some(scalar.to_string()),
        }
    }

    /// A boolean, or a word for one.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        match self.0.get(name)? {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => Some(text == "true"),
            _ => None,
        }
    }
}

/// The members of the body; nothing of a body whose type is not known.
fn body(request: &Request<Bytes>) -> OrRefusal<Map<String, Value>> {
    let body = request.body();
    if body.len() > BODY_LIMIT {
        let mut refusal = Refusal::bad("PayloadTooLargeError", "Request body size exceeds 100000");
        refusal.status = http::StatusCode::PAYLOAD_TOO_LARGE;
        return Err(refusal);
    }
    if let Some(digest) = request.headers().get("content-md5")
        && digest.as_bytes() != STANDARD.encode(Md5::digest(body)).as_bytes()
    {
        return Err(Refusal::bad("BadDigest", "Content-MD5 didn't match"));
    }
    if body.is_empty() {
        return Ok(Map::new());
    }
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => match serde_json::from_slice(body) {
            Ok(Value::Object(members)) => Ok(members),
            Ok(_) => Ok(Map::new()),
            Err(error) => {
                let message = format!("Invalid JSON: {error}");
                Err(Refusal::bad("InvalidContent", message))
            }
        },
        "application/x-www-form-urlencoded" => {
            let pairs = url::form_urlencoded::parse(body);
            Ok(pairs
                .map(|(name, value)| (name.into_owned(), value.into()))
                .collect())
        }
        _ => Ok(Map::new()),
    }
}
