//! The floor: the two writes that every initialisation needs, by a client that decides nothing.

use std::time::Duration;

use anyhow::{Context, Result};
use bowline_simulator::KubeletSpec;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::nodes::{each, follow};
use crate::plane::Plane;
use crate::progress::Progress;
use crate::requests::{self, MERGE, STRATEGIC};

/// How long it takes a bare client with the manager's own account to make them for all nodes, with
/// [`requests::IN_FLIGHT`] under way. The nodes are watched meanwhile, as they are in a run.
pub(crate) async fn measure(
    plane: &Plane,
    client: &Client,
    kubelets: &[KubeletSpec],
) -> Result<Duration> {
    let mut follower = follow(&plane.admin).await?;
    let progress = Progress::new("written by the bare client", kubelets.len());
    let one = async |kubelet: &KubeletSpec| {
        let path = format!("/api/v1/nodes/{}", kubelet.node_name);
        let status = format!("{path}/status");
        requests::patch(client, &status, MERGE, &addresses(kubelet)).await?;
        requests::patch(client, &path, STRATEGIC, &initialisation(kubelet)).await?;
        progress.step();
        anyhow::Ok(())
    };
    let begun = Instant::now();
    each(kubelets, one).await.context("the floor")?;
    let time = begun.elapsed();
    // It has written what has to be written.
    follower.until(kubelets.len()).await?;
    Ok(time)
}

/// Three addresses, as most clouds give.
fn addresses(kubelet: &KubeletSpec) -> Value {
    json!({ "status": { "addresses": [
        { "type": "Hostname", "address": kubelet.node_name },
        { "type": "InternalIP", "address": "10.0.0.7" },
        { "type": "ExternalIP", "address": "198.51.100.7" },
    ] } })
}

fn initialisation(kubelet: &KubeletSpec) -> Value {
    json!({
        "metadata": { "labels": {
            "beta.kubernetes.io/instance-type": "standard-4",
            "node.kubernetes.io/instance-type": "standard-4",
            "failure-domain.beta.kubernetes.io/region": "region-1",
            "topology.kubernetes.io/region": "region-1",
            "failure-domain.beta.kubernetes.io/zone": "zone-1",
            "topology.kubernetes.io/zone": "zone-1",
        } },
        "spec": {
            "providerID": format!("floor://{}", kubelet.node_name),
            "taints": null,
        },
    })
}
