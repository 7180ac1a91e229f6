//! Which machine a node is. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_core::{AddressKind, Claim, Node};
use uuid::Uuid;

use crate::api::Machine;
use crate::id::{claim, hyphenated, machine_id};

/// Names a node's machine, where nothing else does.
pub const INSTANCE_ID: &str = "cloud.tritoncompute/instance-id";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Nothing: it belongs to another cloud.
    Nothing,
    /// Nothing: its provider id is none that this cloud gives.
    Malformed(String),
    Machine(Uuid),
    Any,
}

pub(super) fn question(node: &Node) -> Question {
    match claim(node) {
        Claim::Malformed(why) => Question::Malformed(why),
        Claim::Mine => {
            let id = node.provider_id.as_deref().and_then(machine_id);
            id.map_or(Question::Nothing, Question::Machine)
        }
        Claim::Foreign | Claim::Fallback | Claim::FallbackIfAlone if node.provider_id.is_some() => {
            Question::Nothing
        }
        Claim::Foreign | Claim::Fallback | Claim::FallbackIfAlone => Question::Any,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Match {
    One(Uuid),
    None,
    /// More than one fits equally well.
    Several(Vec<Uuid>),
}

/// Finds the machine for a node without a provider id: the first step that has any wins.
pub(super) fn find(
    node: &Node,
    machines: &BTreeMap<Uuid, Machine>,
    account: Option<Uuid>,
    name_match: bool,
) -> Match {
    let live = || {
        let live = machines.values();
        live.filter(|machine| !machine.docker && !machine.state.is_over())
    };
    let all = |fits: &dyn Fn(&Machine) -> bool| -> Vec<Uuid> {
        live()
            .filter(|machine| fits(machine))
            .map(|it| it.id)
            .collect()
    };
    let said = node.annotations.get(INSTANCE_ID);
    let said = said.and_then(|text| hyphenated(text.trim()));
    let mut steps = vec![
        said.filter(|id| machines.contains_key(id))
            .into_iter()
            .collect(),
    ];
    if name_match {
        steps.push(all(&|machine| machine.name == node.name));
        steps.push(all(&|machine| dnsify(&machine.name) == node.name));
        if let Some(label) = account.and_then(|account| instance_label(&node.name, account)) {
            let by_name = |machine: &Machine| {
                machine.name == label
                    || dnsify(&machine.name) == label
                    || machine.id.to_string() == label
            };
            steps.push(all(&by_name));
        }
        let system = system_ids(&node.system_uuid);
        steps.push(all(&|machine| system.contains(&machine.id)));
        let addresses = addresses(node);
        let has = |machine: &Machine| {
            let nics = machine.nics.iter().flatten();
            nics.filter_map(crate::api::Nic::address)
                .any(|ip| addresses.contains(&ip))
        };
        steps.push(all(&has));
    }
    match steps.into_iter().find(|found| !found.is_empty()) {
        None => Match::None,
        Some(found) => match found.as_slice() {
            [one] => Match::One(*one),
            _ => Match::Several(found),
        },
    }
}

/// A name as the name service, and new machines, spell it: lower case, every run of other
/// characters one dash.
pub fn dnsify(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut dash = false;
    for letter in name.chars().flat_map(char::to_lowercase) {
        if letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-' {
            text.push(letter);
            dash = false;
        } else if !dash {
            text.push('-');
            dash = true;
        }
    }
    text
}

/// `<label>` of `<label>.inst.<account>.<zone>`.
fn instance_label(name: &str, account: Uuid) -> Option<&str> {
    let (label, rest) = name.split_once('.')?;
    let zone = rest.strip_prefix(&format!("inst.{account}."))?;
    (!label.is_empty() && !zone.is_empty()).then_some(label)
}

/// What firmware calls the machine: as it is, and with the bytes of its first three groups turned
/// around, as some read them.
fn system_ids(text: &str) -> Vec<Uuid> {
    let Some(id) = hyphenated(text.trim()) else {
        return Vec::new();
    };
    let swapped = Uuid::from_bytes(id.to_bytes_le());
    vec![id, swapped]
}

fn addresses(node: &Node) -> Vec<IpAddr> {
    let of_machine =
        |kind: &AddressKind| matches!(kind, AddressKind::InternalIp | AddressKind::ExternalIp);
    let addresses = node.addresses.iter().filter(|it| of_machine(&it.kind));
    addresses.filter_map(|it| it.address.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{machine, node};
    use bowline_core::NodeAddress;

    const ACCOUNT: Uuid = Uuid::from_u128(0xaaaa_aaaa_0000_4000_8000_0000_0000_000a);

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(0x5b1e_2d3c_0001_4002_8000_0000_0000_0000 + n)
    }

    fn found(node: &Node, machines: &[Machine]) -> Match {
        let machines = machines.iter().map(|it| (it.id, it.clone())).collect();
        find(node, &machines, Some(ACCOUNT), true)
    }

    #[test]
    fn triton_case_13_a_name_is_compared_whole() {
        let machines = [machine(id(1), "k8s-1"), machine(id(2), "k8s-10")];
        assert_eq!(found(&node("k8s-1", ""), &machines), Match::One(id(1)));
        assert_eq!(found(&node("k8s", ""), &machines), Match::None);
    }

    #[test]
    fn triton_case_14_a_name_is_compared_as_the_name_service_spells_it() {
        let machines = [machine(id(1), "My_Node.01")];
        assert_eq!(found(&node("my-node-01", ""), &machines), Match::One(id(1)));
        for (name, wanted) in [
            ("My_Node.01", "my-node-01"),
            ("a__b", "a-b"),
            ("A-b", "a-b"),
        ] {
            assert_eq!(dnsify(name), wanted);
        }
        let exact = [machine(id(1), "My_Node.01"), machine(id(2), "my-node-01")];
        let found = found(&node("my-node-01", ""), &exact);
        assert_eq!(found, Match::One(id(2)), "exact wins");
    }

    #[test]
    fn triton_case_15_what_the_firmware_says_is_a_candidate() {
        let machines = [machine(id(1), "a"), machine(id(2), "b")];
        let mut node = node("x", "");
        node.system_uuid = id(2).to_string().to_uppercase();
        assert_eq!(found(&node, &machines), Match::One(id(2)));
        // As it comes where the first three groups are read the other way around.
        node.system_uuid = "3c2d1e5b-0100-0240-8000-000000000001".to_owned();
        assert_eq!(found(&node, &machines), Match::One(id(1)));
        node.system_uuid = id(9).to_string();
        assert_eq!(found(&node, &machines), Match::None);
    }

    #[test]
    fn triton_case_16_two_machines_that_fit_equally_well_are_none() {
        let with_address = |n| {
            let mut machine = machine(id(n), &format!("m-{n}"));
            machine.nics = Some(vec![crate::api::Nic {
                ip: "10.20.0.7".to_owned(),
                ..Default::default()
            }]);
            machine
        };
        let mut node = node("x", "");
        node.addresses = vec![NodeAddress::new(AddressKind::InternalIp, "10.20.0.7")];
        let one = [with_address(1)];
        assert_eq!(found(&node, &one), Match::One(id(1)));
        let two = [with_address(1), with_address(2)];
        assert_eq!(found(&node, &two), Match::Several(vec![id(1), id(2)]));
        let twins = [machine(id(1), "a.b"), machine(id(2), "a_b")];
        node.name = "a-b".to_owned();
        assert_eq!(found(&node, &twins), Match::Several(vec![id(1), id(2)]));
    }

    #[test]
    fn the_steps_come_in_order_and_can_be_turned_off() {
        let machines = [machine(id(1), "n"), machine(id(2), "other")];
        let all: BTreeMap<Uuid, Machine> = machines.iter().map(|it| (it.id, it.clone())).collect();
        let mut annotated = node("n", "");
        let annotate = |node: &mut Node, id: Uuid| {
            let key = INSTANCE_ID.to_owned();
            node.annotations.insert(key, id.to_string());
        };
        annotate(&mut annotated, id(2));
        assert_eq!(find(&annotated, &all, None, true), Match::One(id(2)));
        assert_eq!(find(&annotated, &all, None, false), Match::One(id(2)));
        assert_eq!(find(&node("n", ""), &all, None, false), Match::None);
        // An annotation that names no machine says nothing.
        annotate(&mut annotated, id(7));
        assert_eq!(find(&annotated, &all, None, true), Match::One(id(1)));
        let zone = format!("inst.{ACCOUNT}.eg-1.example.com");
        for (name, wanted) in [
            (format!("n.{zone}"), Match::One(id(1))),
            (format!("{}.{zone}", id(2)), Match::One(id(2))),
            (format!("n.inst.{ACCOUNT}."), Match::None),
            ("n.inst.acme.eg-1.example.com".to_owned(), Match::None),
        ] {
            let found = find(&node(&name, ""), &all, Some(ACCOUNT), true);
            assert_eq!(found, wanted, "{name}");
        }
        let mut docker = machine(id(1), "n");
        docker.docker = true;
        assert_eq!(found(&node("n", ""), &[docker]), Match::None);
    }

    #[test]
    fn triton_case_17_a_node_of_another_cloud_is_never_asked_about() {
        let foreign = node("k8s-1", "exoscale://5b1e2d3c-0000-4000-8000-000000000001");
        assert_eq!(question(&foreign), Question::Nothing);
        let upper = node("n", "triton:///5B1E2D3C-0001-4002-8000-000000000001");
        assert_eq!(question(&upper), Question::Machine(id(1)));
        assert_eq!(question(&node("n", "")), Question::Any);
        let malformed = question(&node("n", "triton://x"));
        assert!(matches!(malformed, Question::Malformed(_)));
    }
}
