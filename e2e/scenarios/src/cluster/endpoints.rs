//! Where the pods of Services run, as the controller of EndpointSlices would tell.

use serde_json::{Value, json};

use super::Cluster;
use crate::objects::NAMESPACE;
use crate::rights::apply;

impl Cluster {
    /// The only slice of a Service: its pods are on these nodes, each with what is said of it.
    pub async fn put_endpoints(&self, service: &str, endpoints: &[(&str, Value)]) {
        let endpoints = endpoints
            .iter()
            .zip(1..)
            .map(|((node, conditions), number)| {
                json!({ "addresses": [format!("10.244.0.{number}")], "conditions": conditions,
                    "nodeName": self.names.own(node) })
            });
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "namespace": NAMESPACE,
                "name": service,
                "labels": { "kubernetes.io/service-name": self.names.own(service) },
            },
            "addressType": "IPv4",
            "endpoints": endpoints.collect::<Vec<Value>>(),
            "ports": [{ "name": "http", "port": 8080 }],
        });
        self.make_namespace(NAMESPACE).await;
        apply(self.admin(), self.names.outgoing_named(slice)).await;
    }
}
