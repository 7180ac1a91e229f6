//! Sub-resources that are neither read nor written like an object: binding, eviction, token.

use serde_json::{Value, json};

use super::delete::{self, DeleteOptions};
use super::{Call, body};
use crate::kinds::Kind;
use crate::object::{seconds, text};
use crate::respond::Reply;
use crate::status::Refusal;
use crate::store::State;
use crate::strategy::problem::{Problem, invalid_of};

/// Which methods a sub-resource answers; the empty name is the object itself.
pub fn allows(kind: &Kind, subresource: &str, method: &str) -> bool {
    match subresource {
        "" => matches!(method, "GET" | "PUT" | "PATCH" | "DELETE"),
        "status" | "approval" => matches!(method, "GET" | "PUT" | "PATCH"),
        "finalize" => method == "PUT",
        "binding" | "eviction" | "token" => method == "POST",
        _ => kind.subresources.contains(&subresource),
    }
}

fn created() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    })
}

/// Answers `POST pods/{name}/binding`: gives the pod to a node.
pub fn bind(call: &Call, state: &mut State) -> Result<Reply, Refusal> {
    let binding = body::object(&call.headers, &call.body, "v1", "Binding")?;
    let node = text(&binding, "/target/name");
    if node.is_empty() {
        let problem = Problem::required("target.name", "");
        return Err(invalid_of("", "Binding", &call.name, &[problem]));
    }
    let old = state
        .get(call.kind, &call.path())
        .ok_or_else(|| Refusal::not_found(call.kind, &call.name))?;
    let current = text(&old, "/spec/nodeName");
    if !current.is_empty() {
        let why = format!("pod {} is already assigned to node {current:?}", call.name);
        return Err(
            Refusal::conflict(call.kind, &call.name, &why).named("pods/binding", &call.name)
        );
    }
    let mut pod = (*old).clone();
    pod["spec"]["nodeName"] = node.into();
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": seconds(call.now),
    });
    match pod["status"]["conditions"].as_array_mut() {
        Some(conditions) => {
            conditions.retain(|condition| condition["type"] != "PodScheduled");
            conditions.push(scheduled);
        }
        None => pod["status"]["conditions"] = json!([scheduled]),
    }
    if !call.dry_run() {
        state.save(call.kind, &call.path(), pod);
    }
    Ok(Reply::document(201, created()))
}

trait Named {
    fn named(self, resource: &str, name: &str) -> Self;
}

impl Named for Refusal {
    /// Names a sub-resource where the message would name the resource.
    fn named(mut self, resource: &str, name: &str) -> Self {
        let plain = format!("pods {name:?}");
        self.message = self
            .message
            .replacen(&plain, &format!("{resource} {name:?}"), 1);
        self.details["kind"] = resource.into();
        self
    }
}

/// Answers `POST pods/{name}/eviction`: deletes the pod.
pub fn evict(call: &Call, state: &mut State) -> Result<Reply, Refusal> {
    let eviction = body::object(&call.headers, &call.body, "policy/v1", "Eviction")?;
    let options = DeleteOptions::check(&eviction["deleteOptions"])?;
    let old = state
        .get(call.kind, &call.path())
        .ok_or_else(|| Refusal::not_found(call.kind, &call.name))?;
    delete::remove(call, state, &old, &options)?;
    Ok(Reply::document(201, created()))
}
