//! Reconciles one node: the networks of its machine, blocks for it, and the one write of its pod ranges.

use std::sync::Arc;

use bowline_core::ipam::{
    Allocator, AllocatorKind, MachineError, ProposalError, candidates, node_ips,
};
use bowline_core::{CloudError, Node, Ownership};
use ipnet::Ipv6Net;
use tracing::{debug, info, warn};

use super::IpamController;
use crate::kube::store::Found;
use crate::kube::write::WriteError;
use tokio_util::sync::CancellationToken;

/// Tries of one write in one reconcile, as in the originals.
const WRITE_TRIES: usize = 3;

/// The outcome of one reconcile.
pub(super) enum AllocationOutcome {
    /// Nothing is left to do.
    Done,
    /// Nothing can be done now; look again soon.
    Later,
}

/// Why a reconcile failed; it is retried.
#[derive(Debug, thiserror::Error)]
pub(super) enum AllocationError {
    /// Some cloud could not say whether the node is its own.
    #[error("node {node}: {ownership}")]
    Undecided { node: String, ownership: Ownership },
    /// The machine's networks are not known; pod ranges are for good, so nobody guesses.
    #[error("asking for the networks of node {node}")]
    Networks { node: String, source: CloudError },
    /// They are of no use.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// What a node that cannot be read has is not known.
    #[error("node {0} cannot be read, so that its pod ranges are not known")]
    Unread(String),
    /// The API server.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl IpamController {
    pub(super) async fn sync(
        &self,
        name: &str,
        lane: usize,
        stop: &CancellationToken,
    ) -> Result<AllocationOutcome, AllocationError> {
        let node = match self.parts.nodes.find(&name.to_owned()) {
            Found::Object(node) => node,
            Found::Unreadable => {
                self.note_unread(name);
                return Ok(AllocationOutcome::Done);
            }
            // Its machine may still use what it had.
            Found::Lost => return Ok(AllocationOutcome::Done),
            Found::Nothing => {
                self.note_read(name);
                self.release(|allocator| allocator.gone(name));
                return Ok(AllocationOutcome::Done);
            }
        };
        self.note_read(name);
        if !node.pod_cidrs.is_empty() {
            self.see(&node);
            return Ok(AllocationOutcome::Done);
        }
        if !self.is_to_have_blocks(&node) {
            return Ok(AllocationOutcome::Done);
        }
        let Some(gathered) = stop.run_until_cancelled(self.gather(&node)).await else {
            return Ok(AllocationOutcome::Later);
        };
        let networks = gathered?;
        let Some(blocks) = self.decide(&node, &networks)? else {
            return Ok(AllocationOutcome::Later);
        };
        let Ok(_lock) = self.writing[lane].acquire().await else {
            return Ok(AllocationOutcome::Later);
        };
        if stop.is_cancelled() {
            return Ok(AllocationOutcome::Later);
        }
        Box::pin(self.execute(node, &blocks)).await
    }

    /// A node on its way out gets nothing, and what it has stays its own until it is gone. One that
    /// its cloud has not looked at yet may get better addresses to find its machine by.
    fn is_to_have_blocks(&self, node: &Node) -> bool {
        let cloud = self.with(|allocator| allocator.kind()) == Some(AllocatorKind::Cloud);
        !(node.deleting || (cloud && node.is_uninitialized()))
    }

    /// The networks of the node's machine, if its IPv6 block is to come from there.
    async fn gather(&self, node: &Arc<Node>) -> Result<Vec<Ipv6Net>, AllocationError> {
        let asks = |it: &mut Allocator| it.kind() == AllocatorKind::Cloud && it.has_ipv6();
        if self.with(asks) != Some(true) {
            return Ok(Vec::new());
        }
        // Who describes the node knows its machine's addresses.
        let cloud = match self.parts.owners.find_describer(node).await {
            Ok(describer) => describer.batcher.cloud().clone(),
            Err(ownership @ Ownership::Undecided(_)) => {
                let node = node.name.clone();
                return Err(AllocationError::Undecided { node, ownership });
            }
            // Nobody's: there is no machine to ask, and the cluster's range is for all.
            Err(_) => return Ok(Vec::new()),
        };
        let Some(networks) = cloud.networks() else {
            return Ok(Vec::new());
        };
        let ips = node_ips(node)?;
        let call = networks.machine_addresses(node);
        let asked = self.question(&cloud, call).await;
        let addresses = asked.map_err(|source| AllocationError::Networks {
            node: node.name.clone(),
            source,
        })?;
        Ok(candidates(&ips, &addresses))
    }

    /// Blocks for the node; none if there are none left.
    fn decide(
        &self,
        node: &Node,
        networks: &[Ipv6Net],
    ) -> Result<Option<Vec<String>>, AllocationError> {
        let unread = self.with_state(|state| state.unread.first().cloned());
        if let Some(unread) = unread {
            return Err(AllocationError::Unread(unread));
        }
        match self.with(|allocator| allocator.propose(node, networks)) {
            None => Ok(None),
            Some(Ok(blocks)) => Ok(Some(blocks.iter().map(ToString::to_string).collect())),
            Some(Err(ProposalError::Machine(error))) => Err(error.into()),
            Some(Err(exhausted @ ProposalError::Exhausted(_))) => {
                debug!(node = node.name, "{exhausted}");
                self.with_state(|state| state.waiting.insert(node.name.clone()));
                self.report_state(node, "CIDRNotAvailable");
                Ok(None)
            }
        }
    }

    async fn execute(
        &self,
        node: Arc<Node>,
        blocks: &[String],
    ) -> Result<AllocationOutcome, AllocationError> {
        let mut current = node;
        let mut tries = 1;
        loop {
            let error = match self.parts.writer.set_pod_cidrs(&current, blocks).await {
                // What it would get stays with it, so that every node would get something else.
                Ok(_) if self.parts.writer.is_observing() => return Ok(AllocationOutcome::Done),
                Ok(written) => {
                    info!(node = written.name, ranges = ?blocks, "pod ranges given");
                    self.see(&written);
                    self.parts.nodes.note(written);
                    return Ok(AllocationOutcome::Done);
                }
                Err(error) => error,
            };
            if error.may_have_happened() {
                self.with(|allocator| allocator.unsure(&current));
            }
            match self.look_again(&current, &error).await {
                AfterWrite::Settled => return Ok(AllocationOutcome::Done),
                AfterWrite::Unchanged => {}
                AfterWrite::Now(node) => current = node,
            }
            if tries == WRITE_TRIES {
                self.report_state(&current, "CIDRAssignmentFailed");
                self.release(|allocator| allocator.refused(&current));
                return Err(error.into());
            }
            tries += 1;
        }
    }

    /// What the node is after a write that failed, or may have.
    async fn look_again(&self, node: &Node, error: &WriteError) -> AfterWrite {
        let read = if error.is_not_found() {
            None
        } else {
            match self.parts.writer.read(&node.name).await {
                Ok(now) => Some(now).filter(|now| now.uid == node.uid),
                Err(error) if error.is_not_found() => None,
                Err(_) => return AfterWrite::Unchanged,
            }
        };
        let Some(now) = read else {
            // That very node is gone, and with it whatever was written to it.
            self.release(|allocator| allocator.gone(&node.name));
            return AfterWrite::Settled;
        };
        if now.pod_cidrs.is_empty() {
            return AfterWrite::Now(now);
        }
        self.see(&now);
        self.parts.nodes.note(now);
        AfterWrite::Settled
    }

    fn see(&self, node: &Node) {
        let misfits = self.with(|allocator| allocator.see(node));
        for misfit in misfits.unwrap_or_default() {
            warn!("{misfit}");
        }
    }

    /// Gives something back; then there may be something for who waits.
    fn release(&self, act: impl FnOnce(&mut Allocator) -> bool) {
        if self.with(act) == Some(true) {
            self.wake_one();
        }
    }

    /// A node that cannot be read has what it had; if that is not known, nothing can be given.
    fn note_unread(&self, name: &str) {
        if self.with(|allocator| allocator.knows(name)) == Some(false) {
            self.with_state(|state| state.unread.insert(name.to_owned()));
        }
    }

    fn note_read(&self, name: &str) {
        self.with_state(|state| {
            state.unread.remove(name);
            state.waiting.remove(name);
        });
    }
}

/// A node after a write that failed, or may have.
enum AfterWrite {
    /// It is gone, or has pod ranges.
    Settled,
    /// It could not be read.
    Unchanged,
    /// It has none.
    Now(Arc<Node>),
}
