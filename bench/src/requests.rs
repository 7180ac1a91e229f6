//! Requests to the API server without types: bytes out, text in, nothing decoded that is not needed.

use anyhow::Result;
use http::{Method, Request};
use kube::Client;
use serde_json::Value;

/// How many requests of ours are under way at once. More do not make a kube-apiserver on two cores faster.
pub(crate) const IN_FLIGHT: usize = 32;

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(crate) async fn get(client: &Client, path: &str) -> Result<String> {
    let request = Request::get(path).body(Vec::new())?;
    Ok(client.request_text(request).await?)
}

pub(crate) async fn post(client: &Client, path: &str, object: &Value) -> Result<()> {
    send(client, Method::POST, path, "application/json", object).await
}

pub(crate) async fn patch(client: &Client, path: &str, kind: &str, body: &Value) -> Result<()> {
    send(client, Method::PATCH, path, kind, body).await
}

pub(crate) async fn delete(client: &Client, path: &str) -> Result<()> {
    let request = Request::delete(path).body(Vec::new())?;
    client.request_text(request).await?;
    Ok(())
}

async fn send(client: &Client, method: Method, path: &str, kind: &str, body: &Value) -> Result<()> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", kind);
    let request = request.body(serde_json::to_vec(body)?)?;
    client.request_text(request).await?;
    Ok(())
}
