//! Networks by what they share addresses with, and what is taken, counted.

use std::collections::BTreeMap;

use ipnet::IpNet;

/// Something about each of many networks, none of which has host bits.
#[derive(Clone, Debug)]
pub(super) struct NetworkMap<V> {
    entries: BTreeMap<IpNet, V>,
    /// How many networks there are of each prefix length, by family: few lengths are in use, and
    /// only those have to be looked at for what is around a network.
    lengths: [BTreeMap<u8, usize>; 2],
}

impl<V> Default for NetworkMap<V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            lengths: Default::default(),
        }
    }
}

impl<V> NetworkMap<V> {
    pub(super) fn get(&self, network: &IpNet) -> Option<&V> {
        self.entries.get(network)
    }

    pub(super) fn get_mut(&mut self, network: &IpNet) -> Option<&mut V> {
        self.entries.get_mut(network)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values()
    }

    pub(super) fn insert(&mut self, network: IpNet, value: V) {
        if self.entries.insert(network, value).is_none() {
            let lengths = &mut self.lengths[family(network)];
            *lengths.entry(network.prefix_len()).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, network: &IpNet) {
        if self.entries.remove(network).is_none() {
            return;
        }
        let lengths = &mut self.lengths[family(*network)];
        if let Some(count) = lengths.get_mut(&network.prefix_len()) {
            *count -= 1;
            if *count == 0 {
                lengths.remove(&network.prefix_len());
            }
        }
    }

    /// All that share an address with that network: those that contain it, widest first, then those
    /// in it. Networks are nested or apart, so that there are few places to look at.
    pub(super) fn overlapping(&self, network: IpNet) -> Vec<IpNet> {
        let lengths = self.lengths[family(network)].range(..network.prefix_len());
        let wider = lengths
            .filter_map(|(length, _)| IpNet::new(network.addr(), *length).ok())
            .map(|wider| wider.trunc())
            .filter(|wider| self.entries.contains_key(wider));
        let mut found: Vec<IpNet> = wider.collect();
        if let Ok(last) = IpNet::new(network.broadcast(), network.max_prefix_len()) {
            let inside = self.entries.range(network..=last);
            found.extend(inside.map(|(inside, _)| *inside));
        }
        found
    }
}

fn family(network: IpNet) -> usize {
    match network {
        IpNet::V4(_) => 0,
        IpNet::V6(_) => 1,
    }
}

/// Networks that somebody has, each as often as somebody has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken(NetworkMap<usize>);

impl Taken {
    /// Notes one more who has it; the answer is how many have it now.
    pub(super) fn add(&mut self, network: IpNet) -> usize {
        if let Some(count) = self.0.get_mut(&network) {
            *count += 1;
            return *count;
        }
        self.0.insert(network, 1);
        1
    }

    /// Notes one less; whether nobody has exactly this network any more.
    pub(super) fn remove(&mut self, network: IpNet) -> bool {
        match self.0.get_mut(&network) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => {
                self.0.remove(&network);
                true
            }
            None => false,
        }
    }

    /// All that share an address with that network.
    pub(super) fn overlapping(&self, network: IpNet) -> Vec<IpNet> {
        self.0.overlapping(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shares_an_address_is_found_and_nothing_else() {
        let texts = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.0/24",
            "10.1.3.0/24",
            "10.2.0.0/16",
            "10.1.2.128/25",
            "fd00::/8",
        ];
        let mut networks: Vec<IpNet> = texts.iter().map(|it| it.parse().unwrap()).collect();
        let mut map = NetworkMap::default();
        for network in &networks {
            map.insert(*network, ());
        }
        let probes = [
            "10.1.2.0/24",
            "10.1.2.128/26",
            "10.1.0.0/16",
            "0.0.0.0/0",
            "10.3.0.0/30",
        ];
        while !networks.is_empty() {
            for text in probes.iter().chain(&texts) {
                let probe: IpNet = text.parse().unwrap();
                let shares = |it: &&IpNet| it.contains(&probe) || probe.contains(*it);
                let mut expected: Vec<IpNet> = networks.iter().filter(shares).copied().collect();
                let mut found = map.overlapping(probe);
                expected.sort();
                found.sort();
                assert_eq!(found, expected, "{text}");
            }
            map.remove(&networks.pop().unwrap());
        }
        assert!(map.lengths.iter().all(BTreeMap::is_empty));
    }
}
