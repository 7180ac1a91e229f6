//! Writes to Node objects.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Initialization, Node, NodeAddress, Taint};
use bowline_http::Random;
use kube::Api;
use kube::api::{DeleteParams, Patch, Preconditions};
use serde_json::{Value, json};

use super::{WriteError, bounded, by_us};
use crate::objects::NodeObject;

/// Tries of one change when others change the same node at the same time. Kubelets write every
/// few seconds, so that even two conflicts in a row are rare.
const CONFLICT_TRIES: usize = 5;
/// The least pause between two such tries; up to twice as long.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);

/// Writes Node objects on behalf of one controller.
#[derive(Clone)]
pub struct NodeWriter {
    api: Api<NodeObject>,
    random: Random,
}

impl NodeWriter {
    /// A writer with that client.
    pub fn new(client: kube::Client, random: Random) -> Self {
        Self {
            api: Api::all(client),
            random,
        }
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
        let (params, patch) = (by_us(), Patch::Merge(&body));
        let write = self.api.patch_status(&node.name, &params, &patch);
        let object = self
            .bounded("writing the addresses", &node.name, write)
            .await?;
        Ok(Arc::new(object.into()))
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
        self.patch("initialising", &node.name, &body).await
    }

    /// Sets labels, whatever else changed on the node meanwhile.
    pub async fn set_labels(
        &self,
        node: &Node,
        labels: &std::collections::BTreeMap<String, String>,
    ) -> Result<Arc<Node>, WriteError> {
        let body = json!({ "metadata": { "uid": node.uid, "labels": labels } });
        self.patch("writing the labels", &node.name, &body).await
    }

    /// Writes the whole list of taints, if the node is as it was read.
    pub async fn set_taints(&self, node: &Node, taints: &[Taint]) -> Result<Arc<Node>, WriteError> {
        let body = json!({
            "metadata": { "resourceVersion": node.resource_version },
            "spec": { "taints": taint_list(taints) },
        });
        self.patch("writing the taints", &node.name, &body).await
    }

    /// Deletes the very node that was read: another one of its name survives, and so does this
    /// one if it was changed since (it may have become Ready).
    pub async fn delete(&self, node: &Node) -> Result<(), WriteError> {
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
        name: &str,
        body: &Value,
    ) -> Result<Arc<Node>, WriteError> {
        let (params, patch) = (by_us(), Patch::Strategic(body));
        let write = self.api.patch(name, &params, &patch);
        Ok(Arc::new(self.bounded(what, name, write).await?.into()))
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
