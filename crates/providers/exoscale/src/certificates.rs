//! Serving certificates of kubelets: the instance decides, by its name or by the id on its Node.
//!
//! A kubelet may ask before it has a Node, so a Node is not needed. Where there is one that names
//! its instance, that one alone counts; else any instance of the node's name, since names are not
//! unique. Addresses of private networks are in no instance: a managed network knows to whom it has
//! leased those of its range.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use bowline_core::{
    ApprovalRules, BoxFuture, CloudError, CloudErrorKind, Fault, Finding, MachineAnswer,
    MachineIdentity, Node, NodePart, ServingCertificates, Words,
};
use uuid::Uuid;

use crate::api::{Instance, InstanceState, PrivateNetwork};
use crate::id::instance_id;
use crate::instances::{InstanceList, Machines};

/// Private networks that one question reads. An instance is in a few; several of one name do not
/// have many more.
const MOST_NETWORKS: usize = 64;

/// Answers which addresses the instances of one zone have.
pub(crate) struct Certificates {
    machines: Arc<Machines>,
    /// Whether the runner is in `EXOSCALE_SKS_AGENT_RUNNERS`.
    is_on: bool,
}

impl Certificates {
    pub(crate) fn new(machines: Arc<Machines>, is_on: bool) -> Self {
        Self { machines, is_on }
    }
}

impl ServingCertificates for Certificates {
    fn rules(&self) -> ApprovalRules {
        ApprovalRules {
            node: NodePart::Optional,
            one_dns_name: true,
            // Never: an invalid request stays pending, as with the original.
            denies_faults: false,
            approval: Words {
                reason: "ExoscaleCloudControllerApproved",
                message: "This CSR was approved by the Exoscale Cloud Controller Manager",
            },
            ..ApprovalRules::default()
        }
    }

    fn is_default_on(&self) -> bool {
        self.is_on
    }

    fn machine<'a>(
        &'a self,
        name: &'a str,
        node: Option<&'a Node>,
    ) -> BoxFuture<'a, MachineAnswer> {
        Box::pin(async move {
            match self.answer(name, node).await {
                Ok(answer) => answer,
                Err(error) => MachineAnswer::CannotTell(error),
            }
        })
    }

    fn phrase(&self, request: &str, finding: &Finding) -> Option<String> {
        Some(match finding {
            Finding::Approved => format!("sks-agent: CSR {request} approved"),
            Finding::Faulty(Fault::DnsNames(count)) => format!(
                "sks-agent: expected 1 certificate Subject Alternate Name DNS Name value, got {count}"
            ),
            Finding::Addresses { known, asked } => format!(
                "sks-agent: CSR {request} Node IP addresses don't match corresponding Compute \
                 instance IP addresses {}, got {}",
                quoted(known),
                quoted(asked)
            ),
            Finding::NoMachine => {
                format!("sks-agent: CSR {request} doesn't match any Compute instance")
            }
            other => format!("sks-agent: CSR {request} not approved: {other}"),
        })
    }
}

impl Certificates {
    async fn answer(&self, name: &str, node: Option<&Node>) -> Result<MachineAnswer, CloudError> {
        let all = self.machines.all().await?;
        let meant = meant(name, node, &all);
        let provided_ips = provided_ips(node);
        let networks = meant
            .iter()
            .flat_map(|it| it.private_networks.iter().flatten());
        let networks: BTreeSet<Uuid> = networks
            .copied()
            .filter(|_| !provided_ips.is_empty())
            .collect();
        if networks.len() > MOST_NETWORKS {
            let message = format!(
                "instances of node {name} are in {} private networks, and {MOST_NETWORKS} are read at most",
                networks.len()
            );
            return Err(CloudError::new(CloudErrorKind::Invalid, message));
        }
        let mut known = BTreeMap::new();
        for id in networks {
            if let Some(network) = self.machines.private_network(id).await? {
                known.insert(id, network);
            }
        }
        let said = self.machines.override_addresses(name, node);
        let machines: Vec<MachineIdentity> = meant
            .into_iter()
            .map(|it| {
                let (leased, claimed) = private(it, &provided_ips, &all, &known);
                MachineIdentity {
                    addresses: [public(it), leased, said.clone()].concat(),
                    claimed_addresses: claimed,
                    ..MachineIdentity::default()
                }
            })
            .collect();
        Ok(if machines.is_empty() {
            MachineAnswer::Unknown
        } else {
            MachineAnswer::Machines(machines)
        })
    }
}

/// The instances that may be the node's.
fn meant<'a>(name: &str, node: Option<&Node>, all: &'a InstanceList) -> Vec<&'a Instance> {
    let id = node.and_then(|it| it.provider_id.as_deref());
    let is_meant = |it: &&Instance| match id {
        Some(id) => instance_id(id) == Some(it.id),
        None => it
            .name
            .as_deref()
            .is_some_and(|it| it.eq_ignore_ascii_case(name)),
    };
    let there = all.iter().filter(|it| is_there(it));
    there.filter(is_meant).collect()
}

/// The kubelet's `--node-ip`, as it reports it.
fn provided_ips(node: Option<&Node>) -> Vec<IpAddr> {
    let provided_ips = node.and_then(Node::provided_node_ip).unwrap_or_default();
    let provided_ips = provided_ips
        .split(',')
        .filter_map(|it| it.trim().parse().ok());
    provided_ips.collect()
}

/// The kubelet's `--node-ip`, if there is a private network to have it in.
///
/// The kubelet writes that annotation itself, so what is another instance's public address does not
/// become its own by it, and what a managed private network gives out is its own only if the
/// network says so (the first list). Of the rest (the second) the cloud knows nothing: what other
/// Nodes show decides.
fn private(
    instance: &Instance,
    provided_ips: &[IpAddr],
    all: &InstanceList,
    networks: &BTreeMap<Uuid, PrivateNetwork>,
) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let (mut leased, mut claimed) = (Vec::new(), Vec::new());
    if instance.private_networks.is_empty() {
        return (leased, claimed);
    }
    let is_anothers = |address: &IpAddr| {
        let mut others = all.iter().filter(|it| it.id != instance.id);
        others.any(|it| public(it).contains(address))
    };
    let own = instance.private_networks.iter().flatten();
    let own: Vec<&PrivateNetwork> = own.filter_map(|id| networks.get(id)).collect();
    for address in provided_ips.iter().copied().filter(|it| !is_anothers(it)) {
        let mut giving = own.iter().filter(|it| it.gives_out(address)).peekable();
        if giving.peek().is_none() {
            claimed.push(address);
        } else if giving.any(|it| it.has_leased(address, instance.id)) {
            leased.push(address);
        }
    }
    (leased, claimed)
}

/// The API has shown the absent address as 0.0.0.0.
fn public(instance: &Instance) -> Vec<IpAddr> {
    let all = [instance.public_ip, instance.ipv6_address];
    let all = all.into_iter().flatten();
    all.filter(|it| !it.is_unspecified()).collect()
}

fn is_there(instance: &Instance) -> bool {
    use InstanceState::{Destroyed, Destroying, Expunging};
    !matches!(instance.state, Destroying | Destroyed | Expunging)
}

/// As the original shows lists.
fn quoted(addresses: &[IpAddr]) -> String {
    let all: Vec<String> = addresses.iter().map(|it| format!("\"{it}\"")).collect();
    format!("[{}]", all.join(" "))
}
