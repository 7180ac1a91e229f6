//! Nodes.

use std::borrow::Cow;

use bowline_core::{NetworkCondition, Node, NodeAddress, Ready, StringMap, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Deserializer};

use super::protobuf::{Fields, Malformed};
use super::{Metadata, created, null_is_empty};

/// A Node as it comes from the API server: large objects, small part.
#[derive(Clone, Debug, Default)]
pub struct NodeObject {
    /// Without labels and annotations.
    metadata: ObjectMeta,
    labels: StringMap,
    annotations: StringMap,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

impl<'de> Deserialize<'de> for NodeObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Parts::deserialize(from).map(Self::from)
    }
}

impl From<Parts> for NodeObject {
    fn from(mut parts: Parts) -> Self {
        Self {
            labels: parts.metadata.labels.take().unwrap_or_default(),
            annotations: parts.metadata.annotations.take().unwrap_or_default(),
            metadata: parts.metadata.into(),
            spec: parts.spec,
            status: parts.status,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: String,
    #[serde(rename = "podCIDRs", deserialize_with = "null_is_empty")]
    pod_cidrs: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    taints: Vec<TaintObject>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TaintObject {
    key: String,
    value: String,
    effect: String,
    time_added: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "null_is_empty")]
    addresses: Vec<AddressObject>,
    conditions: Conditions,
    node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "systemUUID")]
    system_uuid: String,
    #[serde(rename = "osImage")]
    os_image: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AddressObject {
    r#type: String,
    address: String,
}

/// The conditions that are used, read without a copy of the others.
#[derive(Clone, Debug, Default)]
struct Conditions {
    ready: Ready,
    network: Option<NetworkCondition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionObject<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
}

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut used = Self::default();
        for condition in null_is_empty::<_, ConditionObject<'de>>(from)? {
            used.note(&condition.r#type, &condition.status, &condition.reason);
        }
        Ok(used)
    }
}

impl Conditions {
    fn note(&mut self, kind: &str, status: &str, reason: &str) {
        match kind {
            "Ready" => {
                self.ready = match status {
                    "True" => Ready::True,
                    "False" => Ready::False,
                    _ => Ready::Unknown,
                };
            }
            "NetworkUnavailable" => {
                self.network = Some(NetworkCondition {
                    status: status.to_owned(),
                    reason: reason.to_owned(),
                });
            }
            _ => {}
        }
    }
}

// Reading protobuf. The numbers are those of Kubernetes' `api/core/v1/generated.proto`.

impl NodeObject {
    pub(crate) fn from_protobuf(node: Fields<'_>) -> Result<Self, Malformed> {
        let mut parts = Parts::default();
        for field in node {
            match field? {
                (1, metadata) => parts.metadata = Metadata::from_protobuf(metadata.message()?)?,
                (2, spec) => parts.spec = Spec::from_protobuf(spec.message()?)?,
                (3, status) => parts.status = Status::from_protobuf(status.message()?)?,
                _ => {}
            }
        }
        Ok(parts.into())
    }
}

impl Spec {
    fn from_protobuf(spec: Fields<'_>) -> Result<Self, Malformed> {
        let mut used = Self::default();
        for field in spec {
            match field? {
                (3, id) => id.text()?.clone_into(&mut used.provider_id),
                (5, taint) => used
                    .taints
                    .push(TaintObject::from_protobuf(taint.message()?)?),
                (7, range) => used.pod_cidrs.push(range.text()?.to_owned()),
                _ => {}
            }
        }
        Ok(used)
    }
}

impl TaintObject {
    fn from_protobuf(taint: Fields<'_>) -> Result<Self, Malformed> {
        let mut used = Self::default();
        for field in taint {
            match field? {
                (1, key) => key.text()?.clone_into(&mut used.key),
                (2, value) => value.text()?.clone_into(&mut used.value),
                (3, effect) => effect.text()?.clone_into(&mut used.effect),
                (4, time) => used.time_added = time.time()?.map(|time| time.to_string()),
                _ => {}
            }
        }
        Ok(used)
    }
}

impl Status {
    fn from_protobuf(status: Fields<'_>) -> Result<Self, Malformed> {
        let mut used = Self::default();
        for field in status {
            match field? {
                (4, condition) => {
                    let [kind, status, reason] = condition.message()?.texts([1, 2, 5])?;
                    used.conditions.note(kind, status, reason);
                }
                (5, address) => {
                    let [kind, address] = address.message()?.texts([1, 2])?;
                    used.addresses.push(AddressObject {
                        r#type: kind.to_owned(),
                        address: address.to_owned(),
                    });
                }
                (7, info) => {
                    let [system_uuid, os_image] = info.message()?.texts([2, 5])?;
                    used.node_info = NodeInfo {
                        system_uuid: system_uuid.to_owned(),
                        os_image: os_image.to_owned(),
                    };
                }
                _ => {}
            }
        }
        Ok(used)
    }
}

super::resource!(NodeObject, ClusterResourceScope, "Node", "", "nodes");

impl From<NodeObject> for Node {
    fn from(object: NodeObject) -> Self {
        let NodeObject {
            metadata,
            labels,
            annotations,
            spec,
            status,
        } = object;
        Node {
            created: created(&metadata),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            labels,
            annotations,
            provider_id: Some(spec.provider_id).filter(|id| !id.is_empty()),
            pod_cidrs: exact(spec.pod_cidrs, |range| range),
            taints: exact(spec.taints, Taint::from),
            addresses: exact(status.addresses, |it| {
                NodeAddress::new(it.r#type.as_str().into(), it.address)
            }),
            ready: status.conditions.ready,
            network: status.conditions.network,
            system_uuid: status.node_info.system_uuid,
            os_image: status.node_info.os_image,
        }
    }
}

/// These in an allocation that is no larger than they are: `collect` would keep what they were read into, which has
/// room for more.
fn exact<T, U>(all: Vec<T>, into: impl Fn(T) -> U) -> Vec<U> {
    let mut exact = Vec::with_capacity(all.len());
    exact.extend(all.into_iter().map(into));
    exact
}

impl From<TaintObject> for Taint {
    fn from(taint: TaintObject) -> Self {
        let TaintObject {
            key,
            value,
            effect,
            time_added,
        } = taint;
        Taint {
            key,
            value,
            effect,
            time_added,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::objects::{DeserializeGuard, protobuf};
    use serde_json::{Value, json};

    fn whole() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "n1", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "labels": { "a": "b", "c": "" }, "annotations": { "d": "e" },
                "finalizers": ["f"], "managedFields": [{ "manager": "kubelet" }],
            },
            "spec": {
                "providerID": "demo://1",
                "podCIDR": "10.244.3.0/24", "podCIDRs": ["10.244.3.0/24", "fd00:3::/64"],
                "taints": [{ "key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z" }],
            },
            "status": {
                "capacity": { "cpu": "4" },
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.5" }],
                "conditions": [{ "type": "MemoryPressure", "status": "False" },
                               { "type": "NetworkUnavailable", "status": "False", "reason": "Up" },
                               { "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z" }],
                "nodeInfo": { "machineID": "m", "systemUUID": "s", "bootID": "b", "osImage": "Talos" },
                "images": [{ "names": ["large"], "sizeBytes": 1_000_000_000 }],
            },
        })
    }

    /// As a watch brings it.
    fn from_protobuf(object: &Value) -> Node {
        let written = bowline_simulator_kubernetes::protobuf::encode(object).unwrap();
        let fields = protobuf::opened(&written).unwrap();
        NodeObject::from_protobuf(fields).unwrap().into()
    }

    #[test]
    fn a_node_is_the_same_in_protobuf() {
        let deleting = json!({ "apiVersion": "v1", "kind": "Node", "metadata": {
            "name": "n2", "deletionTimestamp": "2026-01-02T03:04:05Z" } });
        let bare = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n3" } });
        for object in [whole(), deleting, bare] {
            let json = serde_json::from_value::<NodeObject>(object.clone()).unwrap();
            assert_eq!(from_protobuf(&object), Node::from(json));
        }
    }

    #[test]
    fn protobuf_that_was_cut_is_malformed_or_has_less() {
        let written = bowline_simulator_kubernetes::protobuf::encode(&whole()).unwrap();
        for length in 0..written.len() {
            let opened = protobuf::opened(&written[..length]);
            let read = opened.and_then(NodeObject::from_protobuf);
            assert!(
                read.is_err() || length < 20 || length + 4 >= written.len(),
                "{length}"
            );
        }
    }

    #[test]
    fn a_node_is_decoded_into_what_is_used() {
        let object: NodeObject = serde_json::from_value(whole()).unwrap();
        assert!(object.metadata.managed_fields.is_none());
        let node = Node::from(object);
        assert_eq!(node.created.to_string(), "2026-01-02T03:04:05Z");
        assert_eq!(node.provider_id.as_deref(), Some("demo://1"));
        assert_eq!(node.pod_cidrs, ["10.244.3.0/24", "fd00:3::/64"]);
        assert_eq!(
            node.taints[0].time_added.as_deref(),
            Some("2026-01-02T03:04:05Z")
        );
        assert_eq!(node.addresses[0].to_string(), "InternalIP:10.0.0.5");
        assert_eq!(node.ready, Ready::True);
        let network = node.network.unwrap();
        assert_eq!(
            (network.status.as_str(), network.reason.as_str()),
            ("False", "Up")
        );
    }

    #[test]
    fn missing_and_null_parts_are_absence() {
        for body in [
            json!({ "metadata": { "name": "n1" } }),
            json!({ "metadata": { "name": "n1" }, "spec": { "providerID": "", "taints": null },
                    "status": { "addresses": null } }),
        ] {
            let node = Node::from(serde_json::from_value::<NodeObject>(body).unwrap());
            assert_eq!((node.provider_id, node.ready), (None, Ready::Unknown));
            assert!(node.taints.is_empty() && node.addresses.is_empty());
        }
    }

    #[test]
    fn one_broken_object_is_one_error() {
        let broken = json!({ "metadata": { "name": "n1" }, "spec": { "taints": "oops" } });
        let guarded: DeserializeGuard<NodeObject> = serde_json::from_value(broken).unwrap();
        assert_eq!(guarded.0.unwrap_err().metadata.name.as_deref(), Some("n1"));
    }
}
