//! A simulated cluster for the tests of its clients: the API server behind real authentication
//! and authorization, reached over pipes.

use std::sync::Arc;

use bowline_http::Connector;
use http::{HeaderValue, Request, Uri};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::Body;
use serde_json::Value;

use crate::World;
use crate::kubernetes::auth::{self, Auth, kind};
use crate::kubernetes::certificates::Keys;
use crate::kubernetes::kinds;
use crate::kubernetes::{KubernetesApi, bootstrap};
use crate::serve::Server;

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
        let api = KubernetesApi::new(world.clone(), Arc::clone(&auth));
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
