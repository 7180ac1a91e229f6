//! Requests to the API server, without sockets.

mod client;
mod lists;
mod watches;
mod writes;

use std::sync::Arc;

use bowline_simulator::World;
use bowline_simulator::keys::Keys;
use bowline_simulator::serve::{Api, Body, Peer};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::KubernetesApi;
use super::auth::{Auth, User};

/// An answer, read whole.
struct Got {
    code: u16,
    headers: HeaderMap,
    body: Value,
}

impl Got {
    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    fn version(&self) -> &str {
        self.body["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
    }
}

fn api() -> Arc<KubernetesApi> {
    let world = World::simulated(7);
    let auth = Auth::new(&Keys::seeded(&world.random)).unwrap();
    let groups = ["system:masters", "system:authenticated"];
    auth.add_token(TOKEN, User::new("kubernetes-admin", &groups));
    KubernetesApi::new(world, Arc::new(auth))
}

/// A request of somebody who may do everything.
fn request(method: &str, uri: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(uri)
        .header("authorization", format!("Bearer {TOKEN}"))
}

async fn open(
    api: &KubernetesApi,
    method: &str,
    uri: &str,
    kind: &str,
    body: Bytes,
) -> http::Response<Body> {
    let mut request = request(method, uri);
    if !kind.is_empty() {
        request = request.header("content-type", kind);
    }
    let request = request.body(body).unwrap();
    api.answer(request, &Peer::default()).await.response
}

async fn send(api: &KubernetesApi, method: &str, uri: &str, kind: &str, body: Bytes) -> Got {
    let (head, body) = open(api, method, uri, kind, body).await.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Got {
        code: head.status.as_u16(),
        headers: head.headers,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::String(text)),
    }
}

async fn get(api: &KubernetesApi, uri: &str) -> Got {
    send(api, "GET", uri, "", Bytes::new()).await
}

async fn post(api: &KubernetesApi, uri: &str, body: &Value) -> Got {
    let body = body.to_string().into();
    send(api, "POST", uri, "application/json", body).await
}

async fn patch(api: &KubernetesApi, uri: &str, style: &str, body: &Value) -> Got {
    let kind = format!("application/{style}");
    send(api, "PATCH", uri, &kind, body.to_string().into()).await
}

async fn delete(api: &KubernetesApi, uri: &str) -> Got {
    send(api, "DELETE", uri, "", Bytes::new()).await
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

const TOKEN: &str = "admin";
const NODES: &str = "/api/v1/nodes";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
