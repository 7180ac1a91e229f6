//! A simulated cluster for the tests of its clients: the API server behind real authentication
//! and authorization, reached over pipes.

use std::sync::Arc;

use bowline_http::Connector;
use http::{HeaderMap, HeaderValue, Request, Uri};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use kube::client::Body;
use serde_json::Value;

use crate::World;
use crate::kubernetes::auth::{self, Auth, kind};
use crate::kubernetes::certificates::Keys;
use crate::kubernetes::kinds::{self, Kind};
use crate::kubernetes::parts::{
    Attributes, FieldValidation, Objects, Parts, PlainParts, User, Writer,
};
use crate::kubernetes::status::Refusal;
use crate::kubernetes::{KubernetesApi, bootstrap, patch};
use crate::serve::{Peer, Server};

/// The name under which the server listens.
const AUTHORITY: &str = "kubernetes:443";
/// The token of somebody who may do anything.
const ADMIN: &str = "admin";

/// A running cluster.
pub(crate) struct Cluster {
    pub(crate) world: World,
    pub(crate) auth: Arc<Auth>,
    pub(crate) api: Arc<KubernetesApi>,
    _server: Server,
}

impl Cluster {
    pub(crate) fn new(world: &World) -> Self {
        let auth = Arc::new(Auth::new(&Keys::seeded(&world.random)).unwrap());
        auth.add_token(ADMIN, auth::User::new("admin", &["system:masters"]));
        let parts = Joined(Arc::clone(&auth));
        let api = KubernetesApi::with_parts(world.clone(), Arc::new(parts));
        let cluster = Self {
            _server: Server::builder(world, api.clone()).pipe(AUTHORITY),
            world: world.clone(),
            auth,
            api,
        };
        let endpoint = ([127, 0, 0, 1], 6443).into();
        cluster.install(bootstrap::objects(&cluster.auth, endpoint));
        cluster
    }

    /// Stores objects as they are.
    pub(crate) fn install(&self, objects: Vec<Value>) {
        for object in objects {
            let version = object["apiVersion"].as_str().unwrap();
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let kind = object["kind"].as_str().unwrap();
            let kind = kinds::by_kind(group, version, kind).unwrap();
            self.api.put(kind, object);
        }
    }

    /// A client that may do anything.
    pub(crate) fn client(&self) -> kube::Client {
        self.client_with(ADMIN)
    }

    /// A client with that bearer token.
    pub(crate) fn client_with(&self, token: &str) -> kube::Client {
        let connector = Connector::simulated(self.world.pipes.clone());
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        let bearer = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let path = request.uri().path_and_query().unwrap().clone();
            *request.uri_mut() = Uri::builder()
                .scheme("http")
                .authority(AUTHORITY)
                .path_and_query(path)
                .build()
                .unwrap();
            request
                .headers_mut()
                .insert("authorization", bearer.clone());
            client.request(request)
        });
        kube::Client::new(service, "default")
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.api.get(kind("Node"), "", name)
    }

    pub(crate) fn lease(&self, name: &str) -> Option<Value> {
        self.api.get(kind("Lease"), "kube-node-lease", name)
    }

    pub(crate) fn delete_node(&self, name: &str) {
        assert!(self.api.delete(kind("Node"), "", name));
    }

    /// Changes a Node as somebody else would.
    pub(crate) fn change_node(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = self.node(name).unwrap();
        change(&mut node);
        self.api.put(kind("Node"), node);
    }

    /// Method, path, status and caller of every call so far that is no watch.
    pub(crate) fn calls(&self) -> Vec<(String, String, u16, String)> {
        let entries = self.world.journal.entries().into_iter();
        entries
            .filter(|entry| !entry.query.contains("watch="))
            .map(|entry| (entry.method, entry.path, entry.status, entry.caller))
            .collect()
    }
}

/// The parts a decision about access needs, and strategic patches; the rest is plain.
struct Joined(Arc<Auth>);

/// The store, as decisions about access see it.
struct Seen<'a>(&'a dyn Objects);

impl auth::Objects for Seen<'_> {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        self.0.get(kind, namespace, name)
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Value> {
        self.0.list(kind, namespace)
    }
}

fn ours(user: &User) -> auth::User {
    auth::User {
        name: user.name.clone(),
        uid: user.uid.clone(),
        groups: user.groups.clone(),
        extra: user.extra.clone(),
    }
}

impl Parts for Joined {
    fn strategic_patch(
        &self,
        kind: &'static Kind,
        object: &Value,
        change: &Value,
    ) -> Result<Value, Refusal> {
        patch::strategic_patch(kind, object, change)
    }

    fn apply(
        &self,
        kind: &'static Kind,
        live: Option<&Value>,
        config: &Value,
        writer: &Writer,
        force: bool,
    ) -> Result<Value, Refusal> {
        PlainParts.apply(kind, live, config, writer, force)
    }

    fn record_update(
        &self,
        kind: &'static Kind,
        before: Option<&Value>,
        after: Value,
        writer: &Writer,
    ) -> Value {
        PlainParts.record_update(kind, before, after, writer)
    }

    fn check_fields(
        &self,
        kind: &'static Kind,
        object: Value,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Refusal> {
        PlainParts.check_fields(kind, object, validation)
    }

    fn table(
        &self,
        kind: &'static Kind,
        objects: &[Value],
        include: &str,
        now: Timestamp,
    ) -> Value {
        PlainParts.table(kind, objects, include, now)
    }

    fn discovery(&self, path: &str, accept: &str) -> Option<(String, Value)> {
        PlainParts.discovery(path, accept)
    }

    fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<User, Refusal> {
        let user = self.0.authenticate(headers, peer, &Seen(objects), now)?;
        Ok(User {
            name: user.name,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
        })
    }

    fn authorize(
        &self,
        user: &User,
        attributes: &Attributes,
        objects: &dyn Objects,
    ) -> Result<(), Refusal> {
        let wanted = auth::Attributes {
            verb: attributes.verb.clone(),
            group: attributes.group.clone(),
            resource: attributes.resource.clone(),
            subresource: attributes.subresource.clone(),
            namespace: attributes.namespace.clone(),
            name: attributes.name.clone(),
            path: attributes.path.clone(),
        };
        self.0.authorize(&ours(user), &wanted, &Seen(objects))
    }

    fn answer_review(
        &self,
        kind: &'static Kind,
        namespace: &str,
        body: &Value,
        user: &User,
        objects: &dyn Objects,
    ) -> Result<Value, Refusal> {
        let now = Timestamp::UNIX_EPOCH;
        self.0
            .answer_review(kind, namespace, body, &ours(user), &Seen(objects), now)
    }

    fn issue_token(
        &self,
        service_account: &Value,
        request: &Value,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Value, Refusal> {
        let namespace = auth::text(service_account, "/metadata/namespace");
        let spec = &request["spec"];
        self.0
            .issue_token(namespace, service_account, spec, &Seen(objects), now)
    }
}
