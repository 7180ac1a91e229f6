//! The floor: the writes of an initialisation by a client that decides nothing.

use std::time::Duration;

use anyhow::Result;
use bowline_simulator::World;
use bowline_simulator::cluster::Cluster;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::Instant;

use crate::stage::LOOPBACK;

/// How long it takes to write the addresses of so many nodes, and then their labels and taints.
pub(crate) async fn measure(nodes: usize) -> Result<Duration> {
    let world = World::real();
    let cluster = Cluster::on_socket(&world, LOOPBACK).await?;
    let api: Api<Node> = Api::all(cluster.admin()?);
    for number in 1..=nodes {
        let taint = json!({
            "key": "node.cloudprovider.kubernetes.io/uninitialized",
            "value": "true", "effect": "NoSchedule",
        });
        let node = serde_json::from_value(json!({
            "metadata": { "name": format!("worker-{number}") }, "spec": { "taints": [taint] },
        }))?;
        api.create(&PostParams::default(), &node).await?;
    }
    let begun = Instant::now();
    for number in 1..=nodes {
        let name = format!("worker-{number}");
        let addresses = json!({ "status": { "addresses": [
            { "type": "Hostname", "address": name },
            { "type": "ExternalIP", "address": "198.51.100.7" },
        ] } });
        let params = PatchParams::default();
        api.patch_status(&name, &params, &Patch::Merge(addresses))
            .await?;
        let labels = json!({
            "metadata": { "labels": { "topology.kubernetes.io/zone": "rma1" } },
            "spec": { "taints": null, "providerID": format!("floor://{number}") },
        });
        api.patch(&name, &params, &Patch::Strategic(labels)).await?;
    }
    let took = begun.elapsed();
    cluster.shutdown().await;
    Ok(took)
}
