//! What it costs to find pod ranges for a node.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use bowline_core::ipam::{Allocator, BlockSet, ClusterRanges, IpamFlags, Layout, layout};
use bowline_core::{Node, Ready};
use tokio::time::Instant;

/// The ranges: 65,536 blocks of each family.
const CLUSTER: &str = "10.0.0.0/8,fd00:10::/48";
/// Rounds; the quickest counts, since others share the machine.
const ROUNDS: usize = 5;

/// Times of allocations, each for one node and two families.
#[derive(Clone, Copy, Debug)]
pub struct Cidrs {
    /// Into empty ranges.
    pub fresh: Duration,
    /// The last tenth of these.
    pub last: Duration,
    /// The first tenth of these.
    pub first: Duration,
    /// Into ranges of which all blocks but so many are used: the search has to pass all of them.
    pub crowded: Duration,
    /// A restart: taking note of what so many nodes have, for each.
    pub restart: Duration,
    /// The floor: counting blocks up and noting them by name, with nothing to decide.
    pub floor: Duration,
}

impl Cidrs {
    /// Allocates for so many nodes.
    pub fn measure(nodes: usize) -> Self {
        let flags = IpamFlags {
            allocator: "RangeAllocator".to_owned(),
            cluster: CLUSTER.to_owned(),
            ..IpamFlags::default()
        };
        let layout = layout(&flags, &ClusterRanges::default(), 64).unwrap();
        let fresh: Vec<Node> = (0..nodes).map(|number| node(number, Vec::new())).collect();
        let mut best: Option<Self> = None;
        for _ in 0..ROUNDS {
            let round = Self::round(&layout, &fresh);
            best = Some(best.map_or(round, |best| best.quicker(round)));
        }
        best.unwrap()
    }

    fn round(layout: &Layout, nodes: &[Node]) -> Self {
        let tenth = (nodes.len() / 10).max(1);
        let mut allocator = Allocator::new(layout);
        let (mut given, mut times) = (Vec::new(), Vec::new());
        for part in nodes.chunks(tenth) {
            let from = Instant::now();
            for node in part {
                given.push(allocator.propose(node, &[]).unwrap());
            }
            times.push(each(from, part.len()));
        }
        let from = Instant::now();
        let mut again = Allocator::new(layout);
        let with_ranges: Vec<Node> = (0..nodes.len())
            .map(|number| {
                node(
                    number,
                    given[number].iter().map(ToString::to_string).collect(),
                )
            })
            .collect();
        let prepared = from.elapsed();
        let from = Instant::now();
        for node in &with_ranges {
            again.see(node);
        }
        let restart = each(from, nodes.len());
        black_box((prepared, again));
        Self {
            fresh: times.iter().sum::<Duration>() / u32::try_from(times.len()).unwrap(),
            first: times[0],
            last: times[times.len() - 1],
            crowded: crowded(layout, nodes),
            restart,
            floor: floor(layout, nodes),
        }
    }

    fn quicker(self, other: Self) -> Self {
        Self {
            fresh: self.fresh.min(other.fresh),
            first: self.first.min(other.first),
            last: self.last.min(other.last),
            crowded: self.crowded.min(other.crowded),
            restart: self.restart.min(other.restart),
            floor: self.floor.min(other.floor),
        }
    }
}

/// All blocks but as many as there are nodes are used, one network after the other.
fn crowded(layout: &Layout, nodes: &[Node]) -> Duration {
    let mut allocator = Allocator::new(layout);
    let mut number = nodes.len();
    let free = |allocator: &Allocator| {
        let free = allocator.sets().map(|set| set.blocks() - set.used());
        free.min().unwrap_or_default()
    };
    while free(&allocator) > nodes.len() as u64 {
        allocator.propose(&node(number, Vec::new()), &[]).unwrap();
        number += 1;
    }
    let from = Instant::now();
    for node in nodes {
        allocator.propose(node, &[]).unwrap();
    }
    each(from, nodes.len())
}

fn floor(layout: &Layout, nodes: &[Node]) -> Duration {
    let sets: Vec<BlockSet> = layout
        .clusters
        .iter()
        .map(|it| BlockSet::new(it.range, it.mask).unwrap())
        .collect();
    let mut notes = BTreeMap::new();
    let from = Instant::now();
    for (number, node) in nodes.iter().enumerate() {
        let blocks: Vec<_> = sets.iter().map(|set| set.block(number as u64)).collect();
        notes.insert(node.name.clone(), (node.uid.clone(), blocks.clone()));
        black_box(blocks);
    }
    let floor = each(from, nodes.len());
    black_box(notes);
    floor
}

fn each(from: Instant, count: usize) -> Duration {
    from.elapsed() / u32::try_from(count.max(1)).unwrap()
}

fn node(number: usize, pod_cidrs: Vec<String>) -> Node {
    Node {
        name: format!("node-{number:05}"),
        uid: format!("3fa85f64-5717-4562-b3fc-{number:012}"),
        resource_version: "1".to_owned(),
        pod_cidrs,
        ready: Ready::True,
        ..Node::default()
    }
}
