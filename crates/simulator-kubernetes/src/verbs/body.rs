//! Request bodies: from bytes to an object of the kind that the path names.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::Call;
use crate::kinds::{self, Kind};
use crate::object::text;
use crate::protobuf;
use crate::respond::{Encoding, encoding};
use crate::schema;
use crate::status::Refusal;
use crate::strategy;
use crate::words;

/// How much of an unreadable body the refusal shows.
const SHOWN: usize = 30;

/// Reads YAML. Only `true` and `false` are switches: `y` is a fine name.
pub fn yaml(body: &Bytes) -> Result<Value, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let text = String::from_utf8_lossy(body);
    serde_saphyr::from_str_with_options(&text, options).map_err(|error| error.to_string())
}

/// Reads a body as its media type says.
pub fn read(headers: &HeaderMap, body: &Bytes) -> Result<Result<Value, String>, Refusal> {
    let json = |body: &Bytes| {
        serde_json::from_slice(body).map_err(|error| words::json_error(body, &error))
    };
    let prefix = "couldn't get version/kind";
    Ok(match encoding(headers)? {
        Encoding::Json => json(body).map_err(|why| format!("{prefix}; json parse error: {why}")),
        Encoding::Yaml => yaml(body).map_err(|why| format!("{prefix}; yaml parse error: {why}")),
        Encoding::Protobuf => protobuf::decode(body).map_err(|why| why.to_string()),
    })
}

/// The beginning of a body, for people.
fn summary(body: &Bytes) -> String {
    let head = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            let hex: Vec<String> = head.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}{more}", hex.concat())
        }
    }
}

/// Reads an object that must be of the given version and kind; both may be left out.
pub fn object(
    headers: &HeaderMap,
    body: &Bytes,
    version: &str,
    kind: &str,
) -> Result<Value, Refusal> {
    let unrecognized = |why: &str| {
        Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            summary(body)
        ))
    };
    let mut object = read(headers, body)?.map_err(|why| unrecognized(&why))?;
    if !object.is_object() {
        let kind = words::json_kind(&object);
        return Err(unrecognized(&format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        )));
    }
    check_type(&object, version, kind)?;
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(serde_json::Map::new());
    }
    Ok(object)
}

/// Refuses an object of another kind or version.
pub fn check_type(object: &Value, version: &str, kind: &str) -> Result<(), Refusal> {
    let found_version = text(object, "/apiVersion");
    let found_kind = text(object, "/kind");
    if (found_version.is_empty() || found_version == version)
        && (found_kind.is_empty() || found_kind == kind)
    {
        return Ok(());
    }
    let effective_kind = if found_kind.is_empty() {
        kind
    } else {
        found_kind
    };
    let effective_version = if found_version.is_empty() {
        version
    } else {
        found_version
    };
    let short = effective_version.rsplit('/').next().unwrap_or_default();
    if effective_kind == kind && is_served(effective_version, effective_kind) {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({effective_version}) does not match the expected API version ({version})"
        )));
    }
    let why = if is_served(effective_version, effective_kind) {
        format!("converting (v1.{effective_kind}) to (core.{kind}): unknown conversion")
    } else {
        format!(
            "no kind \"{effective_kind}\" is registered for version \"{effective_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    Err(Refusal::bad_request(format!(
        "{effective_kind} in version {short:?} cannot be handled as a {kind}: {why}"
    )))
}

fn is_served(version: &str, kind: &str) -> bool {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    kinds::by_kind(group, version, kind).is_some()
}

impl Call<'_> {
    /// The body as an object of the call's kind, without unknown fields, with warnings.
    pub fn object(&self) -> Result<(Value, Vec<String>), Refusal> {
        let object = object(
            &self.headers,
            &self.body,
            &self.kind.api_version(),
            self.kind.kind,
        )?;
        let duplicates = match encoding(&self.headers)? {
            Encoding::Json => schema::twice(&self.body),
            Encoding::Yaml | Encoding::Protobuf => Vec::new(),
        };
        schema::check_sent(self.kind, object, duplicates, self.field_validation())
    }

    /// Sets the namespace of the object to that of the request; refuses another one.
    pub fn place(&self, object: &mut Value) -> Result<(), Refusal> {
        let found = text(object, "/metadata/namespace").to_owned();
        if self.kind.namespaced {
            if !found.is_empty() && found != self.namespace {
                return Err(namespace_mismatch());
            }
            object["metadata"]["namespace"] = self.namespace.as_str().into();
        } else {
            // Not an error: the server forgets it.
            strategy::drop_field(&mut object["metadata"], "namespace");
        }
        Ok(())
    }

    /// Refuses an object whose name or namespace is not that of the path.
    pub fn check_name(&self, object: &Value) -> Result<(), Refusal> {
        let name = text(object, "/metadata/name");
        if name.is_empty() {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.name
            )));
        }
        if name != self.name {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name
            )));
        }
        let namespace = text(object, "/metadata/namespace");
        if self.kind.namespaced && !namespace.is_empty() && namespace != self.namespace {
            return Err(namespace_mismatch());
        }
        Ok(())
    }
}

fn namespace_mismatch() -> Refusal {
    Refusal::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}

/// Whether a kind's updates create what does not exist.
pub fn creates_on_update(kind: &Kind) -> bool {
    kind.group == "rbac.authorization.k8s.io"
        || matches!(kind.kind, "Service" | "Event" | "Endpoints" | "Lease")
}
