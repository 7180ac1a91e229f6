//! Serving certificates of kubelets: the Node decides, and no machine is asked.
//!
//! A Node's addresses are what its cloud gave it, whichever that is, so that this provider can speak for all
//! nodes, and without any access to machines.

use std::net::IpAddr;

use bowline_core::{
    AddressKind, ApprovalRules, BoxFuture, Counted, MachineAnswer, MachineIdentity, Node, NodePart,
    ServingCertificates, Words,
};

use crate::metrics::Metrics;

/// Says which names and addresses a Node has.
pub(crate) struct Certificates {
    metrics: Option<Metrics>,
}

impl Certificates {
    pub(crate) fn new(metrics: Option<Metrics>) -> Self {
        Self { metrics }
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
        let answer = node.map_or(MachineAnswer::Unknown, |node| {
            MachineAnswer::Machines(vec![identity(node)])
        });
        Box::pin(std::future::ready(answer))
    }

    fn count(&self, counted: Counted) {
        if let Some(metrics) = &self.metrics {
            metrics.request(counted);
        }
    }
}

/// What a Node says of itself: the addresses its kubelet was given, and those in its status.
fn identity(node: &Node) -> MachineIdentity {
    let provided = node.provided_node_ip().unwrap_or_default().split(',');
    let mut addresses: Vec<IpAddr> = provided.filter_map(|it| it.trim().parse().ok()).collect();
    let mut names = Vec::new();
    for listed in &node.addresses {
        match listed.kind {
            AddressKind::InternalIp | AddressKind::ExternalIp => {
                addresses.extend(listed.address.parse::<IpAddr>());
            }
            AddressKind::Hostname | AddressKind::InternalDns | AddressKind::ExternalDns => {
                names.push(listed.address.clone());
                // The original compared texts with all of them, and a machine may be named by its address.
                addresses.extend(listed.address.parse::<IpAddr>());
            }
            AddressKind::Other(_) => {}
        }
    }
    MachineIdentity { addresses, names }
}

#[cfg(test)]
mod tests;
