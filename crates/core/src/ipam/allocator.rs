//! Who has which blocks.

use std::collections::BTreeMap;

use ipnet::{IpNet, Ipv6Net};

use super::blocks::BlockSet;
use super::layout::{AllocatorKind, Layout};
use super::machine::{MachineError, is_public, machine_range};
use super::taken::{NetworkMap, Taken};
use crate::Node;

/// Sets of machines' networks that are kept; before there are more, those without any taken block go.
/// Twice the nodes of the largest supported cluster, each in a network of its own.
const MACHINE_SETS: usize = 10_000;

/// The pod ranges of all nodes.
#[derive(Clone, Debug)]
pub struct Allocator {
    kind: AllocatorKind,
    /// The cluster's ranges, in order.
    clusters: Vec<IpNet>,
    sets: NetworkMap<BlockSet>,
    /// All that the holders have, and the Services' ranges.
    taken: Taken,
    holders: BTreeMap<String, Holding>,
    reports: BTreeMap<IpNet, Report>,
}

/// What one node has, or is to have.
#[derive(Clone, Debug)]
struct Holding {
    uid: String,
    blocks: Vec<IpNet>,
    /// Whether a write of them may take effect although nobody has heard of it.
    unsure: bool,
}

/// What happened in one range since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Blocks that became used.
    pub allocations: u64,
    /// Blocks that became free.
    pub releases: u64,
    /// For each block that was searched for: used blocks that were passed.
    pub tries: Vec<u64>,
    /// Used blocks now.
    pub used: u64,
    /// All blocks; none if the range is given up.
    pub blocks: u64,
}

/// Something about a node's pod ranges that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A text that is no CIDR.
    #[error("pod range {1:?} of node {0} cannot be read")]
    Unreadable(String, String),
    /// More ranges than the cluster has.
    #[error("node {node} has {has} pod ranges, the cluster has {cluster}")]
    TooMany {
        /// Whose.
        node: String,
        /// How many it has.
        has: usize,
        /// How many ranges the cluster has.
        cluster: usize,
    },
    /// Not in the cluster's range.
    #[error("pod range {range} of node {node} is not in {cluster}")]
    Outside {
        /// Whose.
        node: String,
        /// What it has.
        range: IpNet,
        /// The range of the cluster at the same place.
        cluster: IpNet,
    },
    /// Somebody else has it, too.
    #[error("pod range {range} of node {node} is taken by another node as well")]
    Shared {
        /// Whose.
        node: String,
        /// What both have.
        range: IpNet,
    },
}

/// Why there are no blocks for a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// All are used.
    #[error(
        "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted \
         range ({0})"
    )]
    Exhausted(IpNet),
    /// The machine's network is of no use.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl Allocator {
    /// Nothing is taken but the Services' ranges.
    pub fn new(layout: &Layout) -> Self {
        let mut allocator = Self {
            kind: layout.kind,
            clusters: layout.clusters.iter().map(|it| it.range).collect(),
            sets: NetworkMap::default(),
            taken: Taken::default(),
            holders: BTreeMap::new(),
            reports: BTreeMap::new(),
        };
        for cluster in &layout.clusters {
            allocator.add_set(cluster.range, cluster.mask);
        }
        for services in &layout.services {
            allocator.take(*services);
        }
        allocator
    }

    /// How blocks are found.
    pub fn kind(&self) -> AllocatorKind {
        self.kind
    }

    /// Whether a node gets an IPv6 block.
    pub fn has_ipv6(&self) -> bool {
        self.clusters.iter().any(|it| matches!(it, IpNet::V6(_)))
    }

    /// Takes note of what a node has. It cannot get anything else, so that whatever was meant for it
    /// is free again. What does not fit is taken all the same, and reported.
    pub fn see(&mut self, node: &Node) -> Vec<Misfit> {
        let mut misfits = Vec::new();
        let mut blocks = Vec::new();
        for text in &node.pod_cidrs {
            match text.parse::<IpNet>() {
                Ok(block) => blocks.push(block.trunc()),
                Err(_) => misfits.push(Misfit::Unreadable(node.name.clone(), text.clone())),
            }
        }
        if self.kind == AllocatorKind::Range {
            misfits.extend(self.misplaced(&node.name, &blocks));
        }
        let known = self.holders.get_mut(&node.name);
        if let Some(known) = known.filter(|it| it.uid == node.uid && it.blocks == blocks) {
            known.unsure = false;
            return misfits;
        }
        // First the new, then the old: what is in both is never free in between.
        for block in &blocks {
            let own = self.holders.get(&node.name);
            let own = own.map_or(0, |it| it.blocks.iter().filter(|it| *it == block).count());
            if self.take(*block) > own + 1 {
                misfits.push(Misfit::Shared {
                    node: node.name.clone(),
                    range: *block,
                });
            }
        }
        let holding = Holding {
            uid: node.uid.clone(),
            blocks,
            unsure: false,
        };
        if let Some(former) = self.holders.insert(node.name.clone(), holding) {
            self.give_back(&former.blocks);
        }
        misfits
    }

    fn misplaced(&self, node: &str, blocks: &[IpNet]) -> Vec<Misfit> {
        let mut misfits = Vec::new();
        if blocks.len() > self.clusters.len() {
            misfits.push(Misfit::TooMany {
                node: node.to_owned(),
                has: blocks.len(),
                cluster: self.clusters.len(),
            });
        }
        for (range, cluster) in blocks.iter().zip(&self.clusters) {
            if !cluster.contains(range) && !range.contains(cluster) {
                misfits.push(Misfit::Outside {
                    node: node.to_owned(),
                    range: *range,
                    cluster: *cluster,
                });
            }
        }
        misfits
    }

    /// There is no such node any more; whether something became free by that.
    pub fn gone(&mut self, name: &str) -> bool {
        let Some(former) = self.holders.remove(name) else {
            return false;
        };
        self.give_back(&former.blocks);
        !former.blocks.is_empty()
    }

    /// Whether that node has something, or is to have it.
    pub fn knows(&self, name: &str) -> bool {
        self.holders.contains_key(name)
    }

    /// Blocks for a node that has none, one of each range of the cluster; the same as before, if a
    /// write of those may yet take effect. `candidates` are its machine's networks.
    ///
    /// Either all are taken or nothing is.
    pub fn propose(
        &mut self,
        node: &Node,
        candidates: &[Ipv6Net],
    ) -> Result<Vec<IpNet>, ProposalError> {
        match self.holders.get(&node.name) {
            Some(known) if known.uid == node.uid => return Ok(known.blocks.clone()),
            // Another node of that name, which is gone then.
            Some(_) => drop(self.gone(&node.name)),
            None => {}
        }
        let own = self.set_of_machine(candidates)?;
        let ranges = self.clusters.iter().map(|cluster| match (cluster, own) {
            (IpNet::V6(_), Some(own)) => own,
            (cluster, _) => *cluster,
        });
        let ranges: Vec<IpNet> = ranges.collect();
        let mut found = Vec::new();
        for range in ranges {
            let next = self.sets.get(&range).and_then(BlockSet::next);
            let (block, tries) = next.ok_or(ProposalError::Exhausted(range))?;
            found.push((range, block, tries));
        }
        for (range, block, tries) in &found {
            self.report(*range).tries.push(*tries);
            self.take(*block);
            if let Some(set) = self.sets.get_mut(range) {
                set.take(*block);
            }
        }
        let blocks: Vec<IpNet> = found.into_iter().map(|(_, block, _)| block).collect();
        let holding = Holding {
            uid: node.uid.clone(),
            blocks: blocks.clone(),
            unsure: false,
        };
        self.holders.insert(node.name.clone(), holding);
        Ok(blocks)
    }

    /// A write of a node's blocks may have taken effect, or may yet.
    pub fn unsure(&mut self, node: &Node) {
        if let Some(known) = self.holder(node) {
            known.unsure = true;
        }
    }

    /// All writes of a node's blocks were refused: they are free again, unless one of them may yet take
    /// effect. Whether they are.
    pub fn refused(&mut self, node: &Node) -> bool {
        let sure = self.holder(node).is_some_and(|known| !known.unsure);
        sure && self.gone(&node.name)
    }

    /// What happened in each range since this was last asked.
    pub fn take_reports(&mut self) -> BTreeMap<IpNet, Report> {
        std::mem::take(&mut self.reports)
    }

    /// All sets, by range.
    pub fn sets(&self) -> impl Iterator<Item = &BlockSet> {
        self.sets.values()
    }

    fn holder(&mut self, node: &Node) -> Option<&mut Holding> {
        let known = self.holders.get_mut(&node.name);
        known.filter(|it| it.uid == node.uid)
    }

    /// The set that a machine's node gets its IPv6 block from; none if that is the cluster's.
    fn set_of_machine(&mut self, candidates: &[Ipv6Net]) -> Result<Option<IpNet>, MachineError> {
        if candidates.is_empty() {
            return Ok(None);
        }
        if let Some(found) = self.set_around(candidates) {
            return Ok(Some(found));
        }
        let mut ranges = Vec::new();
        for candidate in candidates {
            ranges.extend(machine_range(*candidate)?);
        }
        for (range, mask) in ranges {
            self.drop_unused_sets();
            self.add_set(range.into(), mask);
        }
        Ok(self.set_around(candidates))
    }

    /// The most specific public set around the first of these addresses that is in one.
    fn set_around(&self, candidates: &[Ipv6Net]) -> Option<IpNet> {
        candidates.iter().find_map(|candidate| {
            let address = Ipv6Net::from(candidate.addr());
            let around = self.sets.overlapping(address.into());
            around.into_iter().rfind(|range| match range {
                IpNet::V6(range) => is_public(range.network()),
                IpNet::V4(_) => false,
            })
        })
    }

    /// Adds a set, if there is none; what is taken already is marked in it at once.
    fn add_set(&mut self, range: IpNet, mask: u8) {
        if self.sets.get(&range).is_some() {
            return;
        }
        // Machines' ranges follow a table, and the cluster's were checked.
        let Ok(mut set) = BlockSet::new(range, mask) else {
            return;
        };
        let taken = self.taken.overlapping(range);
        let marked = taken.into_iter().map(|it| set.mark(it)).sum::<u64>();
        self.sets.insert(range, set);
        self.report(range).allocations += marked;
    }

    fn drop_unused_sets(&mut self) {
        if self.sets.len() < MACHINE_SETS {
            return;
        }
        let unused = self.sets.values().filter(|set| set.used() == 0);
        let unused: Vec<IpNet> = unused
            .map(BlockSet::range)
            .filter(|range| !self.clusters.contains(range))
            .collect();
        for range in unused {
            self.sets.remove(&range);
            *self.reports.entry(range).or_default() = Report::default();
        }
    }

    /// Marks a network in every set that it touches; the answer is how many have it now.
    fn take(&mut self, network: IpNet) -> usize {
        let count = self.taken.add(network);
        if count == 1 {
            for range in self.sets.overlapping(network) {
                let marked = self.sets.get_mut(&range).map_or(0, |set| set.mark(network));
                if marked > 0 {
                    self.report(range).allocations += marked;
                }
            }
        }
        count
    }

    fn give_back(&mut self, networks: &[IpNet]) {
        for network in networks {
            if self.taken.remove(*network) {
                for range in self.sets.overlapping(*network) {
                    self.free(range, *network);
                }
            }
        }
    }

    /// Frees a network's blocks in one set, but for those that something else lies in.
    fn free(&mut self, range: IpNet, network: IpNet) {
        let Some(set) = self.sets.get_mut(&range) else {
            return;
        };
        let Some(cover) = set.cover(network) else {
            return;
        };
        let freed = set.free(cover);
        let others = self.taken.overlapping(cover).into_iter();
        let kept = others.map(|other| set.mark(other)).sum::<u64>();
        if freed > kept {
            self.report(range).releases += freed - kept;
        }
    }

    fn report(&mut self, range: IpNet) -> &mut Report {
        let (used, blocks) = self
            .sets
            .get(&range)
            .map_or((0, 0), |set| (set.used(), set.blocks()));
        let report = self.reports.entry(range).or_default();
        (report.used, report.blocks) = (used, blocks);
        report
    }
}
