//! A cluster small enough for the tests of the clients here: Nodes and leases, kept in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<(&'static str, String), Value>,
    log: Vec<(u64, &'static str, Bytes)>,
    watchers: Vec<(&'static str, mpsc::UnboundedSender<Bytes>)>,
    /// Method, path and user of every call that is no watch.
    calls: Vec<(String, String, String)>,
}

#[derive(Clone, Default)]
pub(crate) struct Cluster(Arc<Mutex<State>>);

impl Cluster {
    pub(crate) fn client(&self) -> kube::Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                // Every call takes a moment, so that many can be under way.
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                Ok::<_, kube::Error>(cluster.answer(&head, &body))
            }
        });
        kube::Client::new(service, "default")
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.get(NODES, name)
    }

    pub(crate) fn lease(&self, name: &str) -> Option<Value> {
        self.get(LEASES, name)
    }

    fn get(&self, collection: &'static str, name: &str) -> Option<Value> {
        let state = self.0.lock().unwrap();
        state.objects.get(&(collection, name.to_owned())).cloned()
    }

    pub(crate) fn calls(&self) -> Vec<(String, String, String)> {
        self.0.lock().unwrap().calls.clone()
    }

    pub(crate) fn delete_node(&self, name: &str) {
        let mut state = self.0.lock().unwrap();
        let object = state.objects.remove(&(NODES, name.to_owned())).unwrap();
        state.tell("DELETED", NODES, object);
    }

    /// Changes a Node as somebody else would.
    pub(crate) fn change_node(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = self.node(name).unwrap();
        change(&mut node);
        self.0.lock().unwrap().put(NODES, name, node, "MODIFIED");
    }

    fn answer(&self, head: &http::request::Parts, body: &[u8]) -> Answer {
        let mut state = self.0.lock().unwrap();
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or(""));
        let collection = [NODES, LEASES]
            .into_iter()
            .find(|one| path.starts_with(one))
            .unwrap();
        let rest = path[collection.len()..].trim_start_matches('/');
        let name = rest.split('/').next().unwrap().to_owned();
        if query.contains("watch=true") {
            return state.watch(collection, query);
        }
        let user = head.headers.get("impersonate-user");
        let user = user.map_or("", |user| user.to_str().unwrap()).to_owned();
        state
            .calls
            .push((head.method.to_string(), path.to_owned(), user));
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let before = state.objects.get(&(collection, name.clone())).cloned();
        match (head.method.as_str(), before) {
            ("GET", _) if name.is_empty() => state.list(collection),
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                if state.objects.contains_key(&(collection, name.clone())) {
                    return refuse(409, "AlreadyExists");
                }
                let mut object = body;
                let uid = format!("uid-{}", state.version + 1);
                object["metadata"]["uid"] = json!(uid);
                reply(201, &state.put(collection, &name, object, "ADDED"))
            }
            (_, None) => refuse(404, "NotFound"),
            ("GET", Some(object)) => reply(200, &object),
            (method, Some(before)) => {
                let wanted = &body["metadata"]["resourceVersion"];
                if !wanted.is_null() && *wanted != before["metadata"]["resourceVersion"] {
                    return refuse(409, "Conflict");
                }
                let after = if method == "PUT" {
                    body
                } else {
                    let kind = head.headers["content-type"].to_str().unwrap();
                    patched(before, body, kind.contains("strategic"))
                };
                reply(200, &state.put(collection, &name, after, "MODIFIED"))
            }
        }
    }
}

impl State {
    fn put(
        &mut self,
        collection: &'static str,
        name: &str,
        mut object: Value,
        event: &str,
    ) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects
            .insert((collection, name.to_owned()), object.clone());
        self.tell(event, collection, object.clone());
        object
    }

    fn tell(&mut self, event: &str, collection: &'static str, mut object: Value) {
        self.version += u64::from(event == "DELETED");
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let line = Bytes::from(format!("{}\n", json!({ "type": event, "object": object })));
        self.log.push((self.version, collection, line.clone()));
        self.watchers
            .retain(|(one, to)| *one != collection || to.send(line.clone()).is_ok());
    }

    fn list(&self, collection: &'static str) -> Answer {
        let items: Vec<&Value> = self
            .objects
            .iter()
            .filter(|((one, _), _)| *one == collection)
            .map(|(_, object)| object)
            .collect();
        let version = self.version.to_string();
        reply(
            200,
            &json!({ "kind": "List", "apiVersion": "v1",
            "metadata": { "resourceVersion": version }, "items": items }),
        )
    }

    fn watch(&mut self, collection: &'static str, query: &str) -> Answer {
        let since = query
            .split('&')
            .find_map(|part| part.strip_prefix("resourceVersion="))
            .map_or(0, |version| version.parse::<u64>().unwrap());
        let (to, from) = mpsc::unbounded_channel();
        for (version, one, line) in &self.log {
            if *one == collection && *version > since {
                to.send(line.clone()).unwrap();
            }
        }
        self.watchers.push((collection, to));
        let frames = futures::stream::unfold(from, |mut from| async {
            let line = from.recv().await?;
            Some((Ok(http_body::Frame::data(line)), from))
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

fn reply(code: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

fn refuse(code: u16, reason: &str) -> Answer {
    reply(
        code,
        &json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": reason }),
    )
}

/// Merges; conditions by their type, if the patch is a strategic one.
fn patched(mut before: Value, mut patch: Value, strategic: bool) -> Value {
    if strategic && let Some(status) = patch["status"].as_object_mut() {
        status.remove("$setElementOrder/conditions");
        if let Some(news) = status.remove("conditions") {
            let mut all = before["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            for new in news.as_array().unwrap() {
                match all.iter_mut().find(|old| old["type"] == new["type"]) {
                    Some(old) => json_patch::merge(old, new),
                    None => all.push(new.clone()),
                }
            }
            status.insert("conditions".to_owned(), Value::Array(all));
        }
    }
    json_patch::merge(&mut before, &patch);
    before
}
