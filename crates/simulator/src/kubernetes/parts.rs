//! The seam between the heart of the API server and its other parts: patches, field ownership,
//! schemas, tables, discovery, and who may do what. The heart calls one [`Parts`]; what stands
//! here by itself is the smallest that serves.

use std::collections::BTreeMap;

use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::status::Refusal;
use super::store::text;
use crate::serve::Peer;

/// Read access to the stored objects.
pub trait Objects: Send + Sync {
    /// One object.
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value>;
    /// All objects of a kind, in one namespace or everywhere, by key.
    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Value>;
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// `system:node:a`, `alice`, …
    pub name: String,
    /// The user's uid, where the credential has one.
    pub uid: String,
    /// The groups, `system:authenticated` included.
    pub groups: Vec<String>,
    /// Whatever else the credential says.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What is asked, for authorization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for paths that are
    /// no resource the HTTP method in lower case.
    pub verb: String,
    /// API group.
    pub group: String,
    /// Plural; empty for a path that is no resource.
    pub resource: String,
    /// Sub-resource or empty.
    pub subresource: String,
    /// Namespace or empty.
    pub namespace: String,
    /// Name or empty.
    pub name: String,
    /// The path.
    pub path: String,
}

/// Who writes, for `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The field manager.
    pub manager: String,
    /// When.
    pub time: Timestamp,
    /// Through which sub-resource.
    pub subresource: Option<String>,
}

/// What to do about fields that the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and say so.
    Warn,
    /// Refuse.
    Strict,
}

/// The other parts of the API server.
pub trait Parts: Send + Sync {
    /// Applies a strategic merge patch.
    fn strategic_patch(
        &self,
        kind: &'static Kind,
        object: &Value,
        patch: &Value,
    ) -> Result<Value, Refusal>;

    /// Server-side apply: merges `config` into `live` and keeps `managedFields`.
    fn apply(
        &self,
        kind: &'static Kind,
        live: Option<&Value>,
        config: &Value,
        writer: &Writer,
        force: bool,
    ) -> Result<Value, Refusal>;

    /// Keeps `managedFields` after any other write.
    fn record_update(
        &self,
        kind: &'static Kind,
        before: Option<&Value>,
        after: Value,
        writer: &Writer,
    ) -> Value;

    /// Checks an object against its schema; returns it without unknown fields, and warnings.
    fn check_fields(
        &self,
        kind: &'static Kind,
        object: Value,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Refusal>;

    /// The `Table` of some objects; `include` is the `includeObject` parameter.
    fn table(&self, kind: &'static Kind, objects: &[Value], include: &str, now: Timestamp)
    -> Value;

    /// Answers `/version`, `/api`, `/apis…`, `/openapi…`: content type and document.
    fn discovery(&self, path: &str, accept: &str) -> Option<(String, Value)>;

    /// Finds out who asks.
    fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<User, Refusal>;

    /// Decides whether they may.
    fn authorize(
        &self,
        user: &User,
        attributes: &Attributes,
        objects: &dyn Objects,
    ) -> Result<(), Refusal>;

    /// Answers a token or access review.
    fn answer_review(
        &self,
        kind: &'static Kind,
        namespace: &str,
        body: &Value,
        user: &User,
        objects: &dyn Objects,
    ) -> Result<Value, Refusal>;

    /// Issues a token for a service account (`serviceaccounts/token`): `request` is the
    /// `TokenRequest`, the answer is it with its status.
    fn issue_token(
        &self,
        service_account: &Value,
        request: &Value,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Value, Refusal>;
}

/// The smallest parts that serve: everybody is an administrator, objects have no schema.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainParts;

impl Parts for PlainParts {
    fn strategic_patch(
        &self,
        _: &'static Kind,
        object: &Value,
        patch: &Value,
    ) -> Result<Value, Refusal> {
        Ok(merge_patch(object, patch))
    }

    fn apply(
        &self,
        _: &'static Kind,
        live: Option<&Value>,
        config: &Value,
        _: &Writer,
        _: bool,
    ) -> Result<Value, Refusal> {
        Ok(merge_patch(live.unwrap_or(&json!({})), config))
    }

    fn record_update(
        &self,
        _: &'static Kind,
        _: Option<&Value>,
        after: Value,
        _: &Writer,
    ) -> Value {
        after
    }

    fn check_fields(
        &self,
        _: &'static Kind,
        object: Value,
        _: FieldValidation,
    ) -> Result<(Value, Vec<String>), Refusal> {
        Ok((object, Vec::new()))
    }

    fn table(&self, _: &'static Kind, objects: &[Value], include: &str, _: Timestamp) -> Value {
        let rows: Vec<Value> = objects
            .iter()
            .map(|object| {
                let mut row = json!({ "cells": [text(object, "/metadata/name")] });
                match include {
                    "None" => {}
                    "Object" => row["object"] = object.clone(),
                    _ => row["object"] = super::respond::partial(object),
                }
                row
            })
            .collect();
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
            "columnDefinitions": [{
                "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0,
            }],
            "rows": rows,
        })
    }

    fn discovery(&self, _: &str, _: &str) -> Option<(String, Value)> {
        None
    }

    fn authenticate(
        &self,
        _: &HeaderMap,
        _: &Peer,
        _: &dyn Objects,
        _: Timestamp,
    ) -> Result<User, Refusal> {
        Ok(User {
            name: "kubernetes-admin".to_owned(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..User::default()
        })
    }

    fn authorize(&self, _: &User, _: &Attributes, _: &dyn Objects) -> Result<(), Refusal> {
        Ok(())
    }

    fn answer_review(
        &self,
        _: &'static Kind,
        _: &str,
        _: &Value,
        _: &User,
        _: &dyn Objects,
    ) -> Result<Value, Refusal> {
        Err(Refusal::no_such_path())
    }

    fn issue_token(
        &self,
        _: &Value,
        _: &Value,
        _: &dyn Objects,
        _: Timestamp,
    ) -> Result<Value, Refusal> {
        Err(Refusal::no_such_path())
    }
}

/// Applies a JSON patch (RFC 6902).
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, Refusal> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &operations).map_err(|_| unprocessable())?;
    Ok(patched)
}

/// What the API server answers to a JSON patch that cannot be applied.
fn unprocessable() -> Refusal {
    let mut refusal = Refusal::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
    refusal.details = json!({});
    refusal
}

/// Applies a merge patch (RFC 7386).
pub fn merge_patch(object: &Value, patch: &Value) -> Value {
    let mut merged = object.clone();
    json_patch::merge(&mut merged, patch);
    merged
}
