//! The floor: nodes that register, and the writes of an initialisation by a client that decides
//! nothing.

use std::time::Duration;

use anyhow::Result;
use bowline_simulator::journal::Filter;
use bowline_simulator::machines::Power;
use bowline_simulator::{KubeletSpec, World};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::fleet::{Fleet, Settings};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::harness::LOOPBACK;

/// How long it takes so many kubelets to register, and then one client to write their addresses,
/// ids, labels and taints.
pub(crate) async fn measure(nodes: usize) -> Result<Duration> {
    let world = World::real();
    let cluster = Cluster::on_socket(&world, LOOPBACK).await?;
    let fleet = Fleet::new(&world, cluster.admin()?, Settings::default());
    let begun = Instant::now();
    for number in 1..=nodes {
        let id = format!("floor://{number}");
        world.machines.set(&id, Power::Running);
        fleet.join(KubeletSpec {
            node_name: format!("worker-{number}"),
            machine_id: id,
            ..KubeletSpec::default()
        })?;
    }
    let registered = Filter::any()
        .method("POST")
        .path("/api/v1/nodes")
        .status(201);
    world.journal.wait_for(&registered, nodes).await;
    let api: Api<Node> = Api::all(cluster.admin()?);
    for number in 1..=nodes {
        initialise(&api, number).await?;
    }
    let took = begun.elapsed();
    drop(fleet);
    cluster.shutdown().await;
    Ok(took)
}

async fn initialise(api: &Api<Node>, number: usize) -> Result<()> {
    let name = format!("worker-{number}");
    let params = PatchParams::default();
    let addresses = json!({ "status": { "addresses": [
        { "type": "Hostname", "address": name },
        { "type": "ExternalIP", "address": "198.51.100.7" },
    ] } });
    api.patch_status(&name, &params, &Patch::Merge(addresses))
        .await?;
    let labels = json!({
        "metadata": { "labels": { "topology.kubernetes.io/zone": "rma1" } },
        "spec": { "taints": null, "providerID": format!("floor://{number}") },
    });
    api.patch(&name, &params, &Patch::Strategic(labels)).await?;
    Ok(())
}
