//! How an answer looks: content negotiation, representations, headers.

use bowline_simulator::serve::Body;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response};
use serde_json::{Value, json};

use super::kinds::Kind;
use super::status::Refusal;

/// What can be read and written, as refusals tell it.
pub const MEDIA_TYPES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// What lists and watches can be written as.
pub fn list_media_types() -> String {
    format!(
        "{MEDIA_TYPES}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    )
}

/// How objects are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As they are.
    Whole,
    /// As a `Table`, for printing.
    Table,
    /// Metadata only.
    Partial,
    /// Metadata only, of a list.
    PartialList,
}

/// The outcome of content negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub shape: Shape,
    pub yaml: bool,
    /// Of watches alone.
    pub protobuf: bool,
    /// Tables and metadata in the version before the present one.
    pub beta: bool,
}

/// What a verb answers.
#[derive(Clone, Debug)]
pub struct Reply {
    pub code: u16,
    pub body: Value,
    /// Whether the document is an object or list of the kind, which can be shown as a table.
    pub shapeable: bool,
    /// For `Warning` headers.
    pub warnings: Vec<String>,
}

impl Reply {
    /// An object or list of the kind asked for.
    pub fn object(code: u16, body: Value) -> Self {
        Self {
            code,
            body,
            shapeable: true,
            warnings: Vec::new(),
        }
    }

    /// Any other document.
    pub fn document(code: u16, body: Value) -> Self {
        Self {
            shapeable: false,
            ..Self::object(code, body)
        }
    }

    #[must_use]
    pub fn warn(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

/// Chooses the representation from the `Accept` header; protobuf for a watch alone.
pub fn negotiate(headers: &HeaderMap, is_watch: bool) -> Result<Format, Refusal> {
    let accept: Vec<&str> = headers
        .get_all(http::header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let accept = accept.join(",");
    if accept.trim().is_empty() {
        return Ok(Format {
            shape: Shape::Whole,
            yaml: false,
            protobuf: false,
            beta: false,
        });
    }
    let clauses = &mut accept.split(',').filter_map(clause);
    let served = clauses.find(|format| is_watch || !format.protobuf);
    served.ok_or_else(|| {
        // A known type in an unknown shape is refused in other words.
        let known = |one| media(one).is_some_and(|it| is_watch || it != Encoding::Protobuf);
        if accept.split(',').any(known) {
            let message = format!("only the following media types are accepted: {MEDIA_TYPES}");
            return Refusal::new(406, "NotAcceptable", message);
        }
        not_acceptable(MEDIA_TYPES)
    })
}

/// What a clause asks for, if it can be served at all.
fn media(clause: &str) -> Option<Encoding> {
    match clause.split(';').next()?.trim() {
        "application/json" | "*/*" | "application/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        super::protobuf::MEDIA_TYPE => Some(Encoding::Protobuf),
        _ => None,
    }
}

/// 406.
pub fn not_acceptable(known: &str) -> Refusal {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {known}");
    let mut refusal = Refusal::new(406, "NotAcceptable", message);
    refusal.details = json!({});
    refusal
}

/// One clause of an `Accept` header, if it can be served.
fn clause(clause: &str) -> Option<Format> {
    let media = media(clause)?;
    let (yaml, protobuf) = (media == Encoding::Yaml, media == Encoding::Protobuf);
    let pieces = clause.split(';').skip(1).map(str::trim);
    let (mut shape, mut group, mut version) = ("", "", "");
    for (key, value) in pieces.filter_map(|piece| piece.split_once('=')) {
        match key.trim() {
            "as" => shape = value.trim(),
            "g" => group = value.trim(),
            "v" => version = value.trim(),
            _ => {}
        }
    }
    let beta = version == "v1beta1";
    let shape = match (shape, group, version) {
        ("", "", "") => Shape::Whole,
        _ if protobuf => return None,
        ("Table", "meta.k8s.io", "v1" | "v1beta1") => Shape::Table,
        ("PartialObjectMetadata", "meta.k8s.io", "v1" | "v1beta1") => Shape::Partial,
        ("PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => Shape::PartialList,
        _ => return None,
    };
    Some(Format {
        shape,
        yaml,
        protobuf,
        beta,
    })
}

/// Says that tables and metadata are of the version before the present one.
pub fn to_beta(document: &mut Value) {
    match document {
        Value::Object(map) => {
            if map
                .get("apiVersion")
                .is_some_and(|version| version == "meta.k8s.io/v1")
            {
                map.insert("apiVersion".to_owned(), "meta.k8s.io/v1beta1".into());
            }
            for key in ["items", "object", "rows"] {
                map.get_mut(key).into_iter().for_each(to_beta);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(to_beta),
        _ => {}
    }
}

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
    /// Protobuf in its envelope.
    Protobuf,
}

/// How a body is written; refuses what cannot be read.
pub fn encoding(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    match media_type(headers).as_str() {
        "" | "application/json" => Ok(Encoding::Json),
        "application/yaml" => Ok(Encoding::Yaml),
        super::protobuf::MEDIA_TYPE => Ok(Encoding::Protobuf),
        _ => Err(unsupported_media(MEDIA_TYPES)),
    }
}

/// 415.
pub fn unsupported_media(known: &str) -> Refusal {
    Refusal::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: {known}"
        ),
    )
}

/// The `Content-Type` without its parameters.
pub fn media_type(headers: &HeaderMap) -> String {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// The metadata of an object, as a `PartialObjectMetadata`.
pub fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

/// The metadata of all objects of a list.
pub fn partial_list(list: &Value) -> Value {
    let items: Vec<Value> = items(list).iter().map(partial).collect();
    // An empty list of this form is none at all.
    let items = if items.is_empty() {
        Value::Null
    } else {
        items.into()
    };
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": list["metadata"], "items": items,
    })
}

/// The objects of a list; the object itself if it is none.
pub fn items(body: &Value) -> &[Value] {
    match body.get("items") {
        Some(Value::Array(items)) => items,
        _ => std::slice::from_ref(body),
    }
}

/// A list document of a kind. Its items carry neither kind nor version, like the API server's.
pub fn list_document(kind: &Kind, metadata: &Value, mut items: Vec<Value>) -> Value {
    for item in &mut items {
        if let Some(map) = item.as_object_mut() {
            map.remove("kind");
            map.remove("apiVersion");
        }
    }
    json!({
        "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(),
        "metadata": metadata, "items": items,
    })
}

pub fn write(code: u16, document: &Value, yaml: bool) -> Response<Body> {
    if yaml && let Ok(text) = serde_saphyr::to_string(document) {
        return bytes(code, "application/yaml", text.into_bytes());
    }
    let mut text = document.to_string();
    text.push('\n');
    bytes(code, "application/json", text.into_bytes())
}

/// Writes a refusal as a `Status`.
pub fn refuse(refusal: &Refusal, yaml: bool) -> Response<Body> {
    let mut response = write(refusal.code, &refusal.to_status(), yaml);
    if refusal.denied {
        let value = HeaderValue::from_static("nosniff");
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, value);
    }
    if let Some(seconds) = refusal.details["retryAfterSeconds"].as_u64() {
        let value = HeaderValue::from(seconds);
        response.headers_mut().insert(RETRY_AFTER, value);
    }
    response
}

/// Writes text or any other bytes.
pub fn bytes(code: u16, content_type: &str, content: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(bowline_simulator::serve::whole(content));
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}

/// Adds the headers that every answer has.
pub fn finish(response: &mut Response<Body>, audit: &str, warnings: &[String]) {
    let headers = response.headers_mut();
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    if let Ok(value) = HeaderValue::from_str(audit) {
        headers.insert("audit-id", value);
    }
    for warning in warnings {
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            headers.append(WARNING, value);
        }
    }
}
