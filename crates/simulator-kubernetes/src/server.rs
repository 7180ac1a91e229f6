//! The API server itself.

mod execute;
mod route;

use std::sync::Arc;

use bowline_http::Random;
use bowline_simulator::World;
use bowline_simulator::control::Control;
use bowline_simulator::serve::{Answer, Api, Peer};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Request;
use serde_json::{Value, json};

use super::auth::{Auth, Objects};
use super::kinds::{self, Kind};
use super::object::text;
use super::status::Refusal;
use super::store::Store;
use super::verbs::namespaces;

/// The namespaces every cluster has.
pub(super) const NAMESPACES: [&str; 4] =
    ["default", "kube-node-lease", "kube-public", "kube-system"];

/// A Kubernetes API server in memory.
pub struct KubernetesApi {
    world: World,
    store: Arc<Store>,
    auth: Arc<Auth>,
    /// Names, uids, addresses: drawn by writes alone, so that reads change nothing.
    random: Random,
    /// Identities of requests and lengths of watches.
    noise: Random,
}

impl KubernetesApi {
    /// A server with the four usual namespaces, and access as `auth` decides it.
    pub fn new(world: World, auth: Arc<Auth>) -> Arc<Self> {
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
            auth,
        })
    }

    /// The objects, without HTTP.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

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

    pub fn break_watches(&self) {
        self.store.break_watches();
    }

    /// Goes back to an earlier revision; see [`Store::restore`].
    pub fn restore(&self, revision: u64) -> bool {
        self.store.restore(revision)
    }

    pub fn compact(&self) {
        self.store.compact();
    }
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

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }

    fn error_body(&self, status: http::StatusCode, message: &str) -> Value {
        Refusal::of_code(status.as_u16(), message).to_status()
    }
}

impl Control for KubernetesApi {
    fn state(&self) -> Value {
        self.store.dump()
    }

    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "break-watches" => self.break_watches(),
            "compact" => self.compact(),
            "restore" => {
                let revision = body["revision"].as_u64();
                if !revision.is_some_and(|it| self.restore(it)) {
                    return Err("restore needs a revision that is still known".to_owned());
                }
            }
            "put" => {
                let kind = kinds::of_document(body)?;
                return Ok(self.put(kind, body.clone()));
            }
            "delete" => {
                let kind = kinds::of_document(body)?;
                let namespace = text(body, "/metadata/namespace");
                let found = self.delete(kind, namespace, text(body, "/metadata/name"));
                return Ok(json!({ "found": found }));
            }
            other => {
                return Err(format!(
                    "unknown control verb {other:?}; known are break-watches, compact, restore, put, delete"
                ));
            }
        }
        Ok(json!({ "revision": self.store.revision() }))
    }
}
