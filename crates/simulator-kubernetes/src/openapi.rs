//! OpenAPI v3 documents, one per group and version, made from the [schema](super::schema) and the
//! table of kinds. `kubectl explain` reads the schemas; `kubectl apply` and `create` look whether the
//! patch operation takes `fieldValidation`.

mod paths;
mod schemas;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt::Write as _, sync::OnceLock};

use serde_json::{Map, Value, json};

use super::discovery::group_versions;

/// The documents by `api/v1`, `apis/<group>/<version>`, each with its hash. Made once: they are
/// the same for every server.
fn documents() -> &'static BTreeMap<String, (String, Value)> {
    static DOCUMENTS: OnceLock<BTreeMap<String, (String, Value)>> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        group_versions()
            .into_iter()
            .map(|(group, version)| {
                let document = generate(group, version);
                (root(group, version), (hash(&document), document))
            })
            .collect()
    })
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// Clients keep documents for ever under their hash: it has to change with the text.
fn hash(document: &Value) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, document.to_string().as_bytes());
    digest
        .as_ref()
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02X}");
            text
        })
}

/// The list of documents.
pub fn index() -> Value {
    let paths: Map<String, Value> = documents()
        .iter()
        .map(|(root, (hash, _))| {
            let url = format!("/openapi/v3/{root}?hash={hash}");
            (root.clone(), json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

pub fn document(group: &str, version: &str) -> Option<Value> {
    let (_, document) = documents().get(&root(group, version))?;
    Some(document.clone())
}

/// The media type of version 2 in protobuf. Go's clients ask for it with an `@` for the second dot,
/// which no media type may have; so the answer has the dot.
const VERSION_2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The protobuf form of `{"swagger": "2.0", "info": {"title", "version"}, "paths": {}}`.
const VERSION_2_BYTES: &[u8] = b"\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned\x42\x00";

/// The document of OpenAPI version 2, which describes nothing: all is said in version 3. `kubectl`
/// asks for it when version 3 does not have a kind (a typing error, or a `List`), and then checks
/// nothing by itself. Content type and content.
pub fn version_2(accept: &str) -> (&'static str, Vec<u8>) {
    if accept.replace('@', ".").contains(VERSION_2) {
        return (VERSION_2, VERSION_2_BYTES.to_vec());
    }
    let info = json!({ "title": "Kubernetes", "version": "unversioned" });
    let document = json!({ "swagger": "2.0", "info": info, "paths": {} });
    ("application/json", document.to_string().into_bytes())
}

fn generate(group: &str, version: &str) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "unversioned" },
        "paths": paths::paths(group, version),
        "components": {
            "schemas": schemas::schemas(group, version),
            "securitySchemes": {
                "BearerToken": { "type": "apiKey", "name": "authorization", "in": "header" },
            },
        },
    })
}
