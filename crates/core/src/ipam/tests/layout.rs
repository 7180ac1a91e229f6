use super::*;

const MASK_TWICE: &str = "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is \
    not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use \
    IPFamily specific flags";

fn made(flags: &IpamFlags) -> Result<Vec<(String, u8)>, String> {
    let made = layout(flags, &ClusterRanges::default(), 64).map_err(|error| error.to_string())?;
    let clusters = made.clusters.into_iter();
    Ok(clusters.map(|it| (it.range.to_string(), it.mask)).collect())
}

#[test]
fn masks_follow_the_families_and_their_flags() {
    let v4 = |mask| Ok(vec![("10.0.0.0/12".to_owned(), mask)]);
    let v6 = |mask| Ok(vec![("fd00::/56".to_owned(), mask)]);
    let error = |text: &str| Err(text.to_owned());
    for (cluster, (mask, ipv4, ipv6), expected) in [
        ("10.0.0.0/12", (0, 0, 0), v4(24)),
        ("10.0.0.0/12", (26, 0, 0), v4(26)),
        ("10.0.0.0/12", (0, 25, 0), v4(25)),
        ("10.0.0.0/12", (24, 25, 0), error(MASK_TWICE)),
        ("10.0.0.0/12", (24, 0, 80), error(MASK_TWICE)),
        (
            "10.0.0.0/12",
            (0, 0, 64),
            error(
                "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster",
            ),
        ),
        (
            "fd00::/56",
            (0, 24, 0),
            error(
                "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster",
            ),
        ),
        ("fd00::/56", (0, 0, 0), v6(64)),
        ("fd00::/56", (72, 0, 0), v6(72)),
        ("fd00::/56", (0, 0, 70), v6(70)),
    ] {
        let flags = IpamFlags {
            mask,
            mask_ipv4: ipv4,
            mask_ipv6: ipv6,
            ..flags("RangeAllocator", cluster)
        };
        assert_eq!(made(&flags), expected, "{cluster} {mask} {ipv4} {ipv6}");
    }
}

#[test]
fn two_families_keep_their_order_and_have_masks_of_their_own() {
    let mut dual = flags("RangeAllocator", "fd00:10::/56, 10.10.0.7/16");
    let order = [
        ("fd00:10::/56".to_owned(), 64),
        ("10.10.0.0/16".to_owned(), 24),
    ];
    assert_eq!(made(&dual).unwrap(), order);
    dual.mask_ipv4 = 26;
    assert_eq!(made(&dual).unwrap()[1].1, 26);
    dual.mask = 24;
    let text = "usage of --node-cidr-mask-size is not allowed with dual-stack clusters";
    assert_eq!(made(&dual), Err(text.to_owned()));
}

#[test]
fn what_cannot_be_used_is_said() {
    for (kind, cluster, text) in [
        (
            "IPAMFromAzure",
            "10.0.0.0/16",
            "--cidr-allocator-type is \"IPAMFromAzure\"; it must be RangeAllocator or CloudAllocator",
        ),
        (
            "RangeAllocator",
            "",
            "--cluster-cidr is empty, and no configured cloud knows the pods' ranges",
        ),
        (
            "RangeAllocator",
            "10.0.0.0",
            "\"10.0.0.0\" in --cluster-cidr is no CIDR",
        ),
        (
            "RangeAllocator",
            "10.0.0.0/16,10.1.0.0/16",
            "--cluster-cidr holds 10.0.0.0/16,10.1.0.0/16: one CIDR, or two of different families, can be used",
        ),
        (
            "RangeAllocator",
            "10.0.0.0/16,fd00::/56,10.1.0.0/16",
            "--cluster-cidr holds 10.0.0.0/16,fd00::/56,10.1.0.0/16: one CIDR, or two of different families, can be used",
        ),
        (
            "RangeAllocator",
            "10.0.0.0/26",
            "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family",
        ),
        (
            "CloudAllocator",
            "fd00:10::/40",
            "New CIDR set failed; the node CIDR size is too big",
        ),
    ] {
        assert_eq!(
            made(&flags(kind, cluster)),
            Err(text.to_owned()),
            "{cluster}"
        );
    }
}

#[test]
fn services_come_from_the_cloud_or_else_from_the_flag_and_a_wrong_one_is_passed_over() {
    let mut given = flags("RangeAllocator", "10.0.0.0/12");
    given.services = "oops,10.0.0.0/22".to_owned();
    let none = ClusterRanges::default();
    let from_flag = layout(&given, &none, 64).unwrap();
    assert_eq!(texts(&from_flag.services), ["10.0.0.0/22"]);
    assert_eq!(from_flag.ignored, ["oops"]);
    let known = ClusterRanges {
        pods: vec![net("10.32.0.0/12")],
        services: vec![net("10.1.0.0/20")],
    };
    let made = layout(&given, &known, 64).unwrap();
    assert_eq!(texts(&made.services), ["10.1.0.0/20"]);
    assert_eq!(made.clusters[0].range, net("10.0.0.0/12"), "the flag wins");
    given.cluster.clear();
    let made = layout(&given, &known, 64).unwrap();
    assert_eq!(made.clusters[0].range, net("10.32.0.0/12"));
    given.services = "10.0.0.0/22,10.9.0.0/22".to_owned();
    assert!(layout(&flags("RangeAllocator", "10.0.0.0/12"), &none, 64).is_ok());
    assert!(
        layout(
            &given,
            &ClusterRanges {
                services: vec![],
                ..known
            },
            64
        )
        .is_err()
    );
}
