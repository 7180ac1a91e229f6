//! What a node carries because of its machine: addresses, type, labels. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use bowline_core::{AddressKind, Instance, Node, NodeAddress, NodeMetadata, Power};
use uuid::Uuid;

use super::question::dnsify;
use crate::api::{Machine, MachineState, Network, Nic};
use crate::id::provider_id;

pub const PREFIX: &str = "cloud.tritoncompute/";

#[derive(Clone, Copy, Debug)]
pub(super) struct Knowledge<'a> {
    /// All networks and pools; those of cards that no list shows are not among them.
    pub(super) networks: &'a BTreeMap<Uuid, Network>,
    /// The account's id, if it has a name service.
    pub(super) account: Option<Uuid>,
    /// Names that the name service gives the machine now.
    pub(super) dns_names: &'a [String],
    pub(super) region: &'a str,
    pub(super) zone: &'a str,
    pub(super) labels_from_tags: &'a [String],
}

pub(super) fn describe(machine: &Machine, node: &Node, knowledge: Knowledge<'_>) -> Instance {
    Instance {
        provider_id: provider_id(machine.id),
        instance_type: instance_type(machine),
        zone: knowledge.zone.to_owned(),
        region: knowledge.region.to_owned(),
        addresses: addresses(machine, node, knowledge),
        power: power(&machine.state),
        extra_labels: labels(machine, knowledge.labels_from_tags),
        marks: NodeMetadata::default(),
    }
}

/// Only a machine that is off is off: on one whose physical server does not answer, pods may still
/// run.
pub(super) fn power(state: &MachineState) -> Power {
    match state {
        MachineState::Stopped => Power::Off,
        MachineState::Running => Power::On,
        _ => Power::Unclear,
    }
}

fn instance_type(machine: &Machine) -> String {
    let package = label_value(&machine.package);
    if package.is_empty() {
        label_value(&machine.brand)
    } else {
        package
    }
}

/// A text as labels take it: other characters become dashes, at most 63, and its ends are letters
/// or digits.
pub(super) fn label_value(text: &str) -> String {
    let fitting = |c: char| {
        if c.is_ascii_alphanumeric() || "_.-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let text: String = text.chars().map(fitting).take(63).collect();
    text.trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

/// The labels beside those of tags, without [`PREFIX`].
const OWN_LABELS: [&str; 3] = ["brand", "compute-node", "image"];

/// Whether a label of nodes comes from here, now or earlier.
pub(crate) fn is_own_label(key: &str) -> bool {
    let name = key.strip_prefix(PREFIX);
    let of_tag = key.strip_prefix("tag.");
    name.is_some_and(|name| OWN_LABELS.contains(&name))
        || of_tag.is_some_and(|rest| rest.starts_with(PREFIX))
}

fn labels(machine: &Machine, from_tags: &[String]) -> BTreeMap<String, String> {
    let id = |id: Option<Uuid>| id.map(|id| id.to_string()).unwrap_or_default();
    let values = [
        label_value(&machine.brand),
        id(machine.compute_node),
        id(machine.image),
    ];
    let own = OWN_LABELS.into_iter().zip(values);
    let own = own.map(|(name, value)| (format!("{PREFIX}{name}"), value));
    let tags = from_tags.iter().filter_map(|key| {
        let value = machine.tags.get(key)?;
        Some((
            format!("tag.{PREFIX}{key}"),
            label_value(&value.to_string()),
        ))
    });
    own.chain(tags)
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// Whether an address of a card that no list explains is reached from outside.
fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
            !(ip.is_private() || shared || ip.is_link_local() || ip.is_loopback())
                && ip != Ipv4Addr::UNSPECIFIED
        }
        // CloudAPI shows none.
        IpAddr::V6(_) => false,
    }
}

pub(crate) fn is_public(nic: &Nic, networks: &BTreeMap<Uuid, Network>) -> bool {
    match nic.network.and_then(|id| networks.get(&id)) {
        Some(network) => network.public,
        None => nic.address().is_some_and(is_global),
    }
}

fn addresses(machine: &Machine, node: &Node, knowledge: Knowledge<'_>) -> Vec<NodeAddress> {
    let nics = machine.nics.as_deref().unwrap_or_default();
    let (first, others): (Vec<&Nic>, Vec<&Nic>) = nics.iter().partition(|nic| nic.primary);
    let nics: Vec<(&Nic, IpAddr)> = first
        .into_iter()
        .chain(others)
        .filter_map(|nic| Some((nic, nic.address()?)))
        .collect();
    let of = |public: bool| {
        let nics = nics.iter().copied();
        nics.filter(move |(nic, _)| is_public(nic, knowledge.networks) == public)
    };
    let mut found: Vec<NodeAddress> = Vec::new();
    let mut add = |kind: AddressKind, text: String| {
        let address = NodeAddress::new(kind, text);
        if !found.contains(&address) {
            found.push(address);
        }
    };
    for (_, ip) in of(false) {
        add(AddressKind::InternalIp, ip.to_string());
    }
    if of(false).next().is_none()
        && let Some((_, ip)) = of(true).next()
    {
        add(AddressKind::InternalIp, ip.to_string());
    }
    for (_, ip) in of(true) {
        add(AddressKind::ExternalIp, ip.to_string());
    }
    add(AddressKind::Hostname, node.name.clone());
    let inside = dns_name(machine, of(false).map(|(nic, _)| nic), false, knowledge);
    let outside = dns_name(machine, of(true).map(|(nic, _)| nic), true, knowledge);
    if let Some(name) = &inside {
        add(AddressKind::InternalDns, name.clone());
    }
    if let Some(name) = outside
        && inside.as_ref() != Some(&name)
    {
        add(AddressKind::ExternalDns, name);
    }
    found
}

/// The name of the machine in the zone of one of these cards, if the name service has it.
fn dns_name<'a>(
    machine: &Machine,
    nics: impl Iterator<Item = &'a Nic>,
    public: bool,
    knowledge: Knowledge<'_>,
) -> Option<String> {
    let account = knowledge.account?;
    let label = dnsify(&machine.name);
    let mut zones = Vec::new();
    for nic in nics {
        match nic.network.and_then(|id| knowledge.networks.get(&id)) {
            Some(network) => zones.extend(zones_of(network)),
            // A member of a pool counts as being on every public entry.
            None if public => {
                let entries = knowledge.networks.values();
                zones.extend(entries.filter(|it| it.public).flat_map(zones_of));
            }
            None => {}
        }
    }
    let mut names = zones
        .into_iter()
        .map(|zone| format!("{label}.inst.{account}.{zone}"));
    names.find(|name| knowledge.dns_names.contains(name))
}

/// The DNS zones of a network: what follows the second dot of its suffixes, in the order of texts.
pub(crate) fn zones_of(network: &Network) -> BTreeSet<&str> {
    let suffixes = network.suffixes.iter().flatten();
    let zone = |suffix: &'_ String| -> Option<(usize, usize)> {
        let mut dots = suffix.match_indices('.').map(|(at, _)| at + 1);
        let second = dots.nth(1)?;
        Some((second, suffix.len()))
    };
    suffixes
        .filter_map(|suffix| zone(suffix).map(|(from, to)| &suffix[from..to]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::TagValue;
    use crate::testing::{machine, node};
    use serde_json::json;

    const ID: Uuid = Uuid::from_u128(1);
    const ACCOUNT: Uuid = Uuid::from_u128(0xaaaa_aaaa_0000_4000_8000_0000_0000_000a);
    const PUBLIC: Uuid = Uuid::from_u128(0x1111_1111_0000_4000_8000_0000_0000_0000);
    const FABRIC: Uuid = Uuid::from_u128(0x2222_2222_0000_4000_8000_0000_0000_0000);

    fn networks() -> BTreeMap<Uuid, Network> {
        let networks = [
            (PUBLIC, true, "eg-1.cns.example.com"),
            (FABRIC, false, "int.eg-1.example.com"),
        ];
        networks
            .map(|(id, public, zone)| {
                let suffixes = ["svc", "inst"].map(|it| format!("{it}.{ACCOUNT}.{zone}"));
                let body = json!({"id": id, "public": public, "suffixes": suffixes});
                (id, serde_json::from_value(body).unwrap())
            })
            .into()
    }

    fn nic(ip: &str, network: Uuid, primary: bool) -> Nic {
        Nic {
            ip: ip.to_owned(),
            primary,
            network: Some(network),
        }
    }

    fn described(machine: &Machine, dns_names: &[String], tags: &[String]) -> Instance {
        let networks = networks();
        let knowledge = Knowledge {
            networks: &networks,
            account: Some(ACCOUNT),
            dns_names,
            region: "eg-1",
            zone: "eg-1",
            labels_from_tags: tags,
        };
        describe(machine, &node("k8s-1", ""), knowledge)
    }

    fn shown(machine: &Machine, dns_names: &[String]) -> Vec<String> {
        let instance = described(machine, dns_names, &[]);
        instance.addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn triton_case_18_private_addresses_come_first_and_names_last() {
        let mut machine = machine(ID, "k8s-1");
        machine.nics = Some(vec![
            nic("203.0.113.10", PUBLIC, true),
            nic("10.20.0.5", FABRIC, false),
        ]);
        let inside = format!("k8s-1.inst.{ACCOUNT}.int.eg-1.example.com");
        let outside = format!("k8s-1.inst.{ACCOUNT}.eg-1.cns.example.com");
        let names = [outside.clone(), inside.clone(), "web.svc.x".to_owned()];
        assert_eq!(
            shown(&machine, &names),
            [
                "InternalIP:10.20.0.5".to_owned(),
                "ExternalIP:203.0.113.10".to_owned(),
                "Hostname:k8s-1".to_owned(),
                format!("InternalDNS:{inside}"),
                format!("ExternalDNS:{outside}"),
            ]
        );
        // Only names that the name service has.
        assert_eq!(shown(&machine, &[]).len(), 3);
        let last = shown(&machine, &names[..1]).pop();
        assert_eq!(last, Some(format!("ExternalDNS:{outside}")));
        machine.nics.as_mut().unwrap().pop();
        let (inside, outside) = ("InternalIP:203.0.113.10", "ExternalIP:203.0.113.10");
        assert_eq!(shown(&machine, &[]), [inside, outside, "Hostname:k8s-1"]);
    }

    #[test]
    fn triton_case_19_words_are_skipped_and_members_of_pools_are_told_by_their_address() {
        let pool = Uuid::from_u128(7);
        let mut machine = machine(ID, "k8s-1");
        machine.nics = Some(vec![
            nic("dhcp", FABRIC, true),
            nic("198.51.100.7", pool, false),
            nic("100.64.0.9", pool, false),
            nic("", pool, false),
            nic("100.64.0.9", pool, false),
        ]);
        let (inside, outside) = ("InternalIP:100.64.0.9", "ExternalIP:198.51.100.7");
        assert_eq!(shown(&machine, &[]), [inside, outside, "Hostname:k8s-1"]);
        for (ip, wanted) in [
            ("10.0.0.1", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.0.1", false),
            ("100.63.255.255", true),
            ("100.64.0.0", false),
            ("100.128.0.0", true),
            ("169.254.0.1", false),
            ("127.0.0.1", false),
            ("198.51.100.7", true),
        ] {
            assert_eq!(is_global(ip.parse().unwrap()), wanted, "{ip}");
        }
        // The primary card comes first among its kind.
        machine.nics = Some(vec![
            nic("10.0.0.1", FABRIC, false),
            nic("10.0.0.2", FABRIC, true),
        ]);
        let both = ["InternalIP:10.0.0.2", "InternalIP:10.0.0.1"];
        assert_eq!(shown(&machine, &[])[..2], both);
        // One and the same name is given once.
        let name = format!("k8s-1.inst.{ACCOUNT}.eg-1.cns.example.com");
        machine.nics = Some(vec![nic("198.51.100.7", pool, true)]);
        let last = shown(&machine, std::slice::from_ref(&name)).pop();
        assert_eq!(last, Some(format!("ExternalDNS:{name}")));
    }

    #[test]
    fn triton_case_20_the_type_is_the_package_or_else_the_brand() {
        let mut machine = machine(ID, "k8s-1");
        for (package, wanted) in [
            ("g4-highcpu-1G", "g4-highcpu-1G"),
            ("", "bhyve"),
            ("-", "bhyve"),
            (" big one! ", "big-one"),
        ] {
            machine.package = package.to_owned();
            assert_eq!(described(&machine, &[], &[]).instance_type, wanted);
        }
        assert_eq!(label_value(&"a".repeat(80)).len(), 63);
    }

    #[test]
    fn triton_case_22_only_a_stopped_machine_is_off() {
        use MachineState::{Offline, Provisioning, Ready, Running, Stopped, Stopping, Unknown};
        for (state, wanted) in [
            (Stopped, Power::Off),
            (Running, Power::On),
            (Offline, Power::Unclear),
            (Stopping, Power::Unclear),
            (Ready, Power::Unclear),
            (Provisioning, Power::Unclear),
            (Unknown, Power::Unclear),
        ] {
            assert_eq!(power(&state), wanted, "{state:?}");
        }
    }

    #[test]
    fn triton_case_27_tags_become_labels_and_go_with_them() {
        let mut machine = machine(ID, "k8s-1");
        machine.compute_node = Some(Uuid::from_u128(5));
        machine.tags = BTreeMap::from([
            ("env".to_owned(), TagValue::from("prod eu")),
            ("other".to_owned(), TagValue::from("x")),
            ("on".to_owned(), TagValue::Boolean(true)),
        ]);
        let tags = ["env".to_owned(), "on".to_owned(), "none".to_owned()];
        let labels = described(&machine, &[], &tags).extra_labels;
        assert!(labels.keys().all(|key| is_own_label(key)), "they may go");
        assert!(!is_own_label("cloud.tritoncompute/other") && !is_own_label("tag.example.com/env"));
        let compute_node = Uuid::from_u128(5).to_string();
        let expected = [
            ("cloud.tritoncompute/brand", "bhyve"),
            ("cloud.tritoncompute/compute-node", compute_node.as_str()),
            ("tag.cloud.tritoncompute/env", "prod-eu"),
            ("tag.cloud.tritoncompute/on", "true"),
        ];
        assert!(labels.iter().map(|(k, v)| (&**k, &**v)).eq(expected));
        machine.tags.remove("env");
        let labels = described(&machine, &[], &tags).extra_labels;
        assert!(!labels.contains_key("tag.cloud.tritoncompute/env"));
    }
}
