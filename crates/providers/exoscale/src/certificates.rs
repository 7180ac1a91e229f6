//! Serving certificates of kubelets: the instance decides, by its name or by the id on its Node.
//!
//! A kubelet may ask before it has a Node, so a Node is not needed. Where there is one that names its
//! instance, that one alone counts; else any instance of the node's name, since names are not unique.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bowline_core::{
    ApprovalRules, BoxFuture, Fault, Finding, MachineAnswer, MachineIdentity, Node, NodePart,
    ServingCertificates, Words,
};
use uuid::Uuid;

use crate::api::{Instance, InstanceState};
use crate::id::instance_id;
use crate::instances::Machines;

/// Says which addresses the instances of one zone have.
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
            // Never: what is not right stays pending, as people know it.
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
            match self.machines.all().await {
                Ok(instances) => answer(name, node, &instances),
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

/// The instances that may be the node's.
fn answer(name: &str, node: Option<&Node>, all: &BTreeMap<Uuid, Instance>) -> MachineAnswer {
    let id = node.and_then(|it| it.provider_id.as_deref());
    let is_meant = |it: &&Instance| match id {
        Some(id) => instance_id(id) == Some(it.id),
        None => it
            .name
            .as_deref()
            .is_some_and(|it| it.eq_ignore_ascii_case(name)),
    };
    let there = all.values().filter(|it| is_there(it));
    let machines: Vec<MachineIdentity> = there
        .filter(is_meant)
        .map(|it| MachineIdentity {
            addresses: public(it),
            claimed_addresses: claimed(it, node, all),
            ..MachineIdentity::default()
        })
        .collect();
    if machines.is_empty() {
        MachineAnswer::Unknown
    } else {
        MachineAnswer::Machines(machines)
    }
}

/// What the kubelet was told, if there is a private network to have it in.
///
/// The kubelet writes that annotation itself, so what is another instance's public address does not
/// become its own by it.
fn claimed(
    instance: &Instance,
    node: Option<&Node>,
    all: &BTreeMap<Uuid, Instance>,
) -> Vec<IpAddr> {
    let told = node.and_then(Node::provided_node_ip);
    let Some(told) = told.filter(|_| !instance.private_networks.is_empty()) else {
        return Vec::new();
    };
    let is_anothers = |address: &IpAddr| {
        let mut others = all.values().filter(|it| it.id != instance.id);
        others.any(|it| public(it).contains(address))
    };
    let told = told.split(',').filter_map(|it| it.trim().parse().ok());
    told.filter(|it| !is_anothers(it)).collect()
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
