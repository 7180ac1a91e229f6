//! Which addresses a node gets: the cloud's, the kubelet's request, and their order.

use std::net::{IpAddr, Ipv4Addr};

use crate::{AddressKind, NodeAddress};

/// Why the addresses of a node cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The provided-node-ip annotation does not parse.
    #[error("failed to parse node IP {value:?}: {why}")]
    BadAnnotation {
        /// The annotation's value.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The cloud does not know the address the kubelet was told to use.
    #[error("failed to get node address from cloud provider that matches ip: {0}")]
    NoMatch(IpAddr),
    /// The node has IP addresses, and the cloud shows the instance without any: an answer that lacks something, not a
    /// machine that lost its network.
    #[error("the cloud provider shows no IP address of the instance")]
    NoneShown,
}

/// The addresses a node should have, or none if the cloud has nothing to say.
///
/// The cloud's list; with the node's own host names where the cloud gives none; filtered and
/// ordered by the kubelet's provided-node-ip. Identical pairs, which the API server refuses,
/// appear once.
pub fn desired_addresses(
    from_cloud: &[NodeAddress],
    on_node: &[NodeAddress],
    provided_node_ip: Option<&str>,
) -> Result<Option<Vec<NodeAddress>>, AddressError> {
    if from_cloud.is_empty() && provided_node_ip.is_none() {
        return Ok(None);
    }
    let is_ip = |it: &NodeAddress| parse_ip(&it.address).is_some();
    let loses_all = on_node.iter().any(is_ip) && !from_cloud.iter().any(is_ip);
    if provided_node_ip.is_none() && loses_all {
        return Err(AddressError::NoneShown);
    }
    let mut wanted = match provided_node_ip {
        None => from_cloud.to_vec(),
        Some(value) => pin(from_cloud, &parse_provided_node_ip(value)?)?,
    };
    if !from_cloud
        .iter()
        .any(|address| address.kind == AddressKind::Hostname)
    {
        wanted.extend(
            on_node
                .iter()
                .filter(|a| a.kind == AddressKind::Hostname)
                .cloned(),
        );
    }
    let mut unique = Vec::with_capacity(wanted.len());
    for address in wanted {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    Ok(Some(unique))
}

/// Whether two lists differ in what matters: for each kind, the ordered list of its addresses.
///
/// The order among kinds does not count, so that another writer's grouping starts no fight.
pub fn addresses_differ(old: &[NodeAddress], new: &[NodeAddress]) -> bool {
    let differs_in = |kind: &AddressKind| {
        let of_kind = |it: &&NodeAddress| it.kind == *kind;
        old.iter().filter(of_kind).ne(new.iter().filter(of_kind))
    };
    old.len() != new.len() || new.iter().any(|it| differs_in(&it.kind))
}

/// Puts the addresses that equal one of `pins` first, in the order of `pins`, and drops all
/// others of the kinds so pinned.
fn pin(from_cloud: &[NodeAddress], pins: &[IpAddr]) -> Result<Vec<NodeAddress>, AddressError> {
    let mut wanted = Vec::with_capacity(from_cloud.len());
    let mut pinned_kinds = Vec::new();
    for pin in pins {
        let matches = |address: &&NodeAddress| parse_ip(&address.address) == Some(*pin);
        let before = wanted.len();
        for address in from_cloud.iter().filter(matches) {
            pinned_kinds.push(&address.kind);
            wanted.push(address.clone());
        }
        if wanted.len() == before {
            return Err(AddressError::NoMatch(*pin));
        }
    }
    wanted.extend(
        from_cloud
            .iter()
            .filter(|a| !pinned_kinds.contains(&&a.kind))
            .cloned(),
    );
    Ok(wanted)
}

/// One address, or two of different families; no spaces.
fn parse_provided_node_ip(value: &str) -> Result<Vec<IpAddr>, AddressError> {
    let wrong = |why: &str| AddressError::BadAnnotation {
        value: value.into(),
        why: why.into(),
    };
    let mut pins = Vec::new();
    for part in value.split(',') {
        pins.push(parse_ip(part).ok_or_else(|| wrong(&format!("{part:?} is not an IP address")))?);
    }
    match pins.as_slice() {
        [a, b] if a.is_ipv4() == b.is_ipv4() => Err(wrong(ONE_OR_PAIR)),
        [a, b] if a.is_unspecified() || b.is_unspecified() => Err(wrong(
            "a dual-stack pair cannot contain an unspecified address",
        )),
        [_] | [_, _] => Ok(pins),
        _ => Err(wrong(ONE_OR_PAIR)),
    }
}

const ONE_OR_PAIR: &str = "must contain either a single IP or a dual-stack pair of IPs";

/// An address in canonical form: an IPv4 address mapped into IPv6 is that IPv4 address, and
/// leading zeros in IPv4 are decimal, as Kubernetes reads them.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts
        .next()
        .is_none()
        .then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::examples::addresses;
    use proptest::prelude::*;

    /// What the node gets, as `Type:value`; or the error's text.
    fn got(pnip: &str, cloud: &[&str]) -> Result<Vec<String>, String> {
        desired_addresses(&addresses(cloud), &[], Some(pnip))
            .map(|list| list.unwrap().iter().map(ToString::to_string).collect())
            .map_err(|error| error.to_string())
    }

    fn assert_addresses(pnip: &str, cloud: &[&str], wanted: &[&str]) {
        assert_eq!(got(pnip, cloud).unwrap(), wanted, "provided-node-ip {pnip}");
    }

    #[test]
    fn framework_case_25_other_addresses_of_the_pinned_kind_disappear() {
        assert_addresses(
            "10.1.1.1",
            &[
                "InternalIP:10.1.1.1",
                "InternalIP:10.2.2.2",
                "InternalIP:10.3.3.3",
                "ExternalIP:55.0.0.5",
                "Hostname:h",
            ],
            &["InternalIP:10.1.1.1", "ExternalIP:55.0.0.5", "Hostname:h"],
        );
    }

    #[test]
    fn framework_case_26_a_pinned_external_address_comes_first() {
        assert_addresses(
            "55.0.0.5",
            &["InternalIP:10.1.1.1", "ExternalIP:55.0.0.5", "Hostname:h"],
            &["ExternalIP:55.0.0.5", "InternalIP:10.1.1.1", "Hostname:h"],
        );
    }

    #[test]
    fn framework_case_27_an_address_of_two_kinds_pins_both() {
        assert_addresses(
            "55.0.0.5",
            &[
                "InternalIP:44.0.0.4",
                "InternalIP:55.0.0.5",
                "ExternalIP:44.0.0.4",
                "ExternalIP:55.0.0.5",
                "Hostname:h",
            ],
            &["InternalIP:55.0.0.5", "ExternalIP:55.0.0.5", "Hostname:h"],
        );
    }

    #[test]
    fn framework_case_28_ipv6_is_compared_by_value_and_keeps_its_spelling() {
        assert_addresses(
            "2600:1f14::ba3d",
            &[
                "InternalIP:10.1.1.1",
                "InternalIP:2600:1f14:0:0:0:0:0:ba3d",
                "Hostname:h",
            ],
            &["InternalIP:2600:1f14:0:0:0:0:0:ba3d", "Hostname:h"],
        );
    }

    #[test]
    fn framework_case_29_a_pair_is_given_in_the_annotations_order() {
        assert_addresses(
            "10.1.1.1,fc01::5678",
            &["InternalIP:fc01::5678", "InternalIP:10.1.1.1", "Hostname:h"],
            &["InternalIP:10.1.1.1", "InternalIP:fc01::5678", "Hostname:h"],
        );
    }

    #[test]
    fn framework_case_30_a_pair_of_one_kind_leaves_the_other_kind_alone() {
        assert_addresses(
            "fc01::5678,10.1.1.1",
            &[
                "InternalIP:10.1.1.1",
                "InternalIP:fc01::5678",
                "ExternalIP:55.0.0.5",
                "ExternalIP:2001:db8::1",
                "Hostname:h",
            ],
            &[
                "InternalIP:fc01::5678",
                "InternalIP:10.1.1.1",
                "ExternalIP:55.0.0.5",
                "ExternalIP:2001:db8::1",
                "Hostname:h",
            ],
        );
    }

    #[test]
    fn framework_case_31_a_pair_of_two_kinds_pins_both_kinds() {
        assert_addresses(
            "55.0.0.5,fc01::5678",
            &[
                "InternalIP:10.1.1.1",
                "InternalIP:fc01::5678",
                "ExternalIP:55.0.0.5",
                "ExternalIP:2001:db8::1",
                "Hostname:h",
            ],
            &["ExternalIP:55.0.0.5", "InternalIP:fc01::5678", "Hostname:h"],
        );
    }

    #[test]
    fn framework_case_32_an_address_the_cloud_does_not_have_is_an_error() {
        let error = got("10.1.1.1,fc01::5678", &["InternalIP:10.1.1.1"]).unwrap_err();
        assert_eq!(
            error,
            "failed to get node address from cloud provider that matches ip: fc01::5678"
        );
    }

    #[test]
    fn framework_case_33_bad_annotations_are_errors() {
        for (value, why) in [
            ("10.1.1.1,10.1.1.2", ONE_OR_PAIR),
            ("10.1.1.1, fc01::1", "\" fc01::1\" is not an IP address"),
            (
                "0.0.0.0,::",
                "a dual-stack pair cannot contain an unspecified address",
            ),
            ("10.1.1.1,fc01::1,fc01::2", ONE_OR_PAIR),
            ("", "\"\" is not an IP address"),
        ] {
            let error = got(value, &["InternalIP:10.1.1.1", "InternalIP:fc01::1"]).unwrap_err();
            assert_eq!(error, format!("failed to parse node IP {value:?}: {why}"));
        }
    }

    #[test]
    fn spellings_of_one_address_are_equal() {
        assert_addresses(
            "010.001.1.1",
            &["InternalIP:10.1.1.1"],
            &["InternalIP:10.1.1.1"],
        );
        assert_addresses(
            "::ffff:10.1.1.1",
            &["InternalIP:10.1.1.1"],
            &["InternalIP:10.1.1.1"],
        );
        assert!(got("10.1.1.256", &["InternalIP:10.1.1.1"]).is_err());
    }

    #[test]
    fn host_names_of_the_node_are_kept_only_where_the_cloud_has_none() {
        let on_node = addresses(&["Hostname:n1", "InternalIP:10.9.9.9", "Hostname:n1.local"]);
        let cloud = addresses(&["InternalIP:10.0.0.5"]);
        assert_eq!(
            desired_addresses(&cloud, &on_node, None).unwrap().unwrap(),
            addresses(&["InternalIP:10.0.0.5", "Hostname:n1", "Hostname:n1.local"])
        );
        let cloud = addresses(&["Hostname:c", "InternalIP:10.0.0.5"]);
        assert_eq!(
            desired_addresses(&cloud, &on_node, None).unwrap().unwrap(),
            cloud
        );
    }

    #[test]
    fn a_cloud_without_addresses_has_nothing_to_say() {
        assert_eq!(
            desired_addresses(&[], &addresses(&["Hostname:n1"]), None),
            Ok(None)
        );
        assert!(desired_addresses(&[], &[], Some("10.0.0.1")).is_err());
    }

    #[test]
    fn only_the_order_inside_a_kind_counts_as_a_difference() {
        let old = addresses(&["Hostname:h", "InternalIP:a", "ExternalIP:e", "InternalIP:b"]);
        let grouped = addresses(&["InternalIP:a", "InternalIP:b", "ExternalIP:e", "Hostname:h"]);
        let swapped = addresses(&["InternalIP:b", "InternalIP:a", "ExternalIP:e", "Hostname:h"]);
        assert!(!addresses_differ(&old, &old));
        assert!(!addresses_differ(&old, &grouped));
        assert!(addresses_differ(&old, &swapped));
        assert!(addresses_differ(&old, &old[1..]));
        assert!(addresses_differ(&[], &old));
    }

    proptest! {
        #[test]
        fn deciding_twice_changes_nothing(
            list in proptest::collection::vec(("(Hostname|InternalIP|ExternalIP)", "10\\.0\\.0\\.[1-9]"), 1..6),
            pinned in proptest::option::of("10\\.0\\.0\\.[1-9]"),
        ) {
            let cloud: Vec<_> =
                list.iter().map(|(kind, a)| NodeAddress::new(kind.as_str().into(), a)).collect();
            if let Ok(Some(first)) = desired_addresses(&cloud, &[], pinned.as_deref()) {
                let second = desired_addresses(&cloud, &first, pinned.as_deref()).unwrap().unwrap();
                prop_assert!(!addresses_differ(&first, &second));
                let unique: std::collections::BTreeSet<_> = first.iter().collect();
                prop_assert_eq!(unique.len(), first.len());
            }
        }
    }
}
