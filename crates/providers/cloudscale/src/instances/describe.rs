//! Describes a server to its node. Pure.

use std::collections::BTreeMap;

use bowline_core::{AddressKind, Instance, Node, NodeAddress, Power};

use crate::api::{Server, Status};

pub(super) fn describe(server: &Server, node: &Node) -> Instance {
    Instance {
        provider_id: server.id.provider_id(),
        instance_type: server.flavor.clone(),
        zone: server.zone.clone(),
        region: region_of(&server.zone).to_owned(),
        addresses: addresses_of(server, node),
        power: match server.status {
            Status::Running => Power::On,
            Status::Stopped => Power::Off,
            Status::Other => Power::Unclear,
        },
        extra_labels: BTreeMap::new(),
        marks: bowline_core::NodeMetadata::default(),
    }
}

/// Whether the server goes by another name than its node: it was renamed, or the provider id was
/// given by hand.
pub(super) fn is_renamed(server: &Server, node: &Node) -> bool {
    server.name != node.name
}

/// The region of a zone: its slug without the digits at its end.
fn region_of(zone: &str) -> &str {
    zone.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// The host name, then every address in the API's order. The guest's host name does not follow a
/// rename of the server, and the new name may be any text: then the node's own host name counts.
fn addresses_of(server: &Server, node: &Node) -> Vec<NodeAddress> {
    let hostname = if is_renamed(server, node) {
        node.hostname()
    } else {
        &server.name
    };
    let mut addresses = vec![NodeAddress::new(AddressKind::Hostname, hostname)];
    for interface in &server.interfaces {
        let kind = if interface.public {
            AddressKind::ExternalIp
        } else {
            AddressKind::InternalIp
        };
        let all = interface.addresses.iter();
        addresses.extend(all.map(|address| NodeAddress::new(kind.clone(), &address.text)));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instances::examples::{node, server};

    fn shown(addresses: &[NodeAddress]) -> Vec<String> {
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_region_is_a_zone_without_its_number() {
        for (zone, region) in [
            ("rma1", "rma"),
            ("lpg1", "lpg"),
            ("lpg12", "lpg"),
            ("a1b2", "a1b"),
            ("", ""),
        ] {
            assert_eq!(region_of(zone), region);
        }
    }

    #[test]
    fn addresses_keep_the_order_of_the_api() {
        let private_first = server(
            "worker-a",
            &[
                (false, &["10.20.0.11"]),
                (false, &[]),
                (true, &["203.0.113.11"]),
            ],
        );
        assert_eq!(
            shown(&describe(&private_first, &node("worker-a")).addresses),
            [
                "Hostname:worker-a",
                "InternalIP:10.20.0.11",
                "ExternalIP:203.0.113.11"
            ]
        );
    }

    #[test]
    fn a_renamed_server_leaves_its_node_the_host_name() {
        let renamed = server("acme | node", &[]);
        let mut plain = node("worker-a");
        assert_eq!(
            shown(&describe(&renamed, &plain).addresses),
            ["Hostname:worker-a"]
        );
        plain.addresses = vec![NodeAddress::new(AddressKind::Hostname, "worker-a.lan")];
        assert_eq!(
            shown(&describe(&renamed, &plain).addresses),
            ["Hostname:worker-a.lan"]
        );
    }

    #[test]
    fn only_stopped_is_off() {
        let mut machine = server("a", &[]);
        for (status, power) in [
            (Status::Running, Power::On),
            (Status::Stopped, Power::Off),
            (Status::Other, Power::Unclear),
        ] {
            machine.status = status;
            assert_eq!(describe(&machine, &node("a")).power, power);
        }
    }
}
