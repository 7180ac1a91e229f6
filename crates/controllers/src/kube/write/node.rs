//! Writes Nodes. An observer logs each write once instead of making it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::metadata::{self, Applied};
use bowline_core::owner_annotation;
use bowline_core::{Initialization, NetworkCondition, Node, NodeAddress, Taint};
use bowline_http::Random;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, Request};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;

use super::{WriteError, bounded, by_us};
use crate::kube::encoding::{self, Encoding};
use crate::kube::objects::protobuf::{self, Malformed};
use crate::kube::objects::{self, NodeObject};
use crate::report::Reported;

/// Tries of one change when others change the same node at the same time. Kubelets write every
/// few seconds, so that even two conflicts in a row are rare.
const CONFLICT_TRIES: usize = 5;
/// The least pause between two such tries; up to twice as long.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);
/// Withheld writes that are remembered to have been reported: two for each node of the largest
/// supported cluster.
const REPORTED_LIMIT: usize = 10_000;

/// The annotation of a node that was touched and has no pod range yet.
const TOUCHED: &str = "bowline.dev/touched";

/// What is read of the answer to a guarded write.
#[derive(Deserialize)]
struct Answer {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

/// Writes Node objects on behalf of one controller.
#[derive(Clone)]
pub struct NodeWriter {
    api: Api<NodeObject>,
    random: Random,
    /// Of an observer: what was logged instead of written last, by node (uid) and kind of write.
    withheld: Option<Arc<Reported<String>>>,
}

impl NodeWriter {
    /// A writer with that client.
    pub fn new(client: kube::Client, random: Random) -> Self {
        Self {
            api: Api::all(client),
            random,
            withheld: None,
        }
    }

    /// A writer that only logs what it would write.
    pub fn observing(client: kube::Client, random: Random) -> Self {
        Self {
            withheld: Some(Arc::new(Reported::new(REPORTED_LIMIT))),
            ..Self::new(client, random)
        }
    }

    /// Whether it only logs.
    pub fn is_observing(&self) -> bool {
        self.withheld.is_some()
    }

    /// The node as the API server has it now.
    pub async fn read(&self, name: &str) -> Result<Arc<Node>, WriteError> {
        let object = self.bounded("reading", name, self.api.get(name)).await?;
        Ok(Arc::new(object.into()))
    }

    /// Writes the whole list of addresses; the stored order is the given one.
    ///
    /// A merge patch, because a strategic one merges the list by type and loses that order.
    pub async fn set_addresses(
        &self,
        node: &Node,
        addresses: &[NodeAddress],
    ) -> Result<Arc<Node>, WriteError> {
        let list: Vec<Value> = addresses
            .iter()
            .map(|a| json!({ "type": a.kind.as_str(), "address": a.address }))
            .collect();
        let body = json!({ "metadata": { "uid": node.uid }, "status": { "addresses": list } });
        if self.withholds("writing the addresses", node, &body) {
            return Ok(Arc::new(node.clone()));
        }
        let patch = Patch::Merge(&body);
        let request = self
            .request()
            .patch_subresource("status", &node.name, &by_us(), &patch);
        self.send("writing the addresses", node, request).await
    }

    /// Says whether the network of the node is available; nobody else's conditions are touched.
    pub async fn set_network(
        &self,
        node: &Node,
        condition: &NetworkCondition,
        message: &str,
        now: Timestamp,
    ) -> Result<Arc<Node>, WriteError> {
        let what = "writing the network condition";
        // Kubernetes keeps whole seconds.
        let now = Time(now);
        let body = json!({ "metadata": { "uid": node.uid }, "status": { "conditions": [{
            "type": "NetworkUnavailable",
            "status": condition.status,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "reason": condition.reason,
            "message": message,
        }] } });
        // Without its times, which would make it new each time.
        let shown = json!({ "NetworkUnavailable": condition.status, "reason": condition.reason });
        if self.withholds(what, node, &shown) {
            return Ok(Arc::new(node.clone()));
        }
        let patch = Patch::Strategic(&body);
        let request = self
            .request()
            .patch_subresource("status", &node.name, &by_us(), &patch);
        self.send(what, node, request).await
    }

    /// Writes provider id, labels and taints of an initialisation, if the node is as it was read.
    pub async fn initialize(
        &self,
        node: &Node,
        change: &Initialization,
    ) -> Result<Arc<Node>, WriteError> {
        let mut spec = json!({ "taints": taint_list(&change.taints) });
        if let Some(id) = &change.provider_id {
            spec["providerID"] = id.as_str().into();
        }
        let body = json!({
            "metadata": { "resourceVersion": node.resource_version, "labels": change.labels },
            "spec": spec,
        });
        if self.withholds("initialising", node, &body) {
            return Ok(Arc::new(node.clone()));
        }
        let version = self.patch_guarded("initialising", node, &body).await?;
        Ok(Arc::new(change.written(node, version)))
    }

    /// Sends a patch that names the version it was made for, and gives the version after it. What was written is then known
    /// without the answer, so only its metadata is asked for: a Node with its images has many times that size.
    async fn patch_guarded(
        &self,
        what: &'static str,
        node: &Node,
        body: &Value,
    ) -> Result<String, WriteError> {
        let patch = Patch::Strategic(body);
        let request = self.request().patch(&node.name, &by_us(), &patch);
        let read = |answer: &[u8], encoding| match encoding {
            Encoding::Protobuf => protobuf::metadata(protobuf::opened(answer)?)?
                .resource_version
                .ok_or(Malformed.into()),
            Encoding::Json => {
                let answer: Answer = serde_json::from_slice(answer)?;
                Ok(answer.metadata.resource_version)
            }
        };
        self.call(what, node, request, encoding::METADATA, read)
            .await
    }

    /// Sets labels, whatever else changed on the node meanwhile.
    pub async fn set_labels(
        &self,
        node: &Node,
        labels: &BTreeMap<String, String>,
    ) -> Result<Arc<Node>, WriteError> {
        let body = json!({ "metadata": { "uid": node.uid, "labels": labels } });
        self.patch("writing the labels", node, &body).await
    }

    /// Sets and removes labels, whatever else changed on the node meanwhile.
    pub async fn change_labels(
        &self,
        node: &Node,
        labels: &BTreeMap<String, Option<String>>,
    ) -> Result<Arc<Node>, WriteError> {
        let body = json!({ "metadata": { "uid": node.uid, "labels": labels } });
        self.patch("changing the labels", node, &body).await
    }

    /// Sets labels and annotations, whatever else changed on the node meanwhile.
    pub async fn add_metadata(
        &self,
        node: &Node,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Arc<Node>, WriteError> {
        let body = json!({ "metadata": metadata_of(node, labels, annotations) });
        self.patch("adding the metadata", node, &body).await
    }

    /// Lets the node have these labels and annotations, and none that were applied before and are not among
    /// them: server-side apply. Without the uid it would make a node that is gone anew.
    pub async fn apply_metadata(
        &self,
        node: &Node,
        applied: &Applied,
    ) -> Result<Arc<Node>, WriteError> {
        self.apply(
            "applying the metadata",
            node,
            applied,
            metadata::FIELD_MANAGER,
        )
        .await
    }

    /// Lets the node show who owns it, and nothing of that kind that was shown before and is not named: as above, under
    /// a field manager of its own.
    pub async fn show_owner(
        &self,
        node: &Node,
        applied: &Applied,
    ) -> Result<Arc<Node>, WriteError> {
        self.apply(
            "showing the owner",
            node,
            applied,
            owner_annotation::FIELD_MANAGER,
        )
        .await
    }

    async fn apply(
        &self,
        what: &'static str,
        node: &Node,
        applied: &Applied,
        manager: &str,
    ) -> Result<Arc<Node>, WriteError> {
        let mut metadata = metadata_of(node, &applied.labels, &applied.annotations);
        metadata["name"] = node.name.as_str().into();
        let body = json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata });
        if self.withholds(what, node, &body) {
            return Ok(Arc::new(node.clone()));
        }
        let params = PatchParams::apply(manager).force();
        let request = self
            .request()
            .patch(&node.name, &params, &Patch::Apply(&body));
        self.send(what, node, request).await
    }

    /// Writes the whole list of taints, if the node is as it was read.
    pub async fn set_taints(&self, node: &Node, taints: &[Taint]) -> Result<Arc<Node>, WriteError> {
        let body = json!({
            "metadata": { "resourceVersion": node.resource_version },
            "spec": { "taints": taint_list(taints) },
        });
        self.patch("writing the taints", node, &body).await
    }

    /// Writes the pod ranges, if the node is as it was read: a write that comes late finds another
    /// version, and is refused.
    pub async fn set_pod_cidrs(
        &self,
        node: &Node,
        cidrs: &[String],
    ) -> Result<Arc<Node>, WriteError> {
        let mut metadata = json!({ "resourceVersion": node.resource_version });
        if node.annotations.contains_key(TOUCHED) {
            metadata["annotations"] = json!({ TOUCHED: null });
        }
        let body = json!({
            "metadata": metadata,
            "spec": { "podCIDR": cidrs.first(), "podCIDRs": cidrs },
        });
        self.patch("writing the pod ranges", node, &body).await
    }

    /// Gives a node another version and changes nothing else that matters, so that writes of who led
    /// before, guarded by the version they read, are refused from now on.
    pub async fn touch(&self, node: &Node) -> Result<Arc<Node>, WriteError> {
        let mark = self.random.uuid();
        let body = json!({ "metadata": { "uid": node.uid, "annotations": { TOUCHED: mark } } });
        self.patch("touching", node, &body).await
    }

    /// Deletes the very node that was read: another one of its name survives, and so does this
    /// one if it was changed since (it may have become Ready).
    pub async fn delete(&self, node: &Node) -> Result<(), WriteError> {
        if self.withholds("deleting", node, &Value::Null) {
            return Ok(());
        }
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(node.uid.clone()),
            resource_version: Some(node.resource_version.clone()),
        });
        self.bounded("deleting", &node.name, self.api.delete(&node.name, &params))
            .await?;
        Ok(())
    }

    /// Makes a change again on the node as it is now, as long as others are faster.
    ///
    /// `change` gets the node and answers with its write; none means that nothing is left to do.
    pub async fn retry_conflicts<F, W, E>(
        &self,
        node: Arc<Node>,
        is_conflict: fn(&E) -> bool,
        mut change: F,
    ) -> Result<Option<Arc<Node>>, E>
    where
        F: FnMut(Arc<Node>) -> W,
        W: Future<Output = Result<Option<Arc<Node>>, E>>,
        E: From<WriteError>,
    {
        let (uid, name) = (node.uid.clone(), node.name.clone());
        let mut current = node;
        for _ in 1..CONFLICT_TRIES {
            match change(current.clone()).await {
                Err(error) if is_conflict(&error) => {}
                done => return done,
            }
            tokio::time::sleep(self.random.jitter(CONFLICT_PAUSE, 1.0)).await;
            current = self.read(&name).await?;
            if current.uid != uid {
                return Ok(None);
            }
        }
        change(current).await
    }

    async fn patch(
        &self,
        what: &'static str,
        node: &Node,
        body: &Value,
    ) -> Result<Arc<Node>, WriteError> {
        if self.withholds(what, node, body) {
            return Ok(Arc::new(node.clone()));
        }
        let request = self
            .request()
            .patch(&node.name, &by_us(), &Patch::Strategic(body));
        self.send(what, node, request).await
    }

    fn request(&self) -> Request {
        Request::new(self.api.resource_url())
    }

    /// Sends a write, and gives the node after it.
    async fn send(
        &self,
        what: &'static str,
        node: &Node,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Arc<Node>, WriteError> {
        let read = |answer: &[u8], encoding| match encoding {
            Encoding::Protobuf => Ok(NodeObject::from_protobuf(protobuf::opened(answer)?)?),
            Encoding::Json => objects::decode(answer),
        };
        let object = self
            .call(what, node, request, encoding::EITHER, read)
            .await?;
        Ok(Arc::new(object.into()))
    }

    /// Sends a write, and reads its answer.
    async fn call<T>(
        &self,
        what: &'static str,
        node: &Node,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        accept: &'static str,
        read: impl FnOnce(&[u8], Encoding) -> serde_json::Result<T>,
    ) -> Result<T, WriteError> {
        let client = self.api.clone().into_client();
        let write = async {
            let request = request.map_err(kube::Error::BuildRequest)?;
            let (body, encoding) = encoding::send(&client, request, Some(accept)).await?;
            let answer = encoding::whole(body).await?;
            read(&answer, encoding).map_err(kube::Error::SerdeError)
        };
        self.bounded(what, &node.name, write).await
    }

    /// Whether this write is not made; then it is logged, unless the last one
    /// of its kind about this node was the same.
    fn withholds(&self, what: &'static str, node: &Node, body: &Value) -> bool {
        let Some(withheld) = &self.withheld else {
            return false;
        };
        let mut change = body.clone();
        if let Some(metadata) = change.get_mut("metadata").and_then(Value::as_object_mut) {
            // Guards of the write, not part of the change.
            metadata.remove("uid");
            metadata.remove("resourceVersion");
        }
        let text = format!("{what} {change}");
        if withheld.is_new(format!("{} {what}", node.uid), &text) {
            info!(node = node.name, what, %change, "observing: not written");
        }
        true
    }

    async fn bounded<T>(
        &self,
        what: &'static str,
        name: &str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, WriteError> {
        bounded(what, || format!("node {name}"), call).await
    }
}

/// The body of a write of metadata, bound to the node's uid. An empty map is left out: naming it would own it.
fn metadata_of(
    node: &Node,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Value {
    let mut metadata = json!({ "uid": node.uid });
    for (name, map) in [("labels", labels), ("annotations", annotations)] {
        if !map.is_empty() {
            metadata[name] = json!(map);
        }
    }
    metadata
}

/// The list as the API has it; null, which removes the field, when it is empty.
fn taint_list(taints: &[Taint]) -> Value {
    if taints.is_empty() {
        return Value::Null;
    }
    taints
        .iter()
        .map(|taint| {
            let mut object = json!({ "key": taint.key, "effect": taint.effect });
            if !taint.value.is_empty() {
                object["value"] = taint.value.as_str().into();
            }
            if let Some(time) = &taint.time_added {
                object["timeAdded"] = time.as_str().into();
            }
            object
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_written_whole_and_an_empty_list_as_null() {
        assert_eq!(taint_list(&[]), Value::Null);
        let timed = Taint {
            time_added: Some("t".into()),
            ..Taint::new("a", "", "NoExecute")
        };
        assert_eq!(
            taint_list(&[Taint::new("k", "v", "NoSchedule"), timed]),
            json!([
                { "key": "k", "value": "v", "effect": "NoSchedule" },
                { "key": "a", "effect": "NoExecute", "timeAdded": "t" },
            ])
        );
    }
}
