//! Nodes at which nothing happens but what their kubelets say: what the manager needs for that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use bowline_simulator::KubeletSpec;
use futures::StreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::join::Site;
use crate::nodes::{NODE_LEASES, each};
use crate::process::Process;
use crate::progress::{Progress, say};
use crate::requests::{self, IN_FLIGHT, MERGE, STRATEGIC};
use crate::results::Run;

const CONDITIONS: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];

/// How long it is measured, and how often kubelets write. The defaults are a kubelet's own.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Heartbeats {
    /// How many seconds the program is measured at rest
    #[arg(long, default_value_t = 120)]
    pub(crate) window: u64,
    /// Seconds between two reports of a node's status
    #[arg(long, default_value_t = 300)]
    pub(crate) status_every: u64,
    /// Seconds between two renewals of a node's lease; 0: never
    #[arg(long, default_value_t = 10)]
    pub(crate) lease_every: u64,
}

impl Default for Heartbeats {
    fn default() -> Self {
        Self {
            window: 120,
            status_every: 300,
            lease_every: 10,
        }
    }
}

impl Heartbeats {
    /// Measures a program that has initialised all nodes of a site.
    pub(crate) async fn measure(&self, site: &Site, process: &Process) -> Result<Run> {
        ensure!(
            self.window > 0 && self.status_every > 0,
            "nothing to measure"
        );
        let (plane, kubelets) = (&site.plane, &site.cloud.kubelets);
        if self.lease_every > 0 {
            create_leases(site).await?;
        }
        say(&format!("{} s at rest", self.window));
        let (before, used) = (plane.counts().await?, process.usage()?);
        let window = Duration::from_secs(self.window);
        let (statuses, leases) = tokio::join!(
            repeat(kubelets, self.status_every, window, async |kubelet| {
                let path = format!("/api/v1/nodes/{}/status", kubelet.node_name);
                let now = plane.world.clock.now();
                requests::patch(&plane.admin, &path, STRATEGIC, &report(now)).await
            }),
            repeat(kubelets, self.lease_every, window, async |kubelet| {
                let path = format!("{NODE_LEASES}/{}", kubelet.node_name);
                let renewal = json!({ "spec": { "renewTime": renewed(site) } });
                requests::patch(&plane.admin, &path, MERGE, &renewal).await
            }),
        );
        let (after, counts) = (process.usage()?, plane.counts().await?.since(before));
        let (statuses, leases) = (statuses?, leases?);
        say(&format!(
            "kubelets wrote {statuses} statuses and {leases} leases"
        ));
        Ok(Run {
            seconds: window.as_secs_f64(),
            cpu_join: after.cpu.saturating_sub(used.cpu).as_secs_f64(),
            start_kb: used.resident_kb,
            peak_kb: after.peak_kb,
            resident_kb: after.resident_kb,
            cloud_calls: counts.cloud_calls,
            node_writes: counts.nodes.saturating_sub(statuses),
            conflicts: counts.conflicts,
            events: counts.events,
            service_writes: counts.services,
            ..Run::default()
        })
    }
}

/// Lets each kubelet write every so many seconds, spread evenly, until the window is over; how often they did.
async fn repeat(
    kubelets: &[KubeletSpec],
    every: u64,
    window: Duration,
    write: impl AsyncFn(&KubeletSpec) -> Result<()>,
) -> Result<u64> {
    let (written, begun) = (AtomicU64::new(0), Instant::now());
    let count = u32::try_from(kubelets.len())?;
    let apart = Duration::from_secs(every) / count.max(1);
    if every == 0 {
        tokio::time::sleep(window).await;
        return Ok(0);
    }
    let due = futures::stream::iter((0u32..).zip(kubelets.iter().cycle()))
        .map(|(number, kubelet)| (begun + apart * number, kubelet))
        .take_while(|(due, _)| futures::future::ready(*due < begun + window));
    let writes = due.map(async |(due, kubelet)| {
        tokio::time::sleep_until(due).await;
        written.fetch_add(1, Ordering::Relaxed);
        write(kubelet).await
    });
    let mut writes = std::pin::pin!(writes.buffered(IN_FLIGHT));
    while let Some(result) = writes.next().await {
        result?;
    }
    tokio::time::sleep_until(begun + window).await;
    Ok(written.load(Ordering::Relaxed))
}

async fn create_leases(site: &Site) -> Result<()> {
    let progress = Progress::new("leases made", site.cloud.kubelets.len());
    let one = async |kubelet: &KubeletSpec| {
        requests::post(&site.plane.admin, NODE_LEASES, &lease(site, kubelet)).await?;
        progress.step();
        Ok(())
    };
    each(&site.cloud.kubelets, one).await
}

/// What a kubelet sends when nothing has changed.
fn report(now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let beat = |kind: &str| json!({ "type": kind, "lastHeartbeatTime": now });
    let conditions: Vec<Value> = CONDITIONS.into_iter().map(beat).collect();
    json!({ "status": { "conditions": conditions } })
}

fn renewed(site: &Site) -> String {
    let now = site.plane.world.clock.now();
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn lease(site: &Site, kubelet: &KubeletSpec) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": kubelet.node_name },
        "spec": {
            "holderIdentity": kubelet.node_name,
            "leaseDurationSeconds": 40,
            "renewTime": renewed(site),
        },
    })
}
