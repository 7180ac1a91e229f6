use super::*;

use crate::node::examples::fresh_node;
use crate::{AddressKind, CloudError, CloudErrorKind, NodeAddress, PROVIDED_NODE_IP};

fn candidate(node: &str, asked: &[&str]) -> WellFormedRequest {
    let addresses = asked.iter().filter_map(|it| it.parse().ok());
    let is_name = |it: &&&str| it.parse::<IpAddr>().is_err();
    WellFormedRequest {
        node: node.into(),
        dns_names: asked
            .iter()
            .filter(is_name)
            .map(ToString::to_string)
            .collect(),
        addresses: addresses.collect(),
    }
}

fn node(name: &str, shown: &[&str]) -> Node {
    let address = |it: &&str| {
        let (kind, address) = it.split_once(':').unwrap();
        NodeAddress::new(AddressKind::from(kind), address)
    };
    Node {
        name: name.into(),
        addresses: shown.iter().map(address).collect(),
        ..fresh_node()
    }
}

fn cluster() -> ClusterNames {
    ClusterNames {
        api_server: ["10.0.0.1", "10.96.0.1", "API.example.", "203.0.113.9"]
            .iter()
            .collect(),
        reserved: [
            "10.96.0.0/12",
            "fd00:96::/108",
            "vip.example",
            "198.51.100.1",
        ]
        .iter()
        .collect(),
    }
}

#[test]
fn proof_case_32_what_is_the_clusters_own_is_no_workers() {
    let worker = node("w1", &[]);
    for asked in [
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "10.96.0.1",
        "10.96.7.8",
        "fd00:96::7",
        "203.0.113.9",
        "198.51.100.1",
        "api.example",
        "API.EXAMPLE.",
        "VIP.example",
        "foo.default.svc",
        "foo.default.svc.cluster.local",
        "kubernetes",
        "kubernetes.default",
        "localhost",
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
        "169.254.169.254",
        "fe80::1",
        "255.255.255.255",
    ] {
        let found = clusters_own(&candidate("w1", &["w1", asked]), Some(&worker), &cluster());
        let is_own = matches!(found, Some(Finding::ClustersOwn { .. }));
        assert!(is_own, "{asked}: {found:?}");
    }
    for asked in [
        "10.0.0.5",
        "kubernetes-worker-1",
        "svc.example",
        "mysvc.example",
        "api.example.org",
        "fd00:97::1",
    ] {
        let found = clusters_own(&candidate("w1", &[asked]), Some(&worker), &cluster());
        assert_eq!(found, None, "{asked}");
    }
}

#[test]
fn proof_case_33_a_control_plane_has_the_api_servers_and_nothing_reserved() {
    let mut plane = node("cp1", &[]);
    plane
        .labels
        .insert(CONTROL_PLANE_LABEL.into(), String::new());
    for (asked, passes) in [
        ("10.0.0.1", true),
        ("api.example", true),
        ("10.96.0.1", false),
        ("vip.example", false),
        ("127.0.0.1", false),
        ("kubernetes", false),
    ] {
        let found = clusters_own(&candidate("cp1", &[asked]), Some(&plane), &cluster());
        assert_eq!(found.is_none(), passes, "{asked}: {found:?}");
        // Somebody else's label is not the requester's.
        let found = clusters_own(&candidate("w1", &[asked]), Some(&plane), &cluster());
        assert!(found.is_some(), "{asked}");
        assert!(clusters_own(&candidate("cp1", &[asked]), None, &cluster()).is_some());
    }
}

#[test]
fn another_node_shows_it_wherever_it_writes_it() {
    let own = candidate("w1", &["w1", "w1.example", "10.0.0.5"]);
    let mut given = node("w2", &[]);
    let value = "10.0.0.6, ::ffff:10.0.0.5";
    given
        .annotations
        .insert(PROVIDED_NODE_IP.into(), value.into());
    for (other, both) in [
        (node("w2", &["InternalIP:10.0.0.6"]), &[][..]),
        (node("w2", &["ExternalIP:10.0.0.5"]), &["10.0.0.5"]),
        (node("w2", &["Hostname:10.0.0.5"]), &["10.0.0.5"]),
        (node("w2", &["Sonderbar:10.0.0.5"]), &["10.0.0.5"]),
        (given, &["10.0.0.5"]),
        (node("W1.example", &[]), &["\"w1.example\""]),
        (
            node("w2", &["InternalDNS:W1.Example."]),
            &["\"w1.example\""],
        ),
        // The API server has authenticated the name of who asks.
        (node("w2", &["Hostname:w1"]), &[]),
        // It is the requester's own Node.
        (node("w1", &["InternalIP:10.0.0.5"]), &[]),
    ] {
        let found = rivals(&own, [&other]);
        let found: Vec<String> = found.values().flatten().map(ToString::to_string).collect();
        assert_eq!(found, both, "{other:?}");
    }
}

fn has(addresses: &[&str]) -> MachineAnswer {
    MachineAnswer::Machines(vec![MachineIdentity {
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        names: vec!["w1.example".into()],
        ..MachineIdentity::default()
    }])
}

fn claims(addresses: &[&str]) -> MachineAnswer {
    MachineAnswer::Machines(vec![MachineIdentity {
        claimed_addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        ..MachineIdentity::default()
    }])
}

#[test]
fn proof_case_34_machine_or_cloud_decide_between_two_nodes() {
    let silent = || {
        let error = CloudError::new(CloudErrorKind::Unavailable, "down");
        MachineAnswer::CannotTell(error)
    };
    let both = rivals(
        &candidate("w1", &["10.0.0.5"]),
        [&node("w2", &["InternalIP:10.0.0.5"])],
    );
    for (what, own, other, passes) in [
        (
            "only its own",
            has(&["10.0.0.5"]),
            Some(has(&["10.0.0.6"])),
            true,
        ),
        (
            "the other only claims",
            has(&["10.0.0.5"]),
            Some(claims(&["10.0.0.5"])),
            true,
        ),
        (
            "the other is silent",
            has(&["10.0.0.5"]),
            Some(silent()),
            true,
        ),
        ("nobody asked the other", has(&["10.0.0.5"]), None, true),
        (
            "the other is unknown",
            has(&["10.0.0.5"]),
            Some(MachineAnswer::Unknown),
            true,
        ),
        (
            "both have it",
            has(&["10.0.0.5"]),
            Some(has(&["10.0.0.5"])),
            false,
        ),
        (
            "it only claims",
            claims(&["10.0.0.5"]),
            Some(has(&["10.0.0.6"])),
            false,
        ),
        (
            "both only claim",
            claims(&["10.0.0.5"]),
            Some(claims(&["10.0.0.5"])),
            false,
        ),
        ("it is silent", silent(), Some(has(&["10.0.0.6"])), false),
    ] {
        let others = other.into_iter().map(|it| ("w2".to_owned(), it)).collect();
        let found = settle(&both, &own, &others);
        assert_eq!(found.is_none(), passes, "{what}: {found:?}");
        if let Some(finding) = found {
            assert_eq!(finding.reason(), "AddressClaimedTwice");
        }
    }
    assert_eq!(settle(&BTreeMap::new(), &silent(), &BTreeMap::new()), None);
}

#[test]
fn the_name_of_a_node_is_nobody_elses_whatever_machines_say() {
    let both = rivals(
        &candidate("w1", &["w1.example"]),
        [&node("w1.example", &[])],
    );
    assert!(settle(&both, &has(&[]), &BTreeMap::new()).is_some());
    let both = rivals(
        &candidate("w1", &["w1.example"]),
        [&node("w2", &["InternalDNS:w1.example"])],
    );
    assert_eq!(settle(&both, &has(&[]), &BTreeMap::new()), None);
}
