use super::*;

use bowline_core::desired_addresses;

/// `link/address/prefix(flags)`.
fn listed(texts: &[&str]) -> Vec<MachineAddress> {
    texts
        .iter()
        .map(|text| {
            let (address, flags) = match text.trim_end_matches(')').split_once('(') {
                Some((address, flags)) => (address, flags.parse().unwrap()),
                None => (*text, 0),
            };
            let mut parts = address.split('/');
            MachineAddress {
                link: parts.next().unwrap().to_owned(),
                address: parts.next().unwrap().parse().unwrap(),
                prefix_length: parts.next().unwrap().parse().unwrap(),
                flags,
            }
        })
        .collect()
}

struct Machine {
    platform: &'static str,
    annotation: &'static str,
    hostname: &'static str,
    discover: bool,
    prefer_ipv6: bool,
}

const METAL: Machine = Machine {
    platform: "metal",
    annotation: "10.8.0.11",
    hostname: "w1",
    discover: false,
    prefer_ipv6: false,
};

fn on(platform: &'static str, annotation: &'static str) -> Machine {
    Machine {
        platform,
        annotation,
        ..METAL
    }
}

fn addresses_of(machine: &Machine, texts: &[&str]) -> Vec<NodeAddress> {
    addresses(&Sources {
        node_name: "w1",
        hostname: machine.hostname,
        platform: machine.platform,
        node_ips: &node_ips(machine.annotation, machine.prefer_ipv6),
        listed: &listed(texts),
        discover: machine.discover,
        prefer_ipv6: machine.prefer_ipv6,
    })
}

fn shown(machine: &Machine, texts: &[&str]) -> Vec<String> {
    let addresses = addresses_of(machine, texts);
    addresses.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn gives(machine: &Machine, texts: &[&str], wanted: &str) {
    assert_eq!(shown(machine, texts).join(" "), wanted);
}

const CASE_3: [&str; 9] = [
    "cilium_host/203.0.113.99/32",
    "dummy0/203.0.113.98/32",
    "eth0/10.8.0.11/24",
    "eth0/198.51.100.7/24",
    "eth0/2001:db8:8:0:aaaa:bbbb:cccc:dddd/64(256)",
    "eth0/2001:db8:8::7/64(128)",
    "kubespan/fdaa::1/128",
    "lo/::1/128",
    "siderolink/fdbb::2/64",
];

#[test]
fn talos_case_01_a_machine_without_public_addresses() {
    let listed = ["eth0/10.8.0.11/24", "eth0/fe80::1/64", "lo/127.0.0.1/8"];
    gives(&METAL, &listed, "InternalIP:10.8.0.11 Hostname:w1");
}

#[test]
fn talos_case_02_an_external_address_of_the_platform() {
    let machine = on("exoscale", "10.1.0.2");
    gives(
        &machine,
        &["eth0/10.1.0.2/24", "external/194.182.160.5/32"],
        "InternalIP:10.1.0.2 ExternalIP:194.182.160.5 Hostname:w1",
    );
}

#[test]
fn talos_case_03_public_addresses_are_discovered() {
    gives(
        &METAL,
        &CASE_3,
        "InternalIP:10.8.0.11 ExternalIP:198.51.100.7 ExternalIP:2001:db8:8::7 Hostname:w1",
    );
}

#[test]
fn talos_case_04_the_last_permanent_address_comes_first() {
    let mut list = CASE_3.to_vec();
    list.push("eth1/2001:db8:9::7/64(128)");
    assert!(shown(&METAL, &list).contains(&"ExternalIP:2001:db8:9::7".to_owned()));
}

#[test]
fn talos_case_05_without_flags_the_first_counts() {
    let list = CASE_3.map(|text| text.split('(').next().unwrap());
    let all = shown(&METAL, &list);
    assert!(all.contains(&"ExternalIP:2001:db8:8:0:aaaa:bbbb:cccc:dddd".to_owned()));
}

#[test]
fn talos_case_06_other_platforms_only_publish_what_the_platform_says() {
    let machine = on("hcloud", "10.8.0.11");
    let list = ["eth0/198.51.100.7/32", "eth1/10.8.0.11/32"];
    gives(&machine, &list, "InternalIP:10.8.0.11 Hostname:w1");
}

#[test]
fn talos_case_07_one_external_address_of_each_family() {
    let machine = on("gcp", "10.8.0.11");
    let list = [
        "eth0/10.8.0.11/32",
        "external/34.1.2.3/32",
        "external/34.9.9.9/32",
        "external/2600:1900::5/128",
    ];
    gives(
        &machine,
        &list,
        "InternalIP:10.8.0.11 ExternalIP:34.1.2.3 ExternalIP:2600:1900::5 Hostname:w1",
    );
}

#[test]
fn talos_case_08_the_node_ip_is_not_also_external() {
    let machine = on("openstack", "203.0.113.20");
    gives(
        &machine,
        &["eth0/203.0.113.20/24", "eth0/203.0.113.21/24"],
        "InternalIP:203.0.113.20 ExternalIP:203.0.113.21 Hostname:w1",
    );
}

#[test]
fn talos_case_09_nor_is_it_where_the_platform_says_so() {
    let machine = on("aws", "10.0.0.4");
    gives(
        &machine,
        &["external/10.0.0.4/32"],
        "InternalIP:10.0.0.4 Hostname:w1",
    );
}

#[test]
fn talos_case_10_a_pair_in_canonical_text() {
    let machine = on("metal", "10.8.0.11,fd00:8:0::11");
    gives(
        &machine,
        &[],
        "InternalIP:10.8.0.11 InternalIP:fd00:8::11 Hostname:w1",
    );
}

#[test]
fn talos_case_11_ipv6_first_and_what_the_framework_makes_of_it() {
    let machine = Machine {
        annotation: "10.8.0.11,fd00:8:0::11",
        prefer_ipv6: true,
        ..METAL
    };
    let first: IpAddr = "fd00:8::11".parse().unwrap();
    assert_eq!(node_ips(machine.annotation, true)[0], first);
    assert_eq!(
        crate::id::fallback("metal", first),
        "talos://metal/fd00:8::11"
    );
    let all = addresses_of(&machine, &["eth0/198.51.100.7/24", "eth0/2001:db8:8::7/64"]);
    let on_node = desired_addresses(&all, &[], Some(machine.annotation))
        .unwrap()
        .unwrap();
    let on_node: Vec<String> = on_node.iter().map(ToString::to_string).collect();
    assert_eq!(
        on_node,
        [
            "InternalIP:10.8.0.11",
            "InternalIP:fd00:8::11",
            "ExternalIP:2001:db8:8::7",
            "ExternalIP:198.51.100.7",
            "Hostname:w1"
        ]
    );
}

#[test]
fn talos_case_14_a_part_with_a_blank_is_no_address() {
    let annotation = "10.8.0.11, fd00:8::11";
    let only: IpAddr = "10.8.0.11".parse().unwrap();
    assert_eq!(node_ips(annotation, true), [only]);
    let machine = on("metal", annotation);
    assert!(desired_addresses(&addresses_of(&machine, &[]), &[], Some(annotation)).is_err());
}

#[test]
fn talos_case_17_a_host_name_with_a_domain_is_also_a_dns_name() {
    let machine = Machine {
        hostname: "n5.corp.example",
        ..METAL
    };
    let all = shown(&machine, &[]);
    assert_eq!(all[1..], ["Hostname:w1", "InternalDNS:n5.corp.example"]);
}

#[test]
fn talos_case_18_a_host_name_that_begins_with_a_dot_is_none() {
    let machine = Machine {
        hostname: ".x",
        ..METAL
    };
    assert_eq!(shown(&machine, &[])[1..], ["Hostname:w1"]);
}

#[test]
fn talos_case_24_an_address_that_the_platform_adds_later_appears() {
    let machine = on("gcp", "10.8.0.11");
    let before = addresses_of(&machine, &["eth0/10.8.0.11/32"]);
    let later = addresses_of(&machine, &["eth0/10.8.0.11/32", "external/34.1.2.3/32"]);
    let wanted = desired_addresses(&later, &before, Some(machine.annotation))
        .unwrap()
        .unwrap();
    assert!(bowline_core::addresses_differ(&before, &wanted));
    assert!(wanted.contains(&NodeAddress::new(AddressKind::ExternalIp, "34.1.2.3")));
}

#[test]
fn talos_case_48_a_rule_can_ask_for_discovery() {
    let machine = Machine {
        platform: "hcloud",
        discover: true,
        ..METAL
    };
    gives(
        &machine,
        &["eth0/198.51.100.7/32", "eth1/10.8.0.11/32"],
        "InternalIP:10.8.0.11 ExternalIP:198.51.100.7 Hostname:w1",
    );
}

#[test]
fn talos_case_90_the_servers_order_is_kept() {
    let list = ["eth10/198.51.100.9/24", "eth2/198.51.100.8/24"];
    assert_eq!(shown(&METAL, &list)[1], "ExternalIP:198.51.100.9");
}

#[test]
fn which_addresses_are_public_is_gos_view() {
    for (ip, public) in [
        ("100.64.0.1", true),
        ("192.0.2.1", true),
        ("198.18.0.1", true),
        ("2001:db8::1", true),
        ("10.0.0.1", false),
        ("172.16.0.1", false),
        ("172.32.0.1", true),
        ("192.168.1.1", false),
        ("fc00::1", false),
        ("fe80::1", false),
        ("169.254.0.1", false),
        ("255.255.255.255", false),
        ("224.0.0.1", false),
        ("0.0.0.0", false),
        ("127.0.0.1", false),
        ("::1", false),
        ("ff02::1", false),
    ] {
        assert_eq!(is_public(ip.parse().unwrap()), public, "{ip}");
    }
}

#[test]
fn only_the_first_of_each_family_reaches_the_machine() {
    let ips = node_ips("x,10.0.0.1,10.0.0.2,fd00::2,fd00::1", true);
    let shown: Vec<String> = ips.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["fd00::2", "10.0.0.1"]);
    assert_eq!(node_ips("", false), Vec::<IpAddr>::new());
}
