//! Nodes as kubelets register them, and who sees when they are initialised.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use bowline_simulator::KubeletSpec;
use bowline_simulator_kubernetes::fleet::{UNINITIALIZED, registration};
use futures::{StreamExt, TryStreamExt};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::changes::Changes;
use crate::plane::Plane;
use crate::progress::Progress;
use crate::requests::{self, IN_FLIGHT};

/// Images on each node: as many as a kubelet reports at most, unless told otherwise.
pub(crate) const IMAGES: usize = 50;

/// Registers the Node of each kubelet, with its images.
pub(crate) async fn register(plane: &Plane, kubelets: &[KubeletSpec]) -> Result<()> {
    let progress = Progress::new("registered", kubelets.len());
    let images = images();
    let one = async |kubelet: &KubeletSpec| {
        let mut node = registration(kubelet, plane.world.clock.now())?;
        node["status"]["images"] = images.clone();
        requests::post(&plane.admin, NODES, &node).await?;
        progress.step();
        anyhow::Ok(())
    };
    each(kubelets, one).await.context("registering a node")
}

/// Removes the Nodes, the Events about them, and all leases: what a run leaves behind.
pub(crate) async fn remove(plane: &Plane, kubelets: &[KubeletSpec]) -> Result<()> {
    let progress = Progress::new("removed", kubelets.len());
    let one = async |kubelet: &KubeletSpec| {
        let path = format!("{NODES}/{}", kubelet.node_name);
        requests::delete(&plane.admin, &path).await?;
        progress.step();
        anyhow::Ok(())
    };
    each(kubelets, one).await.context("removing a node")?;
    requests::delete(&plane.admin, "/api/v1/namespaces/default/events").await?;
    requests::delete(&plane.admin, NODE_LEASES).await?;
    let leases = requests::get(&plane.admin, LEASES).await?;
    let leases: List = serde_json::from_str(&leases)?;
    for lease in leases.items.iter().filter(|lease| lease.is_of_a_manager()) {
        let path = format!("{LEASES}/{}", lease.metadata.name);
        requests::delete(&plane.admin, &path).await?;
    }
    plane.compact().await
}

/// Does it for all, with a limit on those under way.
pub(crate) async fn each<T>(all: &[T], one: impl AsyncFn(&T) -> Result<()>) -> Result<()> {
    let all = futures::stream::iter(all).map(|it| one(it));
    all.buffer_unordered(IN_FLIGHT).try_collect().await
}

/// Two names for each image, as with containerd: about 200 bytes an image.
fn images() -> Value {
    let image = |number: usize| {
        let name = format!("registry.example.com/platform/component-{number:02}");
        let digest = format!(
            "{:064x}",
            (number as u128 + 1) * 0x9e37_79b9_7f4a_7c15_f39c_c060
        );
        json!({
            "names": [format!("{name}@sha256:{digest}"), format!("{name}:v1.{number}.0")],
            "sizeBytes": 20_000_000 + number * 1_234_567,
        })
    };
    (0..IMAGES).map(image).collect()
}

/// Where leases of nodes are.
pub(crate) const NODE_LEASES: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
pub(crate) const NODES: &str = "/api/v1/nodes";
/// Where leases of managers are.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// An object, as far as it matters here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    taints: Vec<Taint>,
    holder_identity: String,
}

#[derive(Deserialize)]
struct Taint {
    key: String,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Object>,
}

impl Object {
    fn is_initialised(&self) -> bool {
        !self
            .spec
            .taints
            .iter()
            .any(|taint| taint.key == UNINITIALIZED)
    }

    /// An API server has a lease of its own.
    fn is_of_a_manager(&self) -> bool {
        !self.metadata.name.starts_with("apiserver-") && !self.spec.holder_identity.is_empty()
    }
}

/// What is seen of a run, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Somebody holds a lease.
    pub(crate) led: Option<Instant>,
    /// A Node was written.
    pub(crate) first: Option<Instant>,
    /// The latest time that a Node lost its taint.
    pub(crate) last: Option<Instant>,
    /// Nodes that have lost it.
    pub(crate) initialised: usize,
}

/// Follows Nodes and leases from now on.
pub(crate) async fn follow(client: &Client) -> Result<Follower> {
    let (seen, receiver) = watch::channel(Seen::default());
    let of_nodes = Changes::of(client, NODES).await?;
    let of_leases = Changes::of(client, LEASES).await?;
    let leases = seen.clone();
    let nodes = tokio::spawn(async move {
        let mut done = BTreeSet::new();
        let each = |node: Object| {
            let now = Instant::now();
            let new = node.is_initialised() && done.insert(node.metadata.name);
            seen.send_modify(|seen| {
                seen.first.get_or_insert(now);
                if new {
                    seen.last = Some(now);
                    seen.initialised += 1;
                }
            });
        };
        of_nodes.follow(each).await
    });
    let leases = tokio::spawn(async move {
        let each = |lease: Object| {
            if lease.is_of_a_manager() {
                let now = Instant::now();
                leases.send_modify(|seen| {
                    seen.led.get_or_insert(now);
                });
            }
        };
        of_leases.follow(each).await
    });
    Ok(Follower {
        seen: receiver,
        tasks: [nodes, leases],
    })
}

/// The two watches; they end with it.
pub(crate) struct Follower {
    pub(crate) seen: watch::Receiver<Seen>,
    tasks: [tokio::task::JoinHandle<Result<()>>; 2],
}

impl Drop for Follower {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Follower {
    /// Waits until so many are initialised; an error if nothing happens for too long.
    pub(crate) async fn until(&mut self, nodes: usize) -> Result<Seen> {
        let progress = Progress::new("initialised", nodes);
        loop {
            let seen = *self.seen.borrow_and_update();
            progress.set(seen.initialised);
            if seen.initialised >= nodes {
                return Ok(seen);
            }
            let change = tokio::time::timeout(crate::PATIENCE, self.seen.changed());
            match change.await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => bail!("the watches of nodes and leases ended"),
                Err(_) => bail!("{} of {nodes} nodes were initialised", seen.initialised),
            }
        }
    }
}
