//! Whether a request is a kubelet's, well formed and about the kubelet itself: what can be said
//! without asking anybody.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{
    ApprovalRules, CertificateRequest, Fault, KUBELET_SERVING, NODE_USER_PREFIX, RequestContent,
    node_of,
};

/// Every node is in these groups.
const GROUPS: [&str; 2] = ["system:nodes", "system:authenticated"];
/// The only organisation.
const ORGANIZATION: &str = "system:nodes";
/// What a server needs, and the signer insists on.
const NEEDED_USAGES: [&str; 2] = ["digital signature", "server auth"];
/// What it may have besides; keys of elliptic curves do without.
const FURTHER_USAGE: &str = "key encipherment";
/// The name of the API server's Service, and the beginning of its longer names.
const API_SERVER: &str = "kubernetes";

/// What a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// Not our matter, or decided already.
    Other,
    /// A kubelet's, but nobody can read it; the text says why.
    Unreadable(String),
    /// A kubelet's that can never be right.
    Faulty(Fault),
    /// A kubelet's about itself, if the names and addresses are its own.
    WellFormedRequest(WellFormedRequest),
}

/// A well-formed request: these names and addresses for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WellFormedRequest {
    /// The node that asks, and that the certificate is for.
    pub node: String,
    /// The DNS names it asks for.
    pub dns_names: Vec<String>,
    /// The addresses it asks for; an IPv4 address is one however it is written.
    pub addresses: Vec<IpAddr>,
}

/// Looks at a request alone.
pub fn recognise(request: &CertificateRequest, rules: &ApprovalRules) -> Recognised {
    let Some(node) = asking_node(request) else {
        return Recognised::Other;
    };
    let content = match &request.content {
        Ok(content) => content,
        Err(why) => return Recognised::Unreadable(why.clone()),
    };
    if let Some(fault) = fault(request, content, rules) {
        return Recognised::Faulty(fault);
    }
    Recognised::WellFormedRequest(WellFormedRequest {
        node: node.to_owned(),
        dns_names: content.dns_names.clone(),
        addresses: content.addresses.iter().map(IpAddr::to_canonical).collect(),
    })
}

/// The node that asks for a serving certificate and has no answer yet.
fn asking_node(request: &CertificateRequest) -> Option<&str> {
    let in_group = |group: &&str| request.groups.iter().any(|it| it == group);
    let concerns_us = request.signer == KUBELET_SERVING
        && request.conditions.is_empty()
        && !request.is_issued
        && GROUPS.iter().all(in_group);
    concerns_us.then(|| node_of(&request.username))?
}

/// The first fault, in the order in which people know them from denials.
fn fault(
    request: &CertificateRequest,
    content: &RequestContent,
    rules: &ApprovalRules,
) -> Option<Fault> {
    let names = content.dns_names.len();
    let (common_name, others) = match content.common_names.as_slice() {
        [one] => (one.as_str(), false),
        // The signer would choose one of several; nobody else needs more.
        _ => ("", true),
    };
    let checks = [
        (names == 0 && content.addresses.is_empty(), Fault::NoName),
        (
            content.dns_names.iter().any(|it| is_reserved(it)),
            Fault::ReservedName,
        ),
        (content.emails > 0, Fault::Email),
        (content.uris > 0, Fault::Uri),
        (content.others > 0, Fault::OtherName),
        (content.organizations != [ORGANIZATION], Fault::Organization),
        (
            others || !common_name.starts_with(NODE_USER_PREFIX),
            Fault::CommonName,
        ),
        (!are_a_servers(&request.usages), Fault::Usages),
        (common_name != request.username, Fault::Requester),
        (rules.one_dns_name && names != 1, Fault::DnsNames(names)),
    ];
    let mut faults = checks.into_iter().filter(|(is_wrong, _)| *is_wrong);
    faults.next().map(|(_, fault)| fault)
}

/// A name of the API server would let a node stand in for it, and a wildcard for everybody.
fn is_reserved(name: &str) -> bool {
    let name = comparable(name);
    name.is_empty() || name.contains('*') || is_api_server(&name)
}

/// Whether a comparable name is one of the API server's in every cluster; `kubernetes-worker-1` is not.
pub(super) fn is_api_server(name: &str) -> bool {
    let rest = name.strip_prefix(API_SERVER);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn are_a_servers(usages: &[String]) -> bool {
    let usages: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    NEEDED_USAGES.iter().all(|it| usages.contains(it))
        && usages
            .iter()
            .all(|it| NEEDED_USAGES.contains(it) || *it == FURTHER_USAGE)
}

/// A DNS name as it is compared: in lower case, without the dot at its end.
pub(super) fn comparable(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}
