//! Whatever happens to nodes, no two have addresses in common, and nothing stays taken for nobody.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What can happen to one of a few nodes.
#[derive(Clone, Debug)]
enum Happening {
    /// It asks for blocks, and the write succeeds.
    Joins(u8),
    /// It asks for blocks, the write takes effect, and the answer is lost.
    AnswerLost(u8),
    /// It asks for blocks, and the write is lost, or is refused.
    WriteLost(u8),
    Refused(u8),
    /// It is deleted, which the allocator hears of.
    Leaves(u8),
    /// The process starts anew and knows only what the nodes have.
    Restart,
}

fn happening() -> impl Strategy<Value = Happening> {
    let number = 0..40_u8;
    prop_oneof![
        8 => number.clone().prop_map(Happening::Joins),
        1 => number.clone().prop_map(Happening::AnswerLost),
        1 => number.clone().prop_map(Happening::WriteLost),
        1 => number.clone().prop_map(Happening::Refused),
        4 => number.prop_map(Happening::Leaves),
        1 => Just(Happening::Restart),
    ]
}

/// The nodes as the API server has them, and an allocator.
struct World {
    layout: Layout,
    allocator: Allocator,
    nodes: BTreeMap<String, Node>,
}

impl World {
    fn new(kind: &str) -> Self {
        let flags = IpamFlags {
            mask_ipv4: 28,
            mask_ipv6: 124,
            services: "10.0.0.32/28,fd00::30/124".to_owned(),
            ..flags(kind, "10.0.0.0/23,fd00::/119")
        };
        let layout = layout(&flags, &ClusterRanges::default(), 64).unwrap();
        Self {
            allocator: Allocator::new(&layout),
            layout,
            nodes: BTreeMap::new(),
        }
    }

    fn happen(&mut self, happening: &Happening) {
        let name = |number: &u8| format!("n{number:02}");
        match happening {
            Happening::Joins(it) => self.ask(&name(it), true, |_, _| {}),
            Happening::AnswerLost(it) => self.ask(&name(it), true, Allocator::unsure),
            Happening::WriteLost(it) => self.ask(&name(it), false, Allocator::unsure),
            Happening::Refused(it) => self.ask(&name(it), false, |allocator, node| {
                allocator.refused(node);
            }),
            Happening::Leaves(it) => {
                self.nodes.remove(&name(it));
                self.allocator.gone(&name(it));
            }
            Happening::Restart => {
                self.allocator = Allocator::new(&self.layout);
                for node in self.nodes.values().filter(|it| !it.pod_cidrs.is_empty()) {
                    assert_eq!(self.allocator.see(node), []);
                }
            }
        }
    }

    fn ask(&mut self, name: &str, written: bool, then: impl Fn(&mut Allocator, &Node)) {
        let node = self
            .nodes
            .entry(name.to_owned())
            .or_insert_with(|| node(name, &[]));
        if !node.pod_cidrs.is_empty() {
            assert_eq!(self.allocator.see(node), []);
            return;
        }
        let last = name.bytes().map(u32::from).sum::<u32>();
        // A few machines share each network; some have none.
        let machine = match (self.layout.kind, last % 4) {
            (AllocatorKind::Cloud, 0) => vec!["2001:db8::5/117".parse().unwrap()],
            (AllocatorKind::Cloud, 1) => vec!["2001:db8::5/112".parse().unwrap()],
            _ => vec![],
        };
        let Ok(blocks) = self.allocator.propose(node, &machine) else {
            return;
        };
        if written {
            node.pod_cidrs = texts(&blocks);
        }
        let node = node.clone();
        then(&mut self.allocator, &node);
        if !written {
            return;
        }
        assert_eq!(self.allocator.see(&node), []);
    }

    fn check(&mut self) {
        let mut all = self.layout.services.clone();
        for node in self.nodes.values() {
            all.extend(node.pod_cidrs.iter().map(|text| net(text)));
        }
        all.sort();
        for pair in all.windows(2) {
            assert!(!pair[0].contains(&pair[1]), "{} and {}", pair[0], pair[1]);
        }
    }

    /// When all nodes are gone, everything but the Services' ranges is free.
    fn check_end(&mut self) {
        let names: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
        for name in names {
            self.allocator.gone(&name);
        }
        for set in self.allocator.sets() {
            let cluster = self
                .layout
                .clusters
                .iter()
                .any(|it| it.range == set.range());
            assert_eq!(set.used(), u64::from(cluster), "{}", set.range());
        }
    }
}

proptest! {
    #[test]
    fn no_two_nodes_share_an_address_and_nothing_is_leaked(
        kind in prop_oneof![Just("RangeAllocator"), Just("CloudAllocator")],
        happenings in prop::collection::vec(happening(), 0..200),
    ) {
        let mut world = World::new(kind);
        for happening in &happenings {
            world.happen(happening);
            world.check();
        }
        world.check_end();
    }

    /// The set agrees with a plain list of numbers.
    #[test]
    fn runs_of_blocks_are_what_a_list_would_be(
        steps in prop::collection::vec((0..3_u8, 0..64_u64, 0..7_u8), 0..200),
    ) {
        let mut set = BlockSet::new(net("10.0.0.0/26"), 32).unwrap();
        let mut list = [false; 64];
        for (step, index, bits) in steps {
            let network = IpNet::new(set.block(index).addr(), 32 - bits).unwrap().trunc();
            let inside = |it: usize| network.contains(&set.block(it as u64));
            let members: Vec<usize> = (0..64).filter(|it| inside(*it)).collect();
            match step {
                0 => {
                    let fresh = members.iter().filter(|it| !list[**it]).count();
                    prop_assert_eq!(set.mark(network), fresh as u64);
                    for it in members {
 list[it] = true;
}
                }
                1 => {
                    let used = members.iter().filter(|it| list[**it]).count();
                    prop_assert_eq!(set.free(network), used as u64);
                    for it in members {
 list[it] = false;
}
                }
                _ => match set.next() {
                    Some((block, _)) => {
                        set.take(block);
                        let index = (0..64).find(|it| set.block(*it as u64) == block).unwrap();
                        prop_assert!(!list[index]);
                        list[index] = true;
                    }
                    None => prop_assert!(list.iter().all(|used| *used)),
                },
            }
            prop_assert_eq!(set.used(), list.iter().filter(|it| **it).count() as u64);
        }
    }
}

/// Five thousand allocations with random releases and restarts.
#[test]
fn five_thousand_allocations_with_releases_and_restarts_give_nothing_twice_and_leak_nothing() {
    for seed in 1..=4_u64 {
        let flags = IpamFlags {
            mask_ipv6: 64,
            ..flags("RangeAllocator", "10.128.0.0/12,fd00:10::/48")
        };
        let layout = layout(&flags, &ClusterRanges::default(), 64).unwrap();
        let mut allocator = Allocator::new(&layout);
        let mut has: BTreeMap<String, Vec<IpNet>> = BTreeMap::new();
        let mut owners: BTreeMap<IpNet, String> = BTreeMap::new();
        let mut random = seed;
        let mut draw = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for number in 0..5000 {
            let name = format!("n{number}");
            let blocks = allocator.propose(&node(&name, &[]), &[]).unwrap();
            for block in &blocks {
                let before = owners.insert(*block, name.clone());
                assert_eq!(before, None, "seed {seed}: {block} was given twice");
            }
            has.insert(name, blocks);
            while has.len() > 3500 || (!has.is_empty() && draw(3) == 0) {
                let index = usize::try_from(draw(has.len() as u64)).unwrap();
                let Some(name) = has.keys().nth(index).cloned() else {
                    break;
                };
                for block in has.remove(&name).unwrap_or_default() {
                    owners.remove(&block);
                }
                assert!(allocator.gone(&name));
            }
            if draw(500) == 0 {
                allocator = Allocator::new(&layout);
                for (name, blocks) in &has {
                    let ranges = texts(blocks);
                    let ranges: Vec<&str> = ranges.iter().map(String::as_str).collect();
                    assert_eq!(allocator.see(&node(name, &ranges)), []);
                }
            }
            let used: u64 = allocator.sets().map(BlockSet::used).sum();
            assert_eq!(
                used,
                2 * has.len() as u64,
                "seed {seed}: something is leaked"
            );
        }
    }
}
