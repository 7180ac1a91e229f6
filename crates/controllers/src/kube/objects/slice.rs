//! EndpointSlices.

use bowline_core::ServiceKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::Deserialize;

use super::{null_is_empty, used_metadata};
use crate::kube::endpoints::Slice;

/// The label with the name of the Service, which is in the same namespace.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// An EndpointSlice as it comes from the API server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SliceObject {
    #[serde(deserialize_with = "used_metadata")]
    metadata: ObjectMeta,
    #[serde(deserialize_with = "null_is_empty")]
    endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Endpoint {
    node_name: Option<String>,
    conditions: Option<Conditions>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    terminating: Option<bool>,
}

impl Endpoint {
    /// What is not said means, by the API's definition, ready and not terminating.
    fn serves(&self) -> bool {
        self.conditions
            .as_ref()
            .is_none_or(|it| it.ready.unwrap_or(true) && !it.terminating.unwrap_or(false))
    }
}

super::resource!(
    SliceObject,
    NamespaceResourceScope,
    "EndpointSlice",
    "discovery.k8s.io",
    "endpointslices"
);

impl From<SliceObject> for Slice {
    fn from(object: SliceObject) -> Self {
        let metadata = object.metadata;
        let serving = object.endpoints.into_iter().filter(Endpoint::serves);
        let mut nodes: Vec<String> = serving.filter_map(|it| it.node_name).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.shrink_to_fit();
        let namespace = metadata.namespace.unwrap_or_default();
        let service = metadata.labels.and_then(|mut it| it.remove(SERVICE_NAME));
        Self {
            service: service.map(|name| ServiceKey {
                namespace: namespace.clone(),
                name,
            }),
            key: ServiceKey {
                namespace,
                name: metadata.name.unwrap_or_default(),
            },
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            nodes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn slice(body: Value) -> Slice {
        serde_json::from_value::<SliceObject>(body).unwrap().into()
    }

    #[test]
    fn nodes_with_a_ready_endpoint_that_stays_are_kept_and_nothing_else() {
        let slice = slice(json!({
            "metadata": {
                "namespace": "shop", "name": "web-x7k", "uid": "u", "resourceVersion": "7",
                "labels": { SERVICE_NAME: "web" },
            },
            "addressType": "IPv4",
            "endpoints": [
                { "nodeName": "n3", "addresses": ["10.0.0.1"], "conditions": { "ready": true } },
                { "nodeName": "n1", "conditions": {} },
                { "nodeName": "n1", "conditions": { "ready": null, "terminating": false } },
                { "nodeName": "n2" },
                { "nodeName": "n4", "conditions": { "ready": false } },
                { "nodeName": "n5", "conditions": { "ready": true, "terminating": true } },
                { "conditions": { "ready": true } },
            ],
        }));
        assert_eq!(slice.service.unwrap().to_string(), "shop/web");
        assert_eq!(slice.key.to_string(), "shop/web-x7k");
        assert_eq!(slice.nodes, ["n1", "n2", "n3"]);
    }

    #[test]
    fn missing_and_null_parts_are_absence() {
        for body in [
            json!({ "metadata": { "name": "x" } }),
            json!({ "metadata": { "name": "x", "labels": null }, "endpoints": null }),
            json!({ "metadata": { "name": "x" }, "endpoints": [{ "nodeName": null, "conditions": null }] }),
        ] {
            let slice = slice(body);
            assert_eq!((slice.service, slice.nodes), (None, Vec::new()));
        }
    }
}
