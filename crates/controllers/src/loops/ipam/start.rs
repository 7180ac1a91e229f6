//! The start of node IPAM: ranges from flags and clouds; the pod ranges of all nodes are taken before
//! the first block is given.
//!
//! A failure stops this controller alone: `/readyz` shows it, and the start is tried again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::ipam::{
    Allocator, AllocatorKind, ClusterRanges, IPV6_MASK, LayoutError, Misfit, layout,
};
use bowline_core::{Cloud, CloudError, Node, error_chain};
use futures::{StreamExt, TryStreamExt, stream};
use tracing::{error, warn};

use super::{IpamController, START_PAUSE, WRITES_AT_ONCE};
use crate::clouds::caller::CloudCaller;
use crate::clouds::cloud_health::{Purpose, answers_apart};
use crate::kube::write::WriteError;
use crate::report::Reported;

/// The longest question to a cloud; each call in it has a shorter deadline of its own.
pub(super) const QUESTION_DEADLINE: Duration = Duration::from_secs(60);

/// Why the controller cannot work yet.
#[derive(Debug, thiserror::Error)]
enum StartError {
    /// The flags.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A cloud did not say what the cluster's ranges are.
    #[error("asking cloud {cloud} for the cluster's ranges")]
    Ranges { cloud: String, source: CloudError },
    /// A node has what it cannot have by these flags: they are probably wrong.
    #[error(transparent)]
    Misfit(Misfit),
    /// What a node has is not known.
    #[error("node {0} cannot be read, so that its pod ranges are not known")]
    Unread(String),
    /// A node was not touched.
    #[error("making writes of a former leader void")]
    Touch(#[from] WriteError),
}

impl IpamController {
    /// Tries until it has started.
    pub(super) async fn start(&self) {
        self.parts.nodes.synced().await;
        let (reported, mut touched) = (Reported::<(), String>::new(1), BTreeSet::new());
        loop {
            match self.prepare(&mut touched).await {
                Ok(allocator) => return self.has_started(allocator),
                Err(problem) => {
                    let text = error_chain(&problem);
                    if reported.is_new((), &text) {
                        error!(error = text, "node IPAM does not start; trying again");
                    }
                    self.parts.readiness.not_ready(text);
                }
            }
            tokio::time::sleep(START_PAUSE).await;
        }
    }

    async fn prepare(&self, touched: &mut BTreeSet<String>) -> Result<Allocator, StartError> {
        let (known, ipv6_mask) = self.cluster_ranges().await?;
        let layout = layout(&self.parts.flags, &known, ipv6_mask)?;
        for text in &layout.ignored {
            warn!(
                text,
                "--service-cluster-ip-range holds what is no CIDR; it is passed over"
            );
        }
        self.touch_waiting(touched).await?;
        let mut allocator = Allocator::new(&layout);
        let view = self.parts.nodes.view();
        for (name, last) in &view.unreadable {
            // What it had when it was last read it still has: pod ranges cannot change.
            match last {
                Some(node) if !node.pod_cidrs.is_empty() => see(&mut allocator, node)?,
                Some(node) if view.lost.contains_key(&node.uid) => {}
                _ => return Err(StartError::Unread(name.clone())),
            }
        }
        for node in view.objects.values() {
            if !node.pod_cidrs.is_empty() {
                see(&mut allocator, node)?;
            }
        }
        Ok(allocator)
    }

    /// The ranges of the first cloud that knows some, and the mask of IPv6 blocks.
    async fn cluster_ranges(&self) -> Result<(ClusterRanges, u8), StartError> {
        let mut mask = IPV6_MASK;
        for cloud in &self.parts.clouds {
            let Some(networks) = cloud.networks() else {
                continue;
            };
            let name = || cloud.name().to_string();
            let asked = self.question(cloud, networks.cluster_ranges()).await;
            let known = asked.map_err(|source| StartError::Ranges {
                cloud: name(),
                source,
            })?;
            mask = networks.ipv6_mask();
            if known != ClusterRanges::default() {
                return Ok((known, mask));
            }
        }
        Ok((ClusterRanges::default(), mask))
    }

    /// Asks a cloud something, which says how it is.
    pub(super) async fn question<T>(
        &self,
        cloud: &Arc<dyn Cloud>,
        call: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let what = format!("asking {}", cloud.name());
        let caller = CloudCaller::new(self.parts.fence.clone()).within(QUESTION_DEADLINE);
        let answer = caller.read(what, call).await.flatten();
        // Trouble with one machine is not the cloud's.
        if !answers_apart(cloud) {
            let cloud_health = &self.parts.metrics.cloud_health;
            cloud_health.note(cloud, Purpose::Networks, answer.as_ref().err());
        }
        answer
    }

    /// Gives nodes without pod ranges another version, if a leader was lost who may have written
    /// some: such a write is then refused whenever it arrives, or has arrived and is seen. Nodes that
    /// came later nobody can have written before us.
    async fn touch_waiting(&self, touched: &mut BTreeSet<String>) -> Result<(), StartError> {
        let parts = &self.parts;
        if !parts.may_follow_unfinished_writes || parts.writer.is_observing() {
            return Ok(());
        }
        let waiting = parts.nodes.all().into_iter();
        let waiting: Vec<Arc<Node>> = waiting
            .filter(|node| node.pod_cidrs.is_empty() && !touched.contains(&node.uid))
            .collect();
        let mut writes = stream::iter(waiting)
            .map(|node| async move { self.touch(&node).await.map(|()| node.uid.clone()) })
            .buffer_unordered(WRITES_AT_ONCE);
        while let Some(uid) = writes.try_next().await? {
            touched.insert(uid);
        }
        Ok(())
    }

    async fn touch(&self, node: &Node) -> Result<(), WriteError> {
        match self.parts.writer.touch(node).await {
            Ok(written) => {
                self.parts.nodes.note(written);
                Ok(())
            }
            // It is gone. Another one of its name is younger than us.
            Err(error) if error.is_not_found() || error.is_another() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What a node has is taken; by the range allocator's rules it has to fit.
fn see(allocator: &mut Allocator, node: &Node) -> Result<(), StartError> {
    for misfit in allocator.see(node) {
        let shared = matches!(misfit, Misfit::Shared { .. });
        let unreadable = matches!(misfit, Misfit::Unreadable(..));
        let fits = shared || (allocator.kind() == AllocatorKind::Cloud && !unreadable);
        if !fits {
            return Err(StartError::Misfit(misfit));
        }
        warn!("{misfit}");
    }
    Ok(())
}
