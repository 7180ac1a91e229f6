//! What is taken, counted: the same network may be taken more than once, and networks that contain
//! each other as well.

use std::collections::BTreeMap;

use ipnet::IpNet;

/// Networks that somebody has, each as often as somebody has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken(BTreeMap<IpNet, usize>);

impl Taken {
    /// Notes one more who has it; the answer is how many have it now.
    pub(super) fn add(&mut self, network: IpNet) -> usize {
        let count = self.0.entry(network).or_default();
        *count += 1;
        *count
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
        overlapping(&self.0, network)
    }
}

/// The keys that share an address with that network: those that contain it, then those in it.
///
/// Networks are nested or apart, so that there are few places to look at. All are without host bits.
pub(super) fn overlapping<V>(map: &BTreeMap<IpNet, V>, network: IpNet) -> Vec<IpNet> {
    let wider = (0..network.prefix_len())
        .filter_map(|length| IpNet::new(network.addr(), length).ok())
        .map(|wider| wider.trunc())
        .filter(|wider| map.contains_key(wider));
    let mut found: Vec<IpNet> = wider.collect();
    if let Ok(last) = IpNet::new(network.broadcast(), network.max_prefix_len()) {
        found.extend(map.range(network..=last).map(|(inside, _)| *inside));
    }
    found
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
        let networks: Vec<IpNet> = texts.iter().map(|it| it.parse().unwrap()).collect();
        let map: BTreeMap<IpNet, ()> = networks.iter().map(|it| (*it, ())).collect();
        let probes = [
            "10.1.2.0/24",
            "10.1.2.128/26",
            "10.1.0.0/16",
            "0.0.0.0/0",
            "10.3.0.0/30",
        ];
        for text in probes.iter().chain(&texts) {
            let probe: IpNet = text.parse().unwrap();
            let mut expected: Vec<IpNet> = networks
                .iter()
                .filter(|it| it.contains(&probe) || probe.contains(*it))
                .copied()
                .collect();
            let mut found = overlapping(&map, probe);
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{text}");
        }
    }
}
