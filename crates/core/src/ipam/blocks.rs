//! One range, cut into blocks of one size, and which of them are used.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Bits between the mask of an IPv6 range and that of its blocks, as in the originals.
const IPV6_BITS: u8 = 16;

/// Why a range cannot be cut like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockSetError {
    /// An IPv6 range with too many blocks.
    #[error("New CIDR set failed; the node CIDR size is too big")]
    TooMany,
    /// The blocks would be larger than the range, or smaller than an address.
    #[error(
        "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal \
         to --node-cidr-mask-size configured for CIDR family"
    )]
    NoBlock,
}

/// A range and its blocks; the search for a free one goes round, from where the last was found.
#[derive(Clone, Debug)]
pub struct BlockSet {
    range: IpNet,
    mask: u8,
    used: Runs,
    cursor: u64,
}

impl BlockSet {
    /// That range in blocks of that mask, all free.
    pub fn new(range: IpNet, mask: u8) -> Result<Self, BlockSetError> {
        if mask > range.max_prefix_len() || mask < range.prefix_len() {
            return Err(BlockSetError::NoBlock);
        }
        if matches!(range, IpNet::V6(_)) && mask - range.prefix_len() > IPV6_BITS {
            return Err(BlockSetError::TooMany);
        }
        Ok(Self {
            range: range.trunc(),
            mask,
            used: Runs::default(),
            cursor: 0,
        })
    }

    /// The range.
    pub fn range(&self) -> IpNet {
        self.range
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> u64 {
        // At most 32 bits (IPv4) or 16 (IPv6).
        1 << (self.mask - self.range.prefix_len())
    }

    /// How many are used.
    pub fn used(&self) -> u64 {
        self.used.count
    }

    /// The block of that number.
    pub fn block(&self, index: u64) -> IpNet {
        let width = self.range.max_prefix_len();
        let offset = match width - self.mask {
            // Only a range of all addresses in one block is so wide.
            128.. => 0,
            shift => u128::from(index) << shift,
        };
        let address = match self.range.network() {
            IpAddr::V4(base) => {
                let offset = u32::try_from(offset).unwrap_or_default();
                IpAddr::V4(Ipv4Addr::from_bits(base.to_bits().wrapping_add(offset)))
            }
            IpAddr::V6(base) => {
                IpAddr::V6(Ipv6Addr::from_bits(base.to_bits().wrapping_add(offset)))
            }
        };
        // The mask was checked against the family.
        IpNet::new(address, self.mask).unwrap_or(self.range)
    }

    /// What marking that network would mark, as one network: itself, the range if it is wider, or
    /// the block that it lies in if it is narrower. None if it lies outside.
    pub fn cover(&self, network: IpNet) -> Option<IpNet> {
        let network = network.trunc();
        if network.contains(&self.range) {
            return Some(self.range);
        }
        if !self.range.contains(&network) {
            return None;
        }
        let length = network.prefix_len().min(self.mask);
        IpNet::new(network.addr(), length).ok().map(|it| it.trunc())
    }

    /// Marks all blocks that share an address with that network; how many were free before.
    pub fn mark(&mut self, network: IpNet) -> u64 {
        match self.indexes(network) {
            Some((first, last)) => self.used.insert(first, last),
            None => 0,
        }
    }

    /// Frees all blocks that share an address with that network; how many were used before.
    pub fn free(&mut self, network: IpNet) -> u64 {
        match self.indexes(network) {
            Some((first, last)) => self.used.remove(first, last),
            None => 0,
        }
    }

    /// The next free block, and how many used ones lie before it; none if all are used.
    pub fn next(&self) -> Option<(IpNet, u64)> {
        let blocks = self.blocks();
        let ahead = self.used.gap(self.cursor).filter(|index| *index < blocks);
        let index = ahead.or_else(|| self.used.gap(0).filter(|index| *index < blocks))?;
        let tries = (index + blocks - self.cursor) % blocks;
        Some((self.block(index), tries))
    }

    /// Uses a block that [`next`](Self::next) gave: the search goes on behind it.
    pub fn take(&mut self, block: IpNet) {
        if let Some((first, last)) = self.indexes(block) {
            self.used.insert(first, last);
            self.cursor = (last + 1) % self.blocks();
        }
    }

    fn indexes(&self, network: IpNet) -> Option<(u64, u64)> {
        let cover = self.cover(network)?;
        let shift = u32::from(self.range.max_prefix_len() - self.mask);
        let from = |address: IpAddr| {
            let offset = bits(address).wrapping_sub(bits(self.range.network()));
            u64::try_from(offset.checked_shr(shift).unwrap_or_default()).ok()
        };
        Some((from(cover.network())?, from(cover.broadcast())?))
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A set of numbers as runs, first to last, that neither overlap nor touch: the next number that is
/// not in it is one look away.
#[derive(Clone, Debug, Default)]
struct Runs {
    runs: BTreeMap<u64, u64>,
    count: u64,
}

impl Runs {
    /// The first number from there on that is not in it.
    fn gap(&self, from: u64) -> Option<u64> {
        match self.runs.range(..=from).next_back() {
            Some((_, last)) if *last >= from => last.checked_add(1),
            _ => Some(from),
        }
    }

    /// Adds these numbers; how many are new.
    fn insert(&mut self, first: u64, last: u64) -> u64 {
        let before = self.count;
        let (mut from, mut to) = (first, last);
        while let Some((start, end)) = self.before(to.saturating_add(1)) {
            if end.saturating_add(1) < from {
                break;
            }
            self.runs.remove(&start);
            self.count -= end - start + 1;
            (from, to) = (from.min(start), to.max(end));
        }
        self.runs.insert(from, to);
        self.count += to - from + 1;
        self.count - before
    }

    /// Removes these numbers; how many were there.
    fn remove(&mut self, first: u64, last: u64) -> u64 {
        let before = self.count;
        while let Some((start, end)) = self.before(last) {
            if end < first {
                break;
            }
            self.runs.remove(&start);
            self.count -= end - start + 1;
            if end > last {
                self.runs.insert(last + 1, end);
                self.count += end - last;
            }
            if start < first {
                self.runs.insert(start, first - 1);
                self.count += first - start;
            }
        }
        before - self.count
    }

    /// The last run that begins there or before.
    fn before(&self, number: u64) -> Option<(u64, u64)> {
        let run = self.runs.range(..=number).next_back();
        run.map(|(start, end)| (*start, *end))
    }
}
