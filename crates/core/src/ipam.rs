//! Pod ranges of nodes: which blocks there are, which are taken, and who gets which.
//!
//! ```text
//!  flags, what a cloud knows ─▶ layout ─▶ Allocator ◀── see: a node as it is
//!                                         │  ▲ ◀── gone: there is no such node any more
//!  a machine's addresses ─▶ candidates ───┤  └ ◀── refused, unsure: what became of a write
//!                                         ▼
//!                              propose ─▶ blocks for a node
//! ```
//!
//! Whatever a node has, or may have been given by a write nobody heard of again, stays taken until
//! that node is gone or has something else for good. Nothing here needs a list of all nodes: finding
//! a free block costs a few steps in ordered maps, whatever the number of nodes.

mod allocator;
mod blocks;
mod layout;
mod machine;
mod taken;
#[cfg(test)]
mod tests;

use ipnet::IpNet;

pub use allocator::{Allocator, Misfit, ProposalError, Report};
pub use blocks::{BlockSet, BlockSetError};
pub use layout::{AllocatorKind, IpamFlags, Layout, LayoutError, NodeMask, layout};
pub use machine::{MachineAddress, MachineError, candidates, machine_range, node_ips};

use crate::{BoxFuture, CloudError, Node};

/// The block mask of IPv4 ranges, unless a flag says otherwise.
pub const IPV4_MASK: u8 = 24;
/// The block mask of IPv6 ranges, unless a flag or the cloud says otherwise.
pub const IPV6_MASK: u8 = 64;

/// The ranges that a cluster was made with, as far as a cloud knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterRanges {
    /// Of pods, in order; used where `--cluster-cidr` says nothing.
    pub pods: Vec<IpNet>,
    /// Of Services; where there are any, they count and not the flag's.
    pub services: Vec<IpNet>,
}

/// What a cloud knows about networks.
pub trait Networks: Send + Sync {
    /// The ranges that the cluster was made with; empty where the cloud does not know them.
    fn cluster_ranges(&self) -> BoxFuture<'_, Result<ClusterRanges, CloudError>> {
        Box::pin(async { Ok(ClusterRanges::default()) })
    }

    /// The addresses of a node's machine, each with the length of its network's prefix, without
    /// those of links that no pod range should come from. [`node_ips`] are where to ask it.
    fn machine_addresses<'a>(
        &'a self,
        node: &'a Node,
    ) -> BoxFuture<'a, Result<Vec<MachineAddress>, CloudError>>;

    /// The block mask of IPv6 ranges, unless a flag says otherwise.
    fn ipv6_mask(&self) -> u8 {
        IPV6_MASK
    }
}
