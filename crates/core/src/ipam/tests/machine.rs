use std::net::IpAddr;

use super::*;
use crate::PROVIDED_NODE_IP;
use crate::node::examples::addresses;

#[test]
fn a_machine_s_network_gives_a_range_and_a_mask_by_its_length() {
    for (prefix, expected) in [
        (
            "2001:db8:c2:ab22::4/56",
            Ok(Some(("2001:db8:c2:ab22::/64", 80))),
        ),
        ("2001:db8:1:2:3::4/64", Ok(Some(("2001:db8:1:2::/64", 80)))),
        ("2001:db8::1/99", Ok(Some(("2001:db8::/99", 115)))),
        ("2001:db8::1/100", Ok(Some(("2001:db8::/100", 108)))),
        ("2001:db8::1/105", Ok(Some(("2001:db8::/105", 113)))),
        ("2001:db8::1/106", Ok(Some(("2001:db8::/106", 110)))),
        ("2001:db8::1/111", Ok(Some(("2001:db8::/111", 115)))),
        ("2001:db8::1/112", Ok(Some(("2001:db8::/112", 114)))),
        ("2001:db8::1/118", Ok(Some(("2001:db8::/118", 120)))),
        ("2001:db8::1/119", Ok(Some(("2001:db8::/119", 120)))),
        ("2001:db8::1/120", Ok(Some(("2001:db8::/120", 120)))),
        ("2001:db8::1/123", Ok(Some(("2001:db8::/123", 123)))),
        (
            "2001:db8:77::5/124",
            Err("CIDRv6 is too small: 2001:db8:77::5/124"),
        ),
        (
            "2001:db8:77::5/127",
            Err("CIDRv6 is too small: 2001:db8:77::5/127"),
        ),
        ("2001:db8:77::5/128", Ok(None)),
    ] {
        let made = machine_range(prefix.parse().unwrap()).map_err(|error| error.to_string());
        let expected = expected
            .map(|it| it.map(|(range, mask)| (range.parse().unwrap(), mask)))
            .map_err(str::to_owned);
        assert_eq!(made, expected, "{prefix}");
    }
}

#[test]
fn candidates_are_public_ipv6_of_the_node_and_permanent_ones_come_first() {
    let machine = |texts: &[&str]| -> Vec<MachineAddress> {
        let parse = |text: &&str| MachineAddress {
            address: net(text.trim_end_matches('!')),
            permanent: text.ends_with('!'),
        };
        texts.iter().map(parse).collect()
    };
    let several = [
        "10.0.0.5/24",
        "fe80::1/64",
        "fd00::5/64",
        "2001:db8::5/64",
        "2001:db8:1::5/64!",
    ];
    for (ips, texts, expected) in [
        (
            vec!["10.0.0.5"],
            &several[..],
            vec!["2001:db8:1::5/64", "2001:db8::5/64"],
        ),
        (
            vec!["10.0.0.5", "2001:db8::5"],
            &several,
            vec!["2001:db8::5/64"],
        ),
        (
            vec!["fd00::5"],
            &several,
            vec!["2001:db8:1::5/64", "2001:db8::5/64"],
        ),
        (vec!["2001:db8:9::9"], &several, vec![]),
        (
            vec![],
            &["2001:db8::5/64", "2001:db8::5/64", "ff02::1/16", "::1/128"],
            vec!["2001:db8::5/64"],
        ),
    ] {
        let ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        let found = candidates(&ips, &machine(texts));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{ips:?}");
    }
}

#[test]
fn a_node_s_addresses_come_from_its_status_and_its_kubelet() {
    let mut node = node("n1", &[]);
    assert_eq!(node_ips(&node), Err(MachineError::NoAddresses));
    node.addresses = addresses(&[
        "Hostname:n1",
        "InternalIP:10.0.0.5",
        "ExternalIP:2001:db8::5",
    ]);
    let provided = "10.0.0.5,10.0.0.6".to_owned();
    node.annotations
        .insert(PROVIDED_NODE_IP.to_owned(), provided);
    let ips: Vec<String> = node_ips(&node)
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ips, ["10.0.0.5", "2001:db8::5", "10.0.0.6"]);
    node.addresses = addresses(&["InternalIP:n1.example"]);
    assert_eq!(
        node_ips(&node).unwrap_err().to_string(),
        "\"n1.example\" is no IP address"
    );
}
