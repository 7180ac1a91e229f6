//! The smallest parts, for tests of the heart alone.

use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kubernetes::auth::{Attributes, Objects, User};
use crate::kubernetes::kinds::Kind;
use crate::kubernetes::managed::Writer;
use crate::kubernetes::parts::Parts;
use crate::kubernetes::patch;
use crate::kubernetes::schema::FieldValidation;
use crate::kubernetes::status::Refusal;
use crate::kubernetes::store::text;
use crate::serve::Peer;

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
        Ok(patch::merge_patch(object, patch))
    }

    fn apply(
        &self,
        _: &'static Kind,
        live: Option<&Value>,
        config: &Value,
        _: &Writer,
        _: bool,
    ) -> Result<Value, Refusal> {
        Ok(patch::merge_patch(live.unwrap_or(&json!({})), config))
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
                    _ => row["object"] = crate::kubernetes::respond::partial(object),
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
        _: Timestamp,
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
