//! Serving certificates of kubelets: the machine confirms its names and addresses, where it can be
//! asked.
//!
//! ```text
//!  Node ─▶ what it shows ─┬─ machines can be asked ─▶ who answers there, is it this node's? ─▶ what both say
//!                         └─ they cannot ──────────▶ what the Node claims, unless somebody else shows it too
//! ```
//!
//! A kubelet writes its own Node's status and annotations, so they prove nothing. The machine at
//! the node's address answers with a certificate of its own, and reports its node name and its
//! addresses. Members of the cluster are what machines publish about themselves elsewhere; they are
//! never asked for this.
//!
//! Nodes of other systems have no machine to ask. What their kubelets say about the system counts
//! only as long as no machine has described the node before: that label no kubelet can remove.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use bowline_core::{
    AddressKind, ApprovalRules, BoxFuture, CloudError, CloudErrorKind, Counted, MachineAnswer,
    MachineIdentity, Node, NodePart, ServingCertificates, Words,
};

use crate::api::{Api, ApiError};
use crate::instances::labels::PLATFORM;
use crate::metrics::Metrics;
use crate::ownership::{Kind, kind};

/// Addresses of a node at which its machine is asked for: two of each family.
const ADDRESSES_ASKED: usize = 4;

/// Says which names and addresses a node has.
pub(crate) struct Certificates {
    api: Option<Arc<Api>>,
    metrics: Option<Metrics>,
}

impl Certificates {
    pub(crate) fn new(api: Option<Arc<Api>>, metrics: Option<Metrics>) -> Self {
        Self { api, metrics }
    }
}

impl ServingCertificates for Certificates {
    fn rules(&self) -> ApprovalRules {
        ApprovalRules {
            node: NodePart::Needed,
            one_dns_name: false,
            denies_faults: true,
            approval: Words {
                reason: "Approved by TalosCloudControllerManager",
                message: "This CSR was approved by Talos Cloud Controller Manager",
            },
            denial: Words {
                reason: "Denied by TalosCloudControllerManager",
                message: "This CSR was denied by Talos Cloud Controller Manager, Reason: ",
            },
        }
    }

    fn speaks_for_all(&self) -> bool {
        true
    }

    fn machine<'a>(&'a self, _: &'a str, node: Option<&'a Node>) -> BoxFuture<'a, MachineAnswer> {
        Box::pin(async move {
            let Some(node) = node else {
                return MachineAnswer::Unknown;
            };
            match self.api.as_ref().filter(|_| has_a_machine(node)) {
                Some(api) => ask(api, node).await,
                None => MachineAnswer::Machines(vec![claimed(node)]),
            }
        })
    }

    fn count(&self, counted: Counted) {
        if let Some(metrics) = &self.metrics {
            metrics.request(counted);
        }
    }
}

/// Whether the node runs on a Talos machine, as far as anybody but its kubelet knows.
fn has_a_machine(node: &Node) -> bool {
    kind(&node.os_image) != Kind::Other || node.labels.contains_key(PLATFORM)
}

/// Asks the machine at one of the node's addresses that reports this node's name.
async fn ask(api: &Api, node: &Node) -> MachineAnswer {
    let shown = claimed(node);
    let mut error = CloudError::new(
        CloudErrorKind::Unavailable,
        format!("Node {} shows no address to ask its machine at", node.name),
    );
    let mut stranger = None;
    for address in asked_at(node) {
        match confirmed(api, node, address, &shown).await {
            Ok(Ok(identity)) => return MachineAnswer::Machines(vec![identity]),
            Ok(Err(name)) => stranger = Some(mismatch(address, &name, &node.name)),
            Err(failed) => {
                let text = format!("the machine of Node {} at {address}", node.name);
                error = CloudError::new(failed.kind(), text).caused_by(failed);
            }
        }
    }
    stranger.map_or(
        MachineAnswer::CannotTell(error),
        MachineAnswer::NotItsMachine,
    )
}

pub(crate) fn mismatch(address: IpAddr, name: &str, node: &str) -> String {
    format!("the machine at {address} reports that its node is {name:?}, not {node:?}")
}

/// The part of that which the machine at an address confirms; or the other node name that it
/// reports.
async fn confirmed(
    api: &Api,
    node: &Node,
    address: IpAddr,
    shown: &MachineIdentity,
) -> Result<Result<MachineIdentity, String>, ApiError> {
    let name = api.node_name(address).await?;
    if name != node.name {
        return Ok(Err(name));
    }
    let listed = api.addresses(address).await?;
    let listed: BTreeSet<IpAddr> = listed.iter().map(|it| it.address.to_canonical()).collect();
    let mut names = shown.claimed_names.clone();
    names.retain(|it| !is_same_name(it, &node.name));
    if !names.is_empty() {
        let metadata = api.platform_metadata(address).await?;
        names.retain(|it| is_same_name(it, &metadata.hostname));
    }
    let mut addresses = shown.claimed_addresses.clone();
    addresses.retain(|it| listed.contains(&it.to_canonical()));
    Ok(Ok(MachineIdentity {
        addresses,
        names,
        ..MachineIdentity::default()
    }))
}

fn is_same_name(one: &str, other: &str) -> bool {
    let plain = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    plain(one) == plain(other)
}

/// Where the machine of a node is asked for: whoever answers has to say that it is this node's.
fn asked_at(node: &Node) -> Vec<IpAddr> {
    let internal = node.addresses.iter();
    let internal = internal.filter(|it| it.kind == AddressKind::InternalIp);
    let internal = internal.filter_map(|it| it.address.parse().ok());
    let mut all: Vec<IpAddr> = Vec::new();
    for address in internal.chain(provided(node)) {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all.truncate(ADDRESSES_ASKED);
    all
}

fn provided(node: &Node) -> impl Iterator<Item = IpAddr> {
    let provided = node.provided_node_ip().unwrap_or_default().split(',');
    provided.filter_map(|it| it.trim().parse().ok())
}

/// The Node's own claims: its kubelet's `--node-ip`, and the addresses in its status.
fn claimed(node: &Node) -> MachineIdentity {
    let mut addresses: Vec<IpAddr> = provided(node).collect();
    let mut names = Vec::new();
    for listed in &node.addresses {
        match listed.kind {
            AddressKind::InternalIp | AddressKind::ExternalIp => {
                addresses.extend(listed.address.parse::<IpAddr>());
            }
            AddressKind::Hostname | AddressKind::InternalDns | AddressKind::ExternalDns => {
                names.push(listed.address.clone());
                // The original compared texts with all of them, and a machine may be named by its
                // address.
                addresses.extend(listed.address.parse::<IpAddr>());
            }
            AddressKind::Other(_) => {}
        }
    }
    MachineIdentity {
        claimed_addresses: addresses,
        claimed_names: names,
        ..MachineIdentity::default()
    }
}

#[cfg(test)]
mod tests;
