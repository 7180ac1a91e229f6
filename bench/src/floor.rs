//! The floor: the two writes that every initialisation needs, by a client that decides nothing. For its CPU it also writes
//! the event, which nobody waits for.

use anyhow::{Context, Result};
use bowline_simulator::KubeletSpec;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::nodes::{each, follow};
use crate::plane::Plane;
use crate::process::Usage;
use crate::progress::Progress;
use crate::requests::{self, MERGE, STRATEGIC};

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// What that costs for all nodes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Floor {
    /// Of the two writes.
    pub(crate) seconds: f64,
    /// CPU seconds of this process, events included. Of the client alone only where the API server is a process of its own.
    pub(crate) cpu: f64,
}

/// Lets a bare client with the manager's own account make them, with [`requests::IN_FLIGHT`] under way. The nodes
/// are watched meanwhile, as they are in a run.
pub(crate) async fn measure(
    plane: &Plane,
    client: &Client,
    kubelets: &[KubeletSpec],
) -> Result<Floor> {
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
    let cpu = || Usage::of(std::process::id()).map(|usage| usage.cpu.as_secs_f64());
    let (begun, used) = (Instant::now(), cpu()?);
    each(kubelets, one).await.context("the floor")?;
    let seconds = begun.elapsed().as_secs_f64();
    // It has written what has to be written.
    follower.until(kubelets.len()).await?;
    let event =
        async |kubelet: &KubeletSpec| requests::post(client, EVENTS, &synced(kubelet)).await;
    each(kubelets, event).await.context("the floor's events")?;
    let cpu = cpu()? - used;
    Ok(Floor { seconds, cpu })
}

/// As the controllers' own, under a name that the server completes.
fn synced(kubelet: &KubeletSpec) -> Value {
    let then = "2026-01-01T00:00:00Z";
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "generateName": format!("{}.", kubelet.node_name), "namespace": "default" },
        "involvedObject": { "apiVersion": "v1", "kind": "Node", "name": kubelet.node_name },
        "reason": "Synced", "message": "Node synced successfully", "type": "Normal",
        "source": { "component": "floor" }, "reportingComponent": "floor", "count": 1,
        "firstTimestamp": then, "lastTimestamp": then,
    })
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
