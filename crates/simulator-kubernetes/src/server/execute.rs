//! From a verb to its answer: reads, writes, watches, and how the result is shown.

use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::serve::Body;
use futures::StreamExt;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Map, Value, json};

use super::KubernetesApi;
use super::route::not_allowed;
use crate::auth::Objects;
use crate::kinds::{Kind, Role};
use crate::list::{self, ListOptions, too_large};
use crate::managed;
use crate::object::seconds;
use crate::request::{Query, Target};
use crate::respond::{self, Format, Reply, Shape};
use crate::status::Refusal;
use crate::store::State;
use crate::table::{self, IncludeObject};
use crate::verbs::{Call, body, create, delete, namespaces, patch, subresources, update};
use crate::watch::{self, LEAST_TIMEOUT, Source, WatchOptions};

/// How long a list waits for a version that does not exist yet.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

impl KubernetesApi {
    /// Does what is asked.
    pub(super) async fn execute(&self, call: &Call<'_>, verb: &str) -> Result<Reply, Refusal> {
        let store = self.store.as_ref();
        match (verb, call.subresource.as_str()) {
            ("get", _) => {
                self.wait_for(list::version_number(call.query.get("resourceVersion"))?)
                    .await?;
                store
                    .get(call.kind, &call.namespace, &call.name)
                    .map(|object| Reply::object(200, object))
                    .ok_or_else(|| Refusal::not_found(call.kind, &call.name))
            }
            ("list", _) => {
                let options = ListOptions::parse(call.kind, &call.query)?;
                self.wait_for(options.wait_for()).await?;
                let namespace = (!call.namespace.is_empty()).then_some(call.namespace.as_str());
                store.with(|state| list::list(state, call.kind, namespace, &options))
            }
            ("create", "") if call.kind.role == Role::Review => self.review(call),
            ("create", "token") => self.token(call),
            (_, subresource) => {
                let work: fn(&Call, &mut State) -> Result<Reply, Refusal> =
                    match (verb, subresource) {
                        ("create", "binding") => subresources::bind,
                        ("create", "eviction") => subresources::evict,
                        ("create", _) => create::create,
                        ("update", _) => update::update,
                        ("patch", _) => patch::patch,
                        ("delete", _) => delete::delete,
                        ("deletecollection", _) => delete::delete_collection,
                        _ => return Err(not_allowed()),
                    };
                store.with(|state| {
                    let reply = work(call, state);
                    namespaces::settle(state, call.now);
                    state.expire(call.now);
                    reply
                })
            }
        }
    }

    fn review(&self, call: &Call) -> Result<Reply, Refusal> {
        let version = call.kind.api_version();
        let question = body::object(&call.headers, &call.body, &version, call.kind.kind)?;
        let answer = self.auth.answer_review(
            call.kind,
            &call.namespace,
            &question,
            &call.user,
            self.store.as_ref(),
            call.now,
        )?;
        let mut answer = answer;
        if call.kind.kind != "SelfSubjectReview" {
            let writer = call.writer();
            let entries = managed::entries_of_update(call.kind, None, question, &writer);
            if !entries.is_null() {
                answer["metadata"]["managedFields"] = entries;
            }
        }
        Ok(Reply::document(201, answer))
    }

    fn token(&self, call: &Call) -> Result<Reply, Refusal> {
        let version = "authentication.k8s.io/v1";
        let request = body::object(&call.headers, &call.body, version, "TokenRequest")?;
        let account = self
            .store
            .get(call.kind, &call.namespace, &call.name)
            .ok_or_else(|| Refusal::not_found(call.kind, &call.name))?;
        let answer = self.auth.issue_token(
            &call.namespace,
            &account,
            &request["spec"],
            self.store.as_ref(),
            call.now,
        )?;
        let mut answer = answer;
        answer["metadata"]["managedFields"] = token_entries(call, &request["spec"]);
        Ok(Reply::document(201, answer))
    }

    /// Waits a little for a version that does not exist yet.
    async fn wait_for(&self, version: u64) -> Result<(), Refusal> {
        if version <= self.store.revision() {
            return Ok(());
        }
        let mut pulse = self.store.subscribe();
        let reached = pulse.wait_for(|pulse| pulse.revision >= version);
        match tokio::time::timeout(FRESHNESS_WAIT, reached).await {
            Ok(_) => Ok(()),
            Err(_) => Err(too_large(version, self.store.revision())),
        }
    }

    pub(super) async fn watch(
        &self,
        kind: &'static Kind,
        target: &Target,
        query: &Query,
        format: Format,
    ) -> Result<Response<Body>, Refusal> {
        let mut options = WatchOptions::parse(kind, query)?;
        if !target.name.is_empty() {
            options.only(&target.name);
        }
        if let Err(refusal) = self.wait_for(options.wait_for()).await {
            // The watch has begun by then: it tells so in its stream.
            options.fail(refusal);
        }
        let namespace =
            (kind.namespaced && !target.namespace.is_empty()).then_some(target.namespace.as_str());
        let source = Source {
            store: Arc::clone(&self.store),
            clock: self.world.clock.clone(),
            timeout: self.noise.jitter(LEAST_TIMEOUT, 1.0),
        };
        let include = IncludeObject::parse(query.get("includeObject")).unwrap_or_default();
        let events = watch::open(source, kind, namespace, options, format, include);
        let body = StreamBody::new(events.map(|line| Ok(Frame::data(line))));
        let mut response = Response::new(body.boxed_unsync());
        let media_type = if format.protobuf {
            "application/vnd.kubernetes.protobuf;stream=watch"
        } else {
            "application/json"
        };
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static(media_type),
        );
        Ok(response)
    }

    /// Shows a result the way the client wants it.
    pub(super) fn show(
        &self,
        kind: &'static Kind,
        query: &Query,
        format: Format,
        reply: &Reply,
    ) -> Result<Response<Body>, Refusal> {
        let shape = if reply.shapeable {
            format.shape
        } else {
            Shape::Whole
        };
        let is_list = reply.body.get("items").is_some();
        let mut document = match shape {
            Shape::Whole => return Ok(respond::write(reply.code, &reply.body, format.yaml)),
            Shape::Partial if !is_list => respond::partial(&reply.body),
            Shape::PartialList if is_list => respond::partial_list(&reply.body),
            Shape::Partial | Shape::PartialList => return Err(misshapen(kind, is_list)),
            Shape::Table => self.table(kind, query, reply, is_list)?,
        };
        if format.beta {
            respond::to_beta(&mut document);
        }
        Ok(respond::write(reply.code, &document, format.yaml))
    }

    fn table(
        &self,
        kind: &'static Kind,
        query: &Query,
        reply: &Reply,
        is_list: bool,
    ) -> Result<Value, Refusal> {
        let mut items = respond::items(&reply.body).to_vec();
        for item in &mut items {
            // The items of a list carry neither, but the rows of a table do.
            item["apiVersion"] = kind.api_version().into();
            item["kind"] = kind.kind.into();
        }
        let include = query.get("includeObject");
        let include = IncludeObject::parse(include).ok_or_else(|| {
            Refusal::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {include:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))
        })?;
        let mut table = table::table(kind, &items, include, self.world.clock.now());
        let metadata = &reply.body["metadata"];
        table["metadata"] = if is_list {
            metadata.clone()
        } else {
            json!({ "resourceVersion": metadata["resourceVersion"] })
        };
        Ok(table)
    }
}

/// 406: metadata of one object was wanted of a list, or the other way round.
fn misshapen(kind: &Kind, is_list: bool) -> Refusal {
    let package = match kind.group.split('.').next() {
        None | Some("") => "core",
        Some(name) => name,
    };
    let message = if is_list {
        format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{package}.{}List)",
            kind.kind
        )
    } else {
        format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.{})",
            kind.kind
        )
    };
    Refusal::new(406, "NotAcceptable", message)
}

/// Who owns what in a `TokenRequest`, which is no kind of its own here.
fn token_entries(call: &Call, spec: &Value) -> Value {
    let mut fields = Map::new();
    for (name, value) in spec.as_object().into_iter().flatten() {
        let mut inside = Map::new();
        if let Value::Object(map) = value {
            inside.insert(".".to_owned(), json!({}));
            inside.extend(map.keys().map(|key| (format!("f:{key}"), json!({}))));
        }
        fields.insert(format!("f:{name}"), inside.into());
    }
    // The one field with a default.
    fields.insert("f:expirationSeconds".to_owned(), json!({}));
    json!([{
        "manager": call.writer().manager, "operation": "Update",
        "apiVersion": "authentication.k8s.io/v1", "time": seconds(call.now),
        "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": fields }, "subresource": "token",
    }])
}
