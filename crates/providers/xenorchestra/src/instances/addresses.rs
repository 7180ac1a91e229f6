//! Which addresses a node gets from its VM. Pure.
//!
//! The server reports two fields that may disagree: `mainIpAddress`, taken from raw guest data, may
//! hold several addresses, none, or one that only means something on its link; `addresses` is
//! cleaned up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bowline_core::{AddressKind, Node, NodeAddress};
use ipnet::IpNet;

use crate::api::Vm;
use crate::config::{AddressConfig, AddressMode};

/// The addresses of that VM's node, in order. `shared` are addresses that several VMs of the
/// cluster have: they belong to none of them.
pub(crate) fn of_node(
    vm: &Vm,
    node: &Node,
    config: &AddressConfig,
    shared: &BTreeSet<IpAddr>,
) -> Vec<NodeAddress> {
    let mut list = provided(node);
    match config.mode {
        AddressMode::Compat => {
            let main = main_address(vm).map(|it| NodeAddress::new(AddressKind::ExternalIp, it));
            list.extend(main);
        }
        AddressMode::Internal | AddressMode::Classify => {
            for address in reported(vm) {
                if !config.allows(address) || shared.contains(&address) {
                    continue;
                }
                let internal = config.mode == AddressMode::Internal || is_private(address);
                let kind = if internal {
                    AddressKind::InternalIp
                } else {
                    AddressKind::ExternalIp
                };
                let address = NodeAddress::new(kind, address.to_string());
                if !list.contains(&address) {
                    list.push(address);
                }
            }
        }
    }
    list.push(NodeAddress::new(AddressKind::Hostname, &*node.name));
    list
}

/// The kubelet's `--node-ip`, verbatim.
fn provided(node: &Node) -> Vec<NodeAddress> {
    let node_ip = node.provided_node_ip().into_iter();
    let items = node_ip.flat_map(|node_ip| node_ip.split(','));
    items
        .map(|item| NodeAddress::new(AddressKind::InternalIp, item))
        .collect()
}

/// The one address that a VM is known by: the first usable one of `mainIpAddress`, or else of
/// `addresses`.
fn main_address(vm: &Vm) -> Option<String> {
    let main = vm
        .main_ip_address
        .iter()
        .flat_map(|it| it.split_whitespace());
    let mut main = main.filter_map(usable);
    main.next()
        .or_else(|| reported(vm).next())
        .map(|it| it.to_string())
}

/// All usable addresses by NIC, family and number.
pub(crate) fn reported(vm: &Vm) -> impl Iterator<Item = IpAddr> {
    let sorted: BTreeMap<_, _> = vm
        .addresses
        .iter()
        .filter_map(|(position, address)| Some((position_of(position)?, usable(address)?)))
        .collect();
    sorted.into_values()
}

/// `<NIC>/<family>/<number>`, in an order of numbers rather than of texts.
fn position_of(position: &str) -> Option<(u32, &str, u32)> {
    let mut parts = position.split('/');
    let (nic, family, number) = (parts.next()?, parts.next()?, parts.next()?);
    Some((nic.parse().ok()?, family, number.parse().ok()?))
}

/// An address that means something beyond its own link.
fn usable(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let nowhere = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    (!link_local && !nowhere).then_some(address)
}

/// Whether the address is of a range that is not routed in the Internet.
fn is_private(address: IpAddr) -> bool {
    match address {
        // 100.64.0.0/10 is what providers put between themselves and their customers.
        IpAddr::V4(v4) => {
            v4.is_private() || (v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 0x40)
        }
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

impl AddressConfig {
    /// Whether an address may be published in the modes that choose.
    fn allows(&self, address: IpAddr) -> bool {
        let within = |ranges: &[IpNet]| ranges.iter().any(|range| range.contains(&address));
        (self.include.is_empty() || within(&self.include)) && !within(&self.exclude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{known, vm1};
    use bowline_core::{PROVIDED_NODE_IP, desired_addresses};
    use bowline_test_kit::rows;

    fn published(annotation: Option<&str>, main: Option<&str>) -> Vec<String> {
        let mut vm = vm1();
        vm.main_ip_address = main.map(str::to_owned);
        vm.addresses.clear();
        let mut node = known("w1", "");
        if let Some(annotation) = annotation {
            node.annotations
                .insert(PROVIDED_NODE_IP.into(), annotation.into());
        }
        let list = of_node(&vm, &node, &AddressConfig::default(), &BTreeSet::new());
        let wanted = desired_addresses(&list, &[], node.provided_node_ip()).unwrap();
        wanted.unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_are_published_as_the_table_says() {
        for [annotation, main, wanted] in rows(
            "10.20.0.11              | 10.20.0.11 | I10.20.0.11 E10.20.0.11
             192.168.5.10            | 10.20.0.11 | I192.168.5.10 E10.20.0.11
             10.20.0.11,2001:db8::11 | 10.20.0.11 | I10.20.0.11 E10.20.0.11 I2001:db8::11
                                     | 10.20.0.11 | E10.20.0.11
             10.20.0.11              |            | I10.20.0.11
                                     |            | ",
        ) {
            let wanted = format!("{wanted} Hostname:w1").replace('I', "InternalIP:");
            let wanted = wanted.replace('E', "ExternalIP:");
            let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
            let published = published(given(annotation), given(main)).join(" ");
            assert_eq!(published, wanted.trim(), "{annotation:?} {main:?}");
        }
    }

    #[test]
    fn xenorchestra_case_28_the_main_address_is_one_that_is_usable() {
        for [main, addresses, wanted] in rows(
            "10.20.0.11             |                                        | 10.20.0.11
             10.20.0.11 10.20.0.100 |                                        | 10.20.0.11
             empty                  | 1/ipv4/0=10.9.9.9                      | 10.9.9.9
             fe80::1                | 0/ipv6/0=fe80::1 0/ipv6/1=2001:db8::5  | 2001:db8::5
             fe80::1 2001:db8::5    |                                        | 2001:db8::5
             169.254.1.1            |                                        | none
             not an address         |                                        | none
             none                   | 10/ipv4/0=10.0.10.1 2/ipv4/0=10.0.2.1  | 10.0.2.1
             none                   | 0/ipv6/0=2001:db8::1 0/ipv4/1=10.0.0.2 | 10.0.0.2
             none                   | what=10.0.0.1                          | none
             none                   |                                        | none",
        ) {
            let given = |text| Some(text).filter(|text: &&str| *text != "none");
            let main = given(main).map(|main| main.replace("empty", ""));
            let mut vm = vm1();
            vm.main_ip_address.clone_from(&main);
            let pairs = addresses
                .split_whitespace()
                .filter_map(|pair| pair.split_once('='));
            let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
            vm.addresses = pairs.map(own).collect();
            assert_eq!(main_address(&vm).as_deref(), given(wanted), "{main:?}");
        }
    }

    #[test]
    fn the_other_modes_publish_what_the_guest_reports() {
        let mut vm = vm1();
        vm.addresses = [
            ("0/ipv4/0", "10.20.0.11"),
            ("0/ipv4/1", "10.20.0.100"),
            ("0/ipv6/0", "fe80::1"),
            ("1/ipv4/0", "198.51.100.7"),
            ("1/ipv6/0", "2001:db8::7"),
            ("2/ipv6/0", "fd00::7"),
            ("2/ipv4/0", "100.64.1.1"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
        let shared = BTreeSet::from(["10.20.0.100".parse().unwrap()]);
        let list = |mode, include: &[&str], exclude: &[&str]| -> Vec<String> {
            let ranges = |texts: &[&str]| texts.iter().map(|it| it.parse().unwrap()).collect();
            let config = AddressConfig {
                mode,
                include: ranges(include),
                exclude: ranges(exclude),
            };
            let list = of_node(&vm, &known("w1", ""), &config, &shared);
            list.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            list(AddressMode::Classify, &[], &["fd00::/8"]),
            [
                "InternalIP:10.20.0.11",
                "ExternalIP:198.51.100.7",
                "ExternalIP:2001:db8::7",
                "InternalIP:100.64.1.1",
                "Hostname:w1"
            ]
        );
        assert_eq!(
            list(
                AddressMode::Internal,
                &["10.0.0.0/8", "198.51.100.0/24"],
                &[]
            ),
            [
                "InternalIP:10.20.0.11",
                "InternalIP:198.51.100.7",
                "Hostname:w1"
            ]
        );
    }
}
