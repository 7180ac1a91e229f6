//! The API server itself: from a request to its answer.

use std::sync::Arc;
use std::time::Duration;

use bowline_http::Random;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::request::Parts as Head;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};

use super::auth::{Attributes, Auth, Objects, User};
use super::kinds::{Kind, Role};
use super::list::{self, ListOptions, too_large};
use super::parts::{Parts, WholeParts};
use super::request::{Query, Target};
use super::respond::{self, Format, Reply, Shape};
use super::selectors::Selector;
use super::status::Refusal;
use super::store::{State, Store, text};
use super::verbs::{Call, body, create, delete, namespaces, patch, subresources, update};
use super::watch::{self, LEAST_TIMEOUT, Source, WatchOptions};
use crate::World;
use crate::serve::{Answer, Api, Body, Peer};

/// How long a list waits for a version that does not exist yet.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);
/// The largest request body, as in the API server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// What every use of Endpoints is answered with.
const ENDPOINTS_WARNING: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
/// The namespaces every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// A Kubernetes API server in memory.
pub struct KubernetesApi {
    world: World,
    store: Arc<Store>,
    parts: Arc<dyn Parts>,
    /// Names, uids, addresses: drawn by writes alone, so that reads change nothing.
    random: Random,
    /// Identities of requests and lengths of watches.
    noise: Random,
}

impl KubernetesApi {
    /// A server with the four usual namespaces, and access as `auth` decides it.
    pub fn new(world: World, auth: Arc<Auth>) -> Arc<Self> {
        Self::with_parts(world, Arc::new(WholeParts(auth)))
    }

    /// A server of given parts.
    pub fn with_parts(world: World, parts: Arc<dyn Parts>) -> Arc<Self> {
        let store = Arc::new(Store::new(world.clock.clone(), world.random.fork()));
        if let Some(kind) = namespaces::kind() {
            for name in NAMESPACES {
                store.put(
                    kind,
                    json!({
                        "metadata": {
                            "name": name, "labels": { "kubernetes.io/metadata.name": name },
                        },
                        "spec": { "finalizers": ["kubernetes"] },
                        "status": { "phase": "Active" },
                    }),
                );
            }
        }
        Arc::new(Self {
            random: world.random.fork(),
            noise: world.random.fork(),
            world,
            store,
            parts,
        })
    }

    /// The objects, without HTTP.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// One object.
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        self.store.get(kind, namespace, name)
    }

    /// All objects of a kind, in one namespace or everywhere.
    pub fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Value> {
        self.store.list(kind, namespace)
    }

    /// Stores an object as it is.
    pub fn put(&self, kind: &Kind, object: Value) -> Value {
        self.store.put(kind, object)
    }

    /// Removes an object at once; tells whether it was there.
    pub fn delete(&self, kind: &Kind, namespace: &str, name: &str) -> bool {
        self.store.remove(kind, namespace, name)
    }

    /// Ends every open watch.
    pub fn break_watches(&self) {
        self.store.break_watches();
    }

    /// Forgets all history.
    pub fn compact(&self) {
        self.store.compact();
    }

    async fn respond(&self, head: &Head, content: Bytes, peer: &Peer) -> (Response<Body>, String) {
        let audit = self.noise.uuid();
        let user = self.parts.authenticate(
            &head.headers,
            peer,
            self.store.as_ref(),
            self.world.clock.now(),
        );
        let user = match user {
            Ok(user) => user,
            Err(refusal) => {
                let mut response = respond::refuse(&refusal, false);
                respond::finish(&mut response, &audit, &[]);
                return (response, String::new());
            }
        };
        let caller = user.name.clone();
        let mut warnings = Vec::new();
        let yaml = respond::negotiate(&head.headers).is_ok_and(|format| format.yaml);
        let mut response = match self.route(head, content, user, &mut warnings).await {
            Ok(response) => response,
            Err(refusal) => respond::refuse(&refusal, yaml),
        };
        respond::finish(&mut response, &audit, &warnings);
        (response, caller)
    }

    async fn route(
        &self,
        head: &Head,
        content: Bytes,
        user: User,
        warnings: &mut Vec<String>,
    ) -> Result<Response<Body>, Refusal> {
        let path = head.uri.path();
        let query = Query::of(&head.uri);
        let Some(target) = Target::of(path) else {
            return self.plain_path(head, path, &query, &user);
        };
        let verb = target.verb(&head.method, &query);
        let selected = match (verb, target.kind()) {
            ("list" | "watch" | "deletecollection", Some(kind)) => {
                Selector::parse(kind, "", query.get("fieldSelector"))
                    .ok()
                    .and_then(|selector| selector.name().map(str::to_owned))
            }
            _ => None,
        };
        let attributes = target.attributes(verb, path, selected.as_deref());
        self.allow(&user, &attributes)?;
        if !target.group_is_served() {
            return Ok(not_a_page());
        }
        let kind = served(&target)?;
        let format = respond::negotiate(&head.headers)?;
        if content.len() > BODY_LIMIT {
            return Err(Refusal::new(
                413,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {BODY_LIMIT}"),
            ));
        }
        check_method(kind, &target, head.method.as_str())?;
        if verb == "watch" {
            return self.watch(kind, &target, &query, format).await;
        }
        let namespace = if kind.namespaced {
            target.namespace.as_str()
        } else {
            ""
        };
        let creates = matches!(verb, "update" | "patch")
            && !self.store.contains(kind, namespace, &target.name);
        let may_create = if creates {
            let verb = "create".to_owned();
            self.allow(&user, &Attributes { verb, ..attributes })
        } else {
            Ok(())
        };
        let call = Call {
            parts: self.parts.as_ref(),
            random: &self.random,
            now: self.world.clock.now(),
            user,
            kind,
            namespace: namespace.to_owned(),
            name: target.name.clone(),
            subresource: target.subresource.clone(),
            query,
            headers: head.headers.clone(),
            body: content,
            may_create,
        };
        self.check_signer(&call, verb)?;
        let reply = self.execute(&call, verb).await?;
        warnings.clone_from(&reply.warnings);
        if kind.kind == "Endpoints" {
            warnings.push(ENDPOINTS_WARNING.to_owned());
        }
        Ok(self.show(kind, &call.query, format, &reply))
    }

    fn allow(&self, user: &User, attributes: &Attributes) -> Result<(), Refusal> {
        self.parts.authorize(user, attributes, self.store.as_ref())
    }

    /// Who approves a certificate request, or signs it, must be allowed to do so for its signer.
    fn check_signer(&self, call: &Call, verb: &str) -> Result<(), Refusal> {
        if call.kind.group != "certificates.k8s.io" || !matches!(verb, "update" | "patch") {
            return Ok(());
        }
        let Some(request) = self.store.get(call.kind, "", &call.name) else {
            return Err(Refusal::not_found(call.kind, &call.name));
        };
        let action = match call.subresource.as_str() {
            "approval" => "approve",
            "status" if sets_certificate(&call.body, &request) => "sign",
            _ => return Ok(()),
        };
        let signer = text(&request, "/spec/signerName");
        let domain = signer.split('/').next().unwrap_or_default();
        let names = [signer.to_owned(), format!("{domain}/*")];
        let allowed = names.into_iter().any(|name| {
            let attributes = Attributes {
                verb: action.to_owned(),
                group: "certificates.k8s.io".to_owned(),
                resource: "signers".to_owned(),
                name,
                ..Attributes::default()
            };
            self.allow(&call.user, &attributes).is_ok()
        });
        if allowed {
            return Ok(());
        }
        let message = format!(
            "{} {:?} is forbidden: user not permitted to {action} requests with signerName {signer:?}",
            call.kind.qualified(),
            call.name
        );
        Err(Refusal::new(403, "Forbidden", message).about(call.kind, &call.name))
    }

    async fn execute(&self, call: &Call<'_>, verb: &str) -> Result<Reply, Refusal> {
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
        let answer = self.parts.answer_review(
            call.kind,
            &call.namespace,
            &question,
            &call.user,
            self.store.as_ref(),
            call.now,
        )?;
        Ok(Reply::document(201, answer))
    }

    fn token(&self, call: &Call) -> Result<Reply, Refusal> {
        let version = "authentication.k8s.io/v1";
        let request = body::object(&call.headers, &call.body, version, "TokenRequest")?;
        let account = self
            .store
            .get(call.kind, &call.namespace, &call.name)
            .ok_or_else(|| Refusal::not_found(call.kind, &call.name))?;
        let answer = self
            .parts
            .issue_token(&account, &request, self.store.as_ref(), call.now)?;
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

    async fn watch(
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
        self.wait_for(options.wait_for()).await?;
        let namespace =
            (kind.namespaced && !target.namespace.is_empty()).then_some(target.namespace.as_str());
        let source = Source {
            store: Arc::clone(&self.store),
            parts: Arc::clone(&self.parts),
            clock: self.world.clock.clone(),
            timeout: self.noise.jitter(LEAST_TIMEOUT, 1.0),
        };
        let include = query.get("includeObject");
        let events = watch::open(source, kind, namespace, options, format.shape, include);
        let body = StreamBody::new(events.map(|line| Ok(Frame::data(line))));
        let mut response = Response::new(body.boxed_unsync());
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        );
        Ok(response)
    }

    fn show(
        &self,
        kind: &'static Kind,
        query: &Query,
        format: Format,
        reply: &Reply,
    ) -> Response<Body> {
        let whole = Format {
            shape: Shape::Whole,
            ..format
        };
        let format = if reply.shapeable { format } else { whole };
        let is_list = reply.body.get("items").is_some();
        match format.shape {
            Shape::Whole => respond::write(reply.code, &reply.body, format.yaml),
            Shape::Partial if is_list => {
                let list = respond::partial_list(&reply.body);
                respond::write(reply.code, &list, format.yaml)
            }
            Shape::Partial => {
                respond::write(reply.code, &respond::partial(&reply.body), format.yaml)
            }
            Shape::Table => {
                let now = self.world.clock.now();
                let items = respond::items(&reply.body);
                let include = query.get("includeObject");
                let mut table = self.parts.table(kind, items, include, now);
                let metadata = &reply.body["metadata"];
                table["metadata"] = if is_list {
                    metadata.clone()
                } else {
                    json!({ "resourceVersion": metadata["resourceVersion"] })
                };
                respond::write(reply.code, &table, format.yaml)
            }
        }
    }

    /// Answers a path that names no resource.
    fn plain_path(
        &self,
        head: &Head,
        path: &str,
        query: &Query,
        user: &User,
    ) -> Result<Response<Body>, Refusal> {
        let attributes = Attributes {
            verb: head.method.as_str().to_ascii_lowercase(),
            path: path.to_owned(),
            ..Attributes::default()
        };
        self.allow(user, &attributes)?;
        if !matches!(head.method.as_str(), "GET" | "HEAD") {
            return Err(not_allowed());
        }
        if let Some(response) = super::health::answer(path, query) {
            return Ok(response);
        }
        let accept = head
            .headers
            .get(http::header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if let Some((content_type, document)) = self.parts.discovery(path, accept) {
            let mut content = document.to_string().into_bytes();
            content.push(b'\n');
            return Ok(respond::bytes(200, &content_type, content));
        }
        if path == "/version" || path == "/version/" {
            return Ok(respond::write(200, &super::health::version(), false));
        }
        Ok(not_a_page())
    }
}

/// Whether a write to the status of a certificate request brings another certificate.
fn sets_certificate(body: &[u8], request: &Value) -> bool {
    let written: Value = serde_json::from_slice(body).unwrap_or_default();
    let certificate = &written["status"]["certificate"];
    !certificate.is_null() && *certificate != request["status"]["certificate"]
}

/// The kind behind a path, if the path has a form that the kind allows.
fn served(target: &Target) -> Result<&'static Kind, Refusal> {
    let kind = target.kind().ok_or_else(no_such_resource)?;
    let known =
        target.subresource.is_empty() || kind.subresources.contains(&target.subresource.as_str());
    // A namespaced object can only be addressed within its namespace.
    let placed = kind.namespaced || target.namespace.is_empty() || kind.kind == "Namespace";
    let complete = !kind.namespaced || target.name.is_empty() || !target.namespace.is_empty();
    if known && placed && complete && !target.deeper {
        Ok(kind)
    } else {
        Err(no_such_resource())
    }
}

fn no_such_resource() -> Refusal {
    let mut refusal = Refusal::no_such_path();
    refusal.details = json!({});
    refusal
}

fn not_allowed() -> Refusal {
    let mut refusal = Refusal::new(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    );
    refusal.details = json!({});
    refusal
}

fn check_method(kind: &Kind, target: &Target, method: &str) -> Result<(), Refusal> {
    let allowed = if kind.role == Role::Review {
        method == "POST" && target.name.is_empty()
    } else if target.old_watch {
        matches!(method, "GET" | "HEAD")
    } else if target.name.is_empty() {
        let here = !kind.namespaced || !target.namespace.is_empty();
        matches!(method, "GET" | "HEAD") || (here && matches!(method, "POST" | "DELETE"))
    } else {
        subresources::allows(kind, &target.subresource, method)
    };
    // Namespaces cannot be deleted as a collection.
    let collection = target.name.is_empty() && method == "DELETE" && kind.kind == "Namespace";
    if allowed && !collection {
        Ok(())
    } else {
        Err(not_allowed())
    }
}

/// What Go's router answers to a path that nobody handles.
fn not_a_page() -> Response<Body> {
    let mut response = respond::bytes(
        404,
        "text/plain; charset=utf-8",
        b"404 page not found\n".to_vec(),
    );
    response.headers_mut().insert(
        "x-content-type-options",
        http::HeaderValue::from_static("nosniff"),
    );
    response
}

impl Api for KubernetesApi {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, peer: &'a Peer) -> BoxFuture<'a, Answer> {
        async move {
            let (head, content) = request.into_parts();
            let (response, caller) = self.respond(&head, content, peer).await;
            Answer { response, caller }
        }
        .boxed()
    }

    fn state(&self) -> Value {
        self.store.dump()
    }

    fn error_body(&self, status: http::StatusCode, message: &str) -> Value {
        Refusal::of_code(status.as_u16(), message).to_status()
    }

    fn control(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "break-watches" => self.break_watches(),
            "compact" => self.compact(),
            "put" => {
                let kind = kind_of(body)?;
                return Ok(self.put(kind, body.clone()));
            }
            "delete" => {
                let kind = kind_of(body)?;
                let namespace = text(body, "/metadata/namespace");
                let found = self.delete(kind, namespace, text(body, "/metadata/name"));
                return Ok(json!({ "found": found }));
            }
            other => {
                return Err(format!(
                    "unknown control verb {other:?}; known are break-watches, compact, put, delete"
                ));
            }
        }
        Ok(json!({ "revision": self.store.revision() }))
    }
}

/// The served kind that a document names.
fn kind_of(document: &Value) -> Result<&'static Kind, String> {
    let version = text(document, "/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let name = text(document, "/kind");
    if text(document, "/metadata/name").is_empty() {
        return Err("the object has no metadata.name".to_owned());
    }
    super::kinds::by_kind(group, version, name)
        .filter(|kind| kind.role == Role::Stored)
        .ok_or_else(|| format!("no stored kind {name:?} in version {version:?} of {group:?}"))
}
