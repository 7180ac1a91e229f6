use std::collections::BTreeMap;

use super::*;

fn allocator(flags: &IpamFlags, services: &str) -> Allocator {
    let flags = IpamFlags {
        services: services.to_owned(),
        ..flags.clone()
    };
    Allocator::new(&layout(&flags, &ClusterRanges::default(), 80).unwrap())
}

fn propose(allocator: &mut Allocator, name: &str, machine: &[&str]) -> Vec<String> {
    let candidates: Vec<_> = machine.iter().map(|text| text.parse().unwrap()).collect();
    match allocator.propose(&node(name, &[]), &candidates) {
        Ok(blocks) => texts(&blocks),
        Err(error) => vec![error.to_string()],
    }
}

const CLUSTER: &str = "10.32.0.0/12,fd00:10:32::/64";

#[test]
fn blocks_come_one_after_the_other_and_a_free_one_only_after_the_round() {
    let mut allocator = allocator(&flags("RangeAllocator", "10.50.0.0/22"), "");
    for (name, block) in [("a", "10.50.0.0/24"), ("b", "10.50.1.0/24")] {
        assert_eq!(propose(&mut allocator, name, &[]), [block]);
    }
    assert!(allocator.gone("a"));
    assert!(!allocator.gone("a"), "only once");
    for (name, block) in [
        ("c", "10.50.2.0/24"),
        ("d", "10.50.3.0/24"),
        ("e", "10.50.0.0/24"),
    ] {
        assert_eq!(propose(&mut allocator, name, &[]), [block]);
    }
    let text = "CIDR allocation failed; there are no remaining CIDRs left to allocate in the \
                accepted range (10.50.0.0/22)";
    assert_eq!(propose(&mut allocator, "f", &[]), [text]);
}

#[test]
fn services_are_left_out_and_count_as_allocations() {
    let flags = IpamFlags {
        mask_ipv4: 25,
        ..flags("RangeAllocator", "10.64.0.0/14")
    };
    let mut allocator = allocator(&flags, "10.64.0.0/20");
    let blocks = [
        ("a", "10.64.16.0/25"),
        ("b", "10.64.16.128/25"),
        ("c", "10.64.17.0/25"),
    ];
    for (name, block) in blocks {
        assert_eq!(propose(&mut allocator, name, &[]), [block]);
    }
    allocator.gone("a");
    assert_eq!(propose(&mut allocator, "d", &[]), ["10.64.17.128/25"]);
    let report = Report {
        allocations: 36,
        releases: 1,
        tries: vec![32, 0, 0, 0],
        used: 35,
        blocks: 2048,
    };
    let reports = allocator.take_reports();
    assert_eq!(reports, BTreeMap::from([(net("10.64.0.0/14"), report)]));
    assert!(allocator.take_reports().is_empty());
}

#[test]
fn nothing_is_taken_when_one_family_is_exhausted() {
    let flags = IpamFlags {
        mask_ipv6: 120,
        ..flags("RangeAllocator", "10.0.0.0/16,fd00::/119")
    };
    let mut allocator = allocator(&flags, "");
    propose(&mut allocator, "a", &[]);
    propose(&mut allocator, "b", &[]);
    allocator.take_reports();
    assert!(propose(&mut allocator, "c", &[])[0].ends_with("(fd00::/119)"));
    assert!(allocator.take_reports().is_empty());
    allocator.gone("a");
    assert_eq!(
        propose(&mut allocator, "c", &[]),
        ["10.0.2.0/24", "fd00::/120"]
    );
}

#[test]
fn what_may_have_been_written_stays_with_its_node() {
    let mut allocator = allocator(&flags("RangeAllocator", "10.50.0.0/23"), "");
    let (a, b) = (node("a", &[]), node("b", &[]));
    allocator.propose(&a, &[]).unwrap();
    allocator.unsure(&a);
    assert!(
        !allocator.refused(&a),
        "an earlier write may yet take effect"
    );
    assert_eq!(propose(&mut allocator, "b", &[]), ["10.50.1.0/24"]);
    assert!(allocator.refused(&b), "nothing may");
    assert_eq!(
        propose(&mut allocator, "a", &[]),
        ["10.50.0.0/24"],
        "the same again"
    );
    // It has something else for good, so that the write cannot take effect any more.
    assert_eq!(allocator.see(&node("a", &["10.50.1.0/24"])), []);
    assert_eq!(propose(&mut allocator, "b", &[]), ["10.50.0.0/24"]);
    // A write about a node of the same name that was there before says nothing about this one.
    let former = Node {
        uid: "former".to_owned(),
        ..node("b", &[])
    };
    assert!(!allocator.refused(&former));
    allocator.unsure(&former);
    assert!(allocator.refused(&b));
}

#[test]
fn another_node_of_the_same_name_inherits_nothing() {
    let mut allocator = allocator(&flags("RangeAllocator", "10.50.0.0/23"), "");
    propose(&mut allocator, "a", &[]);
    let another = Node {
        uid: "another".to_owned(),
        ..node("a", &[])
    };
    assert_eq!(
        texts(&allocator.propose(&another, &[]).unwrap()),
        ["10.50.1.0/24"]
    );
    assert_eq!(propose(&mut allocator, "b", &[]), ["10.50.0.0/24"]);
}

#[test]
fn a_block_that_two_have_is_free_when_both_are_gone() {
    let mut allocator = allocator(&flags("RangeAllocator", "10.50.0.0/23"), "");
    assert_eq!(allocator.see(&node("a", &["10.50.0.0/24"])), []);
    let shared = Misfit::Shared {
        node: "b".to_owned(),
        range: net("10.50.0.0/24"),
    };
    assert_eq!(allocator.see(&node("b", &["10.50.0.0/24"])), [shared]);
    assert_eq!(
        allocator.see(&node("b", &["10.50.0.0/24"])),
        [],
        "reported once"
    );
    allocator.gone("a");
    assert_eq!(propose(&mut allocator, "c", &[]), ["10.50.1.0/24"]);
    allocator.gone("b");
    assert_eq!(propose(&mut allocator, "d", &[]), ["10.50.0.0/24"]);
}

#[test]
fn what_lies_in_a_wider_network_stays_taken_when_that_goes() {
    let mut allocator = allocator(&flags("RangeAllocator", "10.50.0.0/22"), "10.50.3.192/26");
    allocator.see(&node("wide", &["10.50.0.0/22"]));
    allocator.see(&node("inside", &["10.50.1.0/24"]));
    allocator.see(&node("small", &["10.50.2.0/26"]));
    allocator.see(&node("other", &["10.50.2.64/26"]));
    assert_eq!(allocator.take_reports()[&net("10.50.0.0/22")].used, 4);
    allocator.gone("wide");
    let report = &allocator.take_reports()[&net("10.50.0.0/22")];
    assert_eq!((report.releases, report.used), (1, 3));
    allocator.gone("small");
    assert!(
        allocator.take_reports().is_empty(),
        "the block is still used"
    );
    allocator.gone("other");
    assert_eq!(propose(&mut allocator, "a", &[]), ["10.50.0.0/24"]);
    assert_eq!(propose(&mut allocator, "b", &[]), ["10.50.2.0/24"]);
    assert!(propose(&mut allocator, "c", &[])[0].starts_with("CIDR allocation failed"));
}

#[test]
fn what_does_not_fit_into_the_cluster_s_ranges_is_told_and_stays_taken() {
    let mut range = allocator(&flags("RangeAllocator", "10.50.0.0/22"), "");
    for (ranges, text) in [
        (
            &["172.10.0.0/24"][..],
            "pod range 172.10.0.0/24 of node n is not in 10.50.0.0/22",
        ),
        (
            &["10.50.0.0/24", "fd00::/64"],
            "node n has 2 pod ranges, the cluster has 1",
        ),
        (
            &["nonsense"],
            "pod range \"nonsense\" of node n cannot be read",
        ),
    ] {
        let reported: Vec<String> = range
            .see(&node("n", ranges))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(reported, [text]);
    }
    let mut cloud = allocator(&flags("CloudAllocator", CLUSTER), "");
    assert_eq!(
        cloud.see(&node(
            "n",
            &["172.10.0.0/24", "2001:db8::/80", "fd00:7::/64"]
        )),
        []
    );
}

/// The example of the specification: A and B in one network, C in another, D without IPv6.
fn four(allocator: &mut Allocator) -> Vec<(&'static str, Vec<String>)> {
    [
        ("a", "2001:db8:a:1::10/64"),
        ("b", "2001:db8:a:1::11/64"),
        ("c", "2001:db8:a:2::10/64"),
        ("d", ""),
    ]
    .map(|(name, machine)| {
        let machine: Vec<&str> = [machine].into_iter().filter(|it| !it.is_empty()).collect();
        (name, propose(allocator, name, &machine))
    })
    .into()
}

#[test]
fn machines_with_networks_of_their_own_give_them_to_pods() {
    let mut allocator = allocator(&flags("CloudAllocator", CLUSTER), "");
    let blocks: Vec<_> = four(&mut allocator)
        .into_iter()
        .map(|(_, blocks)| blocks)
        .collect();
    assert_eq!(
        blocks,
        [
            ["10.32.0.0/24", "2001:db8:a:1::/80"],
            ["10.32.1.0/24", "2001:db8:a:1:1::/80"],
            ["10.32.2.0/24", "2001:db8:a:2::/80"],
            ["10.32.3.0/24", "fd00:10:32::/80"],
        ]
    );
}

#[test]
fn after_a_restart_what_nodes_have_is_reserved_before_their_machines_answer() {
    let flags = flags("CloudAllocator", CLUSTER);
    let before = four(&mut allocator(&flags, ""));
    let mut after = allocator(&flags, "");
    for (name, blocks) in &before {
        let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
        assert_eq!(after.see(&node(name, &blocks)), []);
    }
    let blocks = propose(&mut after, "e", &["2001:db8:a:1::12/64"]);
    assert_eq!(blocks, ["10.32.4.0/24", "2001:db8:a:1:2::/80"]);
}

#[test]
fn odd_networks_of_machines() {
    let cluster = "10.96.0.0/16,fd00:96::/64";
    for (machines, expected) in [
        // Each /56 is cut to the /64 around its own machine.
        (
            vec![
                vec!["2001:db8:c2:ab00::4/56"],
                vec!["2001:db8:c2:ab22::4/56"],
            ],
            vec!["2001:db8:c2:ab00::/80", "2001:db8:c2:ab22::/80"],
        ),
        (
            vec![vec!["2001:db8:c6::5/128", "2001:db8:c7::5/64"]],
            vec!["2001:db8:c7::/80"],
        ),
        (vec![vec!["2001:db8:c6::5/128"]], vec!["fd00:96::/80"]),
        // A single address inside a network that another machine has brought.
        (
            vec![vec!["2001:db8:c6::5/64"], vec!["2001:db8:c6::6/128"]],
            vec!["2001:db8:c6::/80", "2001:db8:c6:0:1::/80"],
        ),
        // The most specific of two that contain each other, and what one gives the other lacks.
        (
            vec![
                vec!["2001:db8::1:0:0:5/80"],
                vec!["2001:db8::5/64"],
                vec!["2001:db8:0:0:1::6/64"],
                vec!["2001:db8::7/64"],
            ],
            vec![
                "2001:db8:0:0:1::/96",
                "2001:db8::/80",
                "2001:db8::1:1:0:0/96",
                "2001:db8:0:0:2::/80",
            ],
        ),
    ] {
        let mut allocator = allocator(&flags("CloudAllocator", cluster), "");
        let given: Vec<String> = machines
            .iter()
            .enumerate()
            .map(|(index, machine)| propose(&mut allocator, &index.to_string(), machine)[1].clone())
            .collect();
        assert_eq!(given, expected, "{machines:?}");
    }
}

#[test]
fn a_network_that_is_too_small_takes_no_block_of_any_family() {
    let mut allocator = allocator(&flags("CloudAllocator", CLUSTER), "");
    let text = "CIDRv6 is too small: 2001:db8:77::5/124";
    allocator.take_reports();
    assert_eq!(
        propose(&mut allocator, "a", &["2001:db8:77::5/124"]),
        [text]
    );
    assert!(allocator.take_reports().is_empty());
}

#[test]
fn networks_of_machines_that_are_gone_do_not_pile_up() {
    let mut allocator = allocator(&flags("CloudAllocator", CLUSTER), "");
    for number in 0..10_050_u32 {
        let machine = format!("2001:db8:{:x}:{:x}::5/64", number >> 16, number & 0xffff);
        propose(&mut allocator, "n", &[&machine]);
        allocator.gone("n");
    }
    let sets = allocator.sets().count();
    assert!((2..=10_000).contains(&sets), "{sets}");
    let given_up = allocator.take_reports();
    assert_eq!(given_up[&net("2001:db8::/64")], Report::default());
}
