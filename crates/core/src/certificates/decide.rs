//! Whether the names and addresses of a request are those of the node that asks.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::recognise::comparable;
use super::{ApprovalRules, Finding, MachineAnswer, MachineIdentity, NodePart, WellFormedRequest};
use crate::node::addresses::parse_ip;
use crate::{AddressKind, Node};

/// What is to be done about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateVerdict {
    /// It gets its certificate.
    Approve,
    /// It never will; the text says why.
    Deny(String),
    /// Not as things are now.
    Wait(Finding),
}

/// Decides about a well-formed request: `node` is the Node object of that name, and `answer` what
/// its cloud says.
pub fn decide(
    candidate: &WellFormedRequest,
    rules: &ApprovalRules,
    node: Option<&Node>,
    answer: &MachineAnswer,
) -> CertificateVerdict {
    if let Some(finding) = missing(candidate, rules, node) {
        return CertificateVerdict::Wait(finding);
    }
    let machines = match answer {
        MachineAnswer::Machines(machines) => machines,
        MachineAnswer::Unknown => return CertificateVerdict::Wait(Finding::NoMachine),
        MachineAnswer::NotItsMachine(why) => {
            return CertificateVerdict::Wait(Finding::NotItsMachine(why.clone()));
        }
        MachineAnswer::Refused(why) => return CertificateVerdict::Deny(why.clone()),
        MachineAnswer::CannotTell(error) => {
            return CertificateVerdict::Wait(Finding::CannotTell(error.chain()));
        }
    };
    let mut findings = Vec::with_capacity(machines.len());
    for machine in machines {
        match mismatch(candidate, rules, node, machine) {
            None => return CertificateVerdict::Approve,
            Some(finding) => findings.push(finding),
        }
    }
    // Of several machines the last one is given, as good as any.
    CertificateVerdict::Wait(findings.pop().unwrap_or(Finding::NoMachine))
}

/// What the Node object lacks before a machine is looked at.
fn missing(
    candidate: &WellFormedRequest,
    rules: &ApprovalRules,
    node: Option<&Node>,
) -> Option<Finding> {
    match (rules.node, node) {
        (NodePart::Optional, _) => None,
        (NodePart::Needed | NodePart::Confirms, None) => Some(Finding::NoNode),
        // Whoever asked for the Node of another name has not asked for this one.
        (_, Some(node)) if node.name != candidate.node => Some(Finding::NoNode),
        (NodePart::Confirms, Some(node)) if node.is_uninitialized() => {
            Some(Finding::NotInitialized)
        }
        (NodePart::Needed | NodePart::Confirms, Some(_)) => None,
    }
}

/// The first thing that is not this machine's.
fn mismatch(
    candidate: &WellFormedRequest,
    rules: &ApprovalRules,
    node: Option<&Node>,
    machine: &MachineIdentity,
) -> Option<Finding> {
    let confirming = node.filter(|_| rules.node == NodePart::Confirms);
    let mut names = BTreeSet::from([comparable(&candidate.node)]);
    let all = machine.names.iter().chain(&machine.claimed_names);
    names.extend(all.map(|it| comparable(it)));
    names.extend(confirming.into_iter().flat_map(node_names));
    let foreign = candidate
        .dns_names
        .iter()
        .find(|it| !names.contains(&comparable(it)));
    if let Some(asked) = foreign {
        return Some(Finding::Name {
            asked: asked.clone(),
        });
    }
    let known = machine.addresses.iter().chain(&machine.claimed_addresses);
    let known: BTreeSet<IpAddr> = known.map(IpAddr::to_canonical).collect();
    if !candidate.addresses.iter().all(|it| known.contains(it)) {
        return Some(Finding::Addresses {
            known: known.into_iter().collect(),
            asked: candidate.addresses.clone(),
        });
    }
    let on_node: BTreeSet<IpAddr> = node_addresses(confirming?);
    let asked = candidate.addresses.iter();
    let missing: Vec<IpAddr> = asked.filter(|it| !on_node.contains(it)).copied().collect();
    (!missing.is_empty()).then_some(Finding::NodeAddresses { missing })
}

/// The DNS names that a Node shows.
fn node_names(node: &Node) -> Vec<String> {
    let is_name = |kind: &AddressKind| {
        matches!(
            kind,
            AddressKind::Hostname | AddressKind::InternalDns | AddressKind::ExternalDns
        )
    };
    let named = node.addresses.iter().filter(|it| is_name(&it.kind));
    named.map(|it| comparable(&it.address)).collect()
}

/// The IP addresses that a Node shows.
fn node_addresses(node: &Node) -> BTreeSet<IpAddr> {
    let is_address =
        |kind: &AddressKind| matches!(kind, AddressKind::InternalIp | AddressKind::ExternalIp);
    let shown = node.addresses.iter().filter(|it| is_address(&it.kind));
    shown.filter_map(|it| parse_ip(&it.address)).collect()
}
