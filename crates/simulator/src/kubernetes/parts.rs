//! The seam between the heart of the API server and its other parts: patches, field ownership,
//! schemas, tables, discovery, and who may do what. The heart calls one [`Parts`]; what stands
//! here by itself is the smallest that serves.

use std::sync::Arc;

use http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;

use super::auth::{Attributes, Auth, Objects, User};
use super::discovery;
use super::kinds::Kind;
use super::managed::{self, Writer};
use super::patch;
use super::schema::{self, FieldValidation};
use super::status::Refusal;
use super::store::text;
use super::table::{self, IncludeObject};
use crate::serve::Peer;

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
        now: Timestamp,
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

/// The whole parts: schemas, field ownership, RBAC.
pub struct WholeParts(pub Arc<Auth>);

impl Parts for WholeParts {
    fn strategic_patch(
        &self,
        kind: &'static Kind,
        object: &Value,
        patch: &Value,
    ) -> Result<Value, Refusal> {
        patch::strategic_patch(kind, object, patch)
    }

    fn apply(
        &self,
        kind: &'static Kind,
        live: Option<&Value>,
        config: &Value,
        writer: &Writer,
        force: bool,
    ) -> Result<Value, Refusal> {
        managed::apply(kind, live, config, writer, force)
    }

    fn record_update(
        &self,
        kind: &'static Kind,
        before: Option<&Value>,
        after: Value,
        writer: &Writer,
    ) -> Value {
        managed::record_update(kind, before, after, writer)
    }

    fn check_fields(
        &self,
        kind: &'static Kind,
        object: Value,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Refusal> {
        schema::check_fields(kind, object, validation)
    }

    fn table(
        &self,
        kind: &'static Kind,
        objects: &[Value],
        include: &str,
        now: Timestamp,
    ) -> Value {
        let include = match include {
            "None" => IncludeObject::None,
            "Object" => IncludeObject::Object,
            _ => IncludeObject::Metadata,
        };
        table::table(kind, objects, include, now)
    }

    fn discovery(&self, path: &str, accept: &str) -> Option<(String, Value)> {
        discovery::answer(path, accept)
    }

    fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<User, Refusal> {
        self.0.authenticate(headers, peer, objects, now)
    }

    fn authorize(
        &self,
        user: &User,
        attributes: &Attributes,
        objects: &dyn Objects,
    ) -> Result<(), Refusal> {
        self.0.authorize(user, attributes, objects)
    }

    fn answer_review(
        &self,
        kind: &'static Kind,
        namespace: &str,
        body: &Value,
        user: &User,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Value, Refusal> {
        self.0
            .answer_review(kind, namespace, body, user, objects, now)
    }

    fn issue_token(
        &self,
        service_account: &Value,
        request: &Value,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Value, Refusal> {
        let namespace = text(service_account, "/metadata/namespace");
        self.0
            .issue_token(namespace, service_account, &request["spec"], objects, now)
    }
}
